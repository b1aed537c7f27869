//! The registry of the caches of one cluster.
//!
//! There is one store per kind and scope; typed, dynamic and metadata views show the same moment.
//! Nothing is cached that nobody asked for: a read of any other kind fails at once and says what to
//! do, instead of opening a watch that may hang on a missing permission.
//!
//! **Invariant:** there is at most one watch for a kind and scope. It starts with the first handle
//! and ends with the last one, and may start again after that.

mod declared;
mod report;
mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kube::core::DynamicObject;
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use super::informer::Core;
use super::namespaces::{Choice, Chosen, Namespaces};
use super::options::{CacheOptions, Scope};
use super::state::SyncState;
use super::{Entry, Informer, Key};
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};

pub(crate) use self::declared::Declared;
pub(crate) use self::report::WatchReport;
use crate::ordered_watch;

/// The caches of one cluster; cheap to clone.
///
/// A manager opens the kinds that its controllers declare; [`Client::cached`](crate::Client::cached)
/// returns its cache. Without a manager, [`informer`](Self::informer) opens them.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::{Namespace, Secret};
/// use windlass::Key;
/// use windlass::cache::{Cache, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// let cache = Cache::new(server.client());
/// let namespaces = cache.informer::<Namespace>(&Scope::default());
/// namespaces.synced(Duration::from_secs(30)).await.expect("namespaces can be watched");
/// assert!(cache.get::<Namespace>(&Key::cluster("default"))?.is_some());
///
/// // Everyone who asks for the same joins the same watch; the last one to leave ends it.
/// let again = cache.informer::<Namespace>(&Scope::default());
/// assert_eq!(again.stats().watches, 1);
/// drop((namespaces, again));
/// let error = cache.list::<Namespace>().items().expect_err("nobody caches it any more");
/// assert!(error.to_string().starts_with("Namespace.v1 is not in the cache"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
}

/// A cache that may have ended.
#[derive(Clone)]
pub(crate) struct WeakCache(Weak<Shared>);

struct Shared {
    client: kube::Client,
    options: CacheOptions,
    /// The namespaces of kinds that no scope is set for; empty for all.
    namespaces: Vec<String>,
    /// The namespaces, if they come and go.
    chosen: Option<Chosen>,
    /// The scopes that kinds are limited to.
    scopes: BTreeMap<Kind, Scope>,
    kinds: RwLock<BTreeMap<Kind, Vec<Opened>>>,
    declared: Mutex<Vec<(Kind, Arc<dyn Declared>)>>,
    /// Kinds of controllers that have not been started yet.
    pending: ordered_watch::Sender<BTreeSet<Kind>>,
}

/// A watch that runs as long as somebody holds its core.
struct Opened {
    scope: Scope,
    /// Whether this is what reads by kind are answered from.
    usual: bool,
    core: Weak<Core>,
}

// === impl Cache ===

impl Cache {
    /// Creates the cache of the cluster that a client speaks to.
    pub fn new(client: kube::Client) -> Self {
        Self::with(client, CacheOptions::default())
    }

    /// Creates a cache with settings other than the defaults.
    pub fn with(client: kube::Client, options: CacheOptions) -> Self {
        Self::limited(client, options, Namespaces::All, BTreeMap::new())
    }

    /// Creates a cache of these namespaces, and of these parts of kinds.
    pub(crate) fn limited(
        client: kube::Client,
        options: CacheOptions,
        namespaces: Namespaces,
        scopes: BTreeMap<Kind, Scope>,
    ) -> Self {
        let (namespaces, chosen) = match namespaces {
            Namespaces::All => (Vec::new(), None),
            Namespaces::Fixed(names) => (names, None),
            Namespaces::Chosen(choice) => (Vec::new(), Some(Chosen::new(choice))),
        };
        let shared = Shared {
            client,
            options,
            namespaces,
            chosen,
            scopes,
            kinds: RwLock::default(),
            declared: Mutex::default(),
            pending: ordered_watch::Sender::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn downgrade(&self) -> WeakCache {
        WeakCache(Arc::downgrade(&self.shared))
    }

    /// Watches a kind, or joins the watch that runs already. Needs a Tokio runtime.
    ///
    /// The watch ends when the last informer, reader and handler of it is dropped.
    pub fn informer<K: Object<DynamicType = ()>>(&self, scope: &Scope) -> Informer<K> {
        self.informer_of(&Kind::of::<K>(), scope)
    }

    /// Watches a kind and reads it as any type that its objects decode into.
    ///
    /// ```
    /// use std::time::Duration;
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use windlass::cache::{Cache, Scope};
    /// use windlass::{Key, Kind};
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
    /// let phases = cache.informer_of::<Phase>(&Kind::of::<Namespace>(), &Scope::default());
    /// phases.synced(Duration::from_secs(30)).await.expect("can be watched");
    /// let default = phases.reader().get(&Key::cluster("default")).expect("is always there");
    /// assert_eq!(default.status.phase, "Active");
    /// # Ok(())
    /// # }
    /// ```
    pub fn informer_of<K>(&self, kind: &Kind, scope: &Scope) -> Informer<K>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        Informer::new(self.core(kind, scope))
    }

    fn core(&self, kind: &Kind, scope: &Scope) -> Arc<Core> {
        let usual = self.usual_scope(kind);
        let scope = match scope.is_whole() {
            true => Scope { metadata_only: scope.metadata_only, ..usual.clone() },
            false => scope.clone(),
        };
        let mut kinds = self.shared.kinds.write();
        kinds.retain(|_, opened| {
            opened.retain(|opened| opened.core.strong_count() > 0);
            !opened.is_empty()
        });
        let opened = kinds.entry(kind.clone()).or_default();
        let known = opened.iter().filter(|opened| opened.scope.same_part(&scope));
        if let Some(core) = known.filter_map(|opened| opened.core.upgrade()).next() {
            if !scope.metadata_only {
                // If only metadata were asked for so far, the same watch brings more from now on.
                core.states.upgrade_to_full();
            }
            return core;
        }
        let core = self.start(kind, &scope);
        let usual = scope.same_part(&usual);
        opened.push(Opened { scope, usual, core: Arc::downgrade(&core) });
        drop(kinds);
        self.attach_declared(kind, &core);
        core
    }

    /// Returns the part of a kind that this cache is set to hold.
    fn usual_scope(&self, kind: &Kind) -> Scope {
        let mut scope = self.shared.scopes.get(kind).cloned().unwrap_or_default();
        if kind.namespaced() && scope.namespaces.is_empty() {
            scope.namespaces = self.shared.namespaces.iter().cloned().collect();
            scope.chosen = self.shared.chosen.is_some();
        }
        scope
    }

    /// Returns the core that reads of a kind are answered from.
    pub(super) fn opened(&self, kind: &Kind) -> Result<Arc<Core>> {
        let kinds = self.shared.kinds.read();
        let usual = kinds.get(kind).and_then(|opened| opened.iter().find(|opened| opened.usual));
        let core = usual.and_then(|opened| opened.core.upgrade());
        core.ok_or_else(|| Error::NotCached { kind: kind.to_string() })
    }

    fn all(&self) -> Vec<(Kind, Arc<Core>)> {
        let kinds = self.shared.kinds.read();
        let opened = kinds.iter().flat_map(|(kind, all)| all.iter().map(move |o| (kind, o)));
        opened.filter_map(|(kind, o)| Some((kind.clone(), o.core.upgrade()?))).collect()
    }

    /// Stops answering reads.
    pub(crate) fn clear(&self) {
        self.shared.chosen.iter().for_each(Chosen::end);
        self.shared.kinds.write().clear();
        self.shared.pending.send_modify(BTreeSet::clear);
    }

    /// Chooses other namespaces from now on, if this cache was made for that.
    #[cfg_attr(not(feature = "operator"), allow(dead_code, reason = "for settings from a file"))]
    pub(crate) fn choose_namespaces(&self, choice: Choice) {
        if let Some(chosen) = &self.shared.chosen {
            chosen.choose(choice);
        }
    }

    /// Lets [`synced`](Self::synced) wait for kinds that a controller declares, until it starts.
    pub(crate) fn announce(&self, kinds: &[Kind]) {
        self.shared.pending.send_modify(|pending| pending.extend(kinds.iter().cloned()));
    }

    /// Notes that the controller that declares these kinds has started, or will not.
    pub(crate) fn arrived(&self, kinds: &[Kind]) {
        self.shared.pending.send_modify(|pending| pending.retain(|kind| !kinds.contains(kind)));
    }

    /// Waits until all objects of a kind are in the cache, so that an object that is missing there
    /// does not exist.
    ///
    /// # Errors
    ///
    /// Fails if nobody caches the kind, if the server refuses or does not serve it, or when the time is
    /// up.
    pub async fn synced(&self, kind: &Kind, within: Duration) -> Result<()> {
        let began = Instant::now();
        let core = match self.opened(kind) {
            Ok(core) => core,
            Err(_) => {
                self.started(kind, within).await?;
                self.opened(kind)?
            }
        };
        if core.states.has_synced() {
            return Ok(());
        }
        let informer = Informer::<DynamicObject>::new(core);
        let synced = informer.synced(within.saturating_sub(began.elapsed())).await;
        synced.map_err(|state| not_synced(kind, &state))
    }

    /// Waits until no controller that declares a kind is still to be started.
    async fn started(&self, kind: &Kind, within: Duration) -> Result<()> {
        let mut pending = self.shared.pending.subscribe();
        let started = pending.wait_for(|pending| !pending.contains(kind));
        // The sender lives in this cache.
        match timeout(within, started).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::NotSynced {
                kind: kind.to_string(),
                state: "its manager does not run yet".into(),
            }),
        }
    }

    /// Returns `true` if a kind is cached.
    pub(crate) fn holds(&self, kind: &Kind) -> bool {
        self.opened(kind).is_ok()
    }

    /// Returns `true` if a kind is cached, has been read, and is served as far as this cache knows.
    pub(crate) fn serves(&self, kind: &Kind) -> bool {
        self.opened(kind).is_ok_and(|core| {
            core.states.has_synced() && !matches!(core.states.get(), SyncState::NoKind(_))
        })
    }

    /// Returns the versions in which a kind is cached.
    pub(crate) fn versions(&self, kind: &Kind) -> Vec<Kind> {
        let kinds = self.shared.kinds.read();
        let live = |opened: &Vec<Opened>| opened.iter().any(|o| o.core.strong_count() > 0);
        let of_kind =
            kinds.iter().filter(|(held, opened)| held.same_group_kind(kind) && live(opened));
        of_kind.map(|(held, _)| held.clone()).collect()
    }

    /// Returns an object as far as the cache knows.
    pub(crate) fn entry(&self, kind: &Kind, key: &Key) -> Option<Arc<Entry>> {
        self.opened(kind).ok()?.store.entry(&scoped(kind, key))
    }

    /// Shows readers an object as a write of this process left it.
    pub(crate) fn wrote(&self, kind: &Kind, json: &[u8]) {
        for core in self.cores(kind) {
            if let Err(error) = core.store.observe_write(json) {
                tracing::warn!(kind = %kind, error = %error, "answer to a write is not an object");
            }
        }
    }

    /// Hides an object from readers that a write of this process has deleted.
    pub(crate) fn deleted(&self, kind: &Kind, key: &Key, uid: &str) {
        for core in self.cores(kind) {
            core.store.observe_delete(&scoped(kind, key), uid);
        }
    }

    /// Returns the cores of all scopes of a kind.
    fn cores(&self, kind: &Kind) -> Vec<Arc<Core>> {
        let kinds = self.shared.kinds.read();
        kinds.get(kind).into_iter().flatten().filter_map(|opened| opened.core.upgrade()).collect()
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.shared.kinds.read();
        let scopes = kinds.iter().flat_map(|(kind, all)| all.iter().map(move |o| (kind, o)));
        let names = scopes.map(|(kind, opened)| format!("{kind}{}", opened.scope));
        f.debug_list().entries(names).finish()
    }
}

// === impl WeakCache ===

impl WeakCache {
    pub(crate) fn upgrade(&self) -> Option<Cache> {
        self.0.upgrade().map(|shared| Cache { shared })
    }
}

pub(super) fn not_synced(kind: &Kind, state: &SyncState) -> Error {
    Error::NotSynced { kind: kind.to_string(), state: state.to_string() }
}

/// Returns the key of an object of a kind, without a namespace where the kind has none.
pub(super) fn scoped(kind: &Kind, key: &Key) -> Key {
    match kind.namespaced() {
        true => key.clone(),
        false => Key::cluster(key.name()),
    }
}
