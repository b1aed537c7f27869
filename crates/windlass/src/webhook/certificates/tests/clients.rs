//! Which clients the server speaks with.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

const HOST: &str = "hooks.ops.svc";

/// A server with a certificate for [`HOST`], and the CA that clients trust.
struct Site {
    server: Arc<Server>,
    ca: Pair,
}

impl Site {
    fn new() -> Self {
        let now = Clock::default().now();
        let ca = authority("ours", now, 60 * MINUTE).expect("made");
        let pair = leaf(&ca, &[HOST.to_owned()], now, 60 * MINUTE).expect("made");
        let tls = Tls::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes()).expect("usable");
        let server = Server::new("webhook", "", Pages::Webhooks(webhooks("Fail")));
        Self { server: Arc::new(server.secure(Some(tls), None)), ca }
    }

    /// A connection without TLS so far.
    fn connect(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(self.server.clone().connection(theirs, Busy::default()));
        ours
    }

    async fn handshake(
        &self,
        version: &'static SupportedProtocolVersion,
        protocols: &[&str],
    ) -> std::io::Result<TlsStream<DuplexStream>> {
        let mut config = config(&self.ca.certificate, version);
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let host = ServerName::try_from(HOST).expect("a name");
        TlsConnector::from(Arc::new(config)).connect(host, self.connect()).await
    }
}

/// A client that trusts the CAs of a text.
fn config(authorities: &str, version: &'static SupportedProtocolVersion) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(certificate.expect("PEM")).expect("a CA");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("known")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A connection that stays open, as API servers keep them.
pub(super) struct Kept(TlsStream<DuplexStream>);

impl Kept {
    /// Connects to a replica, with the CAs that are trusted now.
    pub(super) async fn open(world: &World, server: Arc<Server>) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(server.connection(theirs, Busy::default()));
        let trusted: String = world.trusted().await.iter().map(issue::Certificate::pem).collect();
        let host = ServerName::try_from(format!("{}.ops.svc", world.model.webhook_service()));
        let connector = TlsConnector::from(Arc::new(config(&trusted, &TLS13)));
        Self(connector.connect(host.expect("a name"), ours).await.expect("accepted"))
    }

    /// Sends a review, which has to be accepted.
    pub(super) async fn review(&mut self) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let request = json!({"uid": "7", "operation": "CREATE", "object": object});
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": request})
        .to_string();
        let request = format!(
            "POST /validate--v1-configmap HTTP/1.1\r\nHost: hooks\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{review}",
            review.len()
        );
        self.0.write_all(request.as_bytes()).await.expect("the connection is kept");
        let mut answer = Vec::new();
        let wanted = b"\"allowed\":true";
        while !answer.windows(wanted.len()).any(|part| part == wanted) {
            assert!(self.0.read_buf(&mut answer).await.expect("answered") > 0, "closed");
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
        // The rest of this answer comes before the next one.
        while !answer.ends_with(b"}}") {
            assert!(self.0.read_buf(&mut answer).await.expect("answered") > 0, "closed");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn clients_speak_tls_1_2_or_1_3() {
    let site = Site::new();
    for (version, wanted) in
        [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)]
    {
        let mut stream = site.handshake(version, &[]).await.expect("accepted");
        assert_eq!(stream.get_ref().1.protocol_version(), Some(wanted));
        let request = format!("GET /nowhere HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn tls_1_1_is_refused() {
    let mut hello = vec![3, 2];
    hello.extend([7; 32]);
    // No session, the suite ECDHE_ECDSA_WITH_AES_128_CBC_SHA, no compression.
    hello.extend([0, 0, 2, 0xc0, 0x09, 1, 0]);
    // The extension signature_algorithms: ECDSA_SECP256R1_SHA256.
    hello.extend([0, 8, 0, 13, 0, 4, 0, 2, 4, 3]);
    let length = u8::try_from(hello.len()).expect("short");
    let mut record = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(hello);
    let mut stream = Site::new().connect();
    stream.write_all(&record).await.expect("written");
    let mut alert = [0; 7];
    stream.read_exact(&mut alert).await.expect("answered");
    assert_eq!((alert[0], alert[5], alert[6]), (21, 2, 70), "a fatal alert: protocol_version");
}

#[tokio::test(start_paused = true)]
async fn http_2_is_off() {
    let site = Site::new();
    let refused = site.handshake(&TLS13, &["h2"]).await.expect_err("refused").to_string();
    assert!(refused.contains("NoApplicationProtocol"), "{refused}");
    let stream = site.handshake(&TLS13, &["h2", "http/1.1"]).await.expect("accepted");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
    let mut stream = site.handshake(&TLS13, &[]).await.expect("accepted");
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .expect("written");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
}
