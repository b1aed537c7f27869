//! StatefulSets: order, updates, claims.

use serde_json::{Value, json};

use crate::batch_world::{World, template, text};

fn set(replicas: i32, more: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas, "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template(json!({"app": "db"}), "Always"),
        },
    });
    for (name, value) in more.as_object().unwrap() {
        set["spec"][name] = value.clone();
    }
    set
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

async fn images(world: &World) -> Vec<String> {
    let pods = world.list("Pod").await;
    pods.iter().map(|p| text(&p["spec"]["containers"][0]["image"]).to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_come_one_by_one_and_go_from_the_highest() {
    let world = World::new().await;
    world.create(set(3, json!({}))).await;
    world.until_names("Pod", &["db-0"]).await;
    let pod = world.get("Pod", "db-0").await;
    let revision =
        text(&world.get("StatefulSet", "db").await["status"]["updateRevision"]).to_string();
    assert_eq!(pod["metadata"]["generateName"], "db-");
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "app": "db",
            "apps.kubernetes.io/pod-index": "0",
            "controller-revision-hash": revision,
            "statefulset.kubernetes.io/pod-name": "db-0",
        })
    );
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("db-0"), &json!("db"))
    );
    for (at, next) in [(0, 2), (1, 3)] {
        world.ready(&format!("db-{at}")).await;
        let names: Vec<String> = (0..next).map(|n| format!("db-{n}")).collect();
        world.until_names("Pod", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    world.ready("db-2").await;
    let wanted = json!({
        "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "currentReplicas": 3,
        "updatedReplicas": 3, "availableReplicas": 3, "collisionCount": 0,
        "currentRevision": revision, "updateRevision": revision,
    });
    world.until_field("StatefulSet", "db", "/status", wanted).await;
    world.patch("StatefulSet", "db", json!({"spec": {"replicas": 1}})).await;
    world.until_names("Pod", &["db-0"]).await;
    world.until_field("StatefulSet", "db", "/status/replicas", json!(1)).await;
    assert_eq!(
        world.events().await,
        [
            "SuccessfulCreate: Create Pod db-0 in StatefulSet db successful",
            "SuccessfulCreate: Create Pod db-1 in StatefulSet db successful",
            "SuccessfulCreate: Create Pod db-2 in StatefulSet db successful",
            "SuccessfulDelete: Delete Pod db-1 in StatefulSet db successful",
            "SuccessfulDelete: Delete Pod db-2 in StatefulSet db successful",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn updates_go_from_the_highest_down_to_the_partition() {
    let world = World::new().await;
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    world
        .create(set(3, json!({"podManagementPolicy": "Parallel", "updateStrategy": rolling})))
        .await;
    world.until_names("Pod", &["db-0", "db-1", "db-2"]).await;
    for at in 0..3 {
        world.ready(&format!("db-{at}")).await;
    }
    world.until_field("StatefulSet", "db", "/status/readyReplicas", json!(3)).await;
    world.patch("StatefulSet", "db", image("nginx:2")).await;
    let wait = |wanted: [&'static str; 3]| {
        let world = &world;
        async move { world.until("images", || async { images(world).await == wanted }).await }
    };
    wait(["nginx:1", "nginx:1", "nginx:2"]).await;
    world.ready("db-2").await;
    wait(["nginx:1", "nginx:2", "nginx:2"]).await;
    world.ready("db-1").await;
    world.until_field("StatefulSet", "db", "/status/readyReplicas", json!(3)).await;
    world.delete("Pod", "db-0").await;
    world.until("db-0 is back", || async { world.names("Pod").await.len() == 3 }).await;
    assert_eq!(images(&world).await, ["nginx:1", "nginx:2", "nginx:2"]);
    let open = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    world.ready("db-0").await;
    world.patch("StatefulSet", "db", open).await;
    wait(["nginx:2", "nginx:2", "nginx:2"]).await;
    world.ready("db-0").await;
    world.until_field("StatefulSet", "db", "/status/currentReplicas", json!(3)).await;
    let numbers: Vec<Value> =
        world.list("ControllerRevision").await.iter().map(|r| r["revision"].clone()).collect();
    assert_eq!(numbers.len(), 2, "{numbers:?}");
}

#[tokio::test(start_paused = true)]
async fn an_update_replaces_a_pod_that_never_became_ready() {
    let world = World::new().await;
    world.create(set(2, json!({"podManagementPolicy": "Parallel"}))).await;
    world.until_names("Pod", &["db-0", "db-1"]).await;
    world.patch("StatefulSet", "db", image("nginx:2")).await;
    let wanted = ["nginx:1", "nginx:2"];
    world.until("images", || async { images(&world).await == wanted }).await;
    world.until_field("StatefulSet", "db", "/status/updatedReplicas", json!(1)).await;
    assert_eq!(images(&world).await, wanted);
}

#[tokio::test(start_paused = true)]
async fn old_revisions_are_dropped_and_going_back_raises_the_number() {
    let world = World::new().await;
    world.create(set(0, json!({"revisionHistoryLimit": 1}))).await;
    let revisions = || async {
        let all = world.list("ControllerRevision").await;
        let mut numbers: Vec<i64> = all.iter().map(|r| r["revision"].as_i64().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    };
    for (tag, wanted) in [("1", vec![1]), ("2", vec![1, 2]), ("1", vec![2, 3]), ("4", vec![3, 4])] {
        world.patch("StatefulSet", "db", image(&format!("nginx:{tag}"))).await;
        world.until("revisions", || async { revisions().await == wanted }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn claims_come_with_pods_and_follow_the_retention_policy() {
    let world = World::new().await;
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let policy = json!({"whenScaled": "Delete", "whenDeleted": "Retain"});
    let more = json!({
        "podManagementPolicy": "Parallel",
        "volumeClaimTemplates": [claim],
        "persistentVolumeClaimRetentionPolicy": policy,
    });
    world.create(set(2, more)).await;
    world.until_names("PersistentVolumeClaim", &["data-db-0", "data-db-1"]).await;
    world.until_names("Pod", &["db-0", "db-1"]).await;
    let pod = world.get("Pod", "db-1").await;
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-db-1");
    world.ready("db-0").await;
    world.ready("db-1").await;
    world.patch("StatefulSet", "db", json!({"spec": {"replicas": 1}})).await;
    world.until_names("Pod", &["db-0"]).await;
    let owners = world.get("PersistentVolumeClaim", "data-db-1").await;
    let owners = &owners["metadata"]["ownerReferences"];
    assert!(owners.is_null() || owners[0]["name"] == "db-1", "{owners}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_replaced_under_the_same_name() {
    let world = World::new().await;
    world.create(set(1, json!({}))).await;
    world.until_names("Pod", &["db-0"]).await;
    let first = world.get("Pod", "db-0").await["metadata"]["uid"].clone();
    world.ended("db-0", 1).await;
    let fresh = || async {
        let pod = world.get("Pod", "db-0").await;
        !pod.is_null() && pod["metadata"]["uid"] != first
    };
    world.until("a new pod has the name", fresh).await;
}
