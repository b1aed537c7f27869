//! A manager that runs in a task of its own.

use std::fmt;
use std::ops::Deref;

use tokio::task::JoinHandle;

use super::Handle;
use crate::error::{Error, Result};

/// A manager that runs in a task of its own, see [`Manager::spawn`](super::Manager::spawn).
///
/// It dereferences to its [`Handle`]. Dropping it leaves the manager running.
///
/// # Examples
///
/// ```
/// use windlass::Manager;
/// use windlass::manager::{Handle, Running};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let running: Running = Manager::new(client).spawn()?;
/// running.ready().await;
/// let handle = Handle::clone(&running); // for others, who cannot wait for the end
/// running.stop().await?;
/// assert!(!handle.ready().await);
/// # Ok(())
/// # }
/// ```
#[must_use = "errors of the manager are returned by `stop` and `wait`"]
pub struct Running {
    handle: Handle,
    task: JoinHandle<Result<()>>,
}

// === impl Running ===

impl Running {
    pub(super) fn new(handle: Handle, task: JoinHandle<Result<()>>) -> Self {
        Self { handle, task }
    }

    /// Stops the manager in order, and waits until it has ended.
    ///
    /// # Errors
    ///
    /// Fails as [`Manager::run`](super::Manager::run) does.
    pub async fn stop(self) -> Result<()> {
        self.handle.shutdown();
        self.wait().await
    }

    /// Waits until the manager ends.
    ///
    /// # Errors
    ///
    /// Fails as [`Manager::run`](super::Manager::run) does, and if the manager was
    /// [aborted](Handle::abort).
    pub async fn wait(self) -> Result<()> {
        match self.task.await {
            Ok(result) => result,
            Err(error) if error.is_cancelled() => Err(Error::from("the manager was aborted")),
            Err(error) => Err(Error::Panic(format!("the manager: {error}"))),
        }
    }
}

impl Deref for Running {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("handle", &self.handle).finish_non_exhaustive()
    }
}
