//! The state and the history of a server, for tests and tools in the same process.

use std::sync::Arc;

use super::ApiServer;
use crate::store::{Event, Gone, ResourceKey, World};

impl ApiServer {
    /// Returns the newest state: all objects of all resources.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let server = windlass_apiserver::ApiServer::start();
    /// let world = server.world();
    /// assert!(world.resources().any(|(resource, _)| &*resource.plural == "namespaces"));
    /// # }
    /// ```
    pub fn world(&self) -> Arc<World> {
        self.inner.store.world()
    }

    /// Returns all changes after a revision, in order.
    ///
    /// # Errors
    ///
    /// Fails if some of them are forgotten.
    pub fn changes_since(&self, revision: u64) -> Result<Vec<(ResourceKey, Arc<Event>)>, Gone> {
        self.inner.store.changes_since(revision)
    }
}
