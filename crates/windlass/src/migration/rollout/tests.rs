//! Operators that are installed under other names, and in other ways.

use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use super::*;
use crate::client::Patch;
use crate::kind::Kind;

struct World {
    _server: ApiServer,
    client: Client,
}

impl World {
    fn new() -> Self {
        let server = ApiServer::start();
        Self { client: Client::new(server.client()), _server: server }
    }

    async fn create(&self, kind: &Kind, mut object: Value) -> String {
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind().into();
        object["metadata"]["namespace"] = "default".into();
        let status = json!({"status": object["status"].take()});
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        let api = self.client.api_of::<DynamicObject>(kind);
        let made = api.create(&object).await.expect("created");
        if !status["status"].is_null() {
            let key = Key::namespaced("default", &made.name_any());
            api.subresource("status").patch(&key, &Patch::Merge(status)).await.expect("patched");
        }
        made.uid().expect("has a UID")
    }

    /// A pod of an image, with a controller or without.
    async fn pod(&self, name: &str, image: &str, labels: Value, owner: Option<(&str, &str, &str)>) {
        let owners: Vec<Value> = owner
            .iter()
            .map(|(kind, name, uid)| {
                json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid,
                    "controller": true})
            })
            .collect();
        let pod = json!({
            "metadata": {"name": name, "labels": labels, "ownerReferences": owners},
            "spec": {"containers": [{"name": "manager", "image": image}]},
        });
        self.create(&Kind::new("", "v1", "Pod", "pods"), pod).await;
    }

    async fn finish(&self, pod: &str) {
        let pods = self.client.api::<Pod>();
        let key = Key::namespaced("default", pod);
        let status = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        pods.subresource("status").patch(&key, &status).await.expect("patched");
    }

    /// Asks as this pod.
    async fn ask(&self, pod: &str, in_pod: bool) -> Option<String> {
        let place = Place { deployment: "lamps-controller-manager".into(), in_pod };
        unfinished(&self.client, &place, pod).await.expect("answered")
    }
}

fn kind(kind: &str, plural: &str) -> Kind {
    Kind::new("apps", "v1", kind, plural)
}

/// The spec of a workload whose selector has an expression only.
fn spec() -> Value {
    json!({
        "replicas": 1,
        "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["lamps"]}]},
        "template": {
            "metadata": {"labels": {"app": "lamps"}},
            "spec": {"containers": [{"name": "manager", "image": "lamps:2"}]},
        },
    })
}

fn labels() -> Value {
    json!({"app": "lamps"})
}

#[tokio::test(start_paused = true)]
async fn a_deployment_of_any_name_is_found_from_the_own_pod() {
    let world = World::new();
    let status =
        |updated: i32| json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": updated});
    let deployment =
        json!({"metadata": {"name": "prefix-lamps"}, "spec": spec(), "status": status(0)});
    let uid = world.create(&kind("Deployment", "deployments"), deployment).await;
    let mut set = spec();
    set["selector"] = json!({"matchLabels": {"app": "lamps"}});
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "prefix-lamps",
        "uid": uid, "controller": true}]);
    let set = json!({
        "metadata": {"name": "prefix-lamps-1", "ownerReferences": owner}, "spec": set,
    });
    let uid = world.create(&kind("ReplicaSet", "replicasets"), set).await;
    let owner = Some(("ReplicaSet", "prefix-lamps-1", uid.as_str()));
    world.pod("own", "lamps:2", labels(), owner).await;
    world.pod("old", "lamps:1", labels(), owner).await;
    world.pod("other", "lamps:1", json!({"app": "others"}), None).await;
    let why = world.ask("own", true).await.expect("not rolled out");
    assert_eq!(why, "0 of 1 replicas of default/prefix-lamps are of the new version");
    let deployments = world.client.api::<Deployment>();
    let key = Key::namespaced("default", "prefix-lamps");
    let done = Patch::Merge(json!({"status": status(1)}));
    deployments.subresource("status").patch(&key, &done).await.expect("patched");
    let why = world.ask("own", true).await.expect("the old one ends");
    assert_eq!(why, "1 old replicas of default/prefix-lamps are shutting down");
    world.finish("old").await;
    assert_eq!(world.ask("own", true).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_is_waited_for() {
    let world = World::new();
    let mut spec = spec();
    (spec["serviceName"], spec["replicas"]) = (json!("lamps"), json!(2));
    let status = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 1});
    let set = json!({"metadata": {"name": "lamps"}, "spec": spec, "status": status});
    let uid = world.create(&kind("StatefulSet", "statefulsets"), set).await;
    let owner = Some(("StatefulSet", "lamps", uid.as_str()));
    world.pod("lamps-0", "lamps:1", labels(), owner).await;
    world.pod("lamps-1", "lamps:2", labels(), owner).await;
    let why = world.ask("lamps-1", true).await.expect("not rolled out");
    assert_eq!(why, "1 of 2 replicas of default/lamps are of the new version");
    let sets = world.client.api::<StatefulSet>();
    let key = Key::namespaced("default", "lamps");
    let done = Patch::Merge(json!({"status": {"updatedReplicas": 2}}));
    sets.subresource("status").patch(&key, &done).await.expect("patched");
    assert_eq!(world.ask("lamps-1", true).await, None);
}

#[tokio::test(start_paused = true)]
async fn without_a_controller_pods_with_the_same_labels_are_replicas() {
    let world = World::new();
    let with = |hash: &str| json!({"app": "lamps", "pod-template-hash": hash});
    let gone = Some(("ReplicaSet", "gone", "1"));
    world.pod("own", "lamps:2", with("b"), gone).await;
    world.pod("twin", "lamps:2", with("b"), gone).await;
    world.pod("old", "lamps:1", with("a"), gone).await;
    world.pod("other", "lamps:1", json!({"app": "others"}), None).await;
    let why = world.ask("own", true).await.expect("an old one runs");
    assert_eq!(why, "1 pods with the labels of own run other images");
    world.finish("old").await;
    assert_eq!(world.ask("own", true).await, None);
    world.pod("bare", "lamps:2", json!({"pod-template-hash": "b"}), None).await;
    let why = world.ask("bare", true).await.expect("nobody knows");
    assert!(why.contains("old replicas cannot be found"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_is_waited_for_in_a_pod_and_nowhere_else() {
    let world = World::new();
    assert_eq!(world.ask("laptop", false).await, None);
    let why = world.ask("node-1", true).await.expect("nobody knows");
    assert_eq!(
        why,
        "there is no pod default/node-1 for this process and no deployment \
         default/lamps-controller-manager, so old replicas cannot be found; set HOSTNAME to the name of \
         the pod"
    );
    let status = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 0});
    let metadata = json!({"name": "lamps-controller-manager"});
    let deployment = json!({"metadata": metadata, "spec": spec(), "status": status});
    world.create(&kind("Deployment", "deployments"), deployment).await;
    for in_pod in [false, true] {
        assert!(world.ask("laptop", in_pod).await.expect("installed").contains("0 of 1 replicas"));
    }
}
