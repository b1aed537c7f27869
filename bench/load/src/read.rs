//! Reads: what the wire alone takes, and watches.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench_harness::{Args, Lags, Meter, NAMESPACE, STAMP, command, cpu_seconds, now_micros, ready};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::{JoinSet, spawn_blocking};

use crate::connection::{JSON, MERGE, Server};
use crate::write::{Call, series};
use crate::{Failure, Outcome, objects, write};

/// How many tasks change objects, each its own, while others watch.
const WRITERS: usize = 4;
/// The time from one change to the next while their lags are taken.
const PACE: Duration = Duration::from_millis(20);
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PROTOBUF_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const STREAM: &str = "/api/v1/pods?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
                      &resourceVersionMatch=NotOlderThan&timeoutSeconds=300";

/// Asks until the server says that it is ready.
pub async fn wait_ready(server: &Server) -> Outcome {
    loop {
        if let Ok(mut connection) = server.connect().await {
            let asked = connection.drop_answer(Method::GET, "/readyz", JSON, Bytes::new()).await;
            if asked.is_ok_and(|(status, _)| status.is_success()) {
                return Ok(json!({ "ready": true }));
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Fails unless the server has `--size` config maps.
pub async fn count(server: &Server, args: &Args) -> Outcome {
    let mut connection = server.connect().await?;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps?limit=1");
    let list = connection.json(Method::GET, &path, JSON, Bytes::new()).await?;
    let rest = list["metadata"]["remainingItemCount"].as_u64().unwrap_or_default();
    let (found, wanted) = (rest + 1, args.number("size", 1000) as u64);
    match found == wanted {
        true => Ok(json!({ "count": found })),
        false => Err(format!("the server has {found} config maps instead of {wanted}").into()),
    }
}

/// Reads all pods and drops the bytes: `--wire list`, `stream`, `pages`, `protobuf`, `fresh`.
pub async fn floor(server: &Server, args: &Args) -> Outcome {
    let mut connection = server.connect().await?;
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let bytes = match args.text("wire") {
        "stream" => {
            let answer = connection.send(Method::GET, STREAM, JSON, Bytes::new()).await?;
            if !answer.status().is_success() {
                return Err(format!("no streaming list: {}", answer.status()).into());
            }
            until_bookmark(answer.into_body()).await?
        }
        wire => {
            let (path, content) = match wire {
                "protobuf" => ("/api/v1/pods?resourceVersion=0", PROTOBUF),
                "metadata" => ("/api/v1/pods?resourceVersion=0", METADATA),
                "fresh" => ("/api/v1/pods", JSON),
                _ => ("/api/v1/pods?resourceVersion=0", JSON),
            };
            let (status, length) =
                connection.drop_answer(Method::GET, path, content, Bytes::new()).await?;
            if !status.is_success() {
                return Err(format!("{path}: {status}").into());
            }
            length
        }
    };
    let time = began.elapsed().as_secs_f64();
    Ok(json!({ "time_s": time, "bytes": bytes, "cpu_s": cpu_seconds() - cpu }))
}

/// Reads a streaming list up to the bookmark that ends it, looking at line ends only.
async fn until_bookmark(mut body: Incoming) -> Result<usize, Failure> {
    const MARK: &[u8] = b"{\"type\":\"BOOKMARK\"";
    let (mut length, mut head) = (0, Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        let Some(data) = frame.data_ref() else { continue };
        length += data.len();
        let mut rest = &data[..];
        loop {
            let wanted = MARK.len().saturating_sub(head.len()).min(rest.len());
            head.extend_from_slice(&rest[..wanted]);
            if head == MARK {
                return Ok(length);
            }
            match rest.iter().position(|byte| *byte == b'\n') {
                None => break,
                Some(end) => {
                    head.clear();
                    rest = &rest[end + 1..];
                }
            }
        }
    }
    Err("the streaming list ended without its bookmark".into())
}

/// Follows changes of pods and notes how old each is when its bytes are here: the floor of lags,
/// in JSON or in protobuf (`--wire protobuf`), as it is for who is compared.
pub async fn latency(server: &Server, args: &Args) -> Outcome {
    let mut connection = server.connect().await?;
    let list = format!("/api/v1/namespaces/{NAMESPACE}/pods?limit=1");
    let first = connection.json(Method::GET, &list, JSON, Bytes::new()).await?;
    let from = first["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    let path = format!("/api/v1/pods?watch=true&resourceVersion={from}&timeoutSeconds=600");
    let protobuf = args.text("wire") == "protobuf";
    let form = if protobuf { PROTOBUF_WATCH } else { JSON };
    let answer = connection.send(Method::GET, &path, form, Bytes::new()).await?;
    let (lags, stopped) = (Arc::new(Mutex::new(Lags::default())), Arc::new(Notify::new()));
    let (noted, stop) = (lags.clone(), stopped.clone());
    let follow = tokio::spawn(async move {
        tokio::select! {
            ended = stamps(answer.into_body(), protobuf, &noted) => ended,
            () = stop.notified() => Ok(()),
        }
    });
    ready();
    spawn_blocking(command).await?;
    let meter = Meter::start();
    spawn_blocking(command).await?;
    let (time, cpu) = meter.read();
    stopped.notify_one();
    follow.await??;
    let mut lags = lags.lock().map_err(|_| "the watcher panicked")?;
    let events = lags.len();
    Ok(json!({
        "time_s": time, "cpu_s": cpu, "events": events, "lag": lags.summary(), "seen": lags.seen(),
        "cpu_us_per_event": cpu * 1e6 / events.max(1) as f64,
    }))
}

/// Notes the stamps of all events until the body ends.
async fn stamps(mut body: Incoming, protobuf: bool, lags: &Mutex<Lags>) -> Result<(), Failure> {
    let mut stamps = Stamps { protobuf, ..Stamps::default() };
    while let Some(frame) = body.frame().await {
        stamps.read(frame?.data_ref().map_or(&[][..], |data| &data[..]), lags);
    }
    Ok(())
}

/// Finds the stamp of each event without reading the object.
#[derive(Default)]
struct Stamps {
    /// Events have their length before them; without, a newline after them.
    protobuf: bool,
    /// What came of an event.
    event: Vec<u8>,
}

impl Stamps {
    fn read(&mut self, data: &[u8], lags: &Mutex<Lags>) {
        self.event.extend_from_slice(data);
        while let Some(end) = self.end() {
            if let Ok(mut lags) = lags.lock() {
                lags.stamp(stamp(&self.event[..end]));
            }
            self.event.drain(..end);
        }
    }

    /// Where the first event ends, if all of it is here.
    fn end(&self) -> Option<usize> {
        if !self.protobuf {
            return self.event.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        }
        let length = u32::from_be_bytes(*self.event.first_chunk()?);
        let end = usize::try_from(length).ok()? + 4;
        (self.event.len() >= end).then_some(end)
    }
}

/// The stamp in an event: the digits after its name, which has little between in either form.
fn stamp(event: &[u8]) -> Option<&str> {
    let mut parts = event.windows(STAMP.len());
    let at = parts.position(|part| part == STAMP.as_bytes())?;
    let rest = &event[at + STAMP.len()..];
    let from = rest.iter().take(4).position(u8::is_ascii_digit)?;
    let digits = rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[from..from + digits]).ok()
}

/// What the watchers of a fan-out have seen.
#[derive(Default)]
struct Seen {
    count: AtomicUsize,
    wanted: AtomicUsize,
    reached: Notify,
    /// Whether the changes have stamps.
    timed: AtomicBool,
    lags: Mutex<Lags>,
}

impl Seen {
    async fn follow(&self, mut body: Incoming) {
        let mut stamps = Stamps::default();
        while let Some(Ok(frame)) = body.frame().await {
            let data = frame.data_ref().map_or(&[][..], |data| &data[..]);
            if self.timed.load(Ordering::Acquire) {
                stamps.read(data, &self.lags);
            }
            let lines = data.iter().filter(|byte| **byte == b'\n').count();
            let count = self.count.fetch_add(lines, Ordering::AcqRel) + lines;
            if count >= self.wanted.load(Ordering::Acquire) {
                self.reached.notify_one();
            }
        }
    }

    /// Waits until so many events were seen in all.
    async fn reach(&self, wanted: usize) -> Result<(), Failure> {
        self.wanted.store(wanted, Ordering::Release);
        let all = async {
            while self.count.load(Ordering::Acquire) < wanted {
                self.reached.notified().await;
            }
        };
        let count = || self.count.load(Ordering::Acquire);
        let within = tokio::time::timeout(Duration::from_secs(120), all).await;
        Ok(within.map_err(|_| format!("only {} of {wanted} events came", count()))?)
    }
}

/// Lets `--watchers` follow `--size` changes and waits until all have seen all; then sends one
/// change at a time and notes how old each is when it comes.
pub async fn fanout(server: &Server, args: &Args) -> Outcome {
    write::namespace(server).await?;
    let (watchers, size) = (args.number("watchers", 100), args.number("size", 500));
    let run = now_micros();
    let called = move |n: usize| format!("fanout-{run}-{}", n % WRITERS);
    let mut connection = server.connect().await?;
    let all = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let mut from = String::new();
    for n in 0..WRITERS {
        let mut object = objects::config_map(&called(n));
        object["metadata"]["labels"] = json!({ "fanout": run.to_string() });
        let made = connection.json(Method::POST, &all, JSON, objects::bytes(&object)).await?;
        from = made["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    }
    let path = format!(
        "{all}?watch=true&resourceVersion={from}&timeoutSeconds=600&labelSelector=fanout%3D{run}"
    );
    let seen = Arc::new(Seen::default());
    seen.wanted.store(usize::MAX, Ordering::Release);
    let mut tasks = JoinSet::new();
    for _ in 0..watchers {
        let mut connection = server.connect().await?;
        let answer = connection.send(Method::GET, &path, JSON, Bytes::new()).await?;
        let seen = seen.clone();
        tasks.spawn(async move {
            let _open = connection;
            seen.follow(answer.into_body()).await;
        });
    }
    let one = move |n: usize| format!("{all}/{}", called(n));
    let path = one.clone();
    let change = move |n: usize| Call {
        method: Method::PATCH,
        path: path(n),
        content: MERGE,
        body: objects::bytes(&json!({ "data": { "mode": format!("m{n}") } })),
    };
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let (written, _) = series(server, WRITERS, size, change).await?;
    seen.reach(watchers * size).await?;
    let (took, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    seen.timed.store(true, Ordering::Release);
    let paced = size / 5;
    let mut next = tokio::time::interval(PACE);
    for n in 0..paced {
        next.tick().await;
        let change = json!({ "data": { STAMP: now_micros().to_string() } });
        let body = objects::bytes(&change);
        connection.drop_answer(Method::PATCH, &one(n), MERGE, body).await?;
    }
    seen.reach(watchers * (size + paced)).await?;
    let lag = seen.lags.lock().map_err(|_| "a watcher panicked")?.summary();
    Ok(json!({
        "time_s": took, "written_s": written.as_secs_f64(), "events": watchers * size,
        "events_per_s": (watchers * size) as f64 / took, "driver_cpu_s": cpu, "lag": lag,
    }))
}
