//! An owner of children, the operator that applies them, and a wire that fails between them.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::client::Body;
use kube::core::{Expression, Selector};
use parking_lot::Mutex;
use serde_json::json;
use windlass::client::Patch;
use windlass::controller::{Context, Controller, Next};
use windlass::manager::Running;
use windlass::{Client, Key, Manager, Predicate, Result};
use windlass_apiserver::{ApiServer, User};

use crate::common::{config_map, key};

/// The name of the set, of its finalizer and of its inventory.
pub const SET: &str = "example.com/set";

/// What happens to one request of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process ends before the request is sent.
    CrashBefore,
    /// The process ends after the server has handled the request.
    CrashAfter,
    /// The server handles the request, and the answer is lost.
    Lost,
    /// Another writer was faster.
    Conflict,
    /// The server is away for this request.
    Away,
}

type Before = Arc<dyn Fn(&Request<Body>) -> Option<u16> + Send + Sync>;

/// What somebody else does right before a request of the operator, once.
pub struct Meanwhile {
    pub method: Method,
    /// The end of the path of the request.
    pub path: &'static str,
    pub what: BoxFuture<'static, ()>,
}

/// A layer between the operator and the server.
#[derive(Clone)]
pub struct Wire {
    upstream: kube::Client,
    /// The same server, for a user without any rights.
    denied: kube::Client,
    fault: Option<(usize, Fault)>,
    requests: Arc<AtomicUsize>,
    /// Answers a request with a status code: 403 is the refusal of the server's authorizer.
    pub refuse: Arc<Mutex<Option<Before>>>,
    pub meanwhile: Arc<Mutex<Option<Meanwhile>>>,
    /// Objects that have the mark of a child and are not in the inventory.
    pub orphans: Arc<Mutex<Vec<String>>>,
}

type Answer = io::Result<Response<UnsyncBoxBody<bytes::Bytes, io::Error>>>;

impl Wire {
    pub fn new(server: &ApiServer, fault: Option<(usize, Fault)>) -> Self {
        Self {
            upstream: server.client(),
            denied: server.client_as(User::new("operator", &["system:authenticated"])),
            fault,
            requests: Arc::default(),
            refuse: Arc::default(),
            meanwhile: Arc::default(),
            orphans: Arc::default(),
        }
    }

    pub fn client(&self) -> kube::Client {
        let wire = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let wire = wire.clone();
            async move { wire.answer(request).await }
        });
        kube::Client::new(service, "default")
    }

    /// Returns how many requests were sent, without those of the caches.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub fn crashed(&self) -> bool {
        let crash = |fault| matches!(fault, Fault::CrashBefore | Fault::CrashAfter);
        self.fault.is_some_and(|(at, fault)| crash(fault) && self.requests() >= at)
    }

    async fn answer(&self, request: Request<Body>) -> Answer {
        let lists = request.method() == Method::GET && request.uri().query().is_some();
        let refused = || Err(io::ErrorKind::ConnectionRefused.into());
        if lists {
            return if self.crashed() { refused() } else { self.forward(request).await };
        }
        let crashed = self.crashed();
        let count = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let code = self.refuse.lock().clone().and_then(|refuse| refuse(&request));
        match code {
            Some(403) => return send(&self.denied, request).await,
            Some(code) => return conflict(code),
            None => {}
        }
        let meant = |next: &mut Meanwhile| {
            *request.method() == next.method && request.uri().path().ends_with(next.path)
        };
        let meanwhile = self.meanwhile.lock().take_if(meant);
        if let Some(meanwhile) = meanwhile {
            meanwhile.what.await;
        }
        match self.fault.filter(|(at, _)| *at == count).map(|(_, fault)| fault) {
            _ if crashed => refused(),
            None => self.forward(request).await,
            Some(Fault::CrashBefore | Fault::Away) => refused(),
            Some(Fault::Conflict) if request.method() != Method::GET => conflict(409),
            Some(Fault::Conflict) => self.forward(request).await,
            Some(Fault::CrashAfter | Fault::Lost) => {
                self.forward(request).await?;
                refused()
            }
        }
    }

    async fn forward(&self, request: Request<Body>) -> Answer {
        let writes = request.method() != Method::GET;
        let answer = send(&self.upstream, request).await;
        if writes && answer.is_ok() {
            let found = orphans(&Client::new(self.upstream.clone())).await;
            self.orphans.lock().extend(found);
        }
        answer
    }
}

async fn send(to: &kube::Client, request: Request<Body>) -> Answer {
    let answer = to.send(request).await.map_err(io::Error::other)?;
    Ok(answer.map(|body| body.map_err(io::Error::other).boxed_unsync()))
}

/// The answer to a write for which another writer was faster.
fn conflict(code: u16) -> Answer {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": "Conflict", "message": "the object has been modified",
    });
    let body = Full::new(body.to_string().into()).map_err(|never| match never {});
    let answer = Response::builder().status(code).header("content-type", "application/json");
    answer.body(body.boxed_unsync()).map_err(io::Error::other)
}

/// Returns the marked objects: `secret:default:a`, `map:other:b`, `role::c`.
pub async fn children(client: &Client) -> BTreeSet<String> {
    let marked = || -> Selector { Expression::Exists("windlass.dev/owner".into()).into() };
    let mut found = BTreeSet::new();
    let mut add = |kind: &str, metadata: &kube::core::ObjectMeta| {
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        found.insert(format!("{kind}:{}:{}", part(&metadata.namespace), part(&metadata.name)));
    };
    for secret in client.api::<Secret>().list().matching(marked()).items().await.expect("listed") {
        add("secret", &secret.metadata);
    }
    for map in client.api::<ConfigMap>().list().matching(marked()).items().await.expect("listed") {
        add("map", &map.metadata);
    }
    for role in client.api::<ClusterRole>().list().matching(marked()).items().await.expect("listed")
    {
        add("role", &role.metadata);
    }
    found
}

pub async fn inventory(client: &Client, owner: &str) -> Option<String> {
    let owner = client.api::<ConfigMap>().get(&key(owner)).await.expect("read")?;
    owner.metadata.annotations.as_ref()?.get(SET).cloned()
}

/// Returns the children of `owner` that exist although its inventory does not list them.
async fn orphans(client: &Client) -> Vec<String> {
    let listed = inventory(client, "owner").await.unwrap_or_default();
    let children = children(client).await.into_iter();
    let name = |child: &String| format!("\"{}\"", child.rsplit(':').next().unwrap_or_default());
    children.filter(|child| !listed.contains(&name(child))).collect()
}

/// Applies the children that the words of the owner's data name, one wave per field.
pub async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
    let Some(map) = cx.object() else { return Ok(Next::Done) };
    let mut children = cx.children(SET);
    for wave in map.data.iter().flat_map(|data| data.values()) {
        for child in wave.split_whitespace() {
            let parts: Vec<&str> = child.split(':').collect();
            let namespace = Some(parts[1].to_string()).filter(|name| !name.is_empty());
            let metadata = kube::core::ObjectMeta {
                name: Some(parts[2].into()),
                namespace,
                ..Default::default()
            };
            match parts[0] {
                "secret" => children.add(&Secret { metadata, ..Secret::default() })?,
                "map" => children.add(&ConfigMap { metadata, ..ConfigMap::default() })?,
                _ => children.add(&ClusterRole { metadata, ..ClusterRole::default() })?,
            }
        }
        children.then();
    }
    children.apply().await?;
    Ok(Next::Done)
}

/// Starts the operator.
pub fn operator(client: kube::Client) -> Running {
    let owners = Predicate::object(|map: &ConfigMap| {
        map.metadata.name.as_deref().is_some_and(|name| name.starts_with("owner"))
    });
    let controller = Controller::<ConfigMap>::builder("sets")
        .when(owners)
        .owns::<Secret>()
        .owns::<ConfigMap>()
        .owns::<ClusterRole>()
        .workers(2)
        .build(reconcile);
    Manager::new(client).grace(Duration::from_secs(1)).add(controller).spawn().expect("starts")
}

/// A server with the namespace `other`, and a client of its own.
pub async fn world() -> (ApiServer, Client) {
    let server = ApiServer::start();
    let client = Client::new(server.client());
    let mut other = Namespace::default();
    other.metadata.name = Some("other".into());
    client.api().create(&other).await.expect("created");
    (server, client)
}

/// Creates the owner, or changes which children it asks for.
pub async fn want(client: &Client, owner: &str, waves: &[(&str, &str)]) {
    if client.api::<ConfigMap>().get(&key(owner)).await.expect("read").is_none() {
        client.api().create(&config_map(owner, waves)).await.expect("created");
        return;
    }
    let replace = json!([{"op": "replace", "path": "/data", "value": waves
        .iter().map(|(k, v)| (k.to_string(), json!(v))).collect::<serde_json::Map<_, _>>()}]);
    client.api::<ConfigMap>().patch(&key(owner), &Patch::Json(replace)).await.expect("patched");
}

/// Waits in virtual time until exactly these children exist; returns `false` after a minute.
pub async fn come_to(client: &Client, wanted: &[&str]) -> bool {
    let wanted: BTreeSet<String> = wanted.iter().map(|child| (*child).to_string()).collect();
    for _ in 0..120 {
        if children(client).await == wanted {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    false
}

/// Waits until an owner is gone.
pub async fn gone(client: &Client, owner: &str) -> bool {
    for _ in 0..120 {
        if client.api::<ConfigMap>().get(&key(owner)).await.expect("read").is_none() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    false
}

pub async fn delete(client: &Client, owner: &str) {
    let key: Key = key(owner);
    client.api::<ConfigMap>().delete(&key).await.expect("deleted");
}
