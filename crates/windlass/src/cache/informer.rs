//! A watch that is shared: its store, its state and its handlers.
//!
//! **Invariant:** the watch runs as long as an informer, a reader or a subscription of it
//! lives, and no longer.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_util::sync::DropGuard;

use super::handler::HandlerGuard;
use super::index::IndexGuard;
use super::reflector::WatchStats;
use super::state::{SyncState, SyncStates};
use super::{Change, InformerStats, Reader, Store, Subscription};
use crate::ordered_watch;

/// A running watch of one kind and scope, seen as objects of type `K`; cheap to clone.
///
/// [`Cache::informer`](super::Cache::informer) starts or joins it.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::Key;
/// use windlass::cache::{Cache, Origin, Informer, Scope, SyncState};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = windlass::Client::new(server.client());
/// # let mut map = ConfigMap::default();
/// # map.metadata.name = Some("settings".into());
/// # map.metadata.namespace = Some("default".into());
/// # client.api().create(&map).await?;
/// # let cache = Cache::new(server.client());
/// let maps: Informer<ConfigMap> = cache.informer(&Scope::default().namespace("default"));
/// maps.synced(Duration::from_secs(30)).await.expect("config maps can be watched");
/// let key = Key::namespaced("default", "settings");
/// assert!(maps.reader().get(&key).is_some());
/// assert!(matches!(maps.state(), SyncState::Synced { .. }));
///
/// // Every subscription receives the present first, and then all changes.
/// let mut changes = maps.subscribe();
/// let first = changes.recv().await.expect("the watch runs");
/// assert_eq!((first.key(), first.origin), (&key, Origin::Initial));
/// # Ok(())
/// # }
/// ```
pub struct Informer<K> {
    core: Arc<Core>,
    _object: PhantomData<fn() -> K>,
}

/// What all informers of one watch share.
pub(super) struct Core {
    pub(super) store: Store,
    pub(super) states: Arc<SyncStates>,
    pub(super) stats: Arc<WatchStats>,
    /// The namespaces that are cached; empty for all, and for those that come and go.
    pub(super) namespaces: BTreeSet<String>,
    /// Namespaces come and go.
    pub(super) chosen: bool,
    /// The indexes that are declared for the kind.
    pub(super) indexes: Mutex<Vec<IndexGuard>>,
    /// Ends the tasks of the watch.
    pub(super) _running: DropGuard,
}

// === impl Informer ===

impl<K: DeserializeOwned + Send + Sync + 'static> Informer<K> {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core, _object: PhantomData }
    }

    /// Returns the typed view of the store; it keeps the watch running.
    pub fn reader(&self) -> Reader<K> {
        let keep: Arc<dyn Any + Send + Sync> = self.core.clone();
        self.core.store.reader().keep(keep)
    }

    /// Returns the store that the watch keeps up to date.
    pub fn store(&self) -> &Store {
        &self.core.store
    }

    /// Returns the state of the watch now; [`synced`](Self::synced) waits for it.
    pub fn state(&self) -> SyncState {
        self.core.states.get()
    }

    /// Returns the state of the watch as a value to wait on.
    pub(crate) fn states(&self) -> ordered_watch::Receiver<SyncState> {
        self.core.states.watch()
    }

    /// Returns `true` if the store holds whole objects; `false` for one of metadata, also while it
    /// is on the way to become one of whole objects.
    #[cfg(test)]
    pub(crate) fn is_full(&self) -> bool {
        self.core.states.is_full()
    }

    /// Waits until the store holds the whole scope.
    ///
    /// # Errors
    ///
    /// Fails with the state at once if the scope is not valid, access is forbidden or there is no
    /// such kind, otherwise when the time is up. The watch keeps trying in any case.
    pub async fn synced(&self, within: Duration) -> Result<(), SyncState> {
        let mut states = self.states();
        let settled = states.wait_for(|state| state.synced() || state.blocked());
        match timeout(within, settled).await {
            Ok(Ok(state)) if state.synced() => Ok(()),
            Ok(Ok(state)) => Err(state.clone()),
            Ok(Err(_)) | Err(_) => Err(self.state()),
        }
    }

    /// Adds a handler, which receives the present objects first, each exactly once, and then every
    /// change. It keeps the watch running.
    pub fn subscribe(&self) -> Subscription {
        Subscription::new(self.core.store.clone(), Some(self.core.clone()))
    }

    /// Adds a handler that is called in a task of its own once `ready` completes, with every object
    /// again after `resync`.
    pub(crate) fn handle(
        &self,
        resync: Option<Duration>,
        ready: impl Future<Output = ()> + Send + 'static,
        handler: impl FnMut(Change) + Send + 'static,
    ) -> HandlerGuard {
        HandlerGuard::spawn(&self.core, resync, ready, handler)
    }

    /// Returns the statistics of the watch.
    pub fn stats(&self) -> InformerStats {
        InformerStats::read(&self.core.store, &self.core.stats)
    }
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone(), _object: PhantomData }
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.core.states.get();
        f.debug_struct("Informer").field("store", &self.core.store).field("state", &state).finish()
    }
}
