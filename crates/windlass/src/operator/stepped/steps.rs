//! The steps in which time passes.

use std::io::{BufRead, Write};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::error::Result;

/// The line that says that the program has started this way, and that an amount of time has passed.
const LINE: &str = "windlass-clock";

/// Runs the operator to its end, or to the end of standard input.
pub(in crate::operator) fn block_on(operator: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    let (sender, steps) = mpsc::channel(1);
    // For as long as this task runs, tokio does not move its paused clock by itself.
    runtime.spawn_blocking(move || read(&sender));
    let outcome = runtime.block_on(async {
        tokio::select! {
            biased;
            outcome = operator => outcome,
            () = follow(steps) => Ok(()),
        }
    });
    runtime.shutdown_background();
    outcome
}

/// Reads how much time passes, line by line.
fn read(steps: &mpsc::Sender<Duration>) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(milliseconds) = line.trim().parse() else { return };
        if steps.blocking_send(Duration::from_millis(milliseconds)).is_err() {
            return;
        }
    }
}

/// Lets time pass, until nobody says how much.
async fn follow(mut steps: mpsc::Receiver<Duration>) {
    answer();
    while let Some(step) = steps.recv().await {
        tokio::time::advance(step).await;
        answer();
    }
}

fn answer() {
    let mut output = std::io::stdout().lock();
    // A process that does not read any more does not wait for it either.
    let _ = writeln!(output, "{LINE}").and_then(|()| output.flush());
}
