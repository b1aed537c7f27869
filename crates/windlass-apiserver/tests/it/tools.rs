//! Requests to a server in process, and webhooks on a socket.

use std::convert::Infallible;
use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;
use windlass_apiserver::serve::RequestBody;
use windlass_apiserver::{ApiServer, Options, User, pki, serve};

/// An answer: code, body, warnings.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
    pub warnings: Vec<String>,
}

impl Answer {
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

/// A server that knows the token `t` for an administrator.
pub fn server() -> ApiServer {
    let tokens = vec![("t".to_owned(), User::admin("admin"))];
    ApiServer::with_options(Options { tokens, ..Options::default() }).unwrap()
}

pub async fn send(server: &ApiServer, method: &str, path: &str, body: Value) -> Answer {
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", "Bearer t")
        .header("content-type", kind)
        .body(Full::new(bytes))
        .unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|w| w.to_str().unwrap().to_owned()).collect();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Answer { code, body: serde_json::from_slice(&body).unwrap_or_default(), warnings }
}

pub async fn post(server: &ApiServer, path: &str, body: Value) -> Answer {
    send(server, Method::POST.as_str(), path, body).await
}

pub async fn get(server: &ApiServer, path: &str) -> Answer {
    send(server, "GET", path, Value::Null).await
}

/// Sends and expects success.
pub async fn made(server: &ApiServer, path: &str, body: Value) -> Value {
    let answer = post(server, path, body).await;
    assert!(answer.code < 300, "{answer:?}");
    answer.body
}

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const PODS: &str = "/api/v1/namespaces/default/pods";

pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

pub fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// The answer to an `AdmissionReview`.
pub fn answer(review: &Value, mut response: Value) -> Value {
    response["uid"] = review["request"]["uid"].clone();
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
}

pub fn patch(review: &Value, patch: Value) -> Value {
    let patch = STANDARD.encode(patch.to_string());
    answer(review, json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

/// A webhook on a loopback socket; returns its address and its CA as a `caBundle`.
pub async fn webhook<F>(host: &str, handler: F) -> (SocketAddr, String)
where
    F: Fn(Value) -> Vec<u8> + Clone + Send + Sync + 'static,
{
    let ca = pki::Ca::generate("webhook", jiff::Timestamp::now()).unwrap();
    let serving = ca.serving(&[host.to_owned(), "127.0.0.1".to_owned()]).unwrap();
    (webhook_with(&serving, handler).await, STANDARD.encode(ca.certificate()))
}

/// A self-signed certificate that ends this many years from now.
pub fn self_signed(hosts: &[&str], is_ca: bool, years: i32) -> pki::Identity {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = rcgen::CertificateParams::new(hosts).unwrap();
    params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    let year = i32::from(jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).year());
    params.not_after = rcgen::date_time_ymd(year + years, 1, 1);
    if is_ca {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    }
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    pki::Identity { certificate, key: key.serialize_pem() }
}

/// A webhook on a loopback socket with this certificate; returns its address.
pub async fn webhook_with<F>(serving: &pki::Identity, handler: F) -> SocketAddr
where
    F: Fn(Value) -> Vec<u8> + Clone + Send + Sync + 'static,
{
    webhook_responding(serving, move |review| {
        Response::new(Full::new(Bytes::from(handler(review))))
    })
    .await
}

/// The same, with whole responses.
pub async fn webhook_responding<F>(serving: &pki::Identity, handler: F) -> SocketAddr
where
    F: Fn(Value) -> Response<Full<Bytes>> + Clone + Send + Sync + 'static,
{
    let tls = pki::server_config(serving, None).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = tower::service_fn(move |request: Request<RequestBody>| {
        let handler = handler.clone();
        async move {
            let body = request.into_body().collect().await.map(|b| b.to_bytes());
            let review = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
            Ok::<_, Infallible>(handler(review))
        }
    });
    tokio::spawn(serve::serve(listener, Some(tls), service, std::future::pending()));
    address
}

/// A webhook configuration with one webhook for config maps; `more` is laid over it.
pub fn configuration(kind: &str, name: &str, config: Value, more: Value) -> Value {
    let mut hook = json!({
        "name": format!("{name}.example.com"), "clientConfig": config, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"]}],
    });
    for (key, value) in more.as_object().unwrap() {
        hook[key] = value.clone();
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "webhooks": [hook]})
}

/// Configures a mutating (`true`) or validating webhook.
pub async fn configure(server: &ApiServer, mutating: bool, name: &str, config: Value, more: Value) {
    let (kind, plural) = match mutating {
        true => ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        false => ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    };
    let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
    made(server, &path, configuration(kind, name, config, more)).await;
}
