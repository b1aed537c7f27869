//! SIGINT and SIGTERM: the first one asks to stop, the second one exits the process.
//!
//! **Invariant:** no signal is lost once signals are handled; two of the same kind that arrive
//! before either is noticed count as one.

use std::convert::Infallible;

use tokio_util::sync::CancellationToken;

/// The signals of this process since this was created.
pub(crate) struct Signals {
    /// A signal has arrived.
    received: bool,
    #[cfg(unix)]
    streams: Vec<tokio::signal::unix::Signal>,
}

// === impl Signals ===

impl Signals {
    pub(crate) fn new() -> Self {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
            let streams = kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect();
            Self { received: false, streams }
        }
        #[cfg(not(unix))]
        Self { received: false }
    }

    /// Asks the manager to stop at the first signal, and exits at the second.
    pub(crate) async fn follow(&mut self, stopping: CancellationToken) -> Infallible {
        self.next().await;
        tracing::info!("Shutdown signal received, waiting for all workers to finish");
        stopping.cancel();
        self.next().await;
        exit()
    }

    /// Exits at the next signal if there was one before: what the program does after the manager has
    /// ended may hang as well.
    pub(crate) fn leave(self) {
        if self.received {
            tokio::spawn(self.exit());
        }
    }

    async fn exit(mut self) {
        self.next().await;
        exit();
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        std::future::poll_fn(|cx| {
            let received = self.streams.iter_mut().any(|signal| signal.poll_recv(cx).is_ready());
            if received { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        self.received = true;
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.received = true;
    }
}

fn exit() -> ! {
    tracing::error!("another signal received while stopping, exiting at once");
    std::process::exit(1)
}
