//! Reads: what the wire alone takes, and watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bench_harness::{Args, Lags, Meter, NAMESPACE, STAMP, command, cpu_seconds, now_micros, ready};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use crate::connection::{JSON, MERGE, Server};
use crate::write::{Call, series};
use crate::{Failure, Outcome, objects, write};

/// How many hands change objects, each its own, while others watch.
const WRITERS: usize = 4;
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
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

/// Follows changes of pods and notes how old each is when its bytes are here: the floor of lags.
pub async fn latency(server: &Server) -> Outcome {
    let mut connection = server.connect().await?;
    let list = format!("/api/v1/namespaces/{NAMESPACE}/pods?limit=1");
    let first = connection.json(Method::GET, &list, JSON, Bytes::new()).await?;
    let from = first["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    let path = format!("/api/v1/pods?watch=true&resourceVersion={from}&timeoutSeconds=600");
    let answer = connection.send(Method::GET, &path, JSON, Bytes::new()).await?;
    let (lags, stopped) =
        (Arc::new(std::sync::Mutex::new(Lags::default())), Arc::new(Notify::new()));
    let (noted, stop) = (lags.clone(), stopped.clone());
    let follow = tokio::spawn(async move {
        tokio::select! {
            ended = stamps(answer.into_body(), &noted) => ended,
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

/// Finds the stamp of each line without reading the JSON.
async fn stamps(mut body: Incoming, lags: &std::sync::Mutex<Lags>) -> Result<(), Failure> {
    let label = format!("\"{STAMP}\":\"");
    let mut line = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        for byte in
            frame.data_ref().map_or(&[][..], |data| &data[..]).split_inclusive(|b| *b == b'\n')
        {
            line.extend_from_slice(byte);
            if line.last() != Some(&b'\n') {
                continue;
            }
            let text = String::from_utf8_lossy(&line);
            let stamp = text.split(&label).nth(1).and_then(|rest| rest.split('"').next());
            if let Ok(mut lags) = lags.lock() {
                lags.stamp(stamp);
            }
            line.clear();
        }
    }
    Ok(())
}

/// Lets `--watchers` follow `--size` changes and waits until all have seen all.
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
    let (seen, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let mut tasks = Vec::new();
    for _ in 0..watchers {
        let mut connection = server.connect().await?;
        let answer = connection.send(Method::GET, &path, JSON, Bytes::new()).await?;
        let (seen, done, total) = (seen.clone(), done.clone(), watchers * size);
        tasks.push(tokio::spawn(async move {
            let (mut body, _open) = (answer.into_body(), connection);
            while let Some(Ok(frame)) = body.frame().await {
                let data = frame.data_ref().map_or(&[][..], |data| &data[..]);
                let lines = data.iter().filter(|byte| **byte == b'\n').count();
                if seen.fetch_add(lines, Ordering::AcqRel) + lines >= total {
                    done.notify_one();
                }
            }
        }));
    }
    let change = move |n: usize| Call {
        method: Method::PATCH,
        path: format!("{all}/{}", called(n)),
        content: MERGE,
        body: objects::bytes(&json!({ "data": { "mode": format!("m{n}") } })),
    };
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let (written, _) = series(server, WRITERS, size, change).await?;
    let limit = Duration::from_secs(120);
    let all_seen = tokio::time::timeout(limit, done.notified()).await.is_ok();
    let took = began.elapsed().as_secs_f64();
    for task in tasks {
        task.abort();
    }
    let count = seen.load(Ordering::Acquire);
    if !all_seen {
        return Err(format!("only {count} of {} events came", watchers * size).into());
    }
    Ok(json!({
        "time_s": took, "written_s": written.as_secs_f64(), "events": count,
        "events_per_s": count as f64 / took, "driver_cpu_s": cpu_seconds() - cpu,
    }))
}
