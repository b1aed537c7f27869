//! The Memcached operator: `size` pods of memcached, and their names in the status.
//!
//! [`Memcached`] is the custom resource, [`reconcile`] creates what it asks for, and [`controller`]
//! declares what is watched. There is nothing else.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::finalizer::Finalizing;
use windlass::{Context, Controller, Key, Next, Operator, Result, condition};

const FINALIZER: &str = "cache.example.com/finalizer";
const INSTANCE: &str = "app.kubernetes.io/instance";

/// What people ask for.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    namespaced,
    shortname = "mc",
    status = "MemcachedStatus",
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}"#,
    printcolumn = r#"{"name": "Available", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Available\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub struct MemcachedSpec {
    /// How many pods run memcached.
    #[schemars(range(min = 1, max = 5))]
    pub size: i32,
}

/// What the operator reports.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct MemcachedStatus {
    /// The names of the pods.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// `Available` is true while all pods are.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// The operator: run by `main`, installed by its manifests.
pub fn operator() -> Operator {
    Operator::new("memcached-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .api::<Memcached>()
        .sample(&Memcached::new("memcached-sample", MemcachedSpec { size: 3 }))
        .controller(controller())
}

/// The controller, ready to be added to a manager.
pub fn controller() -> Controller<Memcached> {
    Controller::builder("memcached")
        .owns::<Deployment>()
        .writes_status()
        .finalizes()
        .watches(|pod: &Pod| {
            let name = pod.metadata.labels.as_ref().and_then(|labels| labels.get(INSTANCE));
            name.map(|name| Key::new(pod.metadata.namespace.as_deref(), name))
                .into_iter()
                .collect::<Vec<_>>()
        })
        .build(reconcile)
}

/// Brings the cluster to what one Memcached asks for.
///
/// # Errors
///
/// Fails if the API server refuses a request; the manager retries.
pub async fn reconcile(cx: Context<Memcached>) -> Result<Next> {
    let Some(memcached) = cx.object() else { return Ok(Next::Done) };
    let goodbye = || async {
        // What exists outside the cluster is cleaned up here; the Deployment is garbage collected.
        cx.warn("Deleting", format!("{} is being deleted", cx.name()));
        Ok(())
    };
    if let Finalizing::Finalized = cx.finalize(FINALIZER, goodbye).await? {
        return Ok(Next::Done);
    }

    let size = memcached.spec.size;
    let deployment = cx.apply(&deployment(cx.name(), size)?).await?;
    let available = deployment.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0);
    let pods = cx.list::<Pod>().labels([(INSTANCE, cx.name())]).items()?;
    let alive = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let nodes: Vec<_> = alive.filter_map(|pod| pod.metadata.name.clone()).collect();

    let (ready, message) = (available == size, format!("{available} of {size} pods are available"));
    let (reason, mut turned) = (if ready { "AllAvailable" } else { "SomeMissing" }, false);
    cx.status(|status| {
        status.nodes.clone_from(&nodes);
        turned = ready && !condition::is_true(&status.conditions, "Available");
        let available = cx.condition("Available", ready).reason(reason).message(&message);
        available.set(&mut status.conditions);
    })
    .await?;
    if turned {
        cx.event("Available", message);
    }
    Ok(Next::Done)
}

fn deployment(name: &str, size: i32) -> Result<Deployment> {
    let labels = json!({"app.kubernetes.io/name": "memcached", INSTANCE: name});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": size,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "memcached",
                    "image": "memcached:1.6-alpine",
                    "args": ["memcached", "--memory-limit=64", "-o", "modern", "-v"],
                    "ports": [{"name": "memcached", "containerPort": 11211}],
                }]},
            },
        },
    }))?)
}
