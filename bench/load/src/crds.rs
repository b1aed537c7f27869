//! Custom resources: validation by rules, and very many kinds.

use std::time::{Duration, Instant};

use bench_harness::{Args, NAMESPACE, now_micros};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::connection::{Connection, JSON, Server};
use crate::write::{Call, namespace, series};
use crate::{Failure, Outcome, objects};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Creates objects of a kind with rules, with so many `--parts` each.
pub async fn cel(server: &Server, args: &Args) -> Outcome {
    namespace(server).await?;
    let mut connection = server.connect().await?;
    let group = format!("g{}.bench.example.com", now_micros());
    let began = Instant::now();
    let body = objects::bytes(&definition(&group, "widgets", "Widget"));
    connection.json(Method::POST, DEFINITIONS, JSON, body).await?;
    let all = format!("/apis/{group}/v1/namespaces/{NAMESPACE}/widgets");
    served(&mut connection, &all).await?;
    let ready = began.elapsed().as_secs_f64();
    let parts = args.number("parts", 10);
    let widget = {
        let group = group.clone();
        move |n: usize, least: usize| {
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "Widget",
                "metadata": { "name": format!("widget-{n}"), "namespace": NAMESPACE },
                "spec": {
                    "min": least, "max": 10, "size": 5, "mode": "Fast",
                    "parts": (0..parts).map(|p| json!({ "name": format!("p{p}"), "weight": p })).collect::<Vec<_>>(),
                },
            })
        }
    };
    let wrong = objects::bytes(&widget(0, 11));
    let (status, said) = connection.ask(Method::POST, &all, JSON, wrong).await?;
    if status != StatusCode::UNPROCESSABLE_ENTITY {
        return Err(format!("a wrong widget was answered with {status}: {said}").into());
    }
    let path = all.clone();
    let create = move |n| Call {
        method: Method::POST,
        path: path.clone(),
        content: JSON,
        body: objects::bytes(&widget(n, 1)),
    };
    let count = args.number("size", 1000);
    let (took, mut lags) = series(server, args.number("connections", 16), count, create).await?;
    let summary = lags.summary();
    let gone = format!("{DEFINITIONS}/widgets.{group}");
    connection.drop_answer(Method::DELETE, &gone, JSON, Bytes::new()).await?;
    Ok(json!({
        "served_s": ready, "create_per_s": count as f64 / took.as_secs_f64(),
        "create_p50_us": summary["p50_us"], "create_p99_us": summary["p99_us"],
    }))
}

/// Makes `--size` kinds and waits until all are served.
pub async fn many(server: &Server, args: &Args) -> Outcome {
    namespace(server).await?;
    let count = args.number("size", 1000);
    let group = format!("m{}.bench.example.com", now_micros());
    let made = group.clone();
    let create = move |n: usize| {
        let body = definition(&made, &format!("things{n}"), &format!("Thing{n}"));
        Call {
            method: Method::POST,
            path: DEFINITIONS.to_owned(),
            content: JSON,
            body: objects::bytes(&body),
        }
    };
    let began = Instant::now();
    let (created, _) = series(server, args.number("connections", 8), count, create).await?;
    let mut connection = server.connect().await?;
    for n in (0..count).rev() {
        let path = format!("/apis/{group}/v1/namespaces/{NAMESPACE}/things{n}");
        served(&mut connection, &path).await?;
    }
    loop {
        let path = format!("/apis/{group}/v1");
        let (_, found) = connection.ask(Method::GET, &path, JSON, Bytes::new()).await?;
        if found["resources"].as_array().map_or(0, Vec::len) >= count {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let served = began.elapsed().as_secs_f64();
    Ok(json!({ "created_s": created.as_secs_f64(), "served_s": served, "count": count }))
}

async fn served(connection: &mut Connection, path: &str) -> Result<(), Failure> {
    let limit = Instant::now() + Duration::from_secs(300);
    loop {
        let (status, _) = connection.drop_answer(Method::GET, path, JSON, Bytes::new()).await?;
        if status.is_success() {
            return Ok(());
        }
        if Instant::now() > limit {
            return Err(format!("{path} is not served: {status}").into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn definition(group: &str, plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind,
                       "listKind": format!("{kind}List") },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": spec(), "status": { "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true },
                } } },
                "subresources": { "status": {} },
            }],
        },
    })
}

fn spec() -> Value {
    json!({
        "type": "object",
        "required": ["min", "max"],
        "x-kubernetes-validations": [
            { "rule": "self.min <= self.max", "message": "min must not exceed max" },
            { "rule": "!has(self.size) || (self.size >= self.min && self.size <= self.max)" },
            { "rule": "self.parts.all(p, p.weight < 100)" },
        ],
        "properties": {
            "min": { "type": "integer", "minimum": 0 },
            "max": { "type": "integer", "maximum": 1000 },
            "size": { "type": "integer" },
            "mode": { "type": "string", "enum": ["Fast", "Slow"], "default": "Slow",
                "x-kubernetes-validations": [{ "rule": "self.startsWith('F') || self == 'Slow'" }] },
            "parts": { "type": "array", "maxItems": 50, "items": {
                "type": "object", "required": ["name"],
                "properties": { "name": { "type": "string", "maxLength": 20 },
                                "weight": { "type": "integer" } },
                "x-kubernetes-validations": [{ "rule": "self.name.matches('^p[0-9]+$')" }],
            } },
        },
    })
}
