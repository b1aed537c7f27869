//! SIGINT and SIGTERM: the first asks to stop, the second ends the process.

/// Completes on the first SIGINT or SIGTERM; from then on a second one exits with status 1.
pub async fn shutdown() {
    once().await;
    tracing::info!("Shutdown signal received, waiting for all workers to finish");
    tokio::spawn(async {
        once().await;
        tracing::error!("second signal received, exiting at once");
        std::process::exit(1);
    });
}

#[cfg(unix)]
async fn once() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return interrupt().await;
    };
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        () = interrupt() => {}
    }
}

#[cfg(not(unix))]
async fn once() {
    interrupt().await;
}

async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
