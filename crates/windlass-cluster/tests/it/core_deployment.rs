//! Deployments from creation to removal.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use serde_json::json;
use windlass::Client;
use windlass::client::Patch;
use windlass_cluster::Cluster;

use crate::common::{available, client, deployment, events, gone, key, pods_of, until, value};

async fn image(client: &Client, name: &str, image: &str) {
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
    client.api::<Deployment>().patch(&key(name), &Patch::Strategic(patch)).await.expect("patched");
}

async fn scale(client: &Client, name: &str, replicas: i32) {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    client.api::<Deployment>().patch(&key(name), &patch).await.expect("scaled");
}

async fn sets(client: &Client) -> Vec<serde_json::Value> {
    let sets =
        client.api::<ReplicaSet>().list().namespace("default").items().await.expect("listed");
    sets.iter().map(|set| value(&**set)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_available_and_a_deleted_pod_is_replaced() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    client.api().create(&deployment("web", 3)).await.expect("created");
    let web = available(&client, "web", 3).await;
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    let pods = pods_of(&client, "web").await;
    let name = pods[0].metadata.name.clone().expect("has a name");
    client.api::<k8s_openapi::api::core::v1::Pod>().delete(&key(&name)).await.expect("deleted");
    gone::<k8s_openapi::api::core::v1::Pod>(&client, &key(&name)).await;
    available(&client, "web", 3).await;
    assert_eq!(pods_of(&client, "web").await.len(), 3);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_image_rolls_out_and_going_back_uses_the_old_set_again() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    client.api().create(&deployment("web", 4)).await.expect("created");
    available(&client, "web", 4).await;
    let first = sets(&client).await[0]["metadata"]["name"].clone();
    image(&client, "web", "nginx:2").await;
    available(&client, "web", 4).await;
    assert_eq!(sets(&client).await.len(), 2);
    image(&client, "web", "nginx:1").await;
    let web = available(&client, "web", 4).await;
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    let sets = sets(&client).await;
    let old = sets.iter().find(|set| set["metadata"]["name"] == first).expect("is still there");
    let annotations = &old["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(old["spec"]["replicas"], 4);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scaling_is_reported_in_events() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    client.api().create(&deployment("web", 1)).await.expect("created");
    available(&client, "web", 1).await;
    scale(&client, "web", 3).await;
    available(&client, "web", 3).await;
    scale(&client, "web", 0).await;
    until::<Deployment>(&client, &key("web"), |d| d["status"]["replicas"].is_null()).await;
    let set = sets(&client).await[0]["metadata"]["name"].as_str().expect("a name").to_string();
    let expected = [
        format!("ScalingReplicaSet: Scaled down replica set {set} from 3 to 0"),
        format!("ScalingReplicaSet: Scaled up replica set {set} from 0 to 1"),
        format!("ScalingReplicaSet: Scaled up replica set {set} from 1 to 3"),
    ];
    assert_eq!(events(&client, "web").await, expected);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn recreation_takes_all_old_pods_away_first() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let mut web = value(&deployment("web", 2));
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    web["spec"]["template"]["metadata"]["annotations"] =
        json!({"windlass.dev/terminate-after": "5s"});
    client.api().create(&crate::common::object::<Deployment>(web)).await.expect("created");
    available(&client, "web", 2).await;
    image(&client, "web", "nginx:2").await;
    until::<Deployment>(&client, &key("web"), |d| d["status"]["terminatingReplicas"] == 2).await;
    assert_eq!(sets(&client).await.len(), 1, "no new set while old pods run");
    available(&client, "web", 2).await;
    assert_eq!(sets(&client).await.len(), 2);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_does_not_move_misses_its_deadline() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let mut web = value(&deployment("web", 1));
    web["spec"]["progressDeadlineSeconds"] = json!(30);
    web["spec"]["template"]["metadata"]["annotations"] = json!({"windlass.dev/image": "missing"});
    client.api().create(&crate::common::object::<Deployment>(web)).await.expect("created");
    let late = until::<Deployment>(&client, &key("web"), |d| {
        let conditions = d["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["reason"] == "ProgressDeadlineExceeded")
    })
    .await;
    assert!(late["status"]["availableReplicas"].is_null());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_count_as_available_only_after_their_minimum_time() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let mut web = value(&deployment("web", 2));
    web["spec"]["minReadySeconds"] = json!(20);
    client.api().create(&crate::common::object::<Deployment>(web)).await.expect("created");
    let ready = |d: &serde_json::Value| d["status"]["readyReplicas"] == 2;
    let early = until::<Deployment>(&client, &key("web"), ready).await;
    assert!(early["status"]["availableReplicas"].is_null());
    let start = tokio::time::Instant::now();
    available(&client, "web", 2).await;
    assert!(start.elapsed().as_secs() >= 18, "{:?}", start.elapsed());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_scales_and_does_not_roll() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    client.api().create(&deployment("web", 1)).await.expect("created");
    available(&client, "web", 1).await;
    let pause = Patch::Merge(json!({"spec": {"paused": true}}));
    client.api::<Deployment>().patch(&key("web"), &pause).await.expect("paused");
    image(&client, "web", "nginx:2").await;
    scale(&client, "web", 2).await;
    until::<Deployment>(&client, &key("web"), |d| d["status"]["availableReplicas"] == 2).await;
    assert_eq!(sets(&client).await.len(), 1);
    let resume = Patch::Merge(json!({"spec": {"paused": null}}));
    client.api::<Deployment>().patch(&key("web"), &resume).await.expect("resumed");
    available(&client, "web", 2).await;
    assert_eq!(sets(&client).await.len(), 2);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_as_many_old_sets_stay_as_the_history_allows() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let mut web = value(&deployment("web", 1));
    web["spec"]["revisionHistoryLimit"] = json!(1);
    client.api().create(&crate::common::object::<Deployment>(web)).await.expect("created");
    for number in 2..6 {
        available(&client, "web", 1).await;
        image(&client, "web", &format!("nginx:{number}")).await;
    }
    available(&client, "web", 1).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(sets(&client).await.len(), 2);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_names_a_revision_rolls_back_to_it() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    client.api().create(&deployment("web", 1)).await.expect("created");
    available(&client, "web", 1).await;
    image(&client, "web", "nginx:2").await;
    available(&client, "web", 1).await;
    for (to, found) in [("0", "nginx:1"), ("2", "nginx:2"), ("9", "nginx:2")] {
        let wish = json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": to}}});
        client.api::<Deployment>().patch(&key("web"), &Patch::Merge(wish)).await.expect("patched");
        let done = |d: &serde_json::Value| {
            d["metadata"]["annotations"]["deprecated.deployment.rollback.to"].is_null()
        };
        let after = until::<Deployment>(&client, &key("web"), done).await;
        assert_eq!(after["spec"]["template"]["spec"]["containers"][0]["image"], found, "{to}");
        assert_eq!(after["spec"]["template"]["metadata"]["labels"], json!({"app": "web"}));
        available(&client, "web", 1).await;
    }
    let events = events(&client, "web").await;
    for text in [
        "DeploymentRollback: Rolled back deployment \"web\" to revision 1",
        "DeploymentRollback: Rolled back deployment \"web\" to revision 2",
        "DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to.",
    ] {
        assert!(events.iter().any(|e| e == text), "{text}: {events:#?}");
    }
    cluster.stop().await;
}
