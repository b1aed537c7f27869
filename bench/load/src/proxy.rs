//! A proxy that makes a server forget: it cuts watches and answers the next ones with 410.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a proxy between real sockets"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bench_harness::{Args, command, say};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc, watch};

use crate::connection::{Connection, Server};
use crate::{Failure, Outcome};

/// A list is more than this.
const LIST_LEAST: usize = 10_000;
/// So long without a byte is the end of it.
const PAUSE: Duration = Duration::from_secs(2);

type Body = BoxBody<Bytes, Infallible>;

struct Shared {
    server: Server,
    /// Raised with every cut.
    cuts: watch::Sender<usize>,
    /// How many cuts there were whose 410 was not sent yet.
    forgotten: AtomicUsize,
    /// What was handed on since the last cut, and when the last of it.
    since: Arc<Mutex<Passed>>,
}

#[derive(Clone, Copy)]
struct Passed {
    bytes: usize,
    last: Instant,
}

/// Writes a kubeconfig to `--out`, then cuts all watches for every line on standard input.
pub async fn run(server: Server, args: &Args) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: proxy\n  cluster:\n    server: http://{address}\n\
         contexts:\n- name: proxy\n  context:\n    cluster: proxy\n    user: admin\n\
         current-context: proxy\nusers:\n- name: admin\n  user: {{}}\n"
    );
    std::fs::write(args.text("out"), text)?;
    let since = Arc::new(Mutex::new(Passed { bytes: 0, last: Instant::now() }));
    let (cuts, forgotten) = (watch::channel(0).0, AtomicUsize::new(0));
    let shared = Arc::new(Shared { server, cuts, forgotten, since });
    let serving = shared.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let shared = serving.clone();
            tokio::spawn(async move {
                let Ok(upstream) = shared.server.connect().await else { return };
                let upstream = Arc::new(Mutex::new(upstream));
                let service = service_fn(move |request| {
                    let (shared, upstream) = (shared.clone(), upstream.clone());
                    async move { Ok::<_, Infallible>(answer(&shared, &upstream, request).await) }
                });
                // A client that disconnects ends its connection; nothing is lost by that.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    bench_harness::ready();
    loop {
        let said = tokio::task::spawn_blocking(command).await?;
        if said != "cut" {
            return Ok(json!({ "cuts": *shared.cuts.borrow() }));
        }
        let began = Instant::now();
        *shared.since.lock().await = Passed { bytes: 0, last: began };
        shared.forgotten.fetch_add(1, Ordering::AcqRel);
        shared.cuts.send_modify(|cuts| *cuts += 1);
        let Passed { bytes, last } = quiet(&shared).await;
        say(&json!({ "time_s": last.duration_since(began).as_secs_f64(), "bytes": bytes }));
    }
}

/// Waits until a list was handed on and nothing came after it for a while.
async fn quiet(shared: &Shared) -> Passed {
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let passed = *shared.since.lock().await;
        let answered = shared.forgotten.load(Ordering::Acquire) == 0;
        if answered && passed.bytes > LIST_LEAST && passed.last.elapsed() > PAUSE {
            return passed;
        }
    }
}

async fn answer(
    shared: &Shared,
    upstream: &Mutex<Connection>,
    request: Request<Incoming>,
) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default();
    let watches = query.contains("watch=true") || query.contains("watch=1");
    if watches && !query.contains("sendInitialEvents=true") && forget(shared) {
        return gone();
    }
    let cuts = shared.cuts.subscribe();
    match pass(&shared.server, upstream, request).await {
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            let cuts = watches.then_some(cuts);
            Response::from_parts(head, relay(body, cuts, shared.since.clone()))
        }
        Err(error) => {
            let body = Full::new(Bytes::from(error.to_string())).boxed();
            let mut answer = Response::new(body);
            *answer.status_mut() = StatusCode::BAD_GATEWAY;
            answer
        }
    }
}

fn forget(shared: &Shared) -> bool {
    let less = |left: usize| left.checked_sub(1);
    shared.forgotten.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
}

/// What a real server says when it has forgotten: an event of a watch that then ends.
fn gone() -> Response<Body> {
    let event = json!({ "type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version: 1 (2)", "reason": "Expired", "code": 410,
    } });
    let mut answer = Response::new(Full::new(Bytes::from(format!("{event}\n"))).boxed());
    answer.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    answer
}

async fn pass(
    server: &Server,
    upstream: &Mutex<Connection>,
    request: Request<Incoming>,
) -> Result<Response<Incoming>, Failure> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut upstream = upstream.lock().await;
    let request = Request::from_parts(head.clone(), Full::new(body.clone()));
    if let Ok(answer) = upstream.forward(request).await {
        return Ok(answer);
    }
    // A watch that was cut took its connection with it.
    *upstream = server.connect().await?;
    upstream.forward(Request::from_parts(head, Full::new(body))).await
}

/// Hands the body on until it ends or is cut.
fn relay(
    mut body: Incoming,
    cuts: Option<watch::Receiver<usize>>,
    since: Arc<Mutex<Passed>>,
) -> Body {
    let (sender, mut frames) = mpsc::channel::<Frame<Bytes>>(16);
    tokio::spawn(async move {
        let cut = async {
            match cuts {
                Some(mut cuts) => drop(cuts.changed().await),
                None => std::future::pending().await,
            }
        };
        tokio::pin!(cut);
        loop {
            tokio::select! {
                biased;
                () = &mut cut => return,
                frame = body.frame() => match frame {
                    Some(Ok(frame)) => {
                        let length = frame.data_ref().map_or(0, Bytes::len);
                        if sender.send(frame).await.is_err() {
                            return;
                        }
                        let mut since = since.lock().await;
                        *since = Passed { bytes: since.bytes + length, last: Instant::now() };
                    }
                    _ => return,
                },
            }
        }
    });
    let frames =
        futures::stream::poll_fn(move |cx| frames.poll_recv(cx).map(|frame| frame.map(Ok)));
    BodyExt::boxed(StreamBody::new(frames))
}
