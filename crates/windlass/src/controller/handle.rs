//! A handle of a running controller.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kube::core::{DynamicObject, PartialObjectMeta};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::Watch;
use super::event_handler::EventHandler;
use super::key_sink::KeySink;
use super::key_stream::KeyStreams;
use super::map_retries::MapRetries;
use super::memory::KeyMemory;
use super::running_watch::{RunningWatch, RunningWatches};
use super::runs::Runs;
use super::watch_guard::WatchGuard;
use super::write_loop::WriteLoopDetector;
use crate::cache::{Key, Scope};
use crate::client::Client;
use crate::clock::FAR;
use crate::error::{Error, Result};
use crate::kind::Kind;
use crate::metrics::ControllerMetrics;
use crate::ordered_watch;
use crate::queue::{Add, QueueStats, WorkQueue};

/// The delay before a look at a kind that cannot be read is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// A running controller; cheap to clone.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass::controller::{ControllerHandle, WatchGuard};
/// use windlass::{Context, Controller, Key, Manager, Next, Watch};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let controller = Controller::<ConfigMap>::builder("maps")
///     .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
/// let handle = Manager::new(client).add(controller).spawn()?;
/// handle.ready().await;
/// let maps: ControllerHandle = handle.controller("maps").expect("runs");
/// maps.enqueue(Key::namespaced("default", "settings"));
///
/// // Changes of secrets are followed until the guard is dropped.
/// let guard: WatchGuard = maps.watch(Watch::map(|secret: &Secret| vec![Key::of(secret)]))?;
/// maps.synced().await;
/// drop(guard);
/// handle.stop().await
/// # }
/// ```
#[derive(Clone)]
pub struct ControllerHandle(Arc<Inner>);

pub(super) struct Inner {
    pub(super) name: Arc<str>,
    pub(super) kind: Kind,
    pub(super) client: Client,
    pub(super) queue: Arc<WorkQueue<Key>>,
    pub(super) sink: KeySink,
    pub(super) watches: Mutex<RunningWatches>,
    /// The panics of predicates, map functions and sources.
    pub(super) panics: Arc<AtomicU64>,
    pub(super) metrics: ControllerMetrics,
    pub(super) loops: Arc<WriteLoopDetector>,
    pub(super) runs: Arc<Runs>,
    pub(super) memory: Arc<KeyMemory>,
    pub(super) switch_prefix: Arc<str>,
    /// The workers that its author wants.
    #[cfg_attr(not(feature = "operator"), allow(dead_code, reason = "for settings from a file"))]
    pub(super) workers: usize,
    /// The workers that there are at most.
    pub(super) limit: ordered_watch::Sender<usize>,
}

/// An object of which only the metadata is read.
type Metadata = PartialObjectMeta<DynamicObject>;

/// A handle that does not keep the controller alive.
pub(super) struct WeakHandle(Weak<Inner>);

// === impl ControllerHandle ===

impl ControllerHandle {
    pub(super) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    pub(super) fn downgrade(&self) -> WeakHandle {
        WeakHandle(Arc::downgrade(&self.0))
    }

    /// Returns the name of the controller.
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the kind that is reconciled.
    pub(crate) fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// Queues a key for a reconcile.
    pub fn enqueue(&self, key: Key) {
        self.0.sink.request(key, Add::default());
    }

    /// Returns the most workers that run at once.
    pub(crate) fn workers(&self) -> usize {
        *self.0.limit.borrow()
    }

    /// Sets the most workers that run at once; `None` is what the author of the controller wants.
    #[cfg(feature = "operator")]
    pub(crate) fn set_workers(&self, workers: Option<usize>) {
        let workers = workers.unwrap_or(self.0.workers);
        if self.0.limit.send_replace(workers) != workers {
            self.0.metrics.set_workers(workers);
        }
    }

    /// Returns the statistics of the queue.
    pub(crate) fn queue(&self) -> QueueStats {
        self.0.queue.stats()
    }

    /// Adds a watch to the running controller. The watch ends when the guard is dropped.
    ///
    /// # Errors
    ///
    /// Fails if the manager has stopped.
    pub fn watch(&self, watch: Watch) -> Result<WatchGuard> {
        let id = self.start(watch)?;
        Ok(WatchGuard::new(self.clone(), id))
    }

    /// Waits until every watch has delivered its first list to this controller, or has ended.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub async fn synced(&self) {
        let waits: Vec<_> =
            self.0.watches.lock().by_id.values().map(RunningWatch::synced).collect();
        futures::future::join_all(waits).await;
    }

    /// Waits like [`synced`](Self::synced), but not for watches that cannot continue without help.
    /// Returns their kinds and states.
    pub(crate) async fn settled(&self) -> Vec<String> {
        let waits: Vec<_> =
            self.0.watches.lock().by_id.values().map(RunningWatch::synced_or_blocked).collect();
        futures::future::join_all(waits).await.into_iter().flatten().collect()
    }

    /// Returns how many reconciles ended in which way.
    pub(crate) fn outcomes(&self) -> serde_json::Value {
        self.0.metrics.outcomes()
    }

    /// Returns the objects that the controller writes again and again.
    pub(crate) fn loops(&self) -> Vec<serde_json::Value> {
        self.0.loops.report()
    }

    /// Returns the last reconciles, the newest first.
    pub(crate) fn runs(&self) -> Vec<serde_json::Value> {
        self.0.runs.report()
    }

    /// Returns the watched kinds, each with the number of changes that wait to be handled.
    pub(crate) fn watches(&self) -> Vec<(Kind, usize)> {
        let watches = self.0.watches.lock();
        watches.by_id.values().map(|watch| (watch.kind.clone(), watch.guard.lag())).collect()
    }

    /// Returns how often a predicate, a map function or a source of keys panicked.
    pub(crate) fn handler_panics(&self) -> u64 {
        self.0.panics.load(Ordering::Relaxed)
    }

    /// Returns what the controller remembers about each object.
    pub(super) fn memory(&self) -> Arc<KeyMemory> {
        self.0.memory.clone()
    }

    pub(super) fn streams(&self) -> KeyStreams {
        let Inner { name, sink, panics, .. } = &*self.0;
        KeyStreams { name: name.clone(), sink: sink.clone(), panics: panics.clone() }
    }

    /// Queues every object of the reconciled kind, because a kind has appeared.
    fn enqueue_all(&self) {
        let all = self.0.client.cached().list_of::<Metadata>(&self.0.kind).keys();
        for key in all.unwrap_or_default() {
            self.0.sink.started(&key);
        }
    }

    /// Ends one watch.
    pub(super) fn end_watch(&self, id: u64) {
        let ended = self.0.watches.lock().by_id.remove(&id);
        drop(ended);
    }

    /// Ends all watches; no more can be added.
    pub(crate) fn end_watches(&self) {
        let mut watches = self.0.watches.lock();
        watches.ended = true;
        let ended = std::mem::take(&mut watches.by_id);
        drop((watches, ended));
    }

    /// Waits until the reconciled kind is in the cache, if a map function may read it.
    fn readable(&self, wanted: bool) -> impl Future<Output = ()> + Send + 'static {
        let (cache, kind) = (self.0.client.cached().clone(), self.0.kind.clone());
        async move {
            while wanted && cache.synced(&kind, FAR).await.is_err() {
                tokio::time::sleep(RETRY).await; // it cannot be read at present
            }
        }
    }

    /// Opens a watch and returns its identifier.
    pub(super) fn start(&self, watch: Watch) -> Result<u64> {
        let inner = &self.0;
        let kind = watch.kind.clone();
        let stopped = || Error::Invalid(format!("cannot watch {kind}: the manager has stopped"));
        if inner.watches.lock().ended {
            return Err(stopped());
        }
        tracing::info!(
            controller = %inner.name,
            controllerGroup = inner.kind.group(),
            controllerKind = inner.kind.kind(),
            source = format!("kind source: {}", watch.kind),
            "Starting EventSource"
        );
        let scope = Scope::all_or_metadata(watch.metadata_only);
        let cache = inner.client.cached();
        watch.index.clone().map_or(Ok(()), |index| cache.declare_any(index))?;
        let informer = cache.informer_of::<DynamicObject>(&watch.kind, &scope);
        let (resync, optional) = (watch.resync, watch.optional);
        let ready = self.readable(watch.reads_cache());
        let handler = Arc::new(EventHandler {
            name: inner.name.clone(),
            reconciled: inner.kind.clone(),
            sink: inner.sink.clone(),
            client: inner.client.clone(),
            panics: inner.panics.clone(),
            memory: inner.memory.clone(),
            switch_prefix: inner.switch_prefix.clone(),
            watch,
            retries: MapRetries::default(),
        });
        let guard = informer.handle(resync, ready, move |change| handler.handle(change));
        let (states, ended) = (informer.states(), CancellationToken::new());
        let running = RunningWatch { kind: kind.clone(), guard, states, optional, ended };
        if optional {
            let weak = self.downgrade();
            running.on_appearance(move || {
                if let Some(handle) = weak.upgrade() {
                    handle.enqueue_all();
                }
            });
        }
        let mut watches = inner.watches.lock();
        if watches.ended {
            // The manager has stopped meanwhile, without knowing of this watch.
            drop((watches, running));
            return Err(stopped());
        }
        let id = watches.next;
        watches.next += 1;
        watches.by_id.insert(id, running);
        Ok(id)
    }
}

impl fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerHandle").field("name", &self.0.name).finish_non_exhaustive()
    }
}

// === impl WeakHandle ===

impl WeakHandle {
    pub(super) fn upgrade(&self) -> Option<ControllerHandle> {
        self.0.upgrade().map(ControllerHandle)
    }
}
