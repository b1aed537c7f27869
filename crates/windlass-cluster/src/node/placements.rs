//! Which pods are on which node, what they use there, and which pods wait for capacity.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod};
use windlass::Key;

use super::amount::Amounts;
use super::fit;
use crate::controllers::pod;

/// What the scheduler knows of all pods, kept up to date as they pass through its reconcile.
#[derive(Debug, Default)]
pub struct Placements {
    pods: BTreeMap<Key, Placed>,
    nodes: BTreeMap<String, Amounts>,
    /// Pods that wait for pods of lower priority to leave their node.
    nominated: BTreeMap<Key, Nomination>,
    /// Pods that fit nowhere.
    refused: BTreeSet<Key>,
    /// The pods that had a node before the scheduler started are counted.
    pub counted: bool,
}

/// A pod that has a node.
#[derive(Debug)]
struct Placed {
    uid: String,
    node: String,
    amounts: Amounts,
    priority: i32,
}

/// The node that is kept for a pod, and the pods that have to leave it.
#[derive(Debug)]
struct Nomination {
    node: String,
    amounts: Amounts,
    priority: i32,
    victims: Vec<(Key, String)>,
}

/// Returns the priority of a pod.
pub fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

// === impl Placements ===

impl Placements {
    /// Returns `true` if this very pod has a node.
    pub fn has(&self, key: &Key, pod: &Pod) -> bool {
        self.pods.get(key).is_some_and(|placed| pod.metadata.uid.as_ref() == Some(&placed.uid))
    }

    /// Notes a pod that has a node.
    pub fn put(&mut self, key: &Key, pod: &Pod) {
        if self.has(key, pod) {
            return;
        }
        self.remove(key);
        let placed = Placed {
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            node: pod::node(pod).unwrap_or_default().to_string(),
            amounts: Amounts::of_pod(pod),
            priority: priority(pod),
        };
        self.nodes.entry(placed.node.clone()).or_default().add(&placed.amounts);
        self.pods.insert(key.clone(), placed);
    }

    /// Forgets a pod that has ended or is deleted.
    pub fn remove(&mut self, key: &Key) {
        self.refused.remove(key);
        self.nominated.remove(key);
        if let Some(placed) = self.pods.remove(key)
            && let Some(used) = self.nodes.get_mut(&placed.node)
        {
            used.sub(&placed.amounts);
        }
    }

    /// Notes a pod that fits nowhere.
    pub fn refuse(&mut self, key: &Key) {
        self.refused.insert(key.clone());
    }

    /// Returns the pods that wait for a node to change or for another pod to leave.
    pub fn waiting(&self) -> Vec<Key> {
        self.refused.iter().cloned().collect()
    }

    /// Returns what is taken of a node from the point of view of a pod: by the pods there, and
    /// by pods of at least the same priority that the node is kept for.
    pub fn used(&self, node: &str, key: &Key, priority: i32) -> Amounts {
        let mut used = self.nodes.get(node).cloned().unwrap_or_default();
        for (other, nomination) in &self.nominated {
            if other != key && nomination.node == node && nomination.priority >= priority {
                used.add(&nomination.amounts);
            }
        }
        used
    }

    /// Returns `true` while pods leave the node that is kept for a pod.
    pub fn is_awaiting_victims(&self, key: &Key) -> bool {
        let is_there = |(key, uid): &(Key, String)| {
            self.pods.get(key).is_some_and(|placed| placed.uid == *uid)
        };
        self.nominated.get(key).is_some_and(|nomination| nomination.victims.iter().any(is_there))
    }

    /// Reserves a node for a pod until its victims are deleted.
    pub fn nominate(&mut self, key: &Key, pod: &Pod, node: &str, victims: &[Key]) {
        let uid = |key: &Key| self.pods.get(key).map(|placed| (key.clone(), placed.uid.clone()));
        let nomination = Nomination {
            node: node.to_string(),
            amounts: Amounts::of_pod(pod),
            priority: priority(pod),
            victims: victims.iter().filter_map(uid).collect(),
        };
        self.nominated.insert(key.clone(), nomination);
    }

    /// Finds the node with the least important victims for a pod, and these victims.
    ///
    /// The choice is the scheduler's: the lowest priority among the most important victims, then
    /// the smallest sum of priorities, then the fewest pods, then the name of the node.
    /// Disruption budgets are not considered.
    pub fn victims(&self, key: &Key, pod: &Pod, nodes: &[&Node]) -> Option<(String, Vec<Key>)> {
        let (own, request) = (priority(pod), Amounts::of_pod(pod));
        let mut by_node: BTreeMap<&str, Vec<(&Key, &Placed)>> = BTreeMap::new();
        for (key, placed) in self.pods.iter().filter(|(_, placed)| placed.priority < own) {
            by_node.entry(&placed.node).or_default().push((key, placed));
        }
        let candidates = nodes.iter().filter_map(|node| {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            let lower = by_node.get(name)?;
            let mut used = self.used(name, key, own);
            lower.iter().for_each(|(_, placed)| used.sub(&placed.amounts));
            if !fit::against(pod, node, &used, &request).is_empty() {
                return None;
            }
            // The most important ones stay if there is room for them beside the pod.
            let mut ranked = lower.clone();
            ranked.sort_by_key(|(key, placed)| (-i64::from(placed.priority), (*key).clone()));
            ranked.retain(|(_, placed)| {
                let mut with = used.clone();
                with.add(&placed.amounts);
                let stays = fit::against(pod, node, &with, &request).is_empty();
                if stays {
                    used = with;
                }
                !stays
            });
            let highest = ranked.first().map_or(i32::MIN, |(_, placed)| placed.priority);
            let sum: i64 = ranked.iter().map(|(_, placed)| i64::from(placed.priority)).sum();
            let keys: Vec<Key> = ranked.into_iter().map(|(key, _)| key.clone()).collect();
            Some((highest, sum, keys.len(), name.to_string(), keys))
        });
        let best = candidates.min_by(|a, b| (a.0, a.1, a.2, &a.3).cmp(&(b.0, b.1, b.2, &b.3)))?;
        Some((best.3, best.4))
    }
}
