//! The client: requests to the API server, and reads from the cache that see their results.
//!
//! [`Client`] wraps a `kube::Client` and adds what a controller needs: reads from the shared
//! cache, a deadline on every request, server warnings in the log, request metrics, and the
//! fence that stops writes when leadership is lost. The answer to every write is passed to
//! the cache, so that a read after a write never returns an older state.
//!
//! [`Client::api`] sends requests for one kind, and [`Client::cached`] reads without any. How a
//! request is sent is an option of the client: [`Client::dry_run`], [`Client::timeout`],
//! [`Client::field_owner`], [`Client::strict`] and [`Client::unforced`] return a client that
//! differs in that.
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
mod live_list;
mod observer;
mod options;
mod patch;
mod plain;
mod read_your_writes;
mod requests;
mod send;
mod subresource;
mod transport;
mod url;
mod warnings;
mod write;

use std::fmt;
use std::sync::Arc;

use crate::cache::Cache;
use crate::error::Result;
use crate::fence::Fence;
use crate::kind::{Kind, Object};
use crate::metrics::Metrics;

pub use api::Api;
pub use deletion::{Deleted, Deletion};
pub use patch::Patch;

pub(crate) use observer::{Observed, PendingWrite, WriteObserver};
pub(crate) use requests::{RequestLog, Requests};
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
/// use windlass::{Client, Key};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let kube = server.client();
/// let client = Client::new(kube);
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("settings".into());
/// map.metadata.namespace = Some("default".into());
/// let maps = client.api::<ConfigMap>();
/// maps.create(&map).await?;
///
/// let key = Key::namespaced("default", "settings");
/// let patched = maps.patch(&key, &Patch::Merge(json!({"data": {"color": "blue"}}))).await?;
/// assert_eq!(patched.data.unwrap()["color"], "blue");
///
/// let all = maps.list().namespace("default").limit(10).items().await?;
/// assert!(all.iter().any(|map| map.metadata.name.as_deref() == Some("settings")));
/// assert_eq!(maps.delete(&key).await?, Deleted::Gone);
/// assert!(maps.get(&key).await?.is_none());
/// # Ok(())
/// # }
/// ```
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

    /// Returns the requests for one kind.
    ///
    /// The kind is often inferred: `client.api().create(&map)`.
    pub fn api<K: Object<DynamicType = ()>>(&self) -> Api<K> {
        Api::new(self.clone(), Kind::of::<K>())
    }

    /// Returns the requests for a kind that is known at run time only, with objects of any type,
    /// such as `DynamicObject` or `PartialObjectMeta<DynamicObject>`.
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
    /// let namespaces = client.api_of::<Metadata>(&kind);
    /// let default = namespaces.get(&Key::cluster("default")).await?.expect("always exists");
    /// assert!(default.metadata.uid.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn api_of<K: Object>(&self, kind: &Kind) -> Api<K> {
        Api::new(self.clone(), kind.clone())
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
    /// assert!(matches!(missing, windlass::Error::NoKind { .. }) && missing.is_not_found());
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
    /// let handle = Manager::new(client).add(maps).spawn()?;
    /// handle.ready().await; // the caches are open and filled
    /// let (client, key) = (handle.client(), Key::namespaced("default", "a"));
    /// assert!(client.cached().get::<ConfigMap>(&key)?.is_none());
    ///
    /// let refused = client.cached().get::<Secret>(&key).unwrap_err();
    /// assert!(refused.to_string().starts_with("Secret.v1 is not in the cache: declare it"));
    /// assert!(client.api::<Secret>().get(&key).await?.is_none(), "the server knows");
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn cached(&self) -> &Cache {
        &self.shared.cache
    }

    /// Returns the metrics in which requests are counted.
    pub(crate) fn metrics(&self) -> &Metrics {
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
