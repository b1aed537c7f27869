//! A cluster without nodes: the test plays the kubelet.

use std::future::Future;
use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;
use windlass_cluster::{Cluster, Options};

pub struct World {
    pub cluster: Cluster,
}

impl World {
    pub async fn new() -> Self {
        let options = Options { nodes: 0, ..Options::default() };
        Self { cluster: Cluster::with_options(ApiServer::start(), options).await }
    }

    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "Pod" | "Event" | "Node" | "PersistentVolumeClaim" | "Namespace" => ("", "v1"),
            "Job" | "CronJob" => ("batch", "v1"),
            _ => ("apps", "v1"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if matches!(kind, "Node" | "Namespace") {
            Api::all_with(self.cluster.client(), &resource)
        } else {
            Api::namespaced_with(self.cluster.client(), "default", &resource)
        }
    }

    pub async fn create(&self, object: Value) -> Value {
        let api = self.api(object["kind"].as_str().unwrap());
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let made = api.create(&PostParams::default(), &object).await.unwrap();
        serde_json::to_value(made).unwrap()
    }

    pub async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.api(kind).get_opt(name).await.unwrap();
        found.map_or(Value::Null, |o| serde_json::to_value(o).unwrap())
    }

    pub async fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.api(kind).list(&ListParams::default()).await.unwrap();
        list.items.into_iter().map(|o| serde_json::to_value(o).unwrap()).collect()
    }

    pub async fn names(&self, kind: &str) -> Vec<String> {
        let all = self.list(kind).await;
        all.iter().map(|o| o["metadata"]["name"].as_str().unwrap().to_string()).collect()
    }

    pub async fn patch(&self, kind: &str, name: &str, patch: Value) {
        let params = PatchParams::default();
        self.api(kind).patch(name, &params, &Patch::Strategic(patch)).await.unwrap();
    }

    pub async fn delete(&self, kind: &str, name: &str) {
        let params = DeleteParams::default().grace_period(0);
        self.api(kind).delete(name, &params).await.unwrap();
    }

    pub async fn status(&self, pod: &str, status: Value) {
        let patch = Patch::Strategic(json!({"status": status}));
        self.api("Pod").patch_status(pod, &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn ready(&self, pod: &str) {
        let now = self.cluster.server().clock().stamp();
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
        self.status(pod, json!({"phase": "Running", "conditions": [ready]})).await;
    }

    pub async fn ended(&self, pod: &str, exit_code: i32) {
        let now = self.cluster.server().clock().stamp();
        let phase = if exit_code == 0 { "Succeeded" } else { "Failed" };
        let ended = json!({"exitCode": exit_code, "finishedAt": now, "reason": "Completed"});
        let container = json!({
            "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": ended},
        });
        self.status(pod, json!({"phase": phase, "containerStatuses": [container]})).await;
    }

    /// The texts of all events, sorted.
    pub async fn events(&self) -> Vec<String> {
        let all = self.list("Event").await;
        let mut texts: Vec<String> = all
            .iter()
            .map(|e| format!("{}: {}", text(&e["reason"]), text(&e["message"])))
            .collect();
        texts.sort();
        texts
    }

    /// Waits, in virtual time, until `test` says yes.
    pub async fn until<F, Fut>(&self, what: &str, test: F)
    where
        F: Fn() -> Fut,
        Fut: Future<Output = bool>,
    {
        for _ in 0..2000 {
            if test().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("waited in vain until {what}");
    }

    pub async fn until_names(&self, kind: &str, names: &[&str]) {
        let what = format!("{kind} are {names:?}");
        self.until(&what, || async { self.names(kind).await == names }).await;
    }

    /// Waits until a field has a value.
    pub async fn until_field(&self, kind: &str, name: &str, field: &str, value: Value) {
        let what = format!("{kind} {name} has {field} = {value}");
        let fits = || async {
            self.get(kind, name).await.pointer(field).unwrap_or(&Value::Null) == &value
        };
        for _ in 0..2000 {
            if fits().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("waited in vain until {what}: {:#}", self.get(kind, name).await["status"]);
    }
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub fn template(labels: Value, restart: &str) -> Value {
    json!({
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "nginx:1"}]},
    })
}
