//! The Memcached operator without finalizer and events, as compared in `docs/`.
#![allow(missing_docs, reason = "the page shows the code alone")]

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;
use windlass::{Context, Controller, Key, Manager, Next, Result, Watch, api, k8s};

#[api(group = "cache.example.com", version = "v1alpha1", kind = "Memcached", status = MemcachedStatus)]
pub struct MemcachedSpec {
    pub size: i32,
}

#[k8s(optional)]
#[derive(Default)]
pub struct MemcachedStatus {
    pub nodes: Vec<String>,
    pub conditions: Vec<Condition>,
}

async fn reconcile(cx: Context<Memcached>) -> Result<Next> {
    let Some(memcached) = cx.object() else { return Ok(Next::Done) };
    let size = memcached.spec.size;
    let labels = json!({"app": "memcached", "instance": cx.name()});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": cx.name()},
        "spec": {
            "replicas": size,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "memcached",
                    "image": "memcached:1.6-alpine",
                    "ports": [{"name": "memcached", "containerPort": 11211}],
                }]},
            },
        },
    }))?;
    let deployment = cx.apply(&deployment).await?;
    let available = deployment.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0);
    let nodes = cx.list::<Pod>().labels([("instance", cx.name())]).names()?;
    let (ready, message) = (available == size, format!("{available} of {size} are available"));
    let reason = if ready { "AllAvailable" } else { "SomeMissing" };
    cx.status(|status| {
        status.nodes.clone_from(&nodes);
        let available = cx.condition("Available", ready).reason(reason).message(&message);
        available.set(&mut status.conditions);
    })
    .await?;
    Ok(Next::Done)
}

pub fn controller() -> Controller<Memcached> {
    Controller::builder("memcached")
        .owns::<Deployment>()
        .watch(Watch::map(|pod: &Pod| {
            let instance = pod.metadata.labels.iter().flat_map(|labels| labels.get("instance"));
            instance
                .map(|name| Key::new(pod.metadata.namespace.as_deref(), name))
                .collect::<Vec<_>>()
        }))
        .build(reconcile)
}

#[tokio::main]
async fn main() -> Result<()> {
    let client = kube::Client::try_default().await?;
    Manager::new(client).add(controller()).run_until_signal().await
}
