#![allow(
    clippy::disallowed_methods,
    reason = "certificates and files of real servers belong to real time"
)]

use std::sync::Arc;

use futures::StreamExt;
use http::Version;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::client::conn;
use jiff::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;

use super::*;
use crate::pki::{Ca, Identity, server_config};

type TestBody = UnsyncBoxBody<Bytes, BoxError>;

struct Server {
    address: std::net::SocketAddr,
    ca: Ca,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

/// Echoes the body, and recognizes its sender at `/known`; names the peer at `/who`, and never ends its answer at `/watch` (where it
/// waits) and `/endless` (where it does not).
async fn answer(request: Request<RequestBody>) -> Result<Response<TestBody>, BoxError> {
    let known = request.uri().path() == "/known";
    let full = |bytes: Bytes| Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
    let body = match request.uri().path() {
        "/who" => {
            let peer = request.extensions().get::<PeerCertificate>();
            let user = peer.and_then(|p| p.user.as_ref());
            full(user.map(|u| format!("{}{:?}", u.name, u.groups)).unwrap_or_default().into())
        }
        "/endless" => {
            let piece = || Ok(Frame::data(Bytes::from_static(&[b'x'; 8192])));
            StreamBody::new(futures::stream::repeat_with(piece)).boxed_unsync()
        }
        "/watch" => {
            let one = futures::stream::iter([Ok(Frame::data(Bytes::from("event\n")))]);
            StreamBody::new(one.chain(futures::stream::pending())).boxed_unsync()
        }
        _ => match request.into_body().collect().await {
            Ok(body) => full(body.to_bytes()),
            Err(error) => full(error.to_string().into()),
        },
    };
    let mut response = Response::new(body);
    if known {
        response.extensions_mut().insert(Recognized);
    }
    Ok(response)
}

impl Server {
    async fn start(tls: bool, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ca = Ca::generate("test", Timestamp::now()).unwrap();
        let serving = ca.serving(&["localhost".into(), "127.0.0.1".into()]).unwrap();
        let config = tls.then(|| server_config(&serving, Some(ca.certificate())).unwrap());
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { drop(stopped.await) };
        let service = tower::service_fn(answer);
        let task = tokio::spawn(serve_with(listener, config, service, stopped, limits));
        Self { address, ca, stop, task }
    }

    async fn tls(
        &self,
        alpn: &[u8],
        client: Option<&Identity>,
    ) -> tokio_rustls::client::TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.ca.certificate().as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match client {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let der = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![der], key).unwrap()
            }
        };
        config.alpn_protocols = vec![alpn.to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    async fn end(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

fn post(path: &str, body: &'static str) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::from(body));
    *request.uri_mut() = format!("https://localhost{path}").parse().unwrap();
    *request.method_mut() = http::Method::POST;
    request
}

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

async fn h1<I>(io: I) -> conn::http1::SendRequest<Full<Bytes>>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = conn::http1::handshake(TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn h2<I>(io: I) -> conn::http2::SendRequest<Full<Bytes>>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), TokioIo::new(io))
            .await
            .unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test]
async fn both_protocols_are_spoken_over_tls() {
    let server = Server::start(true, Limits::default()).await;
    let mut one = h1(server.tls(b"http/1.1", None).await).await;
    let response = one.send_request(post("/", "hello")).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_11);
    assert_eq!(text(response).await, "hello");
    let mut two = h2(server.tls(b"h2", None).await).await;
    let response = two.send_request(post("/", "again")).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    assert_eq!(text(response).await, "again");
    server.end().await;
}

#[tokio::test]
async fn both_protocols_are_spoken_in_the_clear() {
    let server = Server::start(false, Limits::default()).await;
    let mut one = h1(TcpStream::connect(server.address).await.unwrap()).await;
    assert_eq!(text(one.send_request(post("/", "a")).await.unwrap()).await, "a");
    let mut two = h2(TcpStream::connect(server.address).await.unwrap()).await;
    assert_eq!(text(two.send_request(post("/", "b")).await.unwrap()).await, "b");
    server.end().await;
}

#[tokio::test]
async fn a_client_certificate_reaches_the_service_as_a_user() {
    let server = Server::start(true, Limits::default()).await;
    let client = server.ca.client("alice", &["dev"]).unwrap();
    let mut known = h2(server.tls(b"h2", Some(&client)).await).await;
    let who = text(known.send_request(post("/who", "")).await.unwrap()).await;
    assert_eq!(who, "alice[\"dev\"]");
    let mut nobody = h1(server.tls(b"http/1.1", None).await).await;
    assert_eq!(text(nobody.send_request(post("/who", "")).await.unwrap()).await, "");
    server.end().await;
}

#[tokio::test]
async fn a_watch_ends_cleanly_when_the_server_does() {
    let server = Server::start(true, Limits::default()).await;
    let mut one = h1(server.tls(b"http/1.1", None).await).await;
    let mut two = h2(server.tls(b"h2", None).await).await;
    let one = one.send_request(post("/watch", "")).await.unwrap();
    let two = two.send_request(post("/watch", "")).await.unwrap();
    let ended = tokio::spawn(server.end());
    assert_eq!(text(one).await, "event\n");
    assert_eq!(text(two).await, "event\n");
    ended.await.unwrap();
}

#[tokio::test]
async fn a_slow_sender_of_headers_is_cut() {
    let limits = Limits { header_timeout: Duration::from_millis(30), ..Limits::default() };
    let server = Server::start(false, limits).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn a_slow_sender_of_a_body_gets_an_error() {
    let limits = Limits { body_timeout: Duration::from_millis(30), ..Limits::default() };
    let server = Server::start(false, limits).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc").await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(String::from_utf8_lossy(&rest).contains("did not arrive in time"));
    server.end().await;
}

#[tokio::test]
async fn a_stalled_handshake_is_cut() {
    let limits = Limits { handshake_timeout: Duration::from_millis(30), ..Limits::default() };
    let server = Server::start(true, limits).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0);
    server.end().await;
}

#[tokio::test]
async fn one_connection_too_many_gets_an_error() {
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let server = Server::start(false, limits).await;
    let mut first = h1(TcpStream::connect(server.address).await.unwrap()).await;
    assert_eq!(text(first.send_request(post("/", "a")).await.unwrap()).await, "a");
    let mut second = h1(TcpStream::connect(server.address).await.unwrap()).await;
    let refused = second.send_request(post("/", "b")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(text(refused).await.contains("too many connections"));
    assert_eq!(text(first.send_request(post("/", "c")).await.unwrap()).await, "c");
    server.end().await;
}

/// A connection within the process, whose peer takes no more than `room` bytes.
async fn connection(
    room: usize,
) -> (tokio::io::DuplexStream, tokio::task::JoinHandle<Result<(), BoxError>>) {
    let (near, far) = tokio::io::duplex(room);
    let places = Arc::new(Semaphore::new(1));
    let connection = Connection {
        service: tower::service_fn(answer),
        limits: Arc::new(Limits::default()),
        end: CancellationToken::new(),
        peer: Strangers::new(1, Duration::from_secs(10)).enter(),
        refused: false,
        place: places.acquire_owned().await.unwrap(),
    };
    (far, tokio::spawn(connection.http(near, false, None)))
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_peer_does_not_read_its_answer_is_cut() {
    let (mut peer, task) = connection(4096).await;
    let begin = tokio::time::Instant::now();
    peer.write_all(b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(task.await.unwrap().is_err());
    assert_eq!(begin.elapsed(), Limits::default().stall_timeout);
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_news_is_not_cut() {
    let (mut peer, task) = connection(4096).await;
    peer.write_all(b"GET /watch HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut start = [0; 12];
    peer.read_exact(&mut start).await.unwrap();
    sleep(Duration::from_secs(3600)).await;
    assert!(!task.is_finished());
    task.abort();
}

#[tokio::test]
async fn strangers_make_room_for_each_other_but_not_those_who_are_known() {
    let limits = Limits { strangers_max: 2, ..Limits::default() };
    let server = Server::start(true, limits).await;
    let client = server.ca.client("alice", &[]).unwrap();
    let mut certified = h2(server.tls(b"h2", Some(&client)).await).await;
    assert_eq!(text(certified.send_request(post("/", "a")).await.unwrap()).await, "a");
    let mut known = h1(server.tls(b"http/1.1", None).await).await;
    assert_eq!(text(known.send_request(post("/known", "b")).await.unwrap()).await, "b");
    let mut strangers = Vec::new();
    for alpn in [b"h2".as_slice(), b"http/1.1", b"h2"] {
        strangers.push(server.tls(alpn, None).await);
    }
    // The first stranger reads the end of its connection, after what the handshake left to read.
    let mut rest = Vec::new();
    strangers.remove(0).read_to_end(&mut rest).await.unwrap_or_default();
    let mut third = h2(strangers.remove(1)).await;
    assert_eq!(text(third.send_request(post("/", "c")).await.unwrap()).await, "c");
    assert_eq!(text(certified.send_request(post("/", "a")).await.unwrap()).await, "a");
    assert_eq!(text(known.send_request(post("/", "b")).await.unwrap()).await, "b");
    server.end().await;
}
