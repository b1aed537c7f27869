//! The garbage collector: deletes objects that have lost their last owner, in the order that the
//! propagation policy asks for.
//!
//! Every kind that can be listed, watched and deleted is followed as metadata, custom ones from
//! the moment their definition is served. The `graph` knows which objects refer to which; each
//! decision is based on a live read, and written with the version it is based on.
//!
//! **Invariant:** nothing is deleted because of a watch event alone.

mod graph;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::DynamicObject;
use kube::discovery::{Discovery, verbs};
use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass::cache::{Event, HandlerGuard, HandlerOptions, Informer, Scope};
use windlass::events::Recorder;
use windlass::manager::{Builder, RunContext};
use windlass::queue::WorkQueue;
use windlass::{Client, Kind, Result};

use crate::controllers::Shared;
use graph::Graph;

/// How long the first lists may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many objects are judged at once.
const WORKERS: usize = 8;

/// Adds the garbage collector.
pub fn add(builder: Builder, _: &Shared) -> Builder {
    builder.runnable("garbage-collector-controller", |cx| async move {
        let collector = Arc::new(Collector::new(&cx));
        collector.run(&cx).await
    })
}

/// The collector at work.
struct Collector {
    client: Client,
    recorder: Recorder,
    graph: Mutex<Graph>,
    /// Objects to judge, by UID.
    queue: WorkQueue<String>,
    /// Definitions changed.
    changed: Notify,
}

// === impl Collector ===

impl Collector {
    fn new(cx: &RunContext) -> Self {
        Self {
            client: cx.client().field_owner("garbage-collector-controller"),
            recorder: cx.recorder().named("garbage-collector-controller"),
            graph: Mutex::default(),
            queue: WorkQueue::new(),
            changed: Notify::new(),
        }
    }

    async fn run(self: Arc<Self>, cx: &RunContext) -> Result<()> {
        let _definitions = self.follow_definitions()?;
        let mut watches = BTreeMap::new();
        self.follow_kinds(&mut watches).await?;
        // A kind that does not answer must not keep the others waiting.
        let lists = watches.values().map(|guard| guard.synced());
        let _ = tokio::time::timeout(PATIENCE, futures::future::join_all(lists)).await;
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..WORKERS {
            workers.spawn(self.clone().work());
        }
        loop {
            tokio::select! {
                biased;
                () = cx.stopping() => break,
                () = self.changed.notified() => {
                    if let Err(error) = self.follow_kinds(&mut watches).await {
                        tracing::warn!(error = error.chain(), "kinds are not known");
                        self.changed.notify_one();
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
            }
        }
        self.queue.shutdown();
        workers.shutdown().await;
        Ok(())
    }

    fn metadata(&self, kind: &Kind) -> Informer<DynamicObject> {
        self.client.cached().informer_of(kind, &Scope::all().metadata_only())
    }

    fn follow_definitions(self: &Arc<Self>) -> Result<HandlerGuard> {
        let kind = Kind::of::<CustomResourceDefinition>();
        let informer = self.metadata(&kind);
        let me = self.clone();
        Ok(informer.handle(HandlerOptions::default(), move |_| me.changed.notify_one()))
    }

    /// Watches every kind that is served, and no other.
    async fn follow_kinds(
        self: &Arc<Self>,
        watches: &mut BTreeMap<Kind, HandlerGuard>,
    ) -> Result<()> {
        let kinds = collected(&self.client).await?;
        let gone: Vec<Kind> = watches.keys().filter(|k| !kinds.contains(k)).cloned().collect();
        for kind in gone {
            watches.remove(&kind);
            let affected = self.graph.lock().forget_kind(&kind);
            affected.into_iter().for_each(|uid| self.queue.add(uid));
        }
        for kind in kinds {
            if watches.contains_key(&kind) {
                continue;
            }
            let informer = self.metadata(&kind);
            let (me, known) = (self.clone(), kind.clone());
            let guard =
                informer.handle(HandlerOptions::default(), move |event| me.see(&known, &event));
            watches.insert(kind, guard);
        }
        Ok(())
    }

    /// Applies one change to the graph and queues the objects that it affects.
    fn see(&self, kind: &Kind, event: &Event<DynamicObject>) {
        let affected = match event {
            Event::Resync { .. } => return,
            Event::Deleted { last, .. } => self.graph.lock().remove(last.uid()),
            Event::Added { object, .. } => self.graph.lock().observe(kind, object.entry()),
            Event::Updated { old, new } => {
                let mut graph = self.graph.lock();
                let mut affected = Vec::new();
                if old.uid() != new.uid() {
                    affected.extend(graph.remove(old.uid()));
                }
                affected.extend(graph.observe(kind, new.entry()));
                affected
            }
        };
        affected.into_iter().for_each(|uid| self.queue.add(uid));
    }

    async fn work(self: Arc<Self>) {
        while let Some(work) = self.queue.get().await {
            let uid = work.key().clone();
            match self.judge(&uid).await {
                Ok(()) => self.queue.forget(&uid),
                Err(error) => {
                    tracing::debug!(uid, error = error.chain(), "not collected yet");
                    self.queue.add_rate_limited(uid);
                }
            }
        }
    }
}

/// The kinds whose objects can be collected, each in its most stable version.
async fn collected(client: &Client) -> Result<Vec<Kind>> {
    let discovery = Discovery::new(client.kube()).run_aggregated().await?;
    let mut kinds = Vec::new();
    for group in discovery.groups_alphabetical() {
        for (resource, able) in group.resources_by_stability() {
            let event = resource.kind == "Event";
            let all = [verbs::DELETE, verbs::LIST, verbs::WATCH];
            if !event && all.iter().all(|verb| able.supports_operation(verb)) {
                kinds.push(Kind::discovered(&resource, &able.scope));
            }
        }
    }
    // kube keeps the kinds of a group in a hash map.
    kinds.sort();
    Ok(kinds)
}
