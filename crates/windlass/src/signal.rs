//! SIGINT and SIGTERM: the first asks to stop, the second ends the process.
//!
//! **Invariant:** from the first look at signals on none is lost; two of one sort that come before
//! either is seen count as one.

use std::convert::Infallible;

use tokio_util::sync::CancellationToken;

/// Completes on the first SIGINT or SIGTERM; from then on a second one exits with status 1.
///
/// A manager that stops for another reason drops this and hears no signals while it does;
/// [`run_until_signal`](crate::manager::Builder::run_until_signal) does.
///
/// # Cancel safety
///
/// May be dropped at any time; a signal that comes then is ignored, as the process has said that it
/// handles signals.
///
/// # Examples
///
/// ```
/// use windlass::{Manager, signal};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// # tokio::spawn(async {
/// #     let me = std::process::id().to_string();
/// #     std::process::Command::new("kill").args(["-TERM", &me]).status().expect("kill runs");
/// # });
/// // Where something else beside the manager has to end as well.
/// let manager = Manager::builder(client).spawn()?;
/// signal::shutdown().await;
/// manager.stop().await
/// # }
/// ```
pub async fn shutdown() {
    let mut signals = Signals::new();
    signals.next().await;
    tracing::info!("Shutdown signal received, waiting for all workers to finish");
    tokio::spawn(signals.exit());
}

/// The signals of this process, heard from when this is made.
pub(crate) struct Signals {
    /// One was heard.
    heard: bool,
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
            Self { heard: false, streams }
        }
        #[cfg(not(unix))]
        Self { heard: false }
    }

    /// Asks for a stop with the first signal, which may be under way for another reason; the second
    /// exits.
    pub(crate) async fn follow(&mut self, stopping: CancellationToken) -> Infallible {
        self.next().await;
        tracing::info!("Shutdown signal received, waiting for all workers to finish");
        stopping.cancel();
        self.next().await;
        exit()
    }

    /// Exits with the next signal if one was heard before: what comes after the end of a manager
    /// may hang as well.
    pub(crate) fn leave(self) {
        if self.heard {
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
            let heard = self.streams.iter_mut().any(|signal| signal.poll_recv(cx).is_ready());
            if heard { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        self.heard = true;
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.heard = true;
    }
}

fn exit() -> ! {
    tracing::error!("another signal received while stopping, exiting at once");
    std::process::exit(1)
}
