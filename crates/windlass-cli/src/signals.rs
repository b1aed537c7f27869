//! The signals that end the command.

use crate::failure::Failure;

/// What to do after an interruption of a command that changes something step by step.
pub const REPEAT: &str = "repeat the command to complete it";

/// Listens for the signals that end the command.
pub struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

/// Does some work, unless a signal comes first: then the work is dropped, with the programs that it
/// runs.
pub async fn uninterrupted<T>(
    work: impl Future<Output = Result<T, Failure>>,
    otherwise: &str,
) -> Result<T, Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        biased;
        () = signals.wait() => Err(Failure::other(format!("interrupted; {otherwise}"))),
        done = work => done,
    }
}

// === impl Signals ===

impl Signals {
    /// Starts to listen; signals from now on are not lost.
    #[cfg(unix)]
    pub fn listen() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::other(format!("cannot listen for signals: {error}")))
        };
        let terminate = listen(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for a signal.
    #[cfg(unix)]
    pub async fn wait(&mut self) {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub fn listen() -> Result<Self, Failure> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    pub async fn wait(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
