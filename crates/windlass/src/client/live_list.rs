//! Lists that ask the server.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Method;
use kube::api::PropagationPolicy;
use kube::core::{DynamicObject, Selector};

#[cfg(feature = "operator")]
use super::answer::PageMeta;
use super::answer::{Head, Page};
use super::deletion::collection_body;
use super::{Api, Client};
#[cfg(feature = "operator")]
use crate::error::Error;
use crate::error::Result;
use crate::kind::Object;
use crate::list::{List, Query};

// === impl List ===

impl<K: Object> List<K, Client> {
    /// Selects objects by their fields, with `Expression::Equal` and `Expression::NotEqual` of kube.
    ///
    /// The values may be any text. The server decides by which fields a kind can be selected. A
    /// list of the cache uses an [index](crate::Index) instead.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use kube::core::Expression;
    /// use windlass::Client;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// let name = Expression::Equal("metadata.name".into(), "default".into());
    /// let namespaces = client.api::<Namespace>().list().fields(name);
    /// assert_eq!(namespaces.items().await?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fields(mut self, fields: impl Into<Selector>) -> Self {
        self.query.fields.extend(fields.into());
        self
    }

    /// Returns the objects as the server has them.
    ///
    /// # Errors
    ///
    /// Fails if a selector is invalid, and as every request of the [`Client`]. An object that does
    /// not decode is left out, logged and counted.
    pub async fn items(&self) -> Result<Vec<Arc<K>>> {
        self.api().read(&self.query).await
    }

    /// Deletes all objects of the list with one request: a collection, in the words of the API.
    ///
    /// `dependents` says whether objects that they own are deleted first, afterwards or not at all;
    /// with `None` the kind decides.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Client, Key};
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
    /// let maps = client.api::<ConfigMap>();
    /// for (name, color) in [("a", "blue"), ("b", "red"), ("c", "blue")] {
    ///     let mut map = config_map(name);
    ///     map.metadata.labels = Some([("color".into(), color.into())].into());
    ///     maps.create(&map).await?;
    /// }
    /// let blue = maps.list().namespace("default").labels([("color", "blue")]);
    /// blue.delete(None).await?;
    /// assert!(blue.items().await?.is_empty());
    /// assert!(maps.get(&Key::namespaced("default", "b")).await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete(&self, dependents: impl Into<Option<PropagationPolicy>>) -> Result<()> {
        let (api, options) = (self.api(), &self.source.options);
        let mut request = api.select("delete all", Method::DELETE, &self.query)?;
        if let Some(limit) = self.query.limit {
            request = request.query("limit", &limit.to_string());
        }
        let body = collection_body(dependents.into(), options.dry_run);
        let bytes = api.send(request.body(body)).await?;
        if !options.dry_run && api.cached() {
            api.show_deleted(&self.query, &bytes).await?;
        }
        Ok(())
    }

    fn api(&self) -> Api<K> {
        self.source.api_of(&self.kind)
    }
}

// === impl Api ===

impl<K: Object> Api<K> {
    /// Reads one page of all objects of the kind: the first one, or that of a token.
    ///
    /// Unlike a list, it fails if an object does not decode.
    #[cfg(feature = "operator")]
    pub(crate) async fn page_after(&self, next: Option<&str>) -> Result<(Vec<K>, PageMeta)> {
        let request = self.page(&Query::default(), 0, next, true)?;
        let bytes = self.send(request).await?;
        let what = || format!("list of {}", self.kind);
        let decode = |source| Error::Decode { what: what(), source };
        let page: Page<'_> = serde_json::from_slice(&bytes).map_err(decode)?;
        let items = page.items.iter().map(|item| serde_json::from_str(item.get()));
        Ok((items.collect::<Result<_, _>>().map_err(decode)?, page.metadata))
    }

    /// Passes the deletion of a collection to the caches. `answer` shows its objects as they were.
    async fn show_deleted(&self, query: &Query, answer: &[u8]) -> Result<()> {
        let page: Page<'_> = serde_json::from_slice(answer).unwrap_or_default();
        let head = |json: &str| serde_json::from_str::<Head>(json).unwrap_or_default();
        // Only another list shows which of them are gone and which are still waiting for their
        // grace period or a finalizer.
        let Ok(left) = self.client.send(self.select("list", Method::GET, query)?).await else {
            let kind = &self.kind;
            tracing::warn!(%kind, "the cache does not show the deletion of a collection yet");
            return Ok(());
        };
        let left: Page<'_> = serde_json::from_slice(&left).unwrap_or_default();
        let mut waiting = BTreeSet::new();
        for item in left.items {
            self.client.shared.cache.wrote(&self.kind, item.get().as_bytes());
            waiting.insert(head(item.get()).metadata.uid);
        }
        self.show_left_in_other_versions(query).await;
        for item in page.items {
            let gone = head(item.get());
            if !waiting.contains(&gone.metadata.uid) {
                self.gone(&gone.key(), &gone.metadata.uid);
            }
        }
        Ok(())
    }

    /// Passes the objects that are left to the caches of other versions of the kind.
    async fn show_left_in_other_versions(&self, query: &Query) {
        let cache = &self.client.shared.cache;
        for kind in cache.versions(&self.kind).into_iter().filter(|kind| *kind != self.kind) {
            let Ok(request) =
                self.client.api_of::<DynamicObject>(&kind).select("list", Method::GET, query)
            else {
                continue;
            };
            let Ok(bytes) = self.client.send(request).await else {
                tracing::warn!(%kind, "the cache does not show the deletion of a collection yet");
                continue;
            };
            let left: Page<'_> = serde_json::from_slice(&bytes).unwrap_or_default();
            left.items.iter().for_each(|item| cache.wrote(&kind, item.get().as_bytes()));
        }
    }
}
