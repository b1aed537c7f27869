//! A runtime whose time passes as that of the machine, and faster on request.

use std::time::Duration;

use crate::failure::Failure;

/// How often time passes by itself, so that everything that waits for a moment comes to an end.
const TICK: Duration = Duration::from_millis(10);

/// Runs a command to its end, in a runtime whose time [`pass`] can move.
pub fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .map_err(|error| Failure::other(format!("no thread to run on: {error}")))?;
    // For as long as this task runs, tokio does not move its paused clock by itself.
    let (end, ended) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || {
        let _ = ended.recv();
    });
    runtime.spawn(async {
        loop {
            wait(TICK).await;
            pass(TICK).await;
        }
    });
    let outcome = runtime.block_on(command);
    drop(end);
    runtime.shutdown_timeout(Duration::from_secs(2));
    outcome
}

/// Lets time pass.
pub async fn pass(time: Duration) {
    tokio::time::advance(time).await;
}

/// Waits for an amount of time of the machine, in which everybody else can work.
pub async fn wait(time: Duration) {
    // The task cannot fail: it does nothing else.
    let _ = tokio::task::spawn_blocking(move || std::thread::sleep(time)).await;
}
