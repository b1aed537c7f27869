//! Rolling updates: old pods are deleted first, or new ones created beside them, within the limits.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use windlass::Result;

use super::{ByNode, Sync, nodes};
use crate::controllers::{amount, pod};

/// How many pods may be unavailable or additional.
struct Limits {
    unavailable: usize,
    surge: usize,
}

/// The pods of one node during an update.
struct Pair<'a> {
    new: Option<&'a Arc<Pod>>,
    old: Option<&'a Arc<Pod>>,
}

// === impl Sync ===

impl Sync<'_> {
    /// Continues an update.
    pub async fn update(&mut self, mut by_node: ByNode) -> Result<()> {
        let mut wanted = 0;
        for node in self.nodes.iter().filter(|n| nodes::fit(self.spec, n).should_run) {
            wanted += 1;
            by_node.entry(node.metadata.name.clone().unwrap_or_default()).or_default();
        }
        let limits = self.limits(wanted);
        if limits.surge == 0 {
            let leaving = self.replaceable(&by_node, limits.unavailable);
            return self.apply(&leaving, &[]).await;
        }
        let (leaving, nodes) = self.surging(&by_node, limits.surge, wanted);
        self.apply(&leaving, &nodes).await
    }

    fn limits(&self, wanted: i32) -> Limits {
        let rolling = self.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
        let scaled = |value: Option<_>, default| {
            let number = value.map_or(default, |value| amount::scaled(value, wanted, true));
            usize::try_from(number).unwrap_or(0)
        };
        let surge = scaled(rolling.and_then(|r| r.max_surge.as_ref()), 0);
        let unavailable = scaled(rolling.and_then(|r| r.max_unavailable.as_ref()), 1);
        // Neither would mean that nothing ever moves.
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        Limits { unavailable, surge }
    }

    /// Returns `true` if a node may have two pods during the update.
    pub fn surges(&self) -> bool {
        self.strategy() == "RollingUpdate"
            && self.limits(amount::number(self.nodes.len())).surge > 0
    }

    /// Old pods to delete: those that are not available anyway, and as many more as the limit
    /// allows.
    fn replaceable(&self, by_node: &ByNode, max: usize) -> Vec<Arc<Pod>> {
        let mut lacking = 0;
        let (mut leaving, mut candidates) = (Vec::new(), Vec::new());
        for pods in by_node.values() {
            match self.pair(pods) {
                Some(Pair { new: None, old: Some(old) }) => {
                    if self.is_available(old) {
                        candidates.push(old.clone());
                    } else {
                        leaving.push(old.clone());
                        lacking += 1;
                    }
                }
                Some(Pair { new: Some(new), old: None }) => {
                    lacking += usize::from(!self.is_available(new));
                }
                _ => lacking += 1,
            }
        }
        leaving.extend(candidates.into_iter().take(max.saturating_sub(lacking)));
        leaving
    }

    /// Old pods to delete because the new pod is available, and nodes that get a new pod.
    fn surging(&self, by_node: &ByNode, max: usize, wanted: i32) -> (Vec<Arc<Pod>>, Vec<String>) {
        let (mut on_top, mut working) = (0, 0);
        let (mut leaving, mut retiring) = (Vec::new(), Vec::new());
        let (mut nodes, mut candidates) = (Vec::new(), Vec::new());
        for (node, pods) in by_node {
            let Some(Pair { old, new }) = self.pair(pods) else {
                on_top += 1;
                continue;
            };
            let works = old.or(new).is_some_and(|pod| self.is_available(pod));
            working += i32::from(works);
            match (old, new) {
                (None, _) => {}
                (Some(old), None) => match (self.should_run(node), works) {
                    (true, true) => candidates.push(node.clone()),
                    (true, false) => nodes.push(node.clone()),
                    (false, true) => retiring.push(old.clone()),
                    (false, false) => leaving.push(old.clone()),
                },
                (Some(old), Some(new)) if self.is_available(new) => leaving.push(old.clone()),
                _ => on_top += 1,
            }
        }
        // A pod on a node that should have none is deleted once enough others are available.
        let spare = usize::try_from(working.saturating_sub(wanted)).unwrap_or(0);
        leaving.extend(retiring.into_iter().take(spare));
        nodes.extend(candidates.into_iter().take(max.saturating_sub(on_top)));
        (leaving, nodes)
    }

    fn should_run(&self, node: &str) -> bool {
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|n| n.metadata.name.as_deref() == Some(node));
        found.is_some_and(|node| nodes::fit(self.spec, node).should_run)
    }

    /// The new and the old pod of a node; `None` if there are several of a kind.
    fn pair<'p>(&self, pods: &'p [Arc<Pod>]) -> Option<Pair<'p>> {
        let mut pair = Pair { new: None, old: None };
        for found in pods.iter().filter(|p| !pod::is_terminating(p)) {
            let slot = if self.is_updated(found) { &mut pair.new } else { &mut pair.old };
            if slot.replace(found).is_some() {
                return None;
            }
        }
        Some(pair)
    }

    /// Which of the running pods of a node, oldest first, are too many.
    pub fn too_many(&self, running: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
        if running.len() <= 1 {
            return Vec::new();
        }
        if !self.surges() {
            return running.into_iter().skip(1).collect();
        }
        let (mut new, mut old) = (None, None);
        let mut surplus = Vec::new();
        for found in running {
            let labels = found.metadata.labels.as_ref();
            let hash = labels.and_then(|l| l.get(super::HASH_LABEL));
            let slot = if hash == Some(&self.hash) { &mut new } else { &mut old };
            match slot {
                None => *slot = Some(found),
                Some(_) => surplus.push(found),
            }
        }
        if let (Some(new), Some(old)) = (new, old)
            && (!pod::is_ready(&old) || self.is_available(&new))
        {
            surplus.push(old);
        }
        surplus
    }
}
