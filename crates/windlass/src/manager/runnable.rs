//! Tasks of the author that run next to the controllers.

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

/// What a runnable works with, see [`Builder::runnable`](super::Builder::runnable).
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::Namespace;
/// use windlass::manager::RunContext;
/// use windlass::{Key, Manager, Result};
///
/// async fn check(cx: RunContext) -> Result<()> {
///     let default = cx.client().api::<Namespace>().get(&Key::cluster("default")).await?;
///     assert!(default.is_some());
///     cx.stopping().await; // returning earlier is fine, returning an error stops the manager
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let handle = Manager::builder(client).runnable("check", check).spawn()?;
/// handle.ready().await;
/// handle.stop().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RunContext {
    pub(super) client: Client,
    pub(super) recorder: Recorder,
    pub(super) clock: Clock,
    pub(super) stopping: CancellationToken,
}

// === impl RunContext ===

impl RunContext {
    /// The client of the home cluster. That of a runnable of every replica writes without the lease.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The recorder, which publishes events.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The clock, which timestamps are taken from.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Completes when the runnable has to end.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub async fn stopping(&self) {
        self.stopping.cancelled().await;
    }
}
