//! The verbs that delete objects.

use std::collections::BTreeSet;

use http::Method;

use super::answer::{Head, Page};
use super::{Api, ApiRequest, Deleted, Deletion, List};
use crate::cache::Key;
use crate::error::Result;
use crate::kind::Object;

impl<K: Object> Api<K> {
    /// Deletes an object. It is not an error if the object does not exist.
    pub async fn delete(&self, key: &Key, how: &Deletion) -> Result<Deleted> {
        let request = self.request(Method::DELETE, "delete", key, None)?;
        let request = self.with_options(request, how)?;
        let Some(bytes) = self.found(self.send(request).await)? else {
            return Ok(Deleted::NotFound);
        };
        let head: Head = serde_json::from_slice(&bytes).unwrap_or_default();
        if self.client.options.dry_run {
            return Ok(if head.pending() { Deleted::Pending } else { Deleted::Gone });
        }
        if head.kind != "Status" && head.pending() {
            self.client.shared.caches.wrote(&self.kind, &bytes);
            self.show_in_other_versions(key, &head.metadata.uid).await;
            return Ok(Deleted::Pending);
        }
        let uid = if head.kind == "Status" { head.details.uid } else { head.metadata.uid };
        self.gone(key, &uid);
        self.refresh_discovery();
        Ok(Deleted::Gone)
    }

    /// Passes the objects that are left to the caches of other versions of the kind.
    async fn show_left_in_other_versions(&self, list: &List) {
        let caches = &self.client.shared.caches;
        for kind in caches.versions(&self.kind).into_iter().filter(|kind| *kind != self.kind) {
            let Ok(request) = self.client.dynamic(&kind).select("list", Method::GET, list) else {
                continue;
            };
            let Ok(bytes) = self.client.send(request).await else {
                tracing::warn!(%kind, "the cache does not show the deletion of a collection yet");
                continue;
            };
            let left: Page<'_> = serde_json::from_slice(&bytes).unwrap_or_default();
            left.items.iter().for_each(|item| caches.wrote(&kind, item.get().as_bytes()));
        }
    }

    /// Adds the options of a deletion as the body. With a body the server ignores the query.
    fn with_options(&self, request: ApiRequest, how: &Deletion) -> Result<ApiRequest> {
        let body = how.body(&request.action, self.client.options.dry_run)?;
        Ok(request.body(body))
    }

    /// Deletes all objects that match, or at most as many as the limit of the list.
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
    /// assert!(client.list::<ConfigMap>(&blue).await?.is_empty());
    /// assert!(client.get::<ConfigMap>(&Key::namespaced("default", "b")).await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_collection(&self, list: &List, how: &Deletion) -> Result<()> {
        let mut request = self.select("delete all", Method::DELETE, list)?;
        if let Some(limit) = list.limit {
            request = request.query("limit", &limit.to_string());
        }
        let bytes = self.send(self.with_options(request, how)?).await?;
        if self.client.options.dry_run || !self.cached() {
            return Ok(());
        }
        // The answer shows the objects as they were. Only another list shows which of them are
        // gone and which are still waiting for their grace period or a finalizer.
        let page: Page<'_> = serde_json::from_slice(&bytes).unwrap_or_default();
        let head = |json: &str| serde_json::from_str::<Head>(json).unwrap_or_default();
        let Ok(left) = self.client.send(self.select("list", Method::GET, list)?).await else {
            let kind = &self.kind;
            tracing::warn!(%kind, "the cache does not show the deletion of a collection yet");
            return Ok(());
        };
        let left: Page<'_> = serde_json::from_slice(&left).unwrap_or_default();
        let mut waiting = BTreeSet::new();
        for item in left.items {
            self.client.shared.caches.wrote(&self.kind, item.get().as_bytes());
            waiting.insert(head(item.get()).metadata.uid);
        }
        self.show_left_in_other_versions(list).await;
        for item in page.items {
            let gone = head(item.get());
            if !waiting.contains(&gone.metadata.uid) {
                self.gone(&gone.key(), &gone.metadata.uid);
            }
        }
        Ok(())
    }
}
