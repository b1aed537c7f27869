//! The requests for one kind: reads, and what all requests share.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;

use super::answer::{Named, Page};
use super::{ApiRequest, Client, Url};
use crate::cache::Key;
use crate::error::{Error, Result, ResultExt};
use crate::kind::{Kind, Object};
use crate::list::{List, Query};

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// Objects per page of a live list.
const PAGE: usize = 500;
/// Most pages without any object in a row.
const EMPTY_PAGES_MAX: usize = 100;

/// Reads and writes objects of one kind, or one of their subresources, on the server.
///
/// Made by [`Client::api`] and [`Client::api_of`]. For errors and cancel safety see [`Client`].
///
/// # Examples
///
/// ```
/// use kube::core::DynamicObject;
/// use serde_json::json;
/// use windlass::client::{Api, Deletion, Patch};
/// use windlass::{Client, Key};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = Client::new(server.client());
/// // A kind that is known at run time only.
/// let kind = client.kind_of("", "v1", "ConfigMap").await?;
/// let maps: Api<DynamicObject> = client.api_of(&kind);
/// let map = DynamicObject::new("a", &(&kind).into()).within("default");
/// let made = maps.create(&map).await?;
/// let key = Key::of(&made);
/// maps.patch(&key, &Patch::Merge(json!({"data": {"k": "v"}}))).await?;
///
/// // Only this object, not another one of the same name.
/// maps.delete(Deletion::only(&made)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Api<K: Object> {
    pub(super) client: Client,
    pub(super) kind: Kind,
    /// The subresource, if not the objects themselves.
    pub(super) sub: Option<Arc<str>>,
    object: PhantomData<fn() -> K>,
}

// === impl Api ===

impl<K: Object> Api<K> {
    pub(super) fn new(client: Client, kind: Kind) -> Self {
        Self { client, kind, sub: None, object: PhantomData }
    }

    /// Returns an object as the server has it.
    ///
    /// Returns `None` if the object does not exist. A kind that does not exist is an error.
    ///
    /// ```
    /// use kube::core::DynamicObject;
    /// use windlass::{Client, Error, Key, Kind};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// let kind = Kind::new("ships.example.com", "v1", "Drive", "drives");
    /// let drives = client.api_of::<DynamicObject>(&kind);
    /// let error = drives.get(&Key::namespaced("fleet", "warp")).await.unwrap_err();
    /// assert!(matches!(error, Error::NoKind { .. }));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, key: &Key) -> Result<Option<Arc<K>>> {
        let mut request = self.request(Method::GET, "get", key)?;
        if K::metadata_api() {
            request.accept = METADATA.into();
        }
        let Some(bytes) = self.found(self.send(request).await)? else { return Ok(None) };
        self.decode(&bytes, &key.to_string()).map(|object| Some(Arc::new(object)))
    }

    /// Returns a list of all objects of the kind, to be narrowed and then read.
    pub fn list(&self) -> List<K, Client> {
        List::new(self.client.clone(), self.kind.clone())
    }

    /// Reads the objects that a query selects, page by page.
    pub(super) async fn read(&self, query: &Query) -> Result<Vec<Arc<K>>> {
        let what = || format!("list of {}", self.kind);
        let mut found = Vec::new();
        let mut next: Option<String> = None;
        let (mut paged, mut empty) = (true, 0);
        loop {
            let request = self.page(query, found.len(), next.as_deref(), paged)?;
            let bytes = match self.send(request).await {
                // The remaining pages have expired: list again, in one piece.
                Err(error) if next.is_some() && error.status().is_some_and(|s| s.code == 410) => {
                    found.clear();
                    (next, paged) = (None, false);
                    continue;
                }
                answer => answer?,
            };
            let page: Page<'_> = serde_json::from_slice(&bytes)
                .map_err(|source| Error::Decode { what: what(), source })?;
            empty = if page.items.is_empty() { empty + 1 } else { 0 };
            found.extend(page.items.into_iter().filter_map(|item| self.item(item.get())));
            if let Some(limit) = query.limit.filter(|limit| found.len() >= *limit) {
                found.truncate(limit);
                return Ok(found);
            }
            let before = next.take();
            next = page.metadata.next.filter(|token| !token.is_empty());
            if next.is_none() {
                return Ok(found);
            }
            if next == before || empty == EMPTY_PAGES_MAX {
                let source = serde::de::Error::custom("the server sends pages without end");
                return Err(Error::Decode { what: what(), source });
            }
        }
    }

    pub(super) fn page(
        &self,
        query: &Query,
        have: usize,
        next: Option<&str>,
        paged: bool,
    ) -> Result<ApiRequest> {
        let limit = query.limit.map_or(PAGE, |limit| limit.saturating_sub(have).min(PAGE));
        let mut request = self.select("list", Method::GET, query)?;
        if paged {
            request = request.query("limit", &limit.to_string());
        }
        if let Some(token) = next {
            request = request.query("continue", token);
        }
        if K::metadata_api() {
            request.accept = METADATA_LIST.into();
        }
        Ok(request)
    }

    /// Decodes one object of a list. One that does not decode is logged, counted and left out.
    fn item(&self, json: &str) -> Option<Arc<K>> {
        match serde_json::from_str(json) {
            Ok(object) => Some(Arc::new(object)),
            Err(error) => {
                self.client.metrics().undecodable(&self.kind);
                let (object, error) = (Named::of(json), crate::cache::redacted(&error));
                tracing::warn!(kind = %self.kind, %object, error, "object does not decode, skipped");
                None
            }
        }
    }

    /// Sends a request. Fails with [`Error::NoKind`] if not only the object but the kind is
    /// missing.
    pub(super) async fn send(&self, request: ApiRequest) -> Result<Bytes> {
        let answer = self.client.send(request).await;
        // A missing subresource does not mean that the kind is missing.
        if self.sub.is_none() && answer.as_ref().is_err_and(is_unknown_path) {
            self.client.shared.discovery.forget(self.kind.group(), self.kind.version());
            return Err(Error::NoKind { kind: self.kind.to_string() });
        }
        answer
    }

    /// Turns "object not found" into `None`; a missing kind stays an error.
    pub(super) fn found(&self, answer: Result<Bytes>) -> Result<Option<Bytes>> {
        match answer {
            Err(error) if error.is_no_kind() => Err(error),
            answer => answer.ignore_not_found(),
        }
    }

    /// Returns a request about the objects that a query selects.
    pub(super) fn select(&self, verb: &str, method: Method, query: &Query) -> Result<ApiRequest> {
        let action = format!("{verb} {}", self.kind.plural());
        let texts = query.texts();
        let (labels, fields) =
            texts.map_err(|error| Error::Invalid(format!("{action}: {error}")))?;
        let url = self.collection(&action, query.namespace.as_deref())?;
        let mut request = ApiRequest::new(method, url, action);
        for (name, selector) in [("labelSelector", labels), ("fieldSelector", fields)] {
            if !selector.is_empty() {
                request = request.query(name, &selector);
            }
        }
        Ok(request)
    }

    /// Returns a request about one object, or its subresource.
    pub(super) fn request(&self, method: Method, verb: &str, key: &Key) -> Result<ApiRequest> {
        let sub = self.sub.as_deref();
        let verb = sub.map_or_else(|| verb.to_string(), |sub| format!("{verb} {sub} of"));
        let action = self.action(&verb, key.namespace(), key.name());
        self.check_namespace(&action, key.namespace())?;
        let object = || {
            let url = self.kind.collection_url(key.namespace())?.segment("name", key.name())?;
            match sub {
                Some(sub) => url.segment("subresource", sub),
                None => Ok(url),
            }
        };
        let url = object().map_err(|error| Error::Invalid(format!("{action}: {error}")))?;
        Ok(ApiRequest::new(method, url, action))
    }

    pub(super) fn collection(&self, action: &str, namespace: Option<&str>) -> Result<Url> {
        let url = self.kind.collection_url(namespace);
        url.map_err(|error| Error::Invalid(format!("{action}: {error}")))
    }

    pub(super) fn check_namespace(&self, action: &str, namespace: Option<&str>) -> Result<()> {
        let named = namespace.is_some_and(|namespace| !namespace.is_empty());
        if self.kind.namespaced() && !named {
            return Err(Error::Invalid(format!(
                "{action}: {} is namespaced, and the object has no namespace (if the kind is \
                 cluster-scoped, make it with Kind::cluster_scoped)",
                self.kind
            )));
        }
        Ok(())
    }

    pub(super) fn action(&self, verb: &str, namespace: Option<&str>, name: &str) -> String {
        format!("{verb} {} {}", self.kind.kind(), Key::new(namespace, name))
    }

    pub(super) fn decode(&self, bytes: &Bytes, name: &str) -> Result<K> {
        serde_json::from_slice(bytes).map_err(|source| {
            // The error must not contain the text that is wrong: it may be a secret.
            let source = serde::de::Error::custom(crate::cache::redacted(&source));
            Error::Decode { what: format!("{} {name}", self.kind), source }
        })
    }
}

/// Returns `true` if an error says that the path is unknown, and not only the object.
fn is_unknown_path(error: &Error) -> bool {
    let Some(status) = error.status().filter(|status| status.code == 404) else { return false };
    let named = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    let object = named || status.message.contains(" not found");
    !object || status.message.trim() == "404 page not found"
}
