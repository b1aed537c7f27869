//! The scheduler: one pod after the other onto the node with the fewest pods that fits.
//!
//! What nodes have given away is counted as pods pass through the reconcile, so no decision walks
//! over all pods. Spreading and affinity between pods are not simulated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodCondition, PodStatus};
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::controller::{Change, Context, Controller, Next, Watch};
use windlass::manager::Builder;
use windlass::{Key, Kind, Result, ResultExt};

use super::amount::Amounts;
use super::fit;
use crate::controllers::pod;

const NAME: &str = "default-scheduler";

/// Adds the scheduler.
pub fn add(builder: Builder) -> Builder {
    let book = Arc::new(Mutex::new(Book::default()));
    let (by_node, by_pod) = (book.clone(), book.clone());
    let controller = Controller::<Pod>::builder(NAME)
        .watch(Watch::changes(Kind::of::<Node>(), move |_| by_node.lock().refused()))
        .watch(Watch::changes(Kind::of::<Pod>(), move |change| {
            let refused = by_pod.lock().refused();
            if refused.is_empty() || !frees(change) { Vec::new() } else { refused }
        }))
        .build(move |cx: Context<Pod>| {
            let book = book.clone();
            async move { reconcile(&cx, &book).await }
        });
    builder.add(controller)
}

/// Who has taken what, and who found no place.
#[derive(Debug, Default)]
struct Book {
    /// The UID, the node and the request of each pod that has a node.
    pods: BTreeMap<Key, (String, String, Amounts)>,
    nodes: BTreeMap<String, Amounts>,
    refused: BTreeSet<Key>,
    read: bool,
}

const CONDITION: &str = "PodScheduled";

/// A pod that ends or goes makes room.
fn frees(change: &Change) -> bool {
    change.is_delete() || change.object::<Pod>().is_some_and(|pod| pod::is_finished(&pod))
}

fn gated(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|s| s.scheduling_gates.as_ref()).is_some_and(|g| !g.is_empty())
}

/// The pod waits for this scheduler.
fn ours(pod: &Pod) -> bool {
    let scheduler = pod.spec.as_ref().and_then(|s| s.scheduler_name.as_deref());
    pod::node(pod).is_none()
        && pod::is_active(pod)
        && !gated(pod)
        && scheduler.is_none_or(|name| name == NAME)
}

async fn reconcile(cx: &Context<Pod>, book: &Mutex<Book>) -> Result<Next> {
    first_read(cx, book)?;
    let Some(pod) = cx.object() else {
        book.lock().remove(cx.key());
        return Ok(Next::Done);
    };
    if pod::node(&pod).is_some() {
        let mut book = book.lock();
        if pod::is_finished(&pod) {
            book.remove(cx.key());
        } else {
            book.put(cx.key(), &pod);
        }
        return Ok(Next::Done);
    }
    if !ours(&pod) {
        return Ok(Next::Done);
    }
    if book.lock().has(cx.key(), &pod) {
        // It was given a node already; the watch has not told yet.
        return Ok(Next::Done);
    }
    let request = Amounts::of_pod(&pod);
    let nodes = cx.list::<Node>().items()?;
    let choice = choose(&pod, &nodes, &book.lock(), &request);
    match choice {
        Ok(node) => bind(cx, &pod, &node, book).await,
        Err(message) => {
            book.lock().refused.insert(cx.key().clone());
            refuse(cx, &pod, message).await
        }
    }
}

/// Counts what is placed already before the first decision.
fn first_read(cx: &Context<Pod>, book: &Mutex<Book>) -> Result<()> {
    if book.lock().read {
        return Ok(());
    }
    let all = cx.list::<Pod>().all_namespaces().items()?;
    let mut book = book.lock();
    for pod in all.iter().filter(|pod| pod::node(pod).is_some() && !pod::is_finished(pod)) {
        book.put(&Key::of(&**pod), pod);
    }
    book.read = true;
    Ok(())
}

/// The name of the node, or why there is none.
fn choose(
    pod: &Pod,
    nodes: &[Arc<Node>],
    book: &Book,
    request: &Amounts,
) -> Result<String, String> {
    let none = Amounts::default();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut best: Option<(i128, String)> = None;
    for node in nodes {
        let name = node.metadata.name.clone().unwrap_or_default();
        let used = book.nodes.get(&name).unwrap_or(&none);
        let against = fit::against(pod, node, used, request);
        if against.is_empty() {
            let candidate = (used.0.get("pods").copied().unwrap_or(0), name);
            best = Some(best.map_or(candidate.clone(), |best| best.min(candidate)));
        }
        for reason in against {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    best.map(|(_, name)| name).ok_or_else(|| explain(nodes.len(), &reasons))
}

fn explain(nodes: usize, reasons: &BTreeMap<String, usize>) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".into();
    }
    let mut texts: Vec<String> =
        reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    texts.sort();
    let full = |reason: &String| reason.starts_with("Insufficient") || reason == "Too many pods";
    let hopeless: usize = reasons.iter().filter(|(r, _)| !full(r)).map(|(_, n)| n).sum();
    let mut preemption = Vec::new();
    if nodes > hopeless {
        let count = nodes - hopeless;
        preemption.push(format!("{count} No preemption victims found for incoming pod"));
    }
    if hopeless > 0 {
        preemption.push(format!("{hopeless} Preemption is not helpful for scheduling"));
    }
    format!(
        "0/{nodes} nodes are available: {}. no new claims to deallocate, \
         preemption: 0/{nodes} nodes are available: {}.",
        texts.join(", "),
        preemption.join(", ")
    )
}

async fn bind(cx: &Context<Pod>, pod: &Pod, node: &str, book: &Mutex<Book>) -> Result<Next> {
    let body = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": cx.name(), "namespace": cx.namespace(), "uid": pod.metadata.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    match post_binding(cx, &body).await {
        // Gone, going, or placed by somebody else: the watch tells.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(Next::Done),
        bound => drop(bound?),
    }
    let mut bound = pod.clone();
    if let Some(spec) = bound.spec.as_mut() {
        spec.node_name = Some(node.to_string());
    }
    book.lock().put(cx.key(), &bound);
    let namespace = cx.namespace().unwrap_or_default();
    let name = cx.name();
    cx.event("Scheduled", format!("Successfully assigned {namespace}/{name} to {node}"));
    Ok(Next::Done)
}

/// Sends a binding, and no more: the book knows what was given away, so the cache need not be
/// shown the bound pod before the watch brings it.
async fn post_binding(cx: &Context<Pod>, body: &Value) -> kube::Result<Value> {
    let (namespace, name) = (cx.namespace().unwrap_or_default(), cx.name());
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding?fieldManager={NAME}");
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes()).map_err(kube::Error::HttpError)?;
    cx.client().kube().request(request).await
}

async fn refuse(cx: &Context<Pod>, pod: &Pod, message: String) -> Result<Next> {
    let known = pod::condition(pod, CONDITION);
    if known.is_some_and(|c| c.message.as_deref() == Some(message.as_str())) {
        return Ok(Next::Done);
    }
    let condition = PodCondition {
        type_: CONDITION.into(),
        status: "False".into(),
        reason: Some("Unschedulable".into()),
        message: Some(message.clone()),
        last_transition_time: Some(cx.clock().time()),
        ..PodCondition::default()
    };
    let changed = cx.status_as(|status: &mut PodStatus| {
        let conditions = status.conditions.get_or_insert_default();
        conditions.retain(|c| c.type_ != CONDITION);
        conditions.push(condition.clone());
    });
    changed.await.ignore_not_found()?;
    cx.warn("FailedScheduling", message);
    Ok(Next::Done)
}

// === impl Book ===

impl Book {
    /// Whether this very pod has a node.
    fn has(&self, key: &Key, pod: &Pod) -> bool {
        self.pods.get(key).is_some_and(|(uid, _, _)| pod.metadata.uid.as_ref() == Some(uid))
    }

    /// Notes a pod that has a node.
    fn put(&mut self, key: &Key, pod: &Pod) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        if self.pods.get(key).is_some_and(|(known, _, _)| *known == uid) {
            return;
        }
        self.remove(key);
        let (node, amounts) =
            (pod::node(pod).unwrap_or_default().to_string(), Amounts::of_pod(pod));
        self.nodes.entry(node.clone()).or_default().add(&amounts);
        self.pods.insert(key.clone(), (uid, node, amounts));
    }

    fn remove(&mut self, key: &Key) {
        self.refused.remove(key);
        if let Some((_, node, amounts)) = self.pods.remove(key)
            && let Some(used) = self.nodes.get_mut(&node)
        {
            used.sub(&amounts);
        }
    }

    /// The pods that wait for a node to change or for another pod to go.
    fn refused(&self) -> Vec<Key> {
        self.refused.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_counts_nodes_by_reason() {
        let reasons = BTreeMap::from([
            ("Insufficient cpu".to_string(), 2),
            ("node(s) were unschedulable".to_string(), 1),
        ]);
        assert_eq!(
            explain(3, &reasons),
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. \
             no new claims to deallocate, preemption: 0/3 nodes are available: 2 No preemption victims found for incoming pod, \
             1 Preemption is not helpful for scheduling."
        );
        assert_eq!(explain(0, &BTreeMap::new()), "no nodes available to schedule pods");
    }
}
