//! A controller on its way from description to running pool.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::context::Shared;
use super::inbox::Inbox;
use super::route::Route;
use super::worker::{Ids, Pool, panic_text};
use super::write_loop::WriteLoopDetector;
use super::{Controller, Predicate, Watch};
use crate::apply::Applied;
use crate::cache::{HandlerGuard, HandlerOptions, Key, SyncState};
use crate::client::Client;
use crate::clock::Clock;
use crate::cluster::Opened;
use crate::error::{Error, Result};
use crate::events::Recorder;
use crate::kind::{Kind, Object};
use crate::metrics::{ControllerMetrics, HandlerFigures, Metrics};
use crate::queue::{Add, QueueStats, WorkQueue};

/// What a manager gives its controllers to stand on.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) stopping: CancellationToken,
    pub(crate) seed: u64,
    /// The cluster's name; the home cluster has none.
    pub(crate) cluster: String,
}

// === impl Ground ===

impl Ground {
    /// The name of a controller in logs and metrics: controllers of two clusters may share one.
    fn shown(&self, name: &str) -> Arc<str> {
        match self.cluster.as_str() {
            "" => name.into(),
            cluster => format!("{cluster}/{name}").into(),
        }
    }
}

/// A controller without its type.
pub(crate) trait Component: Send {
    fn name(&self) -> &str;
    fn kind(&self) -> &Kind;
    /// The kinds that are cached for it.
    fn kinds(&self) -> Vec<Kind>;
    /// Opens the watches; changes queue up from now on.
    fn prepare(self: Box<Self>, ground: &Ground) -> Result<Prepared>;
}

/// A controller whose watches run and whose workers wait.
pub(crate) struct Prepared {
    pub(crate) handle: ControllerHandle,
    pub(crate) leader: bool,
    pub(crate) run: Run,
}

pub(crate) type Run =
    Box<dyn FnOnce(CancellationToken, CancellationToken) -> BoxFuture<'static, ()> + Send>;

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
/// let handle = Manager::builder(client).add(controller).spawn()?;
/// handle.ready().await;
/// let maps: ControllerHandle = handle.controller("maps").expect("runs");
/// maps.enqueue(Key::namespaced("default", "settings"));
///
/// // Secrets matter from now on, until the guard is dropped.
/// let guard: WatchGuard = maps.watch(Watch::map(|secret: &Secret| vec![Key::of(secret)]))?;
/// maps.synced().await;
/// assert_eq!(maps.watches().len(), 2);
/// drop(guard);
/// assert_eq!(maps.watches().len(), 1);
/// handle.stop().await
/// # }
/// ```
#[derive(Clone)]
pub struct ControllerHandle(Arc<Inner>);

struct Inner {
    name: Arc<str>,
    kind: Kind,
    client: Client,
    queue: Arc<WorkQueue<Key>>,
    inbox: Inbox,
    filter: Option<Predicate>,
    watches: Mutex<Watches>,
    next: AtomicU64,
    handler_panics: Arc<AtomicU64>,
    metrics: ControllerMetrics,
    loops: Arc<WriteLoopDetector>,
}

/// The watches of a controller.
#[derive(Default)]
struct Watches {
    running: BTreeMap<u64, Running>,
    /// The manager has stopped.
    ended: bool,
}

/// One watch of a controller.
struct Running {
    kind: Kind,
    guard: HandlerGuard,
    states: tokio::sync::watch::Receiver<SyncState>,
    /// Tells those who wait for the watch that it has ended.
    ended: CancellationToken,
    /// Lets go of the kind at the end.
    _opened: Opened,
}

/// A watch that was added at run time; dropping it ends the watch.
///
/// The cache of its kind ends with the last watch that uses it.
#[must_use = "the watch ends when this is dropped"]
pub struct WatchGuard {
    handle: ControllerHandle,
    id: u64,
}

impl<K: Object> Component for Controller<K> {
    fn name(&self) -> &str {
        &self.options.name
    }

    fn kind(&self) -> &Kind {
        &self.options.kind
    }

    fn kinds(&self) -> Vec<Kind> {
        let watched = self.options.watches.iter().map(|watch| &watch.kind);
        watched.chain([&self.options.kind]).cloned().collect()
    }

    fn prepare(self: Box<Self>, ground: &Ground) -> Result<Prepared> {
        let Controller { options, reconciler } = *self;
        options.check()?;
        let name: Arc<str> = options.name.as_str().into();
        let shown = ground.shown(&name);
        let queue = Arc::new(options.queue.build());
        let inbox = Inbox::new(options.kind.clone(), queue.clone());
        let figures = queue.clone();
        ground.metrics.queue(&shown, move || figures.stats());
        // What runs on every replica does so with or without the lease.
        let client = match options.leader {
            true => ground.client.field_owner(&name),
            false => ground.client.field_owner(&name).unfenced(),
        };
        let metrics = ground.metrics.controller(&shown, options.workers);
        let loops = Arc::new(WriteLoopDetector::new(
            shown.clone(),
            options.kind.clone(),
            metrics.clone(),
            client.caches().clone(),
        ));
        let client = client.observed_by(loops.clone());
        let handle = ControllerHandle(Arc::new(Inner {
            name: name.clone(),
            kind: options.kind.clone(),
            client: client.clone(),
            queue: queue.clone(),
            inbox: inbox.clone(),
            filter: options.filter,
            watches: Mutex::default(),
            next: AtomicU64::new(0),
            handler_panics: Arc::default(),
            metrics: metrics.clone(),
            loops,
        }));
        let figures = Arc::downgrade(&handle.0);
        ground.metrics.handlers(&shown, move || {
            let handle = figures.upgrade().map(ControllerHandle)?;
            let lag = handle.watches().iter().map(|(_, lag)| *lag as u64).sum();
            Some(HandlerFigures { panics: handle.handler_panics(), lag })
        });
        for watch in options.watches {
            handle.start(watch)?;
        }
        let informer = client.caches().open(&options.kind, K::metadata_api())?;
        let channels = options.channels;
        let seed =
            ground.seed ^ name.bytes().fold(0, |h: u64, b| h.wrapping_mul(31) + u64::from(b));
        let pool = Arc::new(Pool {
            shared: Arc::new(Shared {
                controller: shown.clone(),
                kind: options.kind,
                client,
                recorder: ground.recorder.named(options.reports_as.as_deref().unwrap_or(&name)),
                clock: ground.clock.clone(),
                applied: Applied::default(),
                stopping: ground.stopping.clone(),
            }),
            queue,
            reader: informer.store().reader::<K>(),
            reconciler,
            metrics,
            workers: options.workers,
            timeout: options.timeout,
            ids: Ids::new(seed),
        });
        let leader = options.leader;
        let panics = handle.0.handler_panics.clone();
        let run: Run = Box::new(move |stop, abort| {
            Box::pin(async move {
                let stop_sources = stop.child_token();
                let _end_with_this = stop_sources.clone().drop_guard();
                for channel in channels {
                    let stop = stop_sources.clone();
                    let (panics, inbox) = (panics.clone(), inbox.clone());
                    tokio::spawn(forward(name.clone(), channel, inbox, panics, stop));
                }
                let (workers, kind) = (pool.workers, pool.shared.kind.clone());
                tracing::info!(
                    controller = %shown,
                    controllerGroup = kind.group(),
                    controllerKind = kind.kind(),
                    "worker count" = workers,
                    "Starting workers"
                );
                pool.run(stop, abort).await;
                tracing::info!(
                    controller = %shown,
                    controllerGroup = kind.group(),
                    controllerKind = kind.kind(),
                    "All workers finished"
                );
            })
        });
        Ok(Prepared { handle, leader, run })
    }
}

/// Brings the keys of a source into the queue.
async fn forward(
    name: Arc<str>,
    mut keys: BoxStream<'static, Key>,
    inbox: Inbox,
    panics: Arc<AtomicU64>,
    stop: CancellationToken,
) {
    // One for all keys: each would be filed with the token.
    let stopped = stop.cancelled();
    tokio::pin!(stopped);
    loop {
        // A stream that always has one more must not keep others from running.
        tokio::task::consume_budget().await;
        let key = tokio::select! {
            biased;
            () = &mut stopped => return,
            key = AssertUnwindSafe(keys.next()).catch_unwind() => key,
        };
        match key {
            Ok(Some(key)) => drop(inbox.add(key, Add::default())),
            Ok(None) => return,
            Err(panic) => {
                panics.fetch_add(1, Ordering::Relaxed);
                let panic = panic_text(&*panic);
                tracing::error!(controller = %name, panic, "a source panicked and is ended");
                return;
            }
        }
    }
}

// === impl ControllerHandle ===

impl ControllerHandle {
    /// The controller's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The kind that is reconciled.
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// Asks for a reconcile.
    pub fn enqueue(&self, key: Key) {
        self.0.inbox.add(key, Add::default());
    }

    /// Asks for a reconcile with a priority, a delay or a rate limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::queue::Add;
    /// use windlass::{Context, Controller, Key, Manager, Next};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let builder = Manager::builder(server.client()).namespaces(["default"]);
    /// let (tell, mut told) = tokio::sync::mpsc::channel(8);
    /// let controller = Controller::<ConfigMap>::builder("maps").build(
    ///     move |cx: Context<ConfigMap>| {
    ///         let tell = tell.clone();
    ///         async move {
    ///             let _ = tell.send(cx.name().to_string()).await;
    ///             Ok(Next::Done)
    ///         }
    ///     },
    /// );
    /// let handle = builder.add(controller).spawn()?;
    /// handle.ready().await;
    /// let maps = handle.controller("maps").expect("runs");
    /// let later = Add { after: Some(Duration::from_secs(60)), ..Add::default() };
    /// maps.enqueue_with(Key::namespaced("default", "later"), later);
    /// maps.enqueue(Key::namespaced("default", "now"));
    /// assert_eq!(maps.queue().waiting, 1);
    /// assert_eq!(told.recv().await.as_deref(), Some("now"));
    /// assert_eq!(told.recv().await.as_deref(), Some("later"));
    /// # handle.stop().await
    /// # }
    /// ```
    pub fn enqueue_with(&self, key: Key, add: Add) {
        self.0.inbox.add(key, add);
    }

    /// The figures of the queue.
    pub fn queue(&self) -> QueueStats {
        self.0.queue.stats()
    }

    /// Adds a watch to the running controller; it ends when the guard is dropped.
    ///
    /// # Errors
    ///
    /// Fails if the controller is not part of a running manager.
    pub fn watch(&self, watch: Watch) -> Result<WatchGuard> {
        let id = self.start(watch)?;
        Ok(WatchGuard { handle: self.clone(), id })
    }

    /// Waits until every watch has delivered its first list to this controller, or has ended.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub async fn synced(&self) {
        let waits: Vec<_> = self.0.watches.lock().running.values().map(Running::synced).collect();
        futures::future::join_all(waits).await;
    }

    /// The same, but a watch that cannot go on until somebody does something is not waited for; it
    /// is named with its state.
    pub(crate) async fn settled(&self) -> Vec<String> {
        let waits: Vec<_> = self.0.watches.lock().running.values().map(Running::settled).collect();
        futures::future::join_all(waits).await.into_iter().flatten().collect()
    }

    /// How reconciles ended so far.
    pub(crate) fn outcomes(&self) -> serde_json::Value {
        self.0.metrics.outcomes()
    }

    /// The objects that are written again and again now.
    pub(crate) fn loops(&self) -> Vec<serde_json::Value> {
        self.0.loops.report()
    }

    /// The kinds that are watched, and how many changes wait to be handled.
    pub fn watches(&self) -> Vec<(Kind, usize)> {
        let watches = self.0.watches.lock();
        watches
            .running
            .values()
            .map(|running| (running.kind.clone(), running.guard.lag()))
            .collect()
    }

    /// How often a predicate or a map function panicked.
    pub fn handler_panics(&self) -> u64 {
        self.0.handler_panics.load(Ordering::Relaxed)
    }

    pub(crate) fn end_watches(&self) {
        let mut watches = self.0.watches.lock();
        watches.ended = true;
        let ended = std::mem::take(&mut watches.running);
        drop((watches, ended));
    }

    fn start(&self, watch: Watch) -> Result<u64> {
        let inner = &self.0;
        let kind = watch.kind.clone();
        let stopped = || Error::Invalid(format!("{kind} is not watched: the manager has stopped"));
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
        let caches = inner.client.caches();
        let informer = caches.open(&watch.kind, watch.metadata_only)?;
        let opened = caches.opened(&watch.kind);
        let options = HandlerOptions { resync: watch.resync };
        let id = inner.next.fetch_add(1, Ordering::Relaxed);
        let route = Route {
            name: inner.name.clone(),
            reconciled: inner.kind.clone(),
            filter: inner.filter.clone(),
            inbox: inner.inbox.clone(),
            client: inner.client.clone(),
            panics: inner.handler_panics.clone(),
            watch,
        };
        let guard = informer.handle(options, move |event| route.take(&event));
        let (states, ended) = (informer.states(), CancellationToken::new());
        let running = Running { kind: kind.clone(), guard, states, ended, _opened: opened };
        let mut watches = inner.watches.lock();
        if watches.ended {
            // The end came meanwhile, and knew nothing of this watch.
            drop((watches, running));
            return Err(stopped());
        }
        watches.running.insert(id, running);
        Ok(id)
    }
}

impl fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerHandle").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let ended = self.handle.0.watches.lock().running.remove(&self.id);
        drop(ended);
    }
}

impl fmt::Debug for WatchGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchGuard").field("controller", &self.handle.0.name).finish()
    }
}

// === impl Running ===

impl Running {
    /// Waits for the first list or the end of the watch, without keeping the watch.
    fn synced(&self) -> impl Future<Output = ()> + use<> {
        let (mut handled, mut states) = (self.guard.handled(), self.states.clone());
        let synced = async move {
            let _ = handled.wait_for(|handled| *handled).await;
            // A watch of metadata may be on its way to one of whole objects.
            drop(states.wait_for(there).await);
        };
        self.ended.clone().run_until_cancelled_owned(synced).map(drop)
    }

    /// The same, but a watch that cannot go on is told with its state instead of waited for.
    fn settled(&self) -> impl Future<Output = Option<String>> + use<> {
        let (mut handled, mut states) = (self.guard.handled(), self.states.clone());
        let kind = self.kind.clone();
        let settled = async move {
            let state =
                states.wait_for(|state| there(state) || state.blocked()).await.ok()?.clone();
            if state.blocked() {
                return Some(format!("{kind}: {state}"));
            }
            let _ = handled.wait_for(|handled| *handled).await;
            None
        };
        self.ended.clone().run_until_cancelled_owned(settled).map(Option::flatten)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// Tells whether a first list is there, be it that the watch has broken since.
fn there(state: &SyncState) -> bool {
    state.synced() || matches!(state, SyncState::Stale { .. })
}
