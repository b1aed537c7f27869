//! DaemonSets: one pod per node, through changes of nodes and templates.

use serde_json::{Value, json};

use crate::batch_world::{World, template, text};

fn set(strategy: Value) -> Value {
    let mut template = template(json!({"app": "agent"}), "Always");
    template["spec"]["nodeSelector"] = json!({"pool": "a"});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": template,
            "updateStrategy": strategy,
        },
    })
}

fn rolling() -> Value {
    json!({"type": "RollingUpdate"})
}

async fn node(world: &World, name: &str) {
    let labels = json!({"pool": "a"});
    let meta = json!({"name": name, "labels": labels});
    world.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": meta})).await;
    // The taint of a node that is not ready yet is removed.
    world.patch("Node", name, json!({"spec": {"taints": []}})).await;
}

fn target(pod: &Value) -> &str {
    let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                /nodeSelectorTerms/0/matchFields/0/values/0";
    text(pod.pointer(path).unwrap_or(&Value::Null))
}

async fn targets(world: &World) -> Vec<String> {
    let mut all: Vec<String> =
        world.list("Pod").await.iter().map(|p| target(p).to_string()).collect();
    all.sort();
    all
}

async fn until_targets(world: &World, wanted: &[&str]) {
    world.until("pods are meant for nodes", || async { targets(world).await == wanted }).await;
}

async fn pods(world: &World, image: &str) -> Vec<String> {
    let all = world.list("Pod").await;
    let with = all.iter().filter(|p| p["spec"]["containers"][0]["image"] == image);
    with.map(|p| text(&p["metadata"]["name"]).to_string()).collect()
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

#[tokio::test(start_paused = true)]
async fn every_node_that_fits_has_one_pod() {
    let world = World::new().await;
    node(&world, "a").await;
    world.create(set(rolling())).await;
    until_targets(&world, &["a"]).await;
    let pod = world.list("Pod").await.remove(0);
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 6);
    assert_eq!(pod["metadata"]["labels"]["pod-template-generation"], "1");
    node(&world, "b").await;
    until_targets(&world, &["a", "b"]).await;
    for pod in pods(&world, "nginx:1").await {
        world.ready(&pod).await;
    }
    let wanted = json!({
        "currentNumberScheduled": 2, "numberMisscheduled": 0, "desiredNumberScheduled": 2,
        "numberReady": 2, "observedGeneration": 1, "updatedNumberScheduled": 2,
        "numberAvailable": 2,
    });
    world.until_field("DaemonSet", "agent", "/status", wanted).await;
    world.patch("Node", "a", json!({"metadata": {"labels": {"pool": "b"}}})).await;
    until_targets(&world, &["b"]).await;
    world.until_field("DaemonSet", "agent", "/status/desiredNumberScheduled", json!(1)).await;
}

#[tokio::test(start_paused = true)]
async fn an_update_replaces_one_pod_after_the_other() {
    let world = World::new().await;
    node(&world, "a").await;
    node(&world, "b").await;
    world.create(set(rolling())).await;
    until_targets(&world, &["a", "b"]).await;
    for pod in pods(&world, "nginx:1").await {
        world.ready(&pod).await;
    }
    world.until_field("DaemonSet", "agent", "/status/numberReady", json!(2)).await;
    world.patch("DaemonSet", "agent", image("nginx:2")).await;
    world.until("one is new", || async { pods(&world, "nginx:2").await.len() == 1 }).await;
    assert_eq!(pods(&world, "nginx:1").await.len(), 1);
    world.ready(&pods(&world, "nginx:2").await[0]).await;
    world.until("both are new", || async { pods(&world, "nginx:2").await.len() == 2 }).await;
    for pod in pods(&world, "nginx:2").await {
        world.ready(&pod).await;
    }
    world.until_field("DaemonSet", "agent", "/status/updatedNumberScheduled", json!(2)).await;
    assert_eq!(world.list("ControllerRevision").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn with_surge_the_new_pod_comes_first() {
    let world = World::new().await;
    node(&world, "a").await;
    let limits = json!({"maxSurge": 1, "maxUnavailable": 0});
    world.create(set(json!({"type": "RollingUpdate", "rollingUpdate": limits}))).await;
    until_targets(&world, &["a"]).await;
    world.ready(&pods(&world, "nginx:1").await[0]).await;
    world.until_field("DaemonSet", "agent", "/status/numberReady", json!(1)).await;
    world.patch("DaemonSet", "agent", image("nginx:2")).await;
    until_targets(&world, &["a", "a"]).await;
    world.ready(&pods(&world, "nginx:2").await[0]).await;
    world
        .until("the old pod is deleted", || async { pods(&world, "nginx:1").await.is_empty() })
        .await;
    until_targets(&world, &["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_deleted_and_made_again() {
    let world = World::new().await;
    node(&world, "a").await;
    world.create(set(json!({"type": "OnDelete"}))).await;
    until_targets(&world, &["a"]).await;
    let first = pods(&world, "nginx:1").await.remove(0);
    world.ended(&first, 1).await;
    let fresh = || async {
        let now = pods(&world, "nginx:1").await;
        now.len() == 1 && now[0] != first
    };
    world.until("another pod is there", fresh).await;
    let text = format!(
        "FailedDaemonPod: Found failed daemon pod default/{first} on node a, will try to kill it"
    );
    world.until("an event reports it", || async { world.events().await.contains(&text) }).await;
}

#[tokio::test(start_paused = true)]
async fn an_old_pod_that_does_not_work_uses_up_what_may_be_unavailable() {
    let world = World::new().await;
    node(&world, "a").await;
    node(&world, "b").await;
    world.create(set(rolling())).await;
    until_targets(&world, &["a", "b"]).await;
    let all = world.list("Pod").await;
    let works = all.iter().find(|p| target(p) == "a").map(|p| text(&p["metadata"]["name"]));
    let works = works.expect("a pod is meant for each node").to_string();
    world.ready(&works).await;
    world.until_field("DaemonSet", "agent", "/status/numberReady", json!(1)).await;
    world.patch("DaemonSet", "agent", image("nginx:2")).await;
    world.until("one is new", || async { pods(&world, "nginx:2").await.len() == 1 }).await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(pods(&world, "nginx:1").await, [works]);
}

#[tokio::test(start_paused = true)]
async fn with_surge_a_pod_is_replaced_before_it_is_deleted() {
    let world = World::new().await;
    node(&world, "a").await;
    let limits = json!({"maxSurge": 1, "maxUnavailable": 0});
    world.create(set(json!({"type": "RollingUpdate", "rollingUpdate": limits}))).await;
    until_targets(&world, &["a"]).await;
    let first = pods(&world, "nginx:1").await.remove(0);
    world.patch("Pod", &first, json!({"metadata": {"finalizers": ["test/hold"]}})).await;
    world.delete("Pod", &first).await;
    until_targets(&world, &["a", "a"]).await;
    let free = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["test/hold"]}});
    world.patch("Pod", &first, free).await;
    until_targets(&world, &["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_matching_pod_without_owner_is_taken_when_it_comes() {
    let world = World::new().await;
    world.create(set(rolling())).await;
    world.until_field("DaemonSet", "agent", "/status/observedGeneration", json!(1)).await;
    let spec = json!({"containers": [{"name": "c", "image": "nginx:1"}]});
    let meta = json!({"name": "stray", "labels": {"app": "agent"}});
    world.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})).await;
    let owner = "/metadata/ownerReferences/0/name";
    world.until_field("Pod", "stray", owner, json!("agent")).await;
}
