//! The client: cached reads, live reads, writes, own writes visible at once.
//!
//! [`Client`] sits on a `kube::Client` and adds what a controller needs: reads from the shared
//! cache, a deadline on every request, server warnings in the log, request metrics, and the
//! [`Fence`] that stops writes when leadership is lost. Every write's answer is shown to the cache,
//! so that a read right after it never shows an older state, without waiting for the watch.
//!
//! **Invariant:** every mutating request of this crate passes `Client::call`.

mod answer;
mod api;
mod change;
mod delete;
mod discovery;
mod live;
mod loops;
mod own;
mod request;
mod select;
mod subresource;
mod write;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::core::DynamicObject;
use tower::ServiceExt;

use crate::cache::{Cache, Key};
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::kind::{Kind, Object};
use crate::metrics::Metrics;

pub use api::Api;
use discovery::Discovery;
pub use live::Live;
pub use select::List;
pub use write::{Deleted, Deletion, Patch};

pub(crate) use loops::Loops;
pub(crate) use request::Call;

use request::{Warnings, mutates};

/// What requests are counted under unless told otherwise: a client of kube does not tell whom it
/// speaks to.
pub(crate) const HOST: &str = "kubernetes";

/// The deadline of a request unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Reads and writes objects; cheap to clone.
///
/// # Errors
///
/// Every request fails with [`Error::Api`] if the server refuses, with [`Error::Timeout`] or
/// [`Error::Transport`] without a usable answer, and with [`Error::NoKind`] if the server does not
/// serve the kind; a write also with [`Error::Fenced`] if the lease that guards it is not held.
/// Reads from the cache fail with [`Error::NotCached`] or [`Error::NotSynced`] instead.
///
/// # Cancel safety
///
/// Every request may be dropped. A write that is dropped may have reached the server all the same;
/// the cache shows it when the watch brings it.
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

/// What a clone of the client does with each request.
#[derive(Debug, Clone)]
struct Options {
    field_owner: Arc<str>,
    field_validation: Option<FieldValidation>,
    dry_run: bool,
    unfenced: bool,
    timeout: Duration,
    answer_max: usize,
    /// Who looks after the writes of a controller.
    loops: Option<Arc<Loops>>,
}

/// What the server does with fields it does not know.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
/// use windlass::client::{FieldValidation, Patch};
/// use windlass::{Client, Key};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = Client::new(server.client());
/// # let mut map = ConfigMap::default();
/// # map.metadata.name = Some("a".into());
/// # map.metadata.namespace = Some("default".into());
/// # client.create(&map).await?;
/// let typo = Patch::Merge(json!({"dta": {"k": "v"}}));
/// let key = Key::namespaced("default", "a");
/// assert!(client.patch::<ConfigMap>(&key, &typo).await.is_ok(), "dropped, with a warning in the log");
/// let strict = client.field_validation(FieldValidation::Strict);
/// let refused = strict.patch::<ConfigMap>(&key, &typo).await.unwrap_err();
/// assert!(refused.to_string().contains("unknown field \"dta\""), "{refused}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drops them.
    Ignore,
    /// Drops them and warns; the warning is logged.
    Warn,
    /// Refuses the object.
    Strict,
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
        let options = Options {
            field_owner: "windlass".into(),
            field_validation: None,
            dry_run: false,
            unfenced: false,
            timeout: TIMEOUT,
            answer_max: request::ANSWER_MAX,
            loops: None,
        };
        let shared = Shared {
            kube,
            host: host.into(),
            cache,
            fence,
            metrics,
            warnings: Warnings::default(),
            discovery: Discovery::default(),
        };
        Self { shared: Arc::new(shared), options }
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

    /// The same client whose writes the server checks and does not keep.
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
    /// let checked = client.dry_run().create(&config_map("a")).await?;
    /// assert!(checked.metadata.uid.is_some(), "defaulted, validated and admitted");
    /// assert!(client.live().get::<ConfigMap>(&Key::of(&checked)).await?.is_none(), "and not kept");
    /// # Ok(())
    /// # }
    /// ```
    pub fn dry_run(&self) -> Self {
        self.with(|o| o.dry_run = true)
    }

    /// The same client writing as `owner` (the field manager).
    pub fn field_owner(&self, owner: &str) -> Self {
        self.with(|o| o.field_owner = owner.into())
    }

    /// The same client with another treatment of unknown fields.
    pub fn field_validation(&self, validation: FieldValidation) -> Self {
        self.with(|o| o.field_validation = Some(validation))
    }

    /// The same client with another deadline for each request.
    ///
    /// ```
    /// use std::time::Duration;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Client, Key};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// # server.inject(Some(Box::new(|_| windlass_apiserver::fault::Fault {
    /// #     delay: Duration::from_secs(3600),
    /// #     ..Default::default()
    /// # })));
    /// let impatient = client.timeout(Duration::from_secs(3));
    /// // The server hangs.
    /// let error = impatient.live().get::<ConfigMap>(&Key::namespaced("default", "a")).await.unwrap_err();
    /// assert!(error.is_timeout());
    /// assert_eq!(error.to_string(), "get ConfigMap default/a: no answer within 3 s");
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(&self, timeout: Duration) -> Self {
        self.with(|o| o.timeout = timeout)
    }

    /// The same client with another limit for the size of an answer; 512 MiB unless told otherwise.
    pub fn answer_max(&self, bytes: usize) -> Self {
        self.with(|o| o.answer_max = bytes)
    }

    /// The same client past the fence, for the lease itself and for what runs without it.
    pub(crate) fn unfenced(&self) -> Self {
        self.with(|o| o.unfenced = true)
    }

    /// The same client with writes that are looked after.
    pub(crate) fn looked_after(&self, loops: Arc<Loops>) -> Self {
        self.with(|o| o.loops = Some(loops))
    }

    fn with(&self, change: impl FnOnce(&mut Options)) -> Self {
        let mut next = self.clone();
        change(&mut next.options);
        next
    }

    /// All verbs on one kind.
    pub fn api<K: Object<DynamicType = ()>>(&self) -> Api<K> {
        Api::new(self.clone(), Kind::of::<K>(), ())
    }

    /// All verbs on a kind known at run time.
    pub fn dynamic(&self, kind: &Kind) -> Api<DynamicObject> {
        Api::new(self.clone(), kind.clone(), kind.api_resource())
    }

    /// All verbs on a kind through any Rust type, such as `PartialObjectMeta<DynamicObject>`.
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
    /// let namespaces = client.api_with::<Metadata>(&kind, kind.api_resource());
    /// let default = namespaces.get(&Key::cluster("default")).await?.expect("is always there");
    /// assert!(default.metadata.uid.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn api_with<K: Object>(&self, kind: &Kind, dt: K::DynamicType) -> Api<K> {
        Api::new(self.clone(), kind.clone(), dt)
    }

    /// Creates an object and returns it as stored.
    pub async fn create<K: Object<DynamicType = ()>>(&self, object: &K) -> Result<K> {
        self.api::<K>().create(object).await
    }

    /// Replaces an object; fails with a conflict if its resource version is not the stored one.
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
    ///         Err(error) if error.is_conflict() => continue, // somebody was faster: look again
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

    /// Server-side apply: the fields in `object` become what it says and belong to the field owner.
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
    /// painter.apply(&map).await?; // made, as there was none
    ///
    /// // What an owner applied before and names no longer goes; what others own stays.
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

    /// Patches an object.
    pub async fn patch<K: Object<DynamicType = ()>>(&self, key: &Key, patch: &Patch) -> Result<K> {
        self.api::<K>().patch(key, patch).await
    }

    /// Deletes an object; one that is gone already is no error.
    pub async fn delete<K: Object<DynamicType = ()>>(&self, key: &Key) -> Result<Deleted> {
        self.api::<K>().delete(key, &Deletion::default()).await
    }

    /// A kind as the server serves it, by group (empty for the core group), version and name.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NoKind`] if the server does not serve it; that is believed for a second.
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

    /// The metrics requests are counted in.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// What stops writes when leadership is lost.
    pub fn fence(&self) -> &Fence {
        &self.shared.fence
    }

    /// A plain `kube::Client` over the same connection, behind the same fence.
    ///
    /// A lease that is asked for only after this call does not guard it. What is written this way
    /// is read from the cache when the watch brings it, and not at once.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::api::{Api, PostParams};
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
    /// let plain: Api<ConfigMap> = Api::namespaced(client.kube(), "default");
    /// plain.create(&PostParams::default(), &config_map("a")).await?;
    /// assert!(client.live().get::<ConfigMap>(&Key::namespaced("default", "a")).await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn kube(&self) -> kube::Client {
        if self.options.unfenced || !self.shared.fence.armed() {
            return self.shared.kube.clone();
        }
        let (inner, fence) = (self.shared.kube.clone(), self.shared.fence.clone());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (inner, fence) = (inner.clone(), fence.clone());
            async move {
                if !mutates(request.method(), request.uri().path()) {
                    return inner.send(request).await.map_err(tower::BoxError::from);
                }
                let action = format!("{} {}", request.method(), request.uri().path());
                tokio::select! {
                    biased;
                    lease = fence.closed() => {
                        Err(tower::BoxError::from(Error::Fenced { action, lease }))
                    }
                    answer = inner.send(request) => answer.map_err(tower::BoxError::from),
                }
            }
        });
        let namespace = self.shared.kube.default_namespace().to_string();
        kube::Client::new(service.boxed(), namespace)
    }

    /// The namespace of the kubeconfig context, or of the pod this runs in.
    pub fn default_namespace(&self) -> &str {
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
