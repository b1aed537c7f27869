//! Writes: loading a server, a paced stream of changes, and the rate of each verb.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bench_harness::{Args, Lags, NAMESPACE, STAMP, name, now_micros};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep_until;

use crate::connection::{APPLY, Connection, JSON, MERGE, Server};
use crate::{Failure, Outcome, objects};

/// One request of a series.
pub struct Call {
    pub method: Method,
    pub path: String,
    pub content: &'static str,
    pub body: Bytes,
}

/// Creates the namespace and the objects `--from` to `--to`.
pub async fn load(server: &Server, args: &Args) -> Outcome {
    namespace(server).await?;
    let (from, to) = (args.number("from", 0), args.number("to", 1000));
    let (kind, object): (&str, fn(usize) -> Value) = match args.text("kind") {
        "configmaps" => ("configmaps", objects::small),
        "secrets" => ("secrets", objects::secret),
        _ => ("pods", objects::pod),
    };
    let path = format!("/api/v1/namespaces/{NAMESPACE}/{kind}?fieldManager=bench-loader");
    let calls = move |n: usize| Call {
        method: Method::POST,
        path: path.clone(),
        content: JSON,
        body: objects::bytes(&object(from + n)),
    };
    let connections = args.number("connections", 16);
    let (took, _) = series(server, connections, to.saturating_sub(from), calls).await?;
    let mut connection = server.connect().await?;
    let first = format!("/api/v1/namespaces/{NAMESPACE}/{kind}/{}", name(0));
    let (_, length) = connection.drop_answer(Method::GET, &first, JSON, Bytes::new()).await?;
    Ok(json!({ "time_s": took.as_secs_f64(), "count": to - from, "object_bytes": length }))
}

/// Changes each of `--size` config maps once.
pub async fn touch(server: &Server, args: &Args) -> Outcome {
    let change = |n: usize| Call {
        method: Method::PATCH,
        path: format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{}", name(n)),
        content: MERGE,
        body: objects::bytes(&json!({ "data": { "changed": n.to_string() } })),
    };
    let connections = args.number("connections", 16);
    let (took, _) = series(server, connections, args.number("size", 1000), change).await?;
    Ok(json!({ "time_s": took.as_secs_f64() }))
}

/// Makes the namespace of the benchmark.
pub async fn namespace(server: &Server) -> Result<(), Failure> {
    let mut connection = server.connect().await?;
    let body = objects::bytes(&json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
    }));
    let (status, _) =
        connection.drop_answer(Method::POST, "/api/v1/namespaces", JSON, body).await?;
    match status.is_success() || status == StatusCode::CONFLICT {
        true => Ok(()),
        false => Err(format!("no namespace: {status}").into()),
    }
}

/// Changes a label of pods, `--rate` of them a second for `--seconds`.
pub async fn updates(server: &Server, args: &Args) -> Outcome {
    let (rate, size) = (args.number("rate", 100), args.number("size", 1000));
    let seconds = args.number("seconds", 5);
    let count = rate * seconds;
    let connections = args.number("connections", 8).min(rate.max(1));
    let next = Arc::new(AtomicUsize::new(0));
    let began = tokio::time::Instant::now() + Duration::from_millis(100);
    let mut tasks = Vec::new();
    for _ in 0..connections {
        let mut connection = server.connect().await?;
        let next = next.clone();
        tasks.push(tokio::spawn(async move {
            let mut lags = Lags::default();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                // A server that cannot keep up gets fewer, not longer.
                if n >= count || began.elapsed() > Duration::from_secs(seconds as u64) {
                    return Ok::<_, Failure>(lags);
                }
                sleep_until(began + Duration::from_secs_f64(n as f64 / rate as f64)).await;
                // A stride that is prime to the sizes, so that no pod changes twice in a row.
                let path = pod_path(n * 7919 % size);
                let stamp =
                    json!({ "metadata": { "labels": { STAMP: now_micros().to_string() } } });
                let began = Instant::now();
                let body = objects::bytes(&stamp);
                let (status, _) = connection.drop_answer(Method::PATCH, &path, MERGE, body).await?;
                if !status.is_success() {
                    return Err(format!("{path}: {status}").into());
                }
                lags.push(began.elapsed());
            }
        }));
    }
    let mut lags = Lags::default();
    for task in tasks {
        lags.merge(task.await??);
    }
    let took = began.elapsed().as_secs_f64();
    let sent = lags.len();
    Ok(json!({
        "time_s": took, "sent": sent, "rate": sent as f64 / took, "patch": lags.summary(),
    }))
}

fn pod_path(n: usize) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods/{}?fieldManager=bench-mover", name(n))
}

/// Creates, updates, patches, applies and deletes config maps as fast as they go.
pub async fn writes(server: &Server, args: &Args) -> Outcome {
    namespace(server).await?;
    let (count, connections) = (args.number("size", 2000), args.number("connections", 16));
    let run = now_micros();
    let called = move |n: usize| format!("writes-{run}-{n}");
    let all = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let one = {
        let all = all.clone();
        move |n: usize| format!("{all}/{}", called(n))
    };
    let mut found = serde_json::Map::new();
    let mut note = |verb: &str, (took, mut lags): (Duration, Lags)| {
        let summary = lags.summary();
        found.insert(format!("{verb}_per_s"), json!(count as f64 / took.as_secs_f64()));
        found.insert(format!("{verb}_p50_us"), summary["p50_us"].clone());
        found.insert(format!("{verb}_p99_us"), summary["p99_us"].clone());
    };
    let call = |method: Method, path: String, content: &'static str, body: &Value| Call {
        method,
        path,
        content,
        body: objects::bytes(body),
    };
    let create = {
        let all = all.clone();
        move |n| call(Method::POST, all.clone(), JSON, &objects::config_map(&called(n)))
    };
    note("create", series(server, connections, count, create).await?);
    let path = one.clone();
    let update = move |n| {
        let mut object = objects::config_map(&called(n));
        object["data"]["mode"] = json!("b");
        call(Method::PUT, path(n), JSON, &object)
    };
    note("update", series(server, connections, count, update).await?);
    let path = one.clone();
    let patch = move |n| call(Method::PATCH, path(n), MERGE, &json!({ "data": { "mode": "c" } }));
    note("patch", series(server, connections, count, patch).await?);
    let path = one.clone();
    let apply = move |n| {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": called(n), "namespace": NAMESPACE },
            "data": { "applied": "yes" },
        });
        call(Method::PATCH, format!("{}?fieldManager=applier&force=true", path(n)), APPLY, &object)
    };
    note("apply", series(server, connections, count, apply).await?);
    let path = one.clone();
    let get = move |n| call(Method::GET, path(n), JSON, &Value::Null);
    note("get", series(server, connections, count, get).await?);
    let delete = move |n| call(Method::DELETE, one(n), JSON, &json!({}));
    note("delete", series(server, connections, count, delete).await?);
    Ok(Value::Object(found))
}

/// Sends calls over several connections, each as soon as the one before is answered.
pub async fn series<F>(
    server: &Server,
    connections: usize,
    count: usize,
    call: F,
) -> Result<(Duration, Lags), Failure>
where
    F: Fn(usize) -> Call + Send + Sync + 'static,
{
    let (next, call) = (Arc::new(AtomicUsize::new(0)), Arc::new(call));
    let mut opened = Vec::new();
    for _ in 0..connections {
        opened.push(server.connect().await?);
    }
    let began = Instant::now();
    let tasks: Vec<_> = opened
        .into_iter()
        .map(|connection| tokio::spawn(send_all(connection, next.clone(), count, call.clone())))
        .collect();
    let mut lags = Lags::default();
    for task in tasks {
        lags.merge(task.await??);
    }
    Ok((began.elapsed(), lags))
}

async fn send_all<F: Fn(usize) -> Call>(
    mut connection: Connection,
    next: Arc<AtomicUsize>,
    count: usize,
    call: Arc<F>,
) -> Result<Lags, Failure> {
    let mut lags = Lags::default();
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= count {
            return Ok(lags);
        }
        let Call { method, path, content, body } = call(n);
        let began = Instant::now();
        let (status, value) = loop {
            let (status, _) =
                connection.drop_answer(method.clone(), &path, content, body.clone()).await?;
            // The real server may ask to come back later; that is part of its time.
            if status != StatusCode::TOO_MANY_REQUESTS {
                break (status, &path);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        if !status.is_success() {
            return Err(format!("{value}: {status}").into());
        }
        lags.push(began.elapsed());
    }
}
