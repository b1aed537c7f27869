//! A cluster without nodes: the test plays the kubelet.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_apiserver::ApiServer;
use windlass_cluster::controllers::Settings;
use windlass_cluster::{Cluster, Options};

pub struct World {
    pub cluster: Cluster,
    client: kube::Client,
}

impl World {
    /// Starts a cluster with all controllers and no nodes.
    pub async fn start() -> Self {
        Self::with(Settings::default()).await
    }

    /// The same with settings.
    pub async fn with(settings: Settings) -> Self {
        let options = Options { nodes: 0, settings, ..Options::default() };
        let cluster = Cluster::with_options(ApiServer::start(), options).await;
        let client = cluster.client();
        let world = Self { cluster, client };
        world.create("/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await;
        world
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: Value) -> Value {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", kind).body(body).expect("a request");
        match self.client.request::<Value>(request).await {
            Ok(value) => value,
            Err(kube::Error::Api(status)) => json!({
                "kind": "Status", "code": status.code, "reason": status.reason,
                "message": status.message,
            }),
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    /// Reads a path; failures come as a `Status`.
    pub async fn get(&self, path: &str) -> Value {
        self.send("GET", path, "application/json", Value::Null).await
    }

    /// Posts an object; failures come as a `Status`.
    pub async fn post(&self, path: &str, body: Value) -> Value {
        self.send("POST", path, "application/json", body).await
    }

    /// Posts an object that has to be taken.
    pub async fn create(&self, path: &str, body: Value) -> Value {
        let made = self.post(path, body).await;
        assert_ne!(made["kind"], "Status", "{path}: {made}");
        made
    }

    /// Merges into an object.
    pub async fn merge(&self, path: &str, body: Value) -> Value {
        let made = self.send("PATCH", path, "application/merge-patch+json", body).await;
        assert_ne!(made["kind"], "Status", "{path}: {made}");
        made
    }

    /// Deletes an object at once.
    pub async fn delete(&self, path: &str) -> Value {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        self.send("DELETE", path, "application/json", options).await
    }

    /// Waits in virtual time until a path shows what is wanted.
    pub async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..2_000 {
            last = self.get(path).await;
            if wanted(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{path} did not become as wanted: {last:#}");
    }

    /// Creates a pod and plays its kubelet up to readiness.
    pub async fn pod(&self, name: &str, app: &str, node: Option<&str>, ip: &str, ready: bool) {
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {
                "requests": {"cpu": "100m"},
            }}]},
        });
        if let Some(node) = node {
            pod["spec"]["nodeName"] = json!(node);
        }
        self.create("/api/v1/namespaces/a/pods", pod).await;
        self.ready(name, ip, ready).await;
    }

    /// Sets address and readiness of a pod.
    pub async fn ready(&self, name: &str, ip: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let time = "2024-01-01T00:00:00Z";
        let body = json!({"status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "startTime": time,
            "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": time}],
        }});
        self.merge(&format!("/api/v1/namespaces/a/pods/{name}/status"), body).await;
    }

    /// The reasons and texts of all events about an object.
    pub async fn events(&self, namespace: &str, name: &str) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let list = self.get(&format!("/api/v1/namespaces/{namespace}/events")).await;
        let about = list["items"].as_array().cloned().unwrap_or_default();
        let about = about.into_iter().filter(|event| event["involvedObject"]["name"] == name);
        let text = |v: &Value| v.as_str().unwrap_or_default().to_string();
        about.map(|e| format!("{}: {}", text(&e["reason"]), text(&e["message"]))).collect()
    }
}
