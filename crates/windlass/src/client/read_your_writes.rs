//! Passes the result of every write to the caches, so that later reads see it.

use bytes::Bytes;
use http::Method;
use kube::core::DynamicObject;

use super::Api;
use super::answer::Head;
use crate::cache::Key;
use crate::kind::Object;

impl<K: Object> Api<K> {
    /// Passes the result of a write to the cache: the object, or its deletion if the write removed
    /// the last finalizer.
    pub(super) async fn wrote(&self, bytes: &Bytes) {
        if !self.cached() {
            return;
        }
        let head: Head = serde_json::from_slice(bytes).unwrap_or_default();
        let key = head.key();
        if head.finalized() {
            return self.gone(&key, &head.metadata.uid);
        }
        self.client.shared.cache.wrote(&self.kind, bytes);
        self.show_in_other_versions(&key, &head.metadata.uid).await;
    }

    /// Passes the object to the caches of other versions of the kind. Only the server can convert
    /// it, so it is read again.
    pub(super) async fn show_in_other_versions(&self, key: &Key, uid: &str) {
        for kind in self.client.shared.cache.versions(&self.kind) {
            if kind != self.kind {
                self.client.api_of::<DynamicObject>(&kind).refresh(key, uid).await;
            }
        }
    }

    /// Passes the deletion of an object to the caches of all versions of the kind.
    pub(super) fn gone(&self, key: &Key, uid: &str) {
        let cache = &self.client.shared.cache;
        for kind in cache.versions(&self.kind) {
            cache.deleted(&kind, key, uid);
        }
    }

    /// Returns `true` if the kind is cached in any version.
    pub(super) fn cached(&self) -> bool {
        !self.client.shared.cache.versions(&self.kind).is_empty()
    }

    /// Reads an object from the server and passes it to the cache.
    ///
    /// Never fails: the write has succeeded, and the watch will deliver its result later.
    async fn refresh(&self, key: &Key, uid: &str) {
        let Ok(request) = self.request(Method::GET, "get", key) else { return };
        match self.client.send(request).await {
            Ok(bytes) => self.client.shared.cache.wrote(&self.kind, &bytes),
            Err(error) if error.is_not_found() => {
                self.client.shared.cache.deleted(&self.kind, key, uid);
            }
            Err(error) => {
                let (kind, error) = (&self.kind, error.chain());
                tracing::warn!(%kind, object = %key, error, "the cache does not show a write yet");
            }
        }
    }

    /// Reads an object again after a write to one of its subresources.
    pub(super) async fn refresh_after_subresource(&self, key: &Key) {
        for kind in self.client.shared.cache.versions(&self.kind) {
            let entry = self.client.shared.cache.entry(&kind, key);
            let uid = entry.as_ref().map_or("", |entry| entry.uid());
            self.client.api_of::<DynamicObject>(&kind).refresh(key, uid).await;
        }
    }
}
