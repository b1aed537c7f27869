//! Metrics over TLS, shown only to those who may.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use windlass::controller::{Context, Controller, Next};
use windlass::serve::Tls;
use windlass::{Client, Kind, Manager};
use windlass_apiserver::{ApiServer, Options, User, pki};

async fn get(address: std::net::SocketAddr, ca: &str, token: Option<&str>) -> String {
    let mut roots = rustls::RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(ca.as_bytes()).expect("a certificate");
    roots.add(ca).expect("taken");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address).await.expect("connects");
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await.expect("shakes hands");
    let authorization =
        token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\n{authorization}Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    // The peer may close without a goodbye once everything is sent.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).expect("text")
}

#[tokio::test]
async fn metrics_are_shown_over_tls_to_those_with_the_right() {
    let tokens = vec![
        ("scraper-token".to_string(), User::new("scraper", &["system:authenticated"])),
        ("other-token".to_string(), User::new("other", &["system:authenticated"])),
    ];
    let options = Options { tokens, authorize: true, ..Options::default() };
    let server = ApiServer::with_options(options).expect("starts");
    let admin = Client::new(server.client());
    let rbac = |kind: &str, plural: &str| {
        Kind::new("rbac.authorization.k8s.io", "v1", kind, plural).cluster_scoped()
    };
    let role = json!({
        "metadata": {"name": "reader"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    });
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "scraper"}],
    });
    for (kind, object) in [
        (rbac("ClusterRole", "clusterroles"), role),
        (rbac("ClusterRoleBinding", "clusterrolebindings"), binding),
    ] {
        let object = serde_json::from_value(object).expect("an object");
        admin.api_of::<kube::core::DynamicObject>(&kind).create(&object).await.expect("created");
    }
    let ca = pki::Ca::generate("test", jiff::Timestamp::now()).expect("made");
    let identity = ca.serving(&["localhost".to_string()]).expect("made");
    let dir = std::env::temp_dir().join(format!("windlass-scrape-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("made");
    std::fs::write(dir.join("tls.crt"), &identity.certificate).expect("written");
    std::fs::write(dir.join("tls.key"), &identity.key).expect("written");
    let tls = Tls::from_dir(&dir);
    let controller = Controller::<ConfigMap>::builder("maps")
        .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
    let handle = Manager::new(server.client())
        .add(controller)
        .metrics("127.0.0.1:0")
        .secure_metrics(tls.expect("usable"))
        .spawn()
        .expect("starts");
    handle.ready().await;
    let address = handle.metrics_address().expect("listens");
    let shown = get(address, ca.certificate(), Some("scraper-token")).await;
    assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
    assert!(shown.contains("controller_runtime_active_workers"), "{shown}");
    for (token, code) in [(None, "401"), (Some("wrong"), "401"), (Some("other-token"), "403")] {
        let refused = get(address, ca.certificate(), token).await;
        assert!(refused.starts_with(&format!("HTTP/1.1 {code}")), "{token:?}: {refused}");
    }
    handle.stop().await.expect("stops");
}

/// Believes every certificate and remembers it.
#[derive(Debug, Default)]
struct Credulous(parking_lot::Mutex<Vec<u8>>);

impl rustls::client::danger::ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        *self.0.lock() = end_entity.to_vec();
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        let provider = rustls::crypto::ring::default_provider();
        provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The certificate a server shows.
async fn shown(address: std::net::SocketAddr) -> Vec<u8> {
    let seen = Arc::new(Credulous::default());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(seen.clone())
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address).await.expect("connects");
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("shakes hands");
    seen.0.lock().clone()
}

#[tokio::test]
async fn metrics_are_served_with_a_self_signed_certificate() {
    let server = ApiServer::start();
    let handle = Manager::new(server.client())
        .metrics("127.0.0.1:0")
        .secure_metrics(Tls::self_signed(&["localhost"]).expect("generated"))
        .spawn()
        .expect("starts");
    handle.ready().await;
    let address = handle.metrics_address().expect("listens");
    assert!(!shown(address).await.is_empty());
    handle.stop().await.expect("stops");
}

#[tokio::test]
async fn a_certificate_that_is_renewed_is_served_and_one_that_is_spoiled_is_not() {
    let dir = std::env::temp_dir().join(format!("windlass-tls-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("made");
    let ca = pki::Ca::generate("test", jiff::Timestamp::now()).expect("made");
    let write = |certificate: &str, key: &str| {
        std::fs::write(dir.join("tls.crt"), certificate).expect("written");
        std::fs::write(dir.join("tls.key"), key).expect("written");
    };
    let renew = || {
        let identity = ca.serving(&["localhost".to_string()]).expect("made");
        write(&identity.certificate, &identity.key);
    };
    renew();
    let server = ApiServer::start();
    let handle = Manager::new(server.client())
        .metrics("127.0.0.1:0")
        .secure_metrics(Tls::from_dir(&dir).expect("usable"))
        .spawn()
        .expect("starts");
    handle.ready().await;
    let address = handle.metrics_address().expect("listens");
    let first = shown(address).await;
    let read = |handle: &windlass::manager::Handle, good: bool| {
        let name = if good { "certificate" } else { "certificate_errors" };
        crate::common::metric(handle, &format!("certwatcher_read_{name}_total"))
    };
    // Only the wait between two looks is virtual: the handshakes are not.
    let pass = async |what: &dyn Fn() -> bool| {
        tokio::time::pause();
        for _ in 0..100 {
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
            // The files are read on another thread.
            for _ in 0..3 {
                tokio::task::spawn_blocking(|| ()).await.expect("no panic");
            }
            if what() {
                break;
            }
        }
        tokio::time::resume();
        assert!(what());
    };
    renew();
    pass(&|| read(&handle, true) == 2.0).await;
    let second = shown(address).await;
    assert_ne!(first, second);
    write("garbage", "garbage");
    pass(&|| read(&handle, false) >= 1.0).await;
    assert_eq!(shown(address).await, second, "the last good one stays");
    handle.stop().await.expect("stops");
    std::fs::remove_dir_all(&dir).expect("removed");
}
