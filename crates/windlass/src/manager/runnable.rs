//! Tasks of the author that run next to the controllers.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::clock::Clock;
use crate::error::Result;
use crate::events::Recorder;

/// A task of the author that runs next to the controllers.
pub(super) struct Runnable {
    pub(super) name: String,
    pub(super) start: Start,
    /// Whether it starts before the caches have synced.
    pub(super) eager: bool,
}

type Start = Box<dyn FnOnce(RunContext) -> BoxFuture<'static, Result<()>> + Send>;

/// What a runnable works with, see [`Manager::runnable`](super::Manager::runnable).
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::Namespace;
/// use windlass::manager::RunContext;
/// use windlass::{Key, Manager, Result};
///
/// async fn check(cx: RunContext) -> Result<()> {
///     let default = cx.client.api::<Namespace>().get(&Key::cluster("default")).await?;
///     assert!(default.is_some());
///     cx.stopping().await; // returning earlier is fine, returning an error stops the manager
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let handle = Manager::new(client).runnable("check", check).spawn()?;
/// handle.ready().await;
/// handle.stop().await
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunContext {
    /// The client of the home cluster. That of a runnable of every replica writes without the lease.
    pub client: Client,
    /// Publishes events.
    pub recorder: Recorder,
    /// The clock that timestamps are taken from.
    pub clock: Clock,
    /// The name of this replica: that of its pod, unless it was set.
    #[cfg_attr(not(feature = "operator"), allow(dead_code, reason = "only migrations ask"))]
    pub(crate) replica: Arc<str>,
    pub(super) stopping: CancellationToken,
}

// === impl RunContext ===

impl RunContext {
    /// Waits until the manager begins to stop: the runnable should return then.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub async fn stopping(&self) {
        self.stopping.cancelled().await;
    }
}
