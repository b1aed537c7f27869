//! What the tests share: requests, watches, and small objects.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;
use windlass_apiserver::response::Body;
use windlass_apiserver::{ApiServer, Options, User};

/// Config maps of namespace `default`.
pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Pods of namespace `default`.
pub const PODS: &str = "/api/v1/namespaces/default/pods";
/// Deployments of namespace `default`.
pub const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

pub const JSON_PATCH: &str = "application/json-patch+json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";
pub const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// A server that knows three tokens: `admin` (all rights), `alice` and `bob` (none).
pub fn server() -> ApiServer {
    server_with(Options::default())
}

/// Does the same as [`server`], by options.
pub fn server_with(options: Options) -> ApiServer {
    let tokens = vec![
        ("admin".to_owned(), User::admin("admin")),
        ("alice".to_owned(), User::new("alice", &["dev"])),
        ("bob".to_owned(), User::new("bob", &[])),
    ];
    let options = Options { tokens, seed: options.seed.or(Some(7)), ..options };
    ApiServer::with_options(options).unwrap()
}

/// A server with the account that pods of namespace `default` run as.
pub async fn pod_server() -> ApiServer {
    let server = server();
    let account = json!({"metadata": {"name": "default"}});
    ask(&server, "POST /api/v1/namespaces/default/serviceaccounts", account).await;
    server
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub code: StatusCode,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

impl Answer {
    /// The document; null if the body is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The document of a success.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert!(self.code.is_success(), "{} {}", self.code, self.text());
        self.json()
    }

    /// The message of a failure with this code.
    #[track_caller]
    pub fn fails(&self, code: u16) -> String {
        assert_eq!(self.code.as_u16(), code, "{}", self.text());
        let status = self.json();
        assert_eq!(status["kind"], "Status", "{}", self.text());
        assert_eq!(status["status"], "Failure");
        assert_eq!(status["code"], code);
        status["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The texts of the warnings.
    pub fn warnings(&self) -> Vec<String> {
        let all = self.headers.get_all("warning").iter();
        all.map(|w| String::from_utf8_lossy(w.as_bytes()).into_owned()).collect()
    }
}

/// Sends `METHOD path` with a document (null: no body) as the administrator.
pub async fn ask(server: &ApiServer, what: &str, body: Value) -> Answer {
    ask_as(server, "admin", what, body).await
}

/// Does the same as [`ask`], with another token; an empty one sends no token.
pub async fn ask_as(server: &ApiServer, token: &str, what: &str, body: Value) -> Answer {
    let bearer = format!("Bearer {token}");
    let mut headers = vec![("content-type", "application/json")];
    if !token.is_empty() {
        headers.push(("authorization", bearer.as_str()));
    }
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    send(server, what, &headers, bytes).await
}

/// Sends a patch of a media type as the administrator.
pub async fn patch(server: &ApiServer, path: &str, media: &str, body: Value) -> Answer {
    raw(server, &format!("PATCH {path}"), media, body.to_string()).await
}

/// Sends bytes of a media type as the administrator.
pub async fn raw(server: &ApiServer, what: &str, media: &str, bytes: impl Into<Vec<u8>>) -> Answer {
    let headers = [("content-type", media), ("authorization", "Bearer admin")];
    send(server, what, &headers, bytes).await
}

/// Reads with an `Accept` header as the administrator.
pub async fn accept(server: &ApiServer, what: &str, media: &str) -> Answer {
    send(server, what, &[("accept", media), ("authorization", "Bearer admin")], "").await
}

/// Sends a request as it is.
pub async fn send(
    server: &ApiServer,
    what: &str,
    headers: &[(&str, &str)],
    bytes: impl Into<Vec<u8>>,
) -> Answer {
    let response = open(server, what, headers, bytes).await;
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer { code: parts.status, headers: parts.headers, bytes }
}

/// Sends a request; the answer's body is not read yet.
pub async fn open(
    server: &ApiServer,
    what: &str,
    headers: &[(&str, &str)],
    bytes: impl Into<Vec<u8>>,
) -> http::Response<Body> {
    let (method, path) = what.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(bytes.into()))).unwrap();
    server.clone().oneshot(request).await.unwrap()
}

/// A watch that is read line by line.
pub struct Watch {
    body: Body,
    buffer: Vec<u8>,
}

impl Watch {
    /// Opens a watch as the administrator; `path` has a query already or gets one.
    pub async fn open(server: &ApiServer, path: &str) -> Self {
        Self::open_as(server, path, "application/json").await
    }

    /// Does the same as [`Watch::open`], with an `Accept` header.
    pub async fn open_as(server: &ApiServer, path: &str, media: &str) -> Self {
        let join = if path.contains('?') { '&' } else { '?' };
        let what = format!("GET {path}{join}watch=true");
        let headers = [("authorization", "Bearer admin"), ("accept", media)];
        let response = open(server, &what, &headers, "").await;
        assert_eq!(response.status(), 200, "{what}");
        Self { body: response.into_body(), buffer: Vec::new() }
    }

    /// The next event; `None` at the end. A long silence (of tokio's time) panics.
    pub async fn next(&mut self) -> Option<Value> {
        let next = tokio::time::timeout(Duration::from_secs(7200), self.read());
        next.await.expect("an event or the end comes")
    }

    /// Type, name and version of the next event.
    pub async fn next_key(&mut self) -> (String, String, u64) {
        let event = self.next().await.expect("the watch continues");
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let metadata = &event["object"]["metadata"];
        let version = text(&metadata["resourceVersion"]).parse().unwrap_or(0);
        (text(&event["type"]), text(&metadata["name"]), version)
    }

    /// Type and name of the next event, as `TYPE name`.
    pub async fn next_text(&mut self) -> String {
        let (kind, name, _) = self.next_key().await;
        format!("{kind} {name}").trim_end().to_owned()
    }

    /// Returns `true` if nothing comes for a second.
    pub async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(Duration::from_secs(1), self.read()).await.is_err()
    }

    /// The rest of the events, up to the end.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    async fn read(&mut self) -> Option<Value> {
        loop {
            if let Some(at) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=at).collect();
                return Some(serde_json::from_slice(&line).expect("a line is a document"));
            }
            let frame = self.body.frame().await?;
            let frame = frame.unwrap();
            self.buffer.extend_from_slice(frame.data_ref().unwrap());
        }
    }
}

/// A config map with one entry.
pub fn map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"key": value}})
}

/// A pod with one container.
pub fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
    })
}

/// A deployment.
pub fn deployment(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
            },
        },
    })
}

/// Creates a config map and returns it.
pub async fn create_map(server: &ApiServer, name: &str, value: &str) -> Value {
    ask(server, &format!("POST {MAPS}"), map(name, value)).await.ok()
}

/// The resourceVersion of an object or list.
#[track_caller]
pub fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().expect("a version").parse().unwrap()
}

/// The names of the items of a list.
pub fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|i| i["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A directory that is removed with its value.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("windlass-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
