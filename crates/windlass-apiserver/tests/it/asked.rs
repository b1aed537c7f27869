//! What the tests share: requests, and definitions to ask about.

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

/// An answer: status, body and warnings.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
    pub warnings: Vec<String>,
}

impl Answer {
    /// The message of a failure, empty for anything else.
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The body of an answer that has to be a success.
    pub fn good(self) -> Value {
        assert!(self.code < 300, "{} {}", self.code, self.body);
        self.body
    }
}

/// A server and short ways to ask it.
pub struct Asked {
    pub server: ApiServer,
    client: kube::Client,
}

impl Asked {
    pub fn new() -> Self {
        let server = ApiServer::start();
        let client = server.client();
        Self { server, client }
    }

    pub async fn send(&self, method: Method, path: &str, media: &str, body: Vec<u8>) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .header("user-agent", "tester/1")
            .body(Body::from(body))
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|w| w.to_str().unwrap().to_owned()).collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
        Answer { code, body, warnings }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "application/json", Vec::new()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "application/json", Vec::new()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, "application/json", body.to_string().into()).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PUT, path, "application/json", body.to_string().into()).await
    }

    pub async fn merge(&self, path: &str, body: Value) -> Answer {
        let media = "application/merge-patch+json";
        self.send(Method::PATCH, path, media, body.to_string().into()).await
    }

    pub async fn json_patch(&self, path: &str, body: Value) -> Answer {
        let media = "application/json-patch+json";
        self.send(Method::PATCH, path, media, body.to_string().into()).await
    }

    /// Applies as a manager; `path` may go on with further options.
    pub async fn apply(&self, path: &str, manager: &str, body: Value) -> Answer {
        let glue = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{glue}fieldManager={manager}");
        let media = "application/apply-patch+yaml";
        self.send(Method::PATCH, &path, media, body.to_string().into()).await
    }

    /// Creates a definition, which has to work.
    pub async fn define(&self, definition: Value) -> Value {
        self.post(DEFINITIONS, definition).await.good()
    }
}

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition of `boats.sea.example` with the given versions.
pub fn boats(versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.sea.example"},
        "spec": {
            "group": "sea.example", "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat"},
            "versions": versions,
        },
    })
}

/// A served version with the given properties of the spec; only the first is stored in.
pub fn version(name: &str, storage: bool, spec: Value) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": spec},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}},
    })
}

/// A boat.
pub fn boat(version: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("sea.example/{version}"), "kind": "Boat",
        "metadata": {"name": name}, "spec": spec,
    })
}

/// The path of boats of a version in the default namespace.
pub fn boats_path(version: &str) -> String {
    format!("/apis/sea.example/{version}/namespaces/default/boats")
}

/// The entry of a manager in `managedFields`, as operation, subresource and fields.
pub fn owned(object: &Value, manager: &str, operation: &str, subresource: &str) -> Option<Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let entry = entries.iter().find(|e| {
        e["manager"] == manager
            && e["operation"] == operation
            && e["subresource"].as_str().unwrap_or_default() == subresource
    })?;
    Some(entry["fieldsV1"].clone())
}
