//! Time that passes only when another process says so: `windlass plan` runs an operator this way.
//!
//! With `WINDLASS_CLOCK` in its environment, a timestamp, the program starts at that time and its
//! time stands still. Each line of standard input is a number of milliseconds that pass then, and each is
//! answered by a line of standard output. Requests take no time. The program ends with its input.

use std::io::{BufRead, Write};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::error::{Error, Result};

const VARIABLE: &str = "WINDLASS_CLOCK";
/// The line that says that the program has started this way, and that an amount of time has passed.
const LINE: &str = "windlass-clock";

/// Returns the time at which the program starts, if its time is to stand still.
///
/// # Errors
///
/// Fails if the variable is not a timestamp.
pub(super) fn start() -> Result<Option<Timestamp>> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let time = text.to_str().and_then(|text| text.parse().ok());
    let wrong =
        || Error::Invalid(format!("{VARIABLE} is not a timestamp such as 2026-01-01T00:00:00Z"));
    time.map(Some).ok_or_else(wrong)
}

/// Runs the operator to its end, or to the end of standard input.
pub(super) fn block_on(operator: impl Future<Output = Result<()>>) -> Result<()> {
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
