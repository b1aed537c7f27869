//! Tasks of the author beside the controllers.

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::clock::Clock;
use crate::error::Result;
use crate::events::Recorder;

/// A task of the author that runs beside the controllers.
pub(super) struct Runnable {
    pub(super) name: String,
    pub(super) start: Start,
}

type Start = Box<dyn FnOnce(RunContext) -> BoxFuture<'static, Result<()>> + Send>;

/// What a task of the author holds in its hands; see
/// [`Builder::runnable`](super::Builder::runnable).
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::Namespace;
/// use windlass::manager::RunContext;
/// use windlass::{Key, Manager, Result};
///
/// async fn look(cx: RunContext) -> Result<()> {
///     let default = cx.client().live().get::<Namespace>(&Key::cluster("default")).await?;
///     assert!(default.is_some());
///     cx.stopping().await; // an end before that would be no failure; an error stops the manager
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let handle = Manager::builder(client).runnable("look", look).spawn()?;
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
    /// The client of the home cluster.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Publishes events.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Where timestamps come from.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Completes when the runnable should end.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub async fn stopping(&self) {
        self.stopping.cancelled().await;
    }
}
