//! The controllers of the embedded cluster under faults, as many as fit into some seconds.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use windlass::Result;
use windlass_sim::{Explore, Sim};

/// How long each of them is explored.
const BUDGET: Duration = Duration::from_secs(3);

fn explore<F>(name: &str, scenario: F)
where
    F: AsyncFn(&mut Sim) -> Result<()> + Sync,
{
    Explore::of(name, scenario).budget(BUDGET).check();
}

/// A workload of one container, with other fields of its spec.
fn workload<K: serde::de::DeserializeOwned>(mut spec: Value) -> Result<K> {
    let labels = json!({"app": "web"});
    spec["selector"] = json!({"matchLabels": labels});
    spec["template"] = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "app", "image": "one"}]},
    });
    let meta = json!({"name": "web", "namespace": "default"});
    Ok(serde_json::from_value(json!({"metadata": meta, "spec": spec}))?)
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}}})
}

#[test]
fn deployments_and_replica_sets() {
    explore("embedded-deployment", async |sim: &mut Sim| {
        sim.embedded(&["deployment", "replicaset"]);
        sim.create(&workload::<Deployment>(json!({"replicas": 2}))?).await?;
        sim.settle("two pods").await?;
        sim.delete_any::<Pod>().await?;
        sim.settle("two pods again").await?;
        sim.merge::<Deployment>("web", image("two")).await?;
        sim.settle("two new pods").await?;
        sim.scale::<Deployment>("web", 1).await?;
        sim.settle("one pod").await?;
        sim.delete::<Deployment>("web").await?;
        sim.settle("deleted").await?;
        sim.sometimes("two pods", |world| world.count::<Pod>() == 2);
        sim.eventually("nothing is left", |world| {
            world.count::<ReplicaSet>() + world.count::<Pod>() == 0
        });
        Ok(())
    });
}

#[test]
fn stateful_sets() {
    explore("embedded-statefulset", async |sim: &mut Sim| {
        sim.embedded(&["statefulset"]);
        let set = json!({"replicas": 2, "serviceName": "web"});
        sim.create(&workload::<StatefulSet>(set)?).await?;
        sim.settle("two pods").await?;
        sim.merge::<StatefulSet>("web", image("two")).await?;
        sim.settle("two new pods").await?;
        sim.scale::<StatefulSet>("web", 1).await?;
        sim.settle("one pod").await?;
        sim.always("never more than two pods", |world| world.count::<Pod>() <= 2);
        Ok(())
    });
}

#[test]
fn daemon_sets() {
    explore("embedded-daemonset", async |sim: &mut Sim| {
        sim.embedded(&["daemonset"]);
        sim.create(&workload::<DaemonSet>(json!({}))?).await?;
        sim.settle("one pod").await?;
        sim.merge::<DaemonSet>("web", image("two")).await?;
        sim.settle("one new pod").await?;
        sim.always("one pod per node", |world| world.count::<Pod>() <= 1);
        Ok(())
    });
}

#[test]
fn jobs() {
    explore("embedded-job", async |sim: &mut Sim| {
        sim.embedded(&["job"]);
        let template = json!({"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "app", "image": "one"}],
        }});
        let spec = json!({"completions": 2, "parallelism": 1, "template": template});
        let meta = json!({"name": "web", "namespace": "default"});
        let job: Job = serde_json::from_value(json!({"metadata": meta, "spec": spec}))?;
        sim.create(&job).await?;
        sim.settle("it is complete").await?;
        sim.always("one pod at a time, two in all", |world| world.count::<Pod>() <= 2);
        sim.eventually("it is complete", |world| {
            let status = world.get::<Job>("web").and_then(|job| job.status).unwrap_or_default();
            status.succeeded == Some(2) && status.completion_time.is_some()
        });
        Ok(())
    });
}
