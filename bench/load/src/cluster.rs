//! A whole cluster: deployments that become ready, namespaces that go.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bench_harness::{Args, now_micros};
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::connection::{Connection, JSON, Server};
use crate::write::{Call, series};
use crate::{Failure, Outcome, objects};

/// Creates `--size` deployments of `--replicas` pods and waits until all are ready.
pub async fn deployments(server: &Server, args: &Args) -> Outcome {
    let mut connection = server.connect().await?;
    let namespace = fresh(&mut connection).await?;
    let (count, replicas) = (args.number("size", 1), args.number("replicas", 3));
    let all = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let watch = format!("{all}?watch=true&timeoutSeconds=300");
    let mut watcher = server.connect().await?;
    let answer = watcher.send(Method::GET, &watch, JSON, Bytes::new()).await?;
    let began = Instant::now();
    let path = all.clone();
    let create = move |n: usize| Call {
        method: Method::POST,
        path: path.clone(),
        content: JSON,
        body: objects::bytes(&deployment(&format!("web-{n}"), replicas)),
    };
    let writing = server.clone();
    let connections = args.number("connections", 4).min(count);
    let made = tokio::spawn(async move { series(&writing, connections, count, create).await });
    let (mut body, mut line, mut ready) = (answer.into_body(), Vec::new(), BTreeSet::new());
    let limit = Duration::from_secs(args.number("limit", 120) as u64);
    while ready.len() < count {
        let frame = tokio::time::timeout(limit, body.frame()).await;
        let frame = frame.map_err(|_| format!("{} of {count} are ready", ready.len()))?;
        let frame = frame.ok_or("the watch ended")??;
        for part in frame.data_ref().map_or(&[][..], |d| &d[..]).split_inclusive(|b| *b == b'\n') {
            line.extend_from_slice(part);
            if line.last() == Some(&b'\n') {
                let event: Value = serde_json::from_slice(&line)?;
                line.clear();
                let object = &event["object"];
                if object["status"]["readyReplicas"].as_u64() == Some(replicas as u64) {
                    ready.insert(object["metadata"]["name"].to_string());
                }
            }
        }
    }
    let took = began.elapsed().as_secs_f64();
    made.await??;
    remove(&mut connection, &namespace).await?;
    Ok(json!({ "ready_s": took, "pods": count * replicas }))
}

/// Fills a namespace with a deployment and `--size` config maps, deletes it, waits until it is
/// gone.
pub async fn namespace(server: &Server, args: &Args) -> Outcome {
    let mut connection = server.connect().await?;
    let namespace = fresh(&mut connection).await?;
    let all = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let body = objects::bytes(&deployment("web", 3));
    connection.json(Method::POST, &all, JSON, body).await?;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    for n in 0..args.number("size", 20) {
        let mut object = objects::config_map(&format!("map-{n}"));
        object["metadata"]["namespace"] = json!(namespace);
        connection.json(Method::POST, &maps, JSON, objects::bytes(&object)).await?;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    remove(&mut connection, &namespace).await?;
    Ok(json!({ "gone_s": began.elapsed().as_secs_f64() }))
}

async fn fresh(connection: &mut Connection) -> Result<String, Failure> {
    let name = format!("bench-{}", now_micros());
    let body = objects::bytes(&json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
    }));
    connection.json(Method::POST, "/api/v1/namespaces", JSON, body).await?;
    Ok(name)
}

/// Deletes a namespace and waits until it is gone.
async fn remove(connection: &mut Connection, namespace: &str) -> Result<(), Failure> {
    let path = format!("/api/v1/namespaces/{namespace}");
    connection.json(Method::DELETE, &path, JSON, Bytes::new()).await?;
    let limit = Instant::now() + Duration::from_secs(120);
    loop {
        let (status, _) = connection.drop_answer(Method::GET, &path, JSON, Bytes::new()).await?;
        if status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        if Instant::now() > limit {
            return Err("the namespace does not go".into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn deployment(called: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": called },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": called } },
            "template": {
                "metadata": { "labels": { "app": called } },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1.29" }] },
            },
        },
    })
}
