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

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::DynamicObject;
use kube::discovery::{Discovery, verbs};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass::cache::{Change, Informer, Origin, Scope};
use windlass::events::Recorder;
use windlass::manager::RunContext;
use windlass::queue::WorkQueue;
use windlass::{Client, Kind, Manager, Result};

use crate::controllers::Shared;
use graph::Graph;

/// How long the first lists may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many objects are judged at once.
const WORKERS: usize = 8;

/// Adds the garbage collector.
pub fn add(builder: Manager, _: &Shared) -> Manager {
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
            client: cx.client.field_owner("garbage-collector-controller"),
            recorder: cx.recorder.reporting_as("garbage-collector-controller", None),
            graph: Mutex::default(),
            queue: WorkQueue::default(),
            changed: Notify::new(),
        }
    }

    async fn run(self: Arc<Self>, cx: &RunContext) -> Result<()> {
        let me = self.clone();
        let definitions = Kind::of::<CustomResourceDefinition>();
        let _definitions = self.follow(&definitions, move |_| me.changed.notify_one());
        let mut watches = BTreeMap::new();
        let lists = self.follow_kinds(&mut watches).await?;
        // A kind that does not answer must not keep the others waiting.
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
                        tracing::warn!(error = format!("{error:?}"), "kinds are not known");
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
        self.client.cached().informer_of(kind, &Scope::default().metadata_only())
    }

    /// Calls a function with the changes of a kind until the guard is dropped. The future waits for
    /// the first list.
    fn follow(
        &self,
        kind: &Kind,
        mut handler: impl FnMut(Change) + Send + 'static,
    ) -> (DropGuard, BoxFuture<'static, ()>) {
        let mut changes = self.metadata(kind).subscribe();
        let synced = changes.synced().boxed();
        let token = CancellationToken::new();
        tokio::spawn(token.clone().run_until_cancelled_owned(async move {
            while let Some(change) = changes.recv().await {
                handler(change);
                tokio::task::consume_budget().await;
            }
        }));
        (token.drop_guard(), synced)
    }

    /// Watches every kind that is served, and no other. Returns the first lists of new kinds.
    async fn follow_kinds(
        self: &Arc<Self>,
        watches: &mut BTreeMap<Kind, DropGuard>,
    ) -> Result<Vec<BoxFuture<'static, ()>>> {
        let kinds = collected(&self.client).await?;
        let gone: Vec<Kind> = watches.keys().filter(|k| !kinds.contains(k)).cloned().collect();
        for kind in gone {
            watches.remove(&kind);
            let affected = self.graph.lock().forget_kind(&kind);
            affected.into_iter().for_each(|uid| self.queue.add(uid));
        }
        let mut lists = Vec::new();
        for kind in kinds {
            if watches.contains_key(&kind) {
                continue;
            }
            let (me, known) = (self.clone(), kind.clone());
            let (watch, synced) = self.follow(&kind, move |change| me.see(&known, &change));
            watches.insert(kind, watch);
            lists.push(synced);
        }
        Ok(lists)
    }

    /// Applies one change to the graph and queues the objects that it affects.
    fn see(&self, kind: &Kind, change: &Change) {
        if change.origin == Origin::Resync {
            return;
        }
        let mut graph = self.graph.lock();
        let mut affected = Vec::new();
        if let Some(old) =
            change.old.as_ref().filter(|_| change.new.is_none() || change.is_replacement())
        {
            affected.extend(graph.remove(old.uid()));
        }
        if let Some(new) = &change.new {
            affected.extend(graph.observe(kind, new));
        }
        drop(graph);
        affected.into_iter().for_each(|uid| self.queue.add(uid));
    }

    async fn work(self: Arc<Self>) {
        while let Some(work) = self.queue.get().await {
            let uid = work.clone();
            match self.judge(&uid).await {
                Ok(()) => self.queue.forget(&uid),
                Err(error) => {
                    tracing::debug!(uid, error = format!("{error:?}"), "not collected yet");
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
        for found in group.resources_by_stability() {
            let (resource, able) = &found;
            let event = resource.kind == "Event";
            let all = [verbs::DELETE, verbs::LIST, verbs::WATCH];
            if !event && all.iter().all(|verb| able.supports_operation(verb)) {
                kinds.push(Kind::from(&found));
            }
        }
    }
    // kube keeps the kinds of a group in a hash map.
    kinds.sort();
    Ok(kinds)
}
