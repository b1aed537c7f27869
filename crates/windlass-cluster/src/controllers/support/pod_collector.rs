//! Pod garbage collection: pods that no kubelet will ever take away.
//!
//! Three sorts of pods are deleted: pods of a node that has been gone for a while, deleted pods
//! that were never bound to a node, and the oldest of too many finished pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use windlass::cache::Change;
use windlass::client::Deletion;
use windlass::controller::{Context, Watch};
use windlass::{Controller, Error, Index, Key, Kind, Manager, Next, Reconciler, Result};

use super::pods::{self, Brief};
use crate::controllers::Shared;
use crate::controllers::pod;

/// How long a node has to be away: Kubernetes looks every 20 seconds, waits for 40 after it
/// first misses the node, and acts with the look after that.
const QUARANTINE: Duration = Duration::from_secs(60);
/// How many finished pods may stay.
const FINISHED_MAX: usize = 12_500;
/// The key under which finished pods are looked at; no node can have this name.
const FINISHED: &str = "-";

/// Adds the controller.
pub fn add(builder: Manager, _: &Shared) -> Manager {
    builder.add(
        Controller::<Node>::builder("pod-garbage-collector-controller")
            .watch(Watch::changes(Kind::of::<Pod>(), move |change, _| keys(change)))
            .index(&pods::by_node())
            .build_with(Collector { by_node: pods::by_node(), missing: Mutex::default() }),
    )
}

/// The node of a pod; the pod itself if it is being deleted and has no node; one key for all
/// finished pods.
fn keys(change: &Change) -> Vec<Key> {
    let Some(entry) = &change.new else { return Vec::new() };
    let pod = Brief::of(entry);
    let node = pod.node();
    let own = Some(entry.key.clone()).filter(|_| entry.deleting && node.is_none());
    let finished = pod.is_terminal().then(|| Key::cluster(FINISHED));
    node.into_iter().chain(own).chain(finished).collect()
}

struct Collector {
    by_node: Index<Pod, String>,
    /// Since when nodes that pods name are not there.
    missing: Mutex<BTreeMap<String, Instant>>,
}

impl Reconciler<Node> for Collector {
    type Error = Error;

    async fn reconcile(&self, cx: Context<Node>) -> Result<Next, Error> {
        let cx = &cx;
        if cx.namespace().is_some() {
            return self.unbound(cx).await;
        }
        if cx.name() == FINISHED {
            return self.finished(cx).await;
        }
        if let Some(node) = cx.object() {
            self.missing.lock().remove(cx.name());
            self.out_of_service(cx, &node).await?;
            return Ok(Next::Done);
        }
        let found = cx.client().cached().list::<Pod>().by(&self.by_node, cx.name()).items()?;
        if found.is_empty() {
            self.missing.lock().remove(cx.name());
            return Ok(Next::Done);
        }
        let since = *self.missing.lock().entry(cx.name().into()).or_insert_with(Instant::now);
        let left = QUARANTINE.saturating_sub(since.elapsed());
        if !left.is_zero() {
            return Ok(Next::After(left));
        }
        if cx.client().api::<Node>().get(cx.key()).await?.is_some() {
            return Ok(Next::Done);
        }
        for pod in found {
            self.remove(cx, &pod, Some("PodGC: node no longer exists")).await?;
        }
        Ok(Next::Done)
    }
}

// === impl Collector ===

impl Collector {
    /// A deleted pod that no kubelet knows of.
    async fn unbound(&self, cx: &Context<Node>) -> Result<Next> {
        let pod = cx.client().cached().get::<Pod>(cx.key())?;
        if let Some(pod) = pod.filter(|p| pod::is_terminating(p) && pod::node(p).is_none()) {
            self.remove(cx, &pod, None).await?;
        }
        Ok(Next::Done)
    }

    /// The oldest finished pods beyond the limit.
    async fn finished(&self, cx: &Context<Node>) -> Result<Next> {
        let all = cx.client().cached().list::<Pod>();
        if all.keys()?.len() <= FINISHED_MAX {
            return Ok(Next::Done);
        }
        let mut found = all.items()?;
        found.retain(|pod| pod::is_finished(pod) && !pod::is_terminating(pod));
        let extra = found.len().saturating_sub(FINISHED_MAX);
        found.sort_by_key(|pod| {
            (pod.metadata.creation_timestamp.as_ref().map(|t| t.0), pod.metadata.name.clone())
        });
        for pod in found.iter().take(extra) {
            self.remove(cx, pod, None).await?;
        }
        Ok(Next::Done)
    }

    /// Deleted pods of a node with the out-of-service taint.
    async fn out_of_service(&self, cx: &Context<Node>, node: &Node) -> Result<()> {
        let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
        let dead = taints.into_iter().any(|t| t.key == "node.kubernetes.io/out-of-service");
        let conditions = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
        let ready = conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True");
        if !dead || ready {
            return Ok(());
        }
        let found = cx.client().cached().list::<Pod>().by(&self.by_node, cx.name()).items()?;
        for pod in found.iter().filter(|pod| pod::is_terminating(pod)) {
            self.remove(cx, pod, None).await?;
        }
        Ok(())
    }

    async fn remove(&self, cx: &Context<Node>, pod: &Arc<Pod>, why: Option<&str>) -> Result<()> {
        if !pod::is_finished(pod) {
            let mut status = json!({"phase": "Failed"});
            if let Some(message) = why {
                let why = Some(("DeletionByPodGC", message));
                let condition = pods::disruption(pod, cx.clock(), why);
                status["conditions"] = json!([condition]);
            }
            pods::patch_status(cx.client(), pod, &status).await?;
        }
        let how = Deletion::only(&**pod).grace_seconds(0);
        match cx.client().api::<Pod>().delete(how).await {
            // Another pod of that name by now.
            Err(error) if error.is_conflict() => Ok(()),
            other => other.map(drop),
        }
    }
}
