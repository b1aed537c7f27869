//! The listener: HTTPS over loopback, both versions of HTTP, certificates.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams, WatchParams};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::ApiServer;
use windlass_apiserver::pki::{self, Ca, Identity};
use windlass_apiserver::serve::{Limits, serve_with};

use crate::support::*;

/// A server behind a listener of its own.
pub struct Listening {
    pub server: ApiServer,
    pub address: SocketAddr,
    ca: Ca,
    end: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Listening {
    pub async fn start(tls: bool, limits: Limits) -> Self {
        let server = server();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ca = Ca::generate("test", jiff::Timestamp::now()).unwrap();
        let serving = ca.serving(&["127.0.0.1".into(), "localhost".into()]).unwrap();
        let config = tls.then(|| pki::server_config(&serving, Some(ca.certificate())).unwrap());
        let end = CancellationToken::new();
        let ended = end.clone().cancelled_owned();
        let task = tokio::spawn(serve_with(listener, config, server.clone(), ended, limits));
        Self { server, address, ca, end, task }
    }

    pub async fn end(self) {
        self.server.shut_down();
        self.end.cancel();
        self.task.await.unwrap();
    }

    async fn connect(&self, alpn: &[u8], client: Option<&Identity>) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.ca.certificate().as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match client {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = CertificateDer::from_pem_slice(identity.certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![chain.unwrap()], key).unwrap()
            }
        };
        config.alpn_protocols = vec![alpn.to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    async fn http1(&self, client: Option<&Identity>, request: Request<Full<Bytes>>) -> Answer {
        let io = TokioIo::new(self.connect(b"http/1.1", client).await);
        let (mut sender, connection) = conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        read(sender.send_request(request).await.unwrap()).await
    }

    async fn http2(&self, client: Option<&Identity>, request: Request<Full<Bytes>>) -> Answer {
        let io = TokioIo::new(self.connect(b"h2", client).await);
        let (mut sender, connection) =
            conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        read(sender.send_request(request).await.unwrap()).await
    }

    async fn client(&self) -> kube::Client {
        let url = format!("https://{}", self.address);
        let text = pki::kubeconfig(&url, Some(self.ca.certificate()), "admin", None);
        let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let options = Default::default();
        let config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
        kube::Client::try_from(config).unwrap()
    }
}

async fn read(response: Response<Incoming>) -> Answer {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer { code: parts.status, headers: parts.headers, bytes }
}

fn get(path: &str, token: &str) -> Request<Full<Bytes>> {
    let mut request = Request::builder().uri(format!("https://127.0.0.1{path}"));
    request = request.header("host", "127.0.0.1");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(Full::default()).unwrap()
}

fn review() -> Request<Full<Bytes>> {
    let path = "https://127.0.0.1/apis/authentication.k8s.io/v1/selfsubjectreviews";
    Request::post(path).header("host", "x").body(Full::from("{}")).unwrap()
}

#[tokio::test]
async fn both_versions_of_http_give_the_same_answers() {
    let listening = Listening::start(true, Limits::default()).await;
    create_map(&listening.server, "a", "1").await;
    let path = format!("{MAPS}/a");
    let one = listening.http1(None, get(&path, "admin")).await;
    let two = listening.http2(None, get(&path, "admin")).await;
    assert_eq!(one.ok(), two.ok());
    assert_eq!(one.headers["content-type"], two.headers["content-type"]);
    let nobody = listening.http2(None, get(&path, "")).await;
    assert!(nobody.fails(403).contains("system:anonymous"));
    listening.end().await;
}

#[tokio::test]
async fn a_certificate_names_its_user() {
    let listening = Listening::start(true, Limits::default()).await;
    let root = listening.ca.client("root", &["system:masters"]).unwrap();
    let me = listening.http1(Some(&root), review()).await.ok();
    assert_eq!(me["status"]["userInfo"]["username"], "root");
    let groups = &me["status"]["userInfo"]["groups"];
    assert_eq!(groups, &serde_json::json!(["system:masters", "system:authenticated"]));
    listening.http2(Some(&root), get(MAPS, "")).await.ok();
    let eve = listening.ca.client("eve", &[]).unwrap();
    let denied = listening.http2(Some(&eve), get(MAPS, "")).await;
    assert!(denied.fails(403).contains("User \"eve\" cannot list"));
    listening.end().await;
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let listening = Listening::start(true, Limits::default()).await;
    let other = Ca::generate("other", jiff::Timestamp::now()).unwrap();
    let forged = other.client("root", &["system:masters"]).unwrap();
    let io = TokioIo::new(listening.connect(b"http/1.1", Some(&forged)).await);
    let refused = match conn::http1::handshake(io).await {
        Err(_) => true,
        Ok((mut sender, connection)) => {
            tokio::spawn(connection);
            sender.send_request(get(MAPS, "")).await.is_err()
        }
    };
    assert!(refused);
    listening.end().await;
}

#[tokio::test]
async fn a_client_with_the_kubeconfig_writes_and_watches() {
    let listening = Listening::start(true, Limits::default()).await;
    let maps: Api<ConfigMap> = Api::namespaced(listening.client().await, "default");
    let from = listening.server.revision().to_string();
    let stream = maps.watch(&WatchParams::default(), &from).await.unwrap();
    let body: ConfigMap = serde_json::from_value(map("a", "1")).unwrap();
    maps.create(&PostParams::default(), &body).await.unwrap();
    let mut stream = std::pin::pin!(stream);
    let first = futures::TryStreamExt::try_next(&mut stream).await.unwrap();
    assert!(matches!(first, Some(kube::api::WatchEvent::Added(_))));
    // The end of the server ends the stream, without an error.
    let ended = tokio::spawn(listening.end());
    while let Some(event) = futures::TryStreamExt::try_next(&mut stream).await.unwrap() {
        assert!(!matches!(event, kube::api::WatchEvent::Error(_)));
    }
    ended.await.unwrap();
}

#[tokio::test]
async fn plain_http_is_served_when_asked_for() {
    let listening = Listening::start(false, Limits::default()).await;
    let stream = TcpStream::connect(listening.address).await.unwrap();
    let (mut sender, connection) = conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("/version").header("host", "x").body(Full::<Bytes>::default());
    let version = read(sender.send_request(request.unwrap()).await.unwrap()).await.ok();
    assert_eq!(version["major"], "1");
    listening.end().await;
}

#[tokio::test]
async fn a_long_table_is_not_made_on_the_thread_of_the_connection() {
    let listening = Listening::start(false, Limits::default()).await;
    for n in 0..200 {
        create_map(&listening.server, &format!("m{n}"), "1").await;
    }
    let steps = async |namespace: &str| {
        let before = windlass_text::work::total();
        let request = Request::builder()
            .uri(format!("/api/v1/namespaces/{namespace}/configmaps"))
            .header("host", "127.0.0.1")
            .header("authorization", "Bearer admin")
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Full::<Bytes>::default())
            .unwrap();
        let stream = TcpStream::connect(listening.address).await.unwrap();
        let (mut sender, connection) = conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let table = read(sender.send_request(request).await.unwrap()).await.ok();
        (table["rows"].as_array().unwrap().len(), windlass_text::work::total() - before)
    };
    let (rows, here) = steps("default").await;
    assert!(rows >= 200 && here < 200, "{rows} rows took {here} steps");
    listening.end().await;
}
