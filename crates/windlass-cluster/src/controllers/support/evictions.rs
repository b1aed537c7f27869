//! Taint eviction: pods leave a node whose `NoExecute` taints they do not tolerate.
//!
//! **Invariant:** the time a toleration allows runs from the moment the taints were first seen on
//! the pod's node, and starts again only if they were removed in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use windlass::cache::Change;
use windlass::client::Deletion;
use windlass::controller::{Context, Watch};
use windlass::events::EventType;
use windlass::{Controller, Error, Index, Key, Kind, Manager, Next, Reconciler, Result};

use crate::controllers::Shared;
use crate::controllers::{pod, support::pods};

/// Adds the controller.
pub fn add(builder: Manager, _: &Shared) -> Manager {
    let tainted = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = tainted.clone();
    let map = move |change: &Change| {
        let tainted = seen.lock();
        if tainted.is_empty() {
            return Vec::new();
        }
        pods::node_of(change).filter(|node| tainted.contains(node)).into_iter().collect()
    };
    builder.add(
        Controller::<Node>::builder("taint-eviction-controller")
            .watch(Watch::changes(Kind::of::<Pod>(), move |change, _| map(change)))
            .index(&pods::by_node())
            .build_with(Evictions { by_node: pods::by_node(), tainted }),
    )
}

struct Evictions {
    by_node: Index<Pod, String>,
    /// Nodes whose pods have to be looked at. Every change of every pod asks for them, so they are
    /// not looked up in the cache.
    tainted: Arc<Mutex<BTreeSet<Key>>>,
}

/// The pods of a node that are to be evicted at some time, by UID, and since when.
type Waiting = Mutex<BTreeMap<String, Instant>>;

/// When a pod has to be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stay {
    Forever,
    For(Duration),
}

impl Reconciler<Node> for Evictions {
    type Error = Error;

    async fn reconcile(&self, cx: Context<Node>) -> Result<Next, Error> {
        let cx = &cx;
        let taints = cx.object().map(|node| no_execute(&node)).unwrap_or_default();
        if taints.is_empty() {
            self.tainted.lock().remove(cx.key());
        } else {
            self.tainted.lock().insert(cx.key().clone());
        }
        let known = cx.memory::<Waiting>();
        let before = known.lock().clone();
        if taints.is_empty() && before.is_empty() {
            return Ok(Next::Done);
        }
        let found = cx.client().cached().list::<Pod>().by(&self.by_node, cx.name()).items()?;
        let mut waiting = BTreeMap::new();
        let mut next: Option<Duration> = None;
        for pod in found.iter().filter(|pod| !pod::is_terminating(pod)) {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let since = before.get(&uid).copied();
            let Stay::For(time) = stay(&taints, pod) else {
                if since.is_some() {
                    let text = format!("Cancelling deletion of Pod {}", Key::of(&**pod));
                    self.publish(cx, pod, text);
                }
                continue;
            };
            let since = since.unwrap_or_else(Instant::now);
            let left = time.saturating_sub(since.elapsed());
            if left.is_zero() {
                self.evict(cx, pod).await?;
                continue;
            }
            waiting.insert(uid, since);
            next = Some(next.map_or(left, |earlier| earlier.min(left)));
        }
        *known.lock() = waiting;
        Ok(next.map_or(Next::Done, Next::After))
    }
}

// === impl Evictions ===

impl Evictions {
    async fn evict(&self, cx: &Context<Node>, pod: &Arc<Pod>) -> Result<()> {
        self.publish(cx, pod, format!("Marking for deletion Pod {}", Key::of(&**pod)));
        let message = "Taint manager: deleting due to NoExecute taint";
        let why = Some(("DeletionByTaintManager", message));
        let condition = pods::disruption(pod, cx.clock(), why);
        pods::patch_status(cx.client(), pod, &json!({"conditions": [condition]})).await?;
        let api = cx.client().api::<Pod>();
        match api.delete(Deletion::only(&**pod)).await {
            // Another pod of that name by now.
            Err(error) if error.is_conflict() => Ok(()),
            other => other.map(drop),
        }
    }

    fn publish(&self, cx: &Context<Node>, pod: &Pod, text: String) {
        super::publish(cx.recorder(), EventType::Normal, pod, "TaintManagerEviction", text);
    }
}

fn no_execute(node: &Node) -> Vec<Taint> {
    let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute").cloned().collect()
}

/// How long a pod may stay with these taints.
fn stay(taints: &[Taint], pod: &Pod) -> Stay {
    if taints.is_empty() {
        return Stay::Forever;
    }
    let tolerations: Vec<&Toleration> =
        pod.spec.iter().flat_map(|s| s.tolerations.iter().flatten()).collect();
    let mut time: Option<i64> = None;
    for taint in taints {
        let Some(used) = tolerations.iter().find(|t| tolerates(t, taint)) else {
            return Stay::For(Duration::ZERO);
        };
        if let Some(seconds) = used.toleration_seconds {
            time = Some(time.map_or(seconds, |least| least.min(seconds)));
        }
    }
    match time {
        None => Stay::Forever,
        Some(seconds) => Stay::For(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    if !key.is_empty() && key != taint.key {
        return false;
    }
    let (ours, theirs) = (text(&toleration.value), text(&taint.value));
    let numbers = || Some((ours.parse::<i64>().ok()?, theirs.parse::<i64>().ok()?));
    match text(&toleration.operator).as_str() {
        "" | "Equal" => ours == theirs,
        "Exists" => true,
        "Gt" => numbers().is_some_and(|(ours, theirs)| theirs > ours),
        "Lt" => numbers().is_some_and(|(ours, theirs)| theirs < ours),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn pod(tolerations: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {}, "spec": {"containers": [], "tolerations": tolerations},
        }))
        .expect("a pod")
    }

    fn taint(key: &str) -> Taint {
        Taint { key: key.into(), effect: "NoExecute".into(), ..Taint::default() }
    }

    #[test]
    fn a_pod_stays_as_long_as_its_shortest_toleration() {
        let taints = [taint("a"), taint("b")];
        let both = pod(json!([
            {"key": "a", "operator": "Exists", "tolerationSeconds": 60},
            {"key": "b", "operator": "Exists", "tolerationSeconds": 5},
        ]));
        assert_eq!(stay(&taints, &both), Stay::For(Duration::from_secs(5)));
        let one = pod(json!([{"key": "a", "operator": "Exists"}]));
        assert_eq!(stay(&taints, &one), Stay::For(Duration::ZERO));
        assert_eq!(stay(&taints[..1], &one), Stay::Forever);
        assert_eq!(stay(&[], &one), Stay::Forever);
        assert_eq!(stay(&taints, &pod(json!([{"operator": "Exists"}]))), Stay::Forever);
    }
}
