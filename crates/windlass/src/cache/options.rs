//! Which part of a kind is cached, and the settings of a cache.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use kube::core::Selector;

use super::reflector::Observe;
use super::store::StoreOptions;
use super::transform::Transform;
use crate::selector::{self, InvalidSelector};

/// The part of a kind that is cached: by default all of it.
///
/// Within a manager, a scope that names no part is the one that the manager is set to.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::core::{Expression, PartialObjectMeta};
/// use windlass::cache::{Cache, Scope};
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
/// # let mut map = config_map("a");
/// # map.metadata.labels = Some([("app".into(), "web".into())].into());
/// # client.api().create(&map).await?;
/// # client.api().create(&config_map("b")).await?;
/// let web = Expression::Equal("app".into(), "web".into());
/// let part = Scope::default().namespace("default").namespace("office").labels(web.into());
/// let cache = Cache::new(server.client());
/// let maps = cache.informer::<PartialObjectMeta<ConfigMap>>(&part.metadata_only());
/// maps.synced(Duration::from_secs(30)).await.expect("can be watched");
/// let listed = maps.reader().list();
/// assert_eq!(listed.iter().map(Key::of).collect::<Vec<_>>(), [Key::namespaced("default", "a")]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub(super) namespaces: BTreeSet<String>,
    pub(super) labels: Option<Selector>,
    pub(super) fields: Option<Selector>,
    pub(super) metadata_only: bool,
    /// The namespaces are those that the cache is set to, and come and go.
    pub(super) chosen: bool,
}

/// The settings of a cache.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::Secret;
/// use windlass::cache::{Cache, CacheOptions, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// // Secrets without what is secret, at most 100 of them decoded at once.
/// let options = CacheOptions::default()
///     .decoded_max(100)
///     .transform(|object| object["data"] = serde_json::json!({}));
/// let secrets = Cache::with(client, options).informer::<Secret>(&Scope::default());
/// secrets.synced(Duration::from_secs(30)).await.expect("secrets can be watched");
/// # }
/// ```
#[derive(Clone)]
pub struct CacheOptions {
    pub(super) store: StoreOptions,
    pub(super) streaming: bool,
    pub(super) protobuf: bool,
    pub(super) page_size: Option<usize>,
    /// How long a streaming list may make no progress before a plain list replaces it.
    pub(super) progress: Duration,
    /// How long an answer, or the next part of a list, may take.
    pub(super) answer: Duration,
    /// The largest object that is read.
    pub(super) object_max: usize,
    pub(super) transform: Option<Transform>,
    /// Called after every list and watch.
    pub(crate) observe: Option<Observe>,
    /// Seeds the jitter, so that a run can be repeated.
    pub(crate) seed: Option<u64>,
}

// === impl Scope ===

impl Scope {
    /// Returns the scope of all objects, or of their metadata only.
    pub(crate) fn all_or_metadata(metadata_only: bool) -> Self {
        Self { metadata_only, ..Self::default() }
    }

    /// Adds a namespace; several calls add several namespaces.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.insert(namespace.to_owned());
        self
    }

    /// Selects objects by their labels.
    ///
    /// If the selector is not valid, nothing is requested and the state of the watch is
    /// [`SyncState::Invalid`](super::SyncState::Invalid).
    pub fn labels(mut self, selector: Selector) -> Self {
        self.labels = Some(selector).filter(|selector| !selector.selects_all());
        self
    }

    /// Selects objects by their fields, with `Expression::Equal` and `Expression::NotEqual` of kube,
    /// as in `Expression::Equal("spec.nodeName".into(), "node-1".into())`.
    ///
    /// The values may be any text. If the selector is not valid, the state of the watch is
    /// [`SyncState::Invalid`](super::SyncState::Invalid).
    pub fn fields(mut self, fields: impl Into<Selector>) -> Self {
        self.fields = Some(fields.into()).filter(|fields| !fields.selects_all());
        self
    }

    /// Asks the server for metadata only.
    ///
    /// If somebody else caches whole objects of the same scope, now or later, they are read from
    /// the same store.
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// Fails if a selector is not valid.
    pub(crate) fn check(&self) -> Result<(), InvalidSelector> {
        self.labels.as_ref().map_or(Ok(String::new()), selector::label_text)?;
        self.fields.as_ref().map_or(Ok(String::new()), selector::field_text).map(drop)
    }

    /// Returns `true` if the scope names no part of the kind.
    pub(super) fn is_whole(&self) -> bool {
        self.namespaces.is_empty() && self.labels.is_none() && self.fields.is_none()
    }

    /// Returns `true` if both name the same part of a kind, metadata only or not.
    pub(super) fn same_part(&self, other: &Self) -> bool {
        self.namespaces == other.namespaces
            && self.chosen == other.chosen
            && self.fields == other.fields
            && self.labels == other.labels
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(labels) = &self.labels {
            write!(f, " labels {labels}")?;
        }
        if let Some(fields) = &self.fields {
            write!(f, " fields {fields}")?;
        }
        if !self.namespaces.is_empty() {
            let namespaces: Vec<&str> = self.namespaces.iter().map(String::as_str).collect();
            write!(f, " in {}", namespaces.join(","))?;
        }
        if self.chosen {
            f.write_str(" in chosen namespaces")?;
        }
        Ok(())
    }
}

// === impl CacheOptions ===

impl CacheOptions {
    /// Keeps so many objects of each kind and Rust type decoded; 1024 by default.
    ///
    /// The rest is decoded each time it is read. Larger values cost memory, smaller ones CPU time.
    pub fn decoded_max(mut self, objects: usize) -> Self {
        self.store.decoded_max = objects;
        self
    }

    /// Keeps `managedFields`, which take as much memory as the rest of an object.
    pub fn keep_managed_fields(mut self) -> Self {
        self.store.keep_managed_fields = true;
        self
    }

    /// Requests streaming lists (`sendInitialEvents`) first, and plain lists if the server does not
    /// support them; `true` by default.
    pub fn streaming(mut self, streaming: bool) -> Self {
        self.streaming = streaming;
        self
    }

    /// Requests built-in kinds in protobuf, which is smaller and faster to read than JSON; `true` by
    /// default.
    pub fn protobuf(mut self, protobuf: bool) -> Self {
        self.protobuf = protobuf;
        self
    }

    /// Requests plain lists in pages of so many objects, whatever version is asked for.
    #[cfg(test)]
    pub(super) fn page_size(mut self, objects: usize) -> Self {
        self.page_size = Some(objects);
        self
    }

    /// Changes every object before it is stored, for example to drop what is not needed.
    ///
    /// The result must not change if the function is applied twice. Selectors and indexes see the
    /// result; the server does not.
    pub fn transform(
        mut self,
        transform: impl Fn(&mut serde_json::Value) + Send + Sync + 'static,
    ) -> Self {
        self.transform = Some(Transform::new(transform));
        self
    }
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            store: StoreOptions::default(),
            streaming: true,
            protobuf: true,
            page_size: None,
            progress: Duration::from_secs(10),
            answer: Duration::from_secs(60),
            object_max: 32 << 20,
            transform: None,
            observe: None,
            seed: None,
        }
    }
}

impl fmt::Debug for CacheOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheOptions").field("store", &self.store).finish_non_exhaustive()
    }
}
