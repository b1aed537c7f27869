//! A controller without its type, on its way from description to running pool.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio_util::sync::CancellationToken;

use super::attempt_id::AttemptIds;
use super::cause_table::CauseTable;
use super::children::Memory;
use super::conflicts::Conflicts;
use super::context::Shared;
use super::env::ControllerEnv;
use super::handle::ControllerHandle;
use super::key_sink::KeySink;
use super::key_stream::KeyStreams;
use super::report::ReportedParts;
use super::runs::Runs;
use super::worker::Worker;
use super::write_loop::WriteLoopDetector;
use super::{Controller, pool};
use crate::apply::Applied;
use crate::cache::{Cache, Declared, Key, Scope};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};
use crate::metrics::HandlerFigures;
use crate::ordered_watch;
use crate::queue::WorkQueue;

/// A controller of any kind.
pub(crate) trait Component: Send {
    fn name(&self) -> &str;

    fn kind(&self) -> &Kind;

    /// Returns the kinds that are cached for it.
    fn kinds(&self) -> Vec<Kind>;

    /// Opens the watches. Keys are queued from now on, and reconciled once the workers run.
    fn prepare(self: Box<Self>, env: &ControllerEnv) -> Result<Prepared>;
}

/// A controller whose watches run and whose workers do not yet.
pub(crate) struct Prepared {
    pub(crate) handle: ControllerHandle,
    pub(crate) leader: bool,
    pub(crate) run: Run,
}

/// Runs the workers until the first token is cancelled, and aborts them with the second.
pub(crate) type Run =
    Box<dyn FnOnce(CancellationToken, CancellationToken) -> BoxFuture<'static, ()> + Send>;

/// The parts of a controller that run once its workers may.
struct Workers<K: Object> {
    /// How many there are at most; a handle can change it.
    limit: ordered_watch::Sender<usize>,
    streams: KeyStreams,
    channels: Vec<BoxStream<'static, Key>>,
    worker: Arc<Worker<K>>,
}

// === impl Controller ===

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

    fn prepare(self: Box<Self>, env: &ControllerEnv) -> Result<Prepared> {
        let Controller { options, reconciler } = *self;
        options.check()?;
        let display_name = env.display_name(&options.name);
        let queue = register_queue(env, &display_name, options.queue.build());
        let metrics = env.metrics.controller(&display_name, options.workers);
        let client = client_of(env, &options.name, options.leader);
        let (kind, cache, named) = (&options.kind, client.cached().clone(), display_name.clone());
        let loops = Arc::new(WriteLoopDetector::new(named, kind.clone(), metrics.clone(), cache));
        let client = client.observed_by(loops.clone());
        let (causes, runs) = (Arc::new(CauseTable::default()), Arc::new(Runs::default()));
        let limit = ordered_watch::Sender::new(options.workers);
        let handle = ControllerHandle::new(super::handle::Inner {
            name: options.name.as_str().into(),
            kind: options.kind.clone(),
            client: client.clone(),
            sink: KeySink::new(options.kind.clone(), queue.clone(), causes.clone()),
            queue: queue.clone(),
            watches: Default::default(),
            panics: Arc::default(),
            metrics: metrics.clone(),
            loops: loops.clone(),
            runs: runs.clone(),
            memory: Arc::default(),
            switch_prefix: env.switch_prefix.clone(),
            workers: options.workers,
            limit: limit.clone(),
        });
        register_handlers(env, &display_name, &handle);
        let cache = client.cached();
        options.indexes.iter().try_for_each(|index| cache.declare_any(index.clone()))?;
        for watch in options.watches {
            handle.start(watch)?;
        }
        let informer = cache.informer_of(&options.kind, &Scope::all_or_metadata(K::metadata_api()));
        check_indexes(&options.name, &options.indexes, cache)?;
        let recorder_name = options.reports_as.as_deref().unwrap_or(&options.name);
        let worker = Worker {
            shared: Arc::new(Shared {
                controller: display_name,
                kind: options.kind,
                client,
                recorder: env.recorder.reporting_as(recorder_name, None),
                clock: env.clock.clone(),
                applied: Applied::default(),
                children: Memory::default(),
                memory: handle.memory(),
                references: options.references,
                parts: ReportedParts::default(),
                switch_prefix: env.switch_prefix.clone(),
                stopping: env.stopping.clone(),
            }),
            queue,
            reader: informer.reader(),
            reconciler,
            metrics,
            timeout: options.timeout,
            conditions: options.conditions,
            conflicts: Conflicts::default(),
            causes,
            runs,
            loops,
            ids: AttemptIds::new(env.seed_of(&options.name)),
        };
        let (streams, channels) = (handle.streams(), options.channels);
        let workers = Workers { limit, streams, channels, worker: Arc::new(worker) };
        let run: Run = Box::new(move |stop, abort| Box::pin(workers.run(stop, abort)));
        Ok(Prepared { handle, leader: options.leader, run })
    }
}

/// Returns the client of a controller; one that runs on every replica needs no lease.
fn client_of(env: &ControllerEnv, name: &str, leader: bool) -> Client {
    let client = env.client.field_owner(name);
    if leader { client } else { client.unfenced() }
}

/// Registers the metrics of a queue.
fn register_queue(env: &ControllerEnv, name: &str, queue: WorkQueue<Key>) -> Arc<WorkQueue<Key>> {
    let queue = Arc::new(queue);
    let stats = queue.clone();
    env.metrics.queue(name, move || stats.stats());
    queue
}

/// Registers the metrics of the handlers of a controller.
fn register_handlers(env: &ControllerEnv, name: &str, handle: &ControllerHandle) {
    let weak = handle.downgrade();
    env.metrics.handlers(name, move || {
        let handle = weak.upgrade()?;
        let lag = handle.watches().iter().map(|(_, lag)| *lag as u64).sum();
        Some(HandlerFigures { panics: handle.handler_panics(), lag })
    });
}

/// Fails if an index is declared for a kind that nothing caches.
fn check_indexes(name: &str, indexes: &[Arc<dyn Declared>], cache: &Cache) -> Result<()> {
    match indexes.iter().find(|index| !cache.holds(&index.kind())) {
        None => Ok(()),
        Some(index) => Err(Error::Invalid(format!(
            "controller {name}: index {} needs {} in the cache: declare it with owns, watches or \
             reads",
            index.id().name(),
            index.kind()
        ))),
    }
}

// === impl Workers ===

impl<K: Object> Workers<K> {
    async fn run(self, stop: CancellationToken, abort: CancellationToken) {
        let stop_streams = stop.child_token();
        let _stop_with_this = stop_streams.clone().drop_guard();
        for channel in self.channels {
            tokio::spawn(self.streams.clone().forward(channel, stop_streams.clone()));
        }
        let shared = self.worker.shared.clone();
        tracing::info!(
            controller = %shared.controller,
            controllerGroup = shared.kind.group(),
            controllerKind = shared.kind.kind(),
            "worker count" = *self.limit.borrow(),
            "Starting workers"
        );
        pool::run(self.worker, self.limit.subscribe(), stop, abort).await;
        tracing::info!(
            controller = %shared.controller,
            controllerGroup = shared.kind.group(),
            controllerKind = shared.kind.kind(),
            "All workers finished"
        );
    }
}
