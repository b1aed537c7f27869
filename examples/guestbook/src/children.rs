//! The objects that a guestbook consists of.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, EnvVar, Service};
use serde_json::{Value, json};
use windlass::Result;

use crate::GuestbookSpec;

/// The label with the name of the guestbook.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// The label that distinguishes the pods of the front end from those of the store.
pub const TIER_OF_FRONT_END: (&str, &str) = ("app.kubernetes.io/component", "frontend");

const FRONT_END_IMAGE: &str = "us-docker.pkg.dev/google-samples/containers/gke/gb-frontend:v5";
const STORE_IMAGE: &str = "redis:7-alpine";

/// The front end. It starts again when the settings change, because they are part of its pods.
///
/// # Errors
///
/// Fails if an object cannot be described as JSON.
pub fn front_end(name: &str, spec: &GuestbookSpec, settings: &ConfigMap) -> Result<Deployment> {
    let labels = labels(name, TIER_OF_FRONT_END.1);
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": spec.size,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "frontend",
                    "image": FRONT_END_IMAGE,
                    "env": environment(name, spec, settings),
                    "ports": [{"name": "http", "containerPort": 80}],
                }]},
            },
        },
    }))?)
}

/// The address of the front end.
///
/// # Errors
///
/// Fails if an object cannot be described as JSON.
pub fn front_end_service(name: &str) -> Result<Service> {
    service(name, name, TIER_OF_FRONT_END.1, json!({"name": "http", "port": 80}))
}

/// The store: one redis.
///
/// # Errors
///
/// Fails if an object cannot be described as JSON.
pub fn store(name: &str) -> Result<StatefulSet> {
    let labels = labels(name, "store");
    let store = store_name(name);
    Ok(serde_json::from_value(json!({
        "metadata": {"name": store, "labels": labels},
        "spec": {
            "replicas": 1,
            "serviceName": store,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "redis",
                    "image": STORE_IMAGE,
                    "args": ["--appendonly", "yes"],
                    "ports": [{"name": "redis", "containerPort": 6379}],
                }]},
            },
        },
    }))?)
}

/// The address of the store.
///
/// # Errors
///
/// Fails if an object cannot be described as JSON.
pub fn store_service(name: &str) -> Result<Service> {
    service(name, &store_name(name), "store", json!({"name": "redis", "port": 6379}))
}

fn store_name(name: &str) -> String {
    format!("{name}-store")
}

fn service(guestbook: &str, name: &str, component: &str, port: Value) -> Result<Service> {
    let labels = labels(guestbook, component);
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": labels, "ports": [port]},
    }))?)
}

fn labels(name: &str, component: &str) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name", "guestbook".into()),
        (TIER_OF_FRONT_END.0, component.into()),
        (INSTANCE, name.into()),
    ])
}

/// What the front end reads: its settings, and where the store is, which no setting can change.
fn environment(name: &str, spec: &GuestbookSpec, settings: &ConfigMap) -> Vec<EnvVar> {
    let mut values = settings.data.clone().unwrap_or_default();
    values.insert("GET_HOSTS_FROM".into(), "env".into());
    values.insert("GUESTBOOK_ALIAS".into(), format!("{:?}", spec.alias));
    values.insert("REDIS_LEADER_SERVICE_HOST".into(), store_name(name));
    values.insert("REDIS_FOLLOWER_SERVICE_HOST".into(), store_name(name));
    let variable = |(name, value)| EnvVar { name, value: Some(value), value_from: None };
    values.into_iter().map(variable).collect()
}
