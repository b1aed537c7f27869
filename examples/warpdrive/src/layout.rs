//! Which volumes are on which nodes, and how much of them is used.
//!
//! Both are pure functions of what the cache holds.
//!
//! **Invariant:** a volume that belongs to a claim stays, whatever else changes.
//! **Invariant:** a node that takes part is not exchanged for another one while it is selected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use windlass_text::Quantity as Amount;

use crate::children::{INDEX, NODE};
use crate::{WarpdrivePoolSpec, WarpdrivePoolStatus};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// A node that takes part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The name of the node.
    pub name: String,
    /// The value of its label `kubernetes.io/hostname`, by which volumes and pods find it.
    pub hostname: String,
}

/// A volume, by its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The node.
    pub node: Member,
    /// The number of the volume on the node, from 0.
    pub index: i32,
}

/// What a pool consists of.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The nodes, by name.
    pub nodes: Vec<Member>,
    /// The volumes, by node and number.
    pub volumes: BTreeSet<Place>,
}

/// How much of a pool is used.
#[derive(Debug)]
pub struct Usage {
    /// How many volumes exist.
    pub volumes: usize,
    /// How many of them belong to a claim.
    pub in_use: usize,
    capacity: Amount,
    free: Amount,
}

/// Returns `true` if a node can take volumes: it is ready, and neither cordoned nor being deleted.
pub fn is_usable(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    node.metadata.deletion_timestamp.is_none()
        && !cordoned
        && ready.next_back().is_some_and(|condition| condition.status == "True")
}

// === impl Layout ===

impl Layout {
    /// Chooses the nodes of a pool, given those with its labels and the volumes that exist.
    pub fn new(
        spec: &WarpdrivePoolSpec,
        nodes: &[Arc<Node>],
        volumes: &[Arc<PersistentVolume>],
    ) -> Self {
        let existing: BTreeMap<Place, bool> =
            volumes.iter().filter_map(|volume| Some((place(volume)?, is_used(volume)))).collect();
        let used = |member: &Member| existing.iter().any(|(at, used)| *used && at.node == *member);
        let present = |member: &Member| existing.keys().any(|place| place.node == *member);
        // Nodes with claims first, then those that take part already, then others that can.
        let mut candidates: Vec<(u8, Member)> = Vec::new();
        for node in nodes {
            let member = Member::of(node);
            match (used(&member), present(&member), is_usable(node)) {
                (true, ..) => candidates.push((0, member)),
                (false, true, _) => candidates.push((1, member)),
                (false, false, true) => candidates.push((2, member)),
                (false, false, false) => {}
            }
        }
        candidates.sort();
        let wanted = usize::try_from(spec.replicas).unwrap_or_default();
        let mut nodes: Vec<Member> =
            candidates.into_iter().take(wanted).map(|(_, member)| member).collect();
        nodes.sort();
        let place = |node: &Member, index| Place { node: node.clone(), index };
        let all = nodes.iter().flat_map(|node| (0..spec.volumes_per_node).map(|i| place(node, i)));
        let kept = existing.iter().filter(|(_, used)| **used).map(|(place, _)| place.clone());
        let volumes = all.chain(kept).collect();
        Self { nodes, volumes }
    }
}

// === impl Member ===

impl Member {
    fn of(node: &Node) -> Self {
        let name = node.metadata.name.clone().unwrap_or_default();
        let label = node.metadata.labels.as_ref().and_then(|labels| labels.get(HOSTNAME));
        Self { hostname: label.unwrap_or(&name).clone(), name }
    }
}

// === impl Usage ===

impl Usage {
    /// Adds up volumes.
    pub fn of(volumes: &[Arc<PersistentVolume>]) -> Self {
        let mut usage =
            Self { volumes: 0, in_use: 0, capacity: Amount::zero(), free: Amount::zero() };
        for volume in volumes {
            let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref());
            let size = capacity.and_then(|capacity| capacity.get("storage")?.0.parse().ok());
            let size: Amount = size.unwrap_or_else(Amount::zero);
            usage.volumes += 1;
            usage.capacity = size.add(&usage.capacity);
            match is_used(volume) {
                true => usage.in_use += 1,
                false => usage.free = size.add(&usage.free),
            }
        }
        usage
    }

    /// Writes the figures into a status.
    pub fn write(&self, status: &mut WarpdrivePoolStatus) {
        status.volumes = i32::try_from(self.volumes).ok();
        status.volumes_in_use = i32::try_from(self.in_use).ok();
        status.capacity = Some(Quantity(self.capacity.to_string()));
        status.free = Some(Quantity(self.free.to_string()));
    }
}

/// Returns `true` if a volume belongs to a claim.
fn is_used(volume: &PersistentVolume) -> bool {
    volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_some())
}

/// Returns where a volume is, as its annotations say.
fn place(volume: &PersistentVolume) -> Option<Place> {
    let annotations = volume.metadata.annotations.as_ref()?;
    let (name, hostname) = annotations.get(NODE)?.split_once('/')?;
    let node = Member { name: name.into(), hostname: hostname.into() };
    Some(Place { node, index: annotations.get(INDEX)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::children;

    fn spec(replicas: i32) -> WarpdrivePoolSpec {
        WarpdrivePoolSpec {
            node_selector: BTreeMap::new(),
            replicas,
            volumes_per_node: 2,
            volume_size: Quantity("10Gi".into()),
            agent_namespace: "kube-system".into(),
        }
    }

    fn node(name: &str, ready: bool) -> Arc<Node> {
        let status = if ready { "True" } else { "False" };
        let node = json!({
            "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        });
        Arc::new(serde_json::from_value(node).expect("is a node"))
    }

    /// The volumes of a layout, of which those on one node belong to claims.
    fn volumes(layout: &Layout, used_on: &str) -> Vec<Arc<PersistentVolume>> {
        let volume = |place: &Place| {
            let mut volume = children::volume("p", &spec(1), place).expect("can be described");
            let spec = volume.spec.as_mut().expect("has a spec");
            spec.claim_ref = (place.node.name == used_on).then(Default::default);
            Arc::new(volume)
        };
        layout.volumes.iter().map(volume).collect()
    }

    fn names(layout: &Layout) -> Vec<&str> {
        layout.nodes.iter().map(|node| node.name.as_str()).collect()
    }

    #[test]
    fn ready_nodes_are_chosen_by_name_and_kept_when_they_are_no_longer_ready() {
        let nodes = [node("a", false), node("b", true), node("c", true), node("d", true)];
        let first = Layout::new(&spec(2), &nodes, &[]);
        assert_eq!((names(&first), first.volumes.len()), (vec!["b", "c"], 4));
        let there = volumes(&first, "");
        let later = [node("a", true), node("b", false), node("c", true), node("d", true)];
        assert_eq!(Layout::new(&spec(2), &later, &there), first);
        assert_eq!(names(&Layout::new(&spec(3), &later, &there)), ["a", "b", "c"], "expansion");
    }

    #[test]
    fn volumes_with_claims_stay_when_the_pool_shrinks_or_their_node_is_no_longer_selected() {
        let nodes = [node("a", true), node("b", true)];
        let both = Layout::new(&spec(2), &nodes, &[]);
        let there = volumes(&both, "b");
        let shrunk = Layout::new(&spec(1), &nodes, &there);
        assert_eq!((names(&shrunk), shrunk.volumes.len()), (vec!["b"], 2));
        let moved = Layout::new(&spec(1), &nodes[..1], &there);
        assert_eq!((names(&moved), moved.volumes.len()), (vec!["a"], 4), "two are still used");
    }

    #[test]
    fn figures_are_sums_of_quantities() {
        let layout = Layout::new(&spec(2), &[node("a", true), node("b", true)], &[]);
        let mut status = WarpdrivePoolStatus::default();
        Usage::of(&volumes(&layout, "a")).write(&mut status);
        assert_eq!((status.volumes, status.volumes_in_use), (Some(4), Some(2)));
        assert_eq!(status.capacity, Some(Quantity("40Gi".into())));
        assert_eq!(status.free, Some(Quantity("20Gi".into())));
    }
}
