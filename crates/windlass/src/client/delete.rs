//! Deletes, of one object or of many.

use std::collections::BTreeSet;

use http::Method;

use super::answer::{Head, Page};
use super::write::{Deleted, Deletion};
use super::{Api, Call, List};
use crate::cache::Key;
use crate::error::Result;
use crate::kind::Object;

impl<K: Object> Api<K> {
    /// Deletes an object; one that is gone already is no error.
    pub async fn delete(&self, key: &Key, how: &Deletion) -> Result<Deleted> {
        let call = self.call(Method::DELETE, "delete", key, None)?;
        let call = self.delete_call(call, how)?;
        let Some(bytes) = self.found(self.send(call).await)? else {
            return Ok(Deleted::NotFound);
        };
        let head: Head = serde_json::from_slice(&bytes).unwrap_or_default();
        if self.client.options.dry_run {
            return Ok(if head.pending() { Deleted::Pending } else { Deleted::Gone });
        }
        if head.kind != "Status" && head.pending() {
            self.client.shared.cache.wrote(&self.kind, &bytes);
            self.wrote_elsewhere(key, &head.metadata.uid).await;
            return Ok(Deleted::Pending);
        }
        let uid = if head.kind == "Status" { head.details.uid } else { head.metadata.uid };
        self.gone(key, &uid);
        self.learn();
        Ok(Deleted::Gone)
    }

    /// Shows the caches of other versions of the kind what is left.
    async fn left_elsewhere(&self, list: &List) {
        let cache = &self.client.shared.cache;
        for kind in cache.versions(&self.kind).into_iter().filter(|kind| *kind != self.kind) {
            let call = self.client.dynamic(&kind).select("list", Method::GET, list);
            let Ok(bytes) = self.client.call(call).await else {
                tracing::warn!(%kind, "own deletion of several objects not seen yet");
                continue;
            };
            let left: Page<'_> = serde_json::from_slice(&bytes).unwrap_or_default();
            left.items.iter().for_each(|item| cache.wrote(&kind, item.get().as_bytes()));
        }
    }

    /// What a deletion sends. With a body the server looks at nothing in the query.
    fn delete_call(&self, call: Call, how: &Deletion) -> Result<Call> {
        let body = how.body(&call.action, self.client.options.dry_run)?;
        Ok(call.body(body))
    }

    /// Deletes all objects that match; with a limit, so many of them.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::client::Deletion;
    /// use windlass::{Client, Key, List};
    ///
    /// # fn config_map(name: &str) -> ConfigMap {
    /// #     let mut map = ConfigMap::default();
    /// #     map.metadata.name = Some(name.into());
    /// #     map.metadata.namespace = Some("default".into());
    /// #     map
    /// # }
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// for (name, color) in [("a", "blue"), ("b", "red"), ("c", "blue")] {
    ///     let mut map = config_map(name);
    ///     map.metadata.labels = Some([("color".into(), color.into())].into());
    ///     client.create(&map).await?;
    /// }
    /// let blue = List::within("default").label("color", "blue");
    /// client.api::<ConfigMap>().delete_collection(&blue, &Deletion::default()).await?;
    /// assert!(client.live().list::<ConfigMap>(&blue).await?.is_empty());
    /// assert!(client.live().get::<ConfigMap>(&Key::namespaced("default", "b")).await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_collection(&self, list: &List, how: &Deletion) -> Result<()> {
        let mut call = self.select("delete all", Method::DELETE, list);
        if let Some(limit) = list.limit {
            call = call.query("limit", limit.to_string());
        }
        let bytes = self.send(self.delete_call(call, how)?).await?;
        if self.client.options.dry_run || !self.cached() {
            return Ok(());
        }
        // The answer shows the objects as they were. Which of them are gone and which only wait
        // for their grace period or a finalizer, another look tells.
        let page: Page<'_> = serde_json::from_slice(&bytes).unwrap_or_default();
        let head = |json: &str| serde_json::from_str::<Head>(json).unwrap_or_default();
        let Ok(left) = self.client.call(self.select("list", Method::GET, list)).await else {
            tracing::warn!(kind = %self.kind, "own deletion of several objects not seen yet");
            return Ok(());
        };
        let left: Page<'_> = serde_json::from_slice(&left).unwrap_or_default();
        let mut waiting = BTreeSet::new();
        for item in left.items {
            self.client.shared.cache.wrote(&self.kind, item.get().as_bytes());
            waiting.insert(head(item.get()).metadata.uid);
        }
        self.left_elsewhere(list).await;
        for item in page.items {
            let gone = head(item.get());
            if !waiting.contains(&gone.metadata.uid) {
                self.gone(&gone.key(), &gone.metadata.uid);
            }
        }
        Ok(())
    }
}
