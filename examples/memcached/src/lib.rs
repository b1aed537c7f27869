//! The Memcached operator: `size` pods of memcached, and their names in the status.
//!
//! [`Memcached`] is the custom resource, [`reconcile`] creates what it asks for, and [`controller`]
//! declares what is watched. [`v1beta1`] is another version of the same objects.

pub mod v1beta1;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde_json::json;
use windlass::finalizer::Finalizing;
use windlass::{
    Context, Controller, Key, Next, Operator, Readiness, Result, Watch, api, condition, k8s,
};

const FINALIZER: &str = "cache.example.com/finalizer";
const INSTANCE: &str = "app.kubernetes.io/instance";

/// A cluster of memcached servers.
#[api(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    short = "mc",
    status = MemcachedStatus,
    column("Size", ".spec.size"),
    column("Available", ".status.conditions[?(@.type==\"Available\")].status"),
    column("Age", ".metadata.creationTimestamp")
)]
pub struct MemcachedSpec {
    /// How many pods run memcached.
    #[k8s(min = 1, max = 5)]
    pub size: i32,
}

/// What the operator reports.
#[k8s(optional)]
#[derive(Default)]
pub struct MemcachedStatus {
    /// The names of the pods.
    #[k8s(list = set)]
    pub nodes: Vec<String>,
    /// `Available` is true while all pods are; `Ready` also needs the last reconcile to succeed.
    #[k8s(list = map("type"))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that the conditions are about.
    pub observed_generation: Option<i64>,
}

/// The operator: run by `main`, installed by its manifests.
pub fn operator() -> Operator {
    Operator::new("memcached-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .api::<Memcached>()
        .api::<v1beta1::Memcached>()
        .conversion(v1beta1::conversion())
        .sample(&Memcached::new("memcached-sample", MemcachedSpec { size: 3 }))
        .controller(controller())
}

/// The controller, ready to be added to a manager.
pub fn controller() -> Controller<Memcached> {
    Controller::builder("memcached")
        .owns::<Deployment>()
        .conditions()
        .finalizes()
        .watch(Watch::map(|pod: &Pod| {
            let name = pod.metadata.labels.as_ref()?.get(INSTANCE)?;
            Some(Key::new(pod.metadata.namespace.as_deref(), name))
        }))
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

    let deployment = cx.apply(&deployment(&memcached)?).await?;
    let available = Readiness::of(&*deployment, cx.clock().now());
    let known = memcached.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    if available.is_ready() && !condition::is_true(known, "Available") {
        cx.event("Available", format!("{} pods are available", memcached.spec.size));
    }
    cx.report("Available", &available);

    let pods = cx.list::<Pod>().labels([(INSTANCE, cx.name())]).items()?;
    let alive = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let nodes: Vec<_> = alive.filter_map(|pod| pod.metadata.name.clone()).collect();
    cx.status(|status| status.nodes.clone_from(&nodes)).await?;
    Ok(Next::Done)
}

fn deployment(memcached: &Memcached) -> Result<Deployment> {
    let name = memcached.name_any();
    let memory = v1beta1::memory(memcached.annotations()).unwrap_or(v1beta1::DEFAULT_MEMORY);
    let labels = json!({"app.kubernetes.io/name": "memcached", INSTANCE: name});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": memcached.spec.size,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "memcached",
                    "image": "memcached:1.6-alpine",
                    "args": ["memcached", format!("--memory-limit={memory}"), "-o", "modern", "-v"],
                    "ports": [{"name": "memcached", "containerPort": 11211}],
                }]},
            },
        },
    }))?)
}
