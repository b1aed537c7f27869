//! The states of a server, read without requests.

use std::sync::Arc;

use super::ApiServer;
use crate::store::{Event, Gone, ResourceKey, World};

impl ApiServer {
    /// Returns the newest revision.
    pub fn revision(&self) -> u64 {
        self.inner.store.revision()
    }

    /// Returns the newest state of every resource.
    ///
    /// ```
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::start();
    /// let world = server.world();
    /// let names: Vec<&str> = world
    ///     .resources()
    ///     .filter(|(resource, _)| &*resource.plural == "namespaces")
    ///     .flat_map(|(_, table)| table.items.keys().map(|key| &*key.name))
    ///     .collect();
    /// assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    /// ```
    pub fn world(&self) -> Arc<World> {
        self.inner.store.world()
    }

    /// Returns the state of every resource at a revision.
    ///
    /// # Errors
    /// If that revision is no longer remembered.
    pub fn world_at(&self, revision: u64) -> Result<World, Gone> {
        self.inner.store.world_at(revision)
    }

    /// Returns what changed after a revision, over all resources, in order.
    ///
    /// # Errors
    /// If some of it is no longer remembered.
    pub fn changes_since(&self, revision: u64) -> Result<Vec<(ResourceKey, Arc<Event>)>, Gone> {
        self.inner.store.changes_since(revision)
    }

    /// Forgets the history: watches and exact lists from older versions get 410.
    pub fn compact(&self) {
        self.inner.store.compact();
    }

    /// Forgets the history of one resource.
    pub fn compact_resource(&self, resource: &ResourceKey) {
        self.inner.store.compact_resource(resource);
    }
}
