//! The client: reads from the cache, and writes that later reads see.
//!
//! [`Client`] wraps a `kube::Client` and adds what a controller needs: reads from the shared
//! cache, a deadline on every request, server warnings in the log, request metrics, and the
//! fence that stops writes when leadership is lost. The answer to every write is passed to
//! the cache, so that a read after a write never returns an older state.
//!
//! Names, namespaces and kinds may come from objects that other people write: a request whose URL
//! would not address exactly what was asked for is refused with
//! [`Error::Invalid`](crate::Error::Invalid).
//!
//! **Invariant:** every mutating request of this crate passes `Client::send`.

mod answer;
mod api;
mod delete;
mod deletion;
mod discovery;
mod list;
mod live;
mod observer;
mod options;
mod patch;
mod plain;
mod read_your_writes;
mod send;
mod subresource;
mod transport;
mod url;
mod warnings;
mod write;

use std::fmt;
use std::sync::Arc;

use kube::core::DynamicObject;

use crate::cache::{Cache, Key};
use crate::error::Result;
use crate::fence::Fence;
use crate::kind::{Kind, Object};
use crate::metrics::Metrics;

pub use api::Api;
pub use deletion::{Deleted, Deletion};
pub use list::List;
pub use live::Live;
pub use patch::{FieldValidation, Patch};

pub(crate) use observer::{Observed, PendingWrite, WriteObserver};
pub(crate) use transport::{ApiRequest, ExchangeError, exchange, read_status};
pub(crate) use url::{InvalidSegment, Url, is_segment};

use discovery::Discovery;
use options::Options;
use warnings::Warnings;

/// The default host in metrics of requests. A `kube::Client` does not reveal its server.
pub(crate) const HOST: &str = "kubernetes";

/// Reads and writes objects. Cheap to clone.
///
/// # Errors
///
/// A request fails with
///
/// - [`Error::Invalid`](crate::Error::Invalid) if it cannot be sent as asked for, for example because of a name with a
///   `/`;
/// - [`Error::Api`](crate::Error::Api) if the server refuses it;
/// - [`Error::Timeout`](crate::Error::Timeout) or [`Error::Transport`](crate::Error::Transport) if there is no usable answer;
/// - [`Error::NoKind`](crate::Error::NoKind) if the server does not serve the kind;
/// - [`Error::Fenced`](crate::Error::Fenced) if it is a write and the lease that guards it is not held.
///
/// A read from the cache fails with [`Error::NotCached`](crate::Error::NotCached) or [`Error::NotSynced`](crate::Error::NotSynced) instead.
///
/// # Cancel safety
///
/// Every request may be dropped. A dropped write may still have reached the server; the cache shows
/// it when the watch delivers it.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
/// use windlass::client::{Deleted, Patch};
/// use windlass::{Client, Key, List};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let kube = server.client();
/// let client = Client::new(kube);
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("settings".into());
/// map.metadata.namespace = Some("default".into());
/// client.create(&map).await?;
///
/// let key = Key::namespaced("default", "settings");
/// let patch = Patch::Merge(json!({"data": {"color": "blue"}}));
/// let patched: ConfigMap = client.patch(&key, &patch).await?;
/// assert_eq!(patched.data.unwrap()["color"], "blue");
///
/// let all = client.live().list::<ConfigMap>(&List::within("default").limit(10)).await?;
/// assert!(all.iter().any(|map| map.metadata.name.as_deref() == Some("settings")));
/// assert_eq!(client.delete::<ConfigMap>(&key).await?, Deleted::Gone);
/// assert!(client.live().get::<ConfigMap>(&key).await?.is_none());
/// # Ok(())
/// # }
/// ```
///
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    options: Options,
}

struct Shared {
    kube: kube::Client,
    host: String,
    cache: Cache,
    fence: Fence,
    metrics: Metrics,
    warnings: Warnings,
    discovery: Discovery,
}

// === impl Client ===

impl Client {
    /// Creates a client without a manager: its cache holds nothing until somebody opens it.
    pub fn new(kube: kube::Client) -> Self {
        let cache = Cache::new(kube.clone());
        Self::build(kube, HOST, cache, Fence::new(), Metrics::new())
    }

    pub(crate) fn build(
        kube: kube::Client,
        host: &str,
        cache: Cache,
        fence: Fence,
        metrics: Metrics,
    ) -> Self {
        let shared = Shared {
            kube,
            host: host.into(),
            cache,
            fence,
            metrics,
            warnings: Warnings::default(),
            discovery: Discovery::default(),
        };
        Self { shared: Arc::new(shared), options: Options::default() }
    }

    /// Returns all verbs for one kind.
    pub fn api<K: Object<DynamicType = ()>>(&self) -> Api<K> {
        Api::new(self.clone(), Kind::of::<K>())
    }

    /// Returns all verbs for a kind that is known at run time only.
    pub fn dynamic(&self, kind: &Kind) -> Api<DynamicObject> {
        Api::new(self.clone(), kind.clone())
    }

    /// Returns all verbs for a kind with another Rust type, such as `PartialObjectMeta`.
    ///
    /// ```
    /// use kube::core::{DynamicObject, PartialObjectMeta};
    /// use windlass::{Client, Key};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// let kind = client.kind_of("", "v1", "Namespace").await?;
    /// type Metadata = PartialObjectMeta<DynamicObject>;
    /// let namespaces = client.api_with::<Metadata>(&kind);
    /// let default = namespaces.get(&Key::cluster("default")).await?.expect("is always there");
    /// assert!(default.metadata.uid.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn api_with<K: Object>(&self, kind: &Kind) -> Api<K> {
        Api::new(self.clone(), kind.clone())
    }

    /// Creates an object and returns its stored state.
    pub async fn create<K: Object<DynamicType = ()>>(&self, object: &K) -> Result<K> {
        self.api::<K>().create(object).await
    }

    /// Replaces an object. Fails with a conflict if its resource version is not the stored one.
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
    /// # client.create(&config_map("a")).await?;
    /// let key = Key::namespaced("default", "a");
    /// loop {
    ///     let Some(found) = client.live().get::<ConfigMap>(&key).await? else { break };
    ///     let mut map = (*found).clone();
    ///     map.data.get_or_insert_default().insert("color".into(), "blue".into());
    ///     match client.update(&map).await {
    ///         // Somebody else changed it: read it again.
    ///         Err(error) if error.is_conflict() => continue,
    ///         answer => drop(answer?),
    ///     }
    ///     break;
    /// }
    /// # let map = client.live().get::<ConfigMap>(&key).await?.expect("is there");
    /// # assert_eq!(map.data.as_ref().expect("has data")["color"], "blue");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn update<K: Object<DynamicType = ()>>(&self, object: &K) -> Result<K> {
        self.api::<K>().update(object).await
    }

    /// Replaces the status of an object.
    pub async fn update_status<K: Object<DynamicType = ()>>(&self, object: &K) -> Result<K> {
        self.api::<K>().update_status(object).await
    }

    /// Applies an object: its fields are set, and belong to this client's field owner from then on.
    ///
    /// Fields of other owners are taken over.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::Client;
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
    /// let mut map = config_map("a");
    /// map.data = Some([("color".into(), "blue".into()), ("size".into(), "3".into())].into());
    /// let painter = client.field_owner("painter");
    /// painter.apply(&map).await?; // creates it
    ///
    /// // Fields that an owner no longer applies are removed; fields of other owners stay.
    /// let mut other = config_map("a");
    /// other.data = Some([("shape".into(), "round".into())].into());
    /// client.field_owner("shaper").apply(&other).await?;
    /// map.data.as_mut().expect("was set").remove("size");
    /// let stored = painter.apply(&map).await?.data.expect("has data");
    /// assert_eq!(stored.keys().collect::<Vec<_>>(), ["color", "shape"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn apply<K: Object<DynamicType = ()>>(&self, object: &K) -> Result<K> {
        self.api::<K>().apply(object).await
    }

    /// Patches an object and returns its stored state.
    pub async fn patch<K: Object<DynamicType = ()>>(&self, key: &Key, patch: &Patch) -> Result<K> {
        self.api::<K>().patch(key, patch).await
    }

    /// Deletes an object. It is not an error if the object does not exist.
    pub async fn delete<K: Object<DynamicType = ()>>(&self, key: &Key) -> Result<Deleted> {
        self.api::<K>().delete(key, &Deletion::default()).await
    }

    /// Returns the kind that the server serves under a group, version and name.
    ///
    /// The core group is empty.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NoKind`](crate::Error::NoKind) if the server does not serve the kind.
    /// That answer is cached for a second.
    ///
    /// ```
    /// use windlass::Client;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// let deployment = client.kind_of("apps", "v1", "Deployment").await?;
    /// assert_eq!((deployment.plural(), deployment.namespaced()), ("deployments", true));
    ///
    /// let missing = client.kind_of("ships.example.com", "v1", "Drive").await.unwrap_err();
    /// assert!(missing.is_no_kind() && missing.is_not_found());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn kind_of(&self, group: &str, version: &str, kind: &str) -> Result<Kind> {
        self.shared.discovery.find(self, group, version, kind).await
    }

    /// Returns the cache: reads that cost no request.
    ///
    /// It holds the kinds that the controllers of the manager declare; a read of another kind is an
    /// error. Writes of this process are in it at once.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use windlass::{Context, Controller, Key, Manager, Next};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = server.client();
    /// let maps = Controller::<ConfigMap>::builder("maps")
    ///     .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
    /// let handle = Manager::builder(client).add(maps).spawn()?;
    /// handle.ready().await; // the caches are open and filled
    /// let (client, key) = (handle.client(), Key::namespaced("default", "a"));
    /// assert!(client.cached().get::<ConfigMap>(&key)?.is_none());
    ///
    /// let refused = client.cached().get::<Secret>(&key).unwrap_err();
    /// assert!(refused.to_string().starts_with("Secret.v1 is not in the cache: declare it"));
    /// assert!(client.live().get::<Secret>(&key).await?.is_none());
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn cached(&self) -> &Cache {
        &self.shared.cache
    }

    /// Returns reads that ask the server.
    pub fn live(&self) -> Live<'_> {
        Live { client: self }
    }

    /// Returns the metrics in which requests are counted.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Returns the fence that stops writes when leadership is lost.
    pub(crate) fn fence(&self) -> &Fence {
        &self.shared.fence
    }

    /// Returns the namespace of the kubeconfig context, or of the pod that this process runs in.
    pub(crate) fn default_namespace(&self) -> &str {
        self.shared.kube.default_namespace()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("options", &self.options).finish_non_exhaustive()
    }
}

impl From<kube::Client> for Client {
    fn from(kube: kube::Client) -> Self {
        Self::new(kube)
    }
}
