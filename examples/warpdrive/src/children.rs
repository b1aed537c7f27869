//! The objects that a pool consists of.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};
use windlass::Result;

use crate::WarpdrivePoolSpec;
use crate::layout::{Layout, Member, Place};

/// The label with the name of the pool.
pub const POOL: &str = "tos.transwarp.io/pool";
/// The annotation of a volume with its node: name and host name.
pub const NODE: &str = "tos.transwarp.io/node";
/// The annotation of a volume with its number on the node.
pub const INDEX: &str = "tos.transwarp.io/index";

const AGENT_IMAGE: &str = "transwarp/warpdrive-agent:1.0";
const ROOT: &str = "/var/lib/warpdrive";

/// The class that claims ask for. Volumes are bound when it is known where their pod runs.
///
/// # Errors
///
/// Fails if the object cannot be described as JSON.
pub fn storage_class(pool: &str) -> Result<StorageClass> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": pool, "labels": {POOL: pool}},
        "provisioner": "kubernetes.io/no-provisioner",
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "WaitForFirstConsumer",
    }))?)
}

/// One volume, a directory of its node.
///
/// # Errors
///
/// Fails if the object cannot be described as JSON.
pub fn volume(pool: &str, spec: &WarpdrivePoolSpec, place: &Place) -> Result<PersistentVolume> {
    let Place { node: Member { name, hostname }, index } = place;
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": format!("{pool}-{name}-{index}"),
            "labels": {POOL: pool},
            "annotations": {NODE: format!("{name}/{hostname}"), INDEX: index.to_string()},
        },
        "spec": {
            "storageClassName": pool,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": spec.volume_size},
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": path(pool, *index)},
            "nodeAffinity": {"required": on_hosts(&[hostname])},
        },
    }))?)
}

/// Returns what the agents read: the directories of each host.
///
/// # Errors
///
/// Fails if the object cannot be described as JSON.
pub fn settings(pool: &str, spec: &WarpdrivePoolSpec, layout: &Layout) -> Result<ConfigMap> {
    let mut hosts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for place in &layout.volumes {
        hosts.entry(&place.node.hostname).or_default().push(path(pool, place.index));
    }
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": agent(pool),
            "namespace": spec.agent_namespace,
            "labels": {POOL: pool},
        },
        "data": {"layout.json": serde_json::to_string(&hosts)?},
    }))?)
}

/// An agent on each node of the pool, which creates and watches the directories.
///
/// # Errors
///
/// Fails if the object cannot be described as JSON.
pub fn agents(pool: &str, spec: &WarpdrivePoolSpec, layout: &Layout) -> Result<DaemonSet> {
    let hosts: Vec<&String> = layout.nodes.iter().map(|node| &node.hostname).collect();
    let labels = json!({POOL: pool});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": agent(pool), "namespace": spec.agent_namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "affinity": {"nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": on_hosts(&hosts),
                    }},
                    "containers": [{
                        "name": "agent",
                        "image": AGENT_IMAGE,
                        "volumeMounts": [
                            {"name": "root", "mountPath": ROOT},
                            {"name": "layout", "mountPath": "/etc/warpdrive", "readOnly": true},
                        ],
                    }],
                    "volumes": [
                        {"name": "root", "hostPath": {"path": ROOT, "type": "DirectoryOrCreate"}},
                        {"name": "layout", "configMap": {"name": agent(pool)}},
                    ],
                },
            },
        },
    }))?)
}

fn agent(pool: &str) -> String {
    format!("{pool}-agent")
}

fn path(pool: &str, index: i32) -> String {
    format!("{ROOT}/{pool}/{index}")
}

fn on_hosts(hosts: &[&String]) -> Value {
    json!({"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": hosts},
    ]}]})
}
