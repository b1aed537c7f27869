//! Own writes, shown to the caches before anybody reads again.

use bytes::Bytes;
use http::Method;

use super::Api;
use super::answer::Head;
use crate::cache::Key;
use crate::kind::Object;

impl<K: Object> Api<K> {
    /// Shows the cache what a write left: the object, or that it went with its last finalizer.
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
        self.wrote_elsewhere(&key, &head.metadata.uid).await;
    }

    /// Shows the caches of other versions of the kind what a write left: only the server can say
    /// what that looks like there.
    pub(super) async fn wrote_elsewhere(&self, key: &Key, uid: &str) {
        for kind in self.client.shared.cache.versions(&self.kind) {
            if kind != self.kind {
                self.client.dynamic(&kind).look_again(key, uid).await;
            }
        }
    }

    /// Tells the caches of all versions of the kind that a delete took an object away.
    pub(super) fn gone(&self, key: &Key, uid: &str) {
        let cache = &self.client.shared.cache;
        for kind in cache.versions(&self.kind) {
            cache.deleted(&kind, key, uid);
        }
    }

    /// Tells whether this kind is cached in any version, so that own writes have to be shown there.
    pub(super) fn cached(&self) -> bool {
        !self.client.shared.cache.versions(&self.kind).is_empty()
    }

    /// Shows the cache what became of an object that a write changed without telling it.
    ///
    /// Never fails: the write is done, and what cannot be seen now the watch will bring.
    async fn look_again(&self, key: &Key, uid: &str) {
        let Ok(call) = self.call(Method::GET, "get", key, None) else { return };
        match self.client.call(call).await {
            Ok(bytes) => self.client.shared.cache.wrote(&self.kind, &bytes),
            Err(error) if error.is_not_found() => {
                self.client.shared.cache.deleted(&self.kind, key, uid);
            }
            Err(error) => {
                let error = error.chain();
                tracing::warn!(kind = %self.kind, object = %key, error, "own write not seen yet");
            }
        }
    }

    /// The same after a write to a subresource.
    pub(super) async fn wrote_through(&self, key: &Key) {
        if self.client.options.dry_run {
            return;
        }
        for kind in self.client.shared.cache.versions(&self.kind) {
            let uid = self.client.shared.cache.entry(&kind, key);
            let uid = uid.as_ref().map_or("", |entry| entry.uid());
            self.client.dynamic(&kind).look_again(key, uid).await;
        }
    }
}
