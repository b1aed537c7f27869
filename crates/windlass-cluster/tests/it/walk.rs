//! What a person does with a cluster, from the first apply to nothing left.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use windlass::client::Patch;
use windlass::{Client, Key, Object};
use windlass_cluster::Cluster;

use crate::common::{available, client, deployment, gone, key, object, pod, pods_of, until, value};

async fn merge(client: &Client, name: &str, change: Value) {
    client.api::<Deployment>().patch(&key(name), &Patch::Merge(change)).await.expect("patched");
}

fn image(pods: &[Pod]) -> Vec<String> {
    let images = pods.iter().map(|p| p.spec.as_ref().unwrap().containers[0].image.clone());
    let mut images: Vec<String> = images.flatten().collect();
    images.dedup();
    images
}

fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap()
}

async fn all<K: Object<DynamicType = ()>>(client: &Client) -> Vec<Value> {
    let found = client.api::<K>().list().namespace("default").items().await.expect("can be listed");
    found.iter().map(|object| value(&**object)).collect()
}

/// The revision of a Deployment, and its template at another one, which `rollout undo` puts back.
async fn template_at(client: &Client, revision: &str) -> Value {
    let sets = all::<ReplicaSet>(client).await;
    let annotation = "/metadata/annotations/deployment.kubernetes.io~1revision";
    let set = sets.iter().find(|set| set.pointer(annotation) == Some(&json!(revision)));
    let mut template = set.expect("the revision is remembered")["spec"]["template"].clone();
    template["metadata"]["labels"].as_object_mut().unwrap().remove("pod-template-hash");
    template
}

#[tokio::test(start_paused = true)]
async fn a_deployment_lives_from_apply_to_nothing_left() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let service: Service = object(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }));
    client.api().create(&service).await.expect("created");
    client.api().create(&deployment("web", 3)).await.expect("created");
    available(&client, "web", 3).await;
    let first = pods_of(&client, "web").await;
    assert_eq!(first.len(), 3);
    assert!(first.iter().all(|p| value(p)["status"]["phase"] == "Running"));

    client.api::<Pod>().delete(&key(&name(&first[0]))).await.expect("deleted");
    gone::<Pod>(&client, &key(&name(&first[0]))).await;
    available(&client, "web", 3).await;
    let second = pods_of(&client, "web").await;
    assert_eq!(second.len(), 3);
    assert!(second.iter().all(|p| name(p) != name(&first[0])));

    merge(&client, "web", json!({"spec": {"replicas": 5}})).await;
    available(&client, "web", 5).await;
    let ready = |slice: &Value| slice["endpoints"].as_array().map_or(0, Vec::len);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let slices = all::<EndpointSlice>(&client).await;
    let of_web = |s: &&Value| s["metadata"]["labels"]["kubernetes.io/service-name"] == "web";
    assert_eq!(slices.iter().filter(of_web).map(ready).sum::<usize>(), 5);

    let new = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}});
    client.api::<Deployment>().patch(&key("web"), &Patch::Merge(new)).await.expect("patched");
    available(&client, "web", 5).await;
    assert_eq!(image(&pods_of(&client, "web").await), ["nginx:2"]);

    let old = template_at(&client, "1").await;
    merge(&client, "web", json!({"spec": {"template": old}})).await;
    available(&client, "web", 5).await;
    assert_eq!(image(&pods_of(&client, "web").await), ["nginx:1"]);
    let web = until::<Deployment>(&client, &key("web"), |_| true).await;
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");

    client.api::<Service>().delete(&key("web")).await.expect("deleted");
    client.api::<Deployment>().delete(&key("web")).await.expect("deleted");
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(all::<Pod>(&client).await, Vec::<Value>::new());
    assert_eq!(all::<ReplicaSet>(&client).await, Vec::<Value>::new());
    assert!(!all::<EndpointSlice>(&client).await.iter().any(|slice| of_web(&slice)));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn events_have_a_source_a_count_and_times() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    client.api().create(&deployment("web", 1)).await.expect("created");
    available(&client, "web", 1).await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let events = all::<Event>(&client).await;
    let of = |reason: &str| events.iter().find(|e| e["reason"] == reason).expect(reason);
    let scaled = of("ScalingReplicaSet");
    assert_eq!(scaled["source"], json!({"component": "deployment-controller"}));
    assert_eq!(scaled["reportingComponent"], "deployment-controller");
    assert_eq!(scaled["count"], 1);
    assert!(scaled["lastTimestamp"].is_string() && scaled["firstTimestamp"].is_string());
    let started = of("Started");
    assert_eq!(started["source"], json!({"component": "kubelet", "host": "node-1"}));
    assert_eq!(started["involvedObject"]["fieldPath"], "spec.containers{c}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_for_debugging_runs() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    client.api().create(&pod("p", json!({}))).await.expect("created");
    let running = |p: &Value| p["status"]["phase"] == "Running";
    let before = until::<Pod>(&client, &key("p"), running).await;
    let mut wanted = before;
    wanted["spec"]["ephemeralContainers"] = json!([{"name": "look", "image": "busybox"}]);
    let api = client.api::<Pod>().subresource("ephemeralcontainers");
    api.update(&object(wanted)).await.expect("added");
    let state = "/status/ephemeralContainerStatuses/0/state/running";
    let runs = |p: &Value| p.pointer(state).is_some_and(Value::is_object);
    let after = until::<Pod>(&client, &key("p"), runs).await;
    assert_eq!(after["status"]["ephemeralContainerStatuses"][0]["name"], "look");
    assert!(
        after["status"]["conditions"].as_array().unwrap().iter().all(|c| c["status"] == "True")
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_has_a_lease_that_is_deleted_with_it() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let lease = Key::namespaced("kube-node-lease", "node-1");
    let held = until::<Lease>(&client, &lease, Value::is_object).await;
    assert_eq!(held["spec"]["holderIdentity"], "node-1");
    client.api::<Node>().delete(&Key::cluster("node-1")).await.expect("deleted");
    gone::<Lease>(&client, &lease).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_class_gets_a_volume() {
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let claim: PersistentVolumeClaim = object(json!({
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        },
    }));
    client.api().create(&claim).await.expect("created");
    let bound = |c: &Value| c["status"]["phase"] == "Bound";
    let claim = until::<PersistentVolumeClaim>(&client, &key("data"), bound).await;
    assert_eq!(claim["spec"]["storageClassName"], "standard");
    let volume = Key::cluster(claim["spec"]["volumeName"].as_str().unwrap());
    client.api::<PersistentVolumeClaim>().delete(&key("data")).await.expect("deleted");
    gone::<PersistentVolume>(&client, &volume).await;
    cluster.stop().await;
}
