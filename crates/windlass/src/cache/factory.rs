//! One watch for everyone who asks for the same.
//!
//! **Invariant:** there is at most one watch for a kind, scope and selection; it starts with
//! the first who asks and ends with the last who lets go, and may start again after that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kube::core::{ApiResource, DynamicObject, Selector};
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::fifo::Fifo;
use super::informer::Core;
use super::reflector::{Observe, Reflector, Rules};
use super::state::{Board, SyncState};
use super::store::{Scope, Store, StoreOptions};
use super::target::Target;
use super::transform::Transform;
use super::{Informer, Reader};

/// The part of a kind that is wanted: all of it unless told otherwise.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::core::{Expression, PartialObjectMeta};
/// use windlass::cache::{Cache, Watch};
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
/// # client.create(&map).await?;
/// # client.create(&config_map("b")).await?;
/// let web = Expression::Equal("app".into(), "web".into());
/// let part = Watch::all().namespace("default").namespace("office").labels(web.into());
/// let cache = Cache::new(server.client());
/// let maps = cache.informer::<PartialObjectMeta<ConfigMap>>(&part.metadata_only());
/// maps.synced(Duration::from_secs(30)).await.expect("can be watched");
/// assert_eq!(maps.reader().keys(), [Key::namespaced("default", "a")]);
/// assert!(!maps.whole() && maps.filled());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Watch {
    namespaces: BTreeSet<String>,
    labels: Option<Selector>,
    fields: Option<String>,
    metadata_only: bool,
}

/// Settings of a cache.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::Secret;
/// use windlass::cache::{Cache, CacheOptions, Observe, StoreOptions, Transform, Watch};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// // Secrets without what is secret, at most 100 of them decoded at once.
/// let drop_data: Transform = Arc::new(|object| object["data"] = serde_json::json!({}));
/// let told: Observe = Arc::new(|status, took| println!("{status:?} after {took:?}"));
/// let options = CacheOptions {
///     store: StoreOptions { hot_max: 100, ..StoreOptions::default() },
///     transform: Some(drop_data),
///     observe: Some(told),
///     ..CacheOptions::default()
/// };
/// let secrets = Cache::with(client, options).informer::<Secret>(&Watch::all());
/// secrets.synced(Duration::from_secs(30)).await.expect("secrets can be watched");
/// # }
/// ```
#[derive(Clone)]
pub struct CacheOptions {
    /// Settings of the stores.
    pub store: StoreOptions,
    /// Kinds, as `Kind.group` or `Kind`, whose objects stay decoded once read.
    pub pinned: BTreeSet<String>,
    /// Asks for streaming lists first.
    pub streaming: bool,
    /// Asks for built-in kinds in protobuf, which is smaller and faster to read than JSON.
    pub protobuf: bool,
    /// The size of list pages; `None` leaves it to the reflector's rules.
    pub page_size: Option<usize>,
    /// How long a streaming list may make no progress before a plain list replaces it.
    pub progress: Duration,
    /// How long an answer, or the next part of a list, may take.
    pub answer: Duration,
    /// The largest object that is read.
    pub object_max: usize,
    /// Changes objects before they are stored.
    pub transform: Option<Transform>,
    /// Told of every list and watch: its status, if there was an answer, and the time it took.
    pub observe: Option<Observe>,
    /// Seeds the jitter, so that a run can be repeated.
    pub seed: Option<u64>,
}

/// The caches of one cluster; cheap to clone.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::Namespace;
/// use windlass::cache::{Cache, Key, Watch};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let cache = Cache::new(client);
/// let namespaces = cache.informer::<Namespace>(&Watch::all());
/// namespaces.synced(Duration::from_secs(30)).await.expect("namespaces can be watched");
/// let reader = namespaces.reader();
/// assert!(reader.get(&Key::cluster("default")).is_some());
///
/// // Everyone who asks for the same joins the same watch.
/// let again = cache.informer::<Namespace>(&Watch::all());
/// assert_eq!((cache.states().len(), again.stats().watches), (1, 1));
/// # }
/// ```
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    options: CacheOptions,
    watches: Mutex<BTreeMap<WatchKey, Weak<Core>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WatchKey {
    group: String,
    version: String,
    kind: String,
    namespaces: BTreeSet<String>,
    labels: String,
    fields: String,
    metadata_only: bool,
}

// === impl Watch ===

impl Watch {
    /// Wants everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// Wants a namespace; said more than once, several.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.insert(namespace.to_owned());
        self
    }

    /// Wants only objects with these labels.
    pub fn labels(mut self, selector: Selector) -> Self {
        self.labels = Some(selector).filter(|selector| !selector.selects_all());
        self
    }

    /// Wants only objects with these fields, as in `spec.nodeName=node-1`.
    pub fn fields(mut self, selector: &str) -> Self {
        self.fields = Some(selector.to_owned()).filter(|selector| !selector.is_empty());
        self
    }

    /// Wants metadata only; served from a store of whole objects if there is one, and widened to
    /// one when somebody wants whole objects.
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// The namespaces that are wanted; empty for all.
    pub(crate) fn namespaces(&self) -> &BTreeSet<String> {
        &self.namespaces
    }

    fn key(&self, kind: &ApiResource) -> WatchKey {
        WatchKey {
            group: kind.group.clone(),
            version: kind.version.clone(),
            kind: kind.kind.clone(),
            namespaces: self.namespaces.clone(),
            labels: self.labels.as_ref().map(ToString::to_string).unwrap_or_default(),
            fields: self.fields.clone().unwrap_or_default(),
            metadata_only: self.metadata_only,
        }
    }
}

// === impl CacheOptions ===

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            store: StoreOptions::default(),
            pinned: BTreeSet::new(),
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

// === impl Cache ===

impl Cache {
    /// Makes the caches of the cluster that a client speaks to.
    pub fn new(client: Client) -> Self {
        Self::with(client, CacheOptions::default())
    }

    /// Makes the caches with other settings.
    pub fn with(client: Client, options: CacheOptions) -> Self {
        Self { shared: Arc::new(Shared { client, options, watches: Mutex::default() }) }
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Watches a kind, or joins the watch that runs already. Needs a Tokio runtime.
    pub fn informer<K>(&self, watch: &Watch) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.informer_of(&ApiResource::erase::<K>(&()), watch)
    }

    /// Watches a kind that is known at run time only.
    pub fn dynamic(&self, kind: &ApiResource, watch: &Watch) -> Informer<DynamicObject> {
        self.informer_of(kind, watch)
    }

    /// Watches a kind and reads it as any type that its objects decode into.
    ///
    /// ```
    /// use std::time::Duration;
    /// use kube::core::ApiResource;
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use windlass::cache::{Cache, Key, Watch};
    ///
    /// /// Only what is needed here.
    /// #[derive(serde::Deserialize)]
    /// struct Phase {
    ///     status: Status,
    /// }
    /// #[derive(serde::Deserialize)]
    /// struct Status {
    ///     phase: String,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let cache = Cache::new(server.client());
    /// let kind = ApiResource::erase::<Namespace>(&());
    /// let phases = cache.informer_of::<Phase>(&kind, &Watch::all());
    /// phases.synced(Duration::from_secs(30)).await.expect("can be watched");
    /// let default = phases.reader().get(&Key::cluster("default")).expect("is always there");
    /// assert_eq!(default.status.phase, "Active");
    /// # Ok(())
    /// # }
    /// ```
    pub fn informer_of<K>(&self, kind: &ApiResource, watch: &Watch) -> Informer<K>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        Informer::new(self.core(kind, watch))
    }

    /// Returns the store of a watch that runs, for own writes.
    pub fn running(&self, kind: &ApiResource) -> Vec<Store> {
        let watches = self.shared.watches.lock();
        let of_kind = watches.iter().filter(|(key, _)| {
            key.group == kind.group && key.version == kind.version && key.kind == kind.kind
        });
        of_kind.filter_map(|(_, core)| Some(core.upgrade()?.store.clone())).collect()
    }

    /// Returns the state of every watch that runs, under a name for people.
    pub fn states(&self) -> Vec<(String, SyncState)> {
        let watches = self.shared.watches.lock();
        let running = watches.iter().filter_map(|(key, core)| Some((key, core.upgrade()?)));
        running.map(|(key, core)| (key.to_string(), core.board.get())).collect()
    }

    fn core(&self, kind: &ApiResource, watch: &Watch) -> Arc<Core> {
        let mut watches = self.shared.watches.lock();
        watches.retain(|_, core| core.strong_count() > 0);
        let key = watch.key(kind);
        let whole = WatchKey { metadata_only: false, ..key.clone() };
        // Metadata are read from whole objects where these are watched anyway.
        if let Some(core) = [&whole, &key].into_iter().find_map(|k| watches.get(k)?.upgrade()) {
            return core;
        }
        // Where only metadata were wanted so far, the same watch brings more from now on.
        let narrow = WatchKey { metadata_only: true, ..key.clone() };
        if let Some(core) = watches.get(&narrow).and_then(Weak::upgrade) {
            core.board.widen();
            watches.remove(&narrow);
            watches.insert(key, Arc::downgrade(&core));
            return core;
        }
        let core = self.start(kind, watch);
        watches.insert(key, Arc::downgrade(&core));
        core
    }

    fn start(&self, kind: &ApiResource, watch: &Watch) -> Arc<Core> {
        let shared = &self.shared;
        let options = &shared.options;
        let namespaces: Vec<Option<String>> = match watch.namespaces.is_empty() {
            true => vec![None],
            false => watch.namespaces.iter().cloned().map(Some).collect(),
        };
        let mut store_options = options.store;
        let name = format!("{}.{}", kind.kind, kind.group);
        store_options.pinned |= options.pinned.contains(name.trim_end_matches('.'));
        let scope = Scope {
            namespaces: namespaces.clone(),
            labels: watch.labels.clone(),
            by_fields: watch.fields.is_some(),
        };
        let transform = options.transform.clone();
        let store = Store::new(kind.clone(), store_options, scope, transform);
        let board = Arc::new(Board::new(namespaces.len(), !watch.metadata_only));
        let stats = Arc::default();
        let token = CancellationToken::new();
        let rules = Rules {
            streaming: options.streaming,
            protobuf: options.protobuf,
            page_size: options.page_size,
            progress: options.progress,
            answer: options.answer,
            object_max: options.object_max,
            keep_managed_fields: store_options.keep_managed_fields,
            pack: store_options.pack,
            seed: options.seed.unwrap_or_else(rand::random),
            transform: options.transform.clone(),
            observe: options.observe.clone(),
            whole: board.whole(),
        };
        for (source, namespace) in namespaces.into_iter().enumerate() {
            let target = Target {
                kind: kind.clone(),
                namespace,
                labels: watch.labels.as_ref().map(ToString::to_string),
                fields: watch.fields.clone(),
                metadata_only: watch.metadata_only,
            };
            let reflector = Reflector::new(
                shared.client.clone(),
                target,
                Rules { seed: rules.seed.wrapping_add(source as u64), ..rules.clone() },
                Fifo::new(source, store.clone(), board.clone()),
                Arc::clone(&stats),
            );
            tokio::spawn(token.clone().run_until_cancelled_owned(reflector.run()));
        }
        Arc::new(Core { store, board, stats, _running: token.drop_guard() })
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("watches", &self.states()).finish()
    }
}

// === impl WatchKey ===

impl fmt::Display for WatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}/{}", self.kind, self.group, self.version)?;
        for (name, part) in [("labels", &self.labels), ("fields", &self.fields)] {
            if !part.is_empty() {
                write!(f, " {name} {part}")?;
            }
        }
        if !self.namespaces.is_empty() {
            let namespaces: Vec<&str> = self.namespaces.iter().map(String::as_str).collect();
            write!(f, " in {}", namespaces.join(","))?;
        }
        if self.metadata_only {
            f.write_str(" metadata")?;
        }
        Ok(())
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> From<Informer<K>> for Reader<K> {
    fn from(informer: Informer<K>) -> Self {
        informer.reader()
    }
}
