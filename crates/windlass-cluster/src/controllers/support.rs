//! Endpoints, budgets, quotas, volumes, roles, autoscaling and nodes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use windlass::events::{EventType, Recorder};
use windlass::{Key, Kind, Object};

use super::{Add, Shared};

mod pods;
mod trigger;
mod wording;

pub mod autoscalers;
pub mod budgets;
pub mod endpoints;
pub mod ephemeral;
pub mod evictions;
pub mod mirrors;
pub mod node_life;
pub mod pod_collector;
pub mod policies;
pub mod protection;
pub mod quotas;
pub mod roles;
pub mod slices;
pub mod volumes;

pub use autoscalers::Metrics;
pub(crate) use pods::by_node;

/// The controllers of this group.
pub const LIST: &[(&str, Add)] = &[
    ("endpointslice", slices::add),
    ("endpoints", endpoints::add),
    ("endpointslice-mirroring", mirrors::add),
    ("disruption", budgets::add),
    ("resourcequota", quotas::add),
    ("persistentvolume-binder", volumes::add),
    ("ephemeral-volume", ephemeral::add),
    ("persistentvolumeclaim-protection", protection::add_claims),
    ("persistentvolume-protection", protection::add_volumes),
    ("clusterrole-aggregation", roles::add),
    ("validatingadmissionpolicy-status", policies::add),
    ("horizontal-pod-autoscaler", autoscalers::add),
    ("pod-garbage-collector", pod_collector::add),
    ("node-lifecycle", node_life::add),
    ("ttl", node_life::add_ttl),
    ("taint-eviction", evictions::add),
];

/// The time of the server, for status fields.
fn time(shared: &Shared) -> Time {
    let now = shared.server.clock().now();
    Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Sets or removes an annotation of an object; leaves no empty map behind.
fn annotate(object: &mut Value, name: &str, value: Option<&str>) {
    let Some(meta) = object["metadata"].as_object_mut() else { return };
    let annotations = meta.entry("annotations").or_insert_with(|| json!({}));
    if annotations.is_null() {
        *annotations = json!({});
    }
    if let Some(map) = annotations.as_object_mut() {
        match value {
            Some(value) => drop(map.insert(name.to_string(), json!(value))),
            None => drop(map.remove(name)),
        }
        if map.is_empty() {
            meta.remove("annotations");
        }
    }
}

/// Records an event about an object that is not the reconciled one.
fn publish<K: Object<DynamicType = ()>>(
    recorder: &Recorder,
    event_type: EventType,
    object: &K,
    reason: &str,
    text: String,
) {
    let mut regarding = Key::of(object).object_reference(&Kind::of::<K>());
    regarding.uid = object.meta().uid.clone();
    recorder.publish(event_type, regarding, reason, "Reconcile", text);
}

/// A resource with its group, as error texts name it.
fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") }
}
