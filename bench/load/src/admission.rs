//! Calls of an admission webhook, as an API server makes them: over connections that stay open.

use std::path::Path;
use std::time::{Duration, Instant};

use bench_harness::{Args, Lags};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::connection::{Connection, JSON, Server};
use crate::{Failure, Outcome, objects};

/// How long calls are made before they count.
const WARM_UP: Duration = Duration::from_secs(1);

/// Writes a certificate for 127.0.0.1 and its key into a directory, as webhook servers read them.
pub fn certificate(args: &Args) -> Outcome {
    let directory = Path::new(args.text("directory"));
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    std::fs::write(directory.join("tls.crt"), made.cert.pem())?;
    std::fs::write(directory.join("tls.key"), made.signing_key.serialize_pem())?;
    Ok(json!({ "written": true }))
}

/// Sends reviews over `--connections` connections for `--seconds`, one at a time over each.
pub async fn calls(server: &Server, args: &Args) -> Outcome {
    let path = format!("{}?timeout=10s", args.text("path"));
    let seconds = Duration::from_secs(args.number("seconds", 5) as u64);
    let body = Bytes::from(review().to_string());
    check(&mut server.connect().await?, &path, body.clone()).await?;
    let mut callers = JoinSet::new();
    let (begin, end) = (Instant::now() + WARM_UP, Instant::now() + WARM_UP + seconds);
    for _ in 0..args.number("connections", 1) {
        let mut connection = server.connect().await?;
        let (path, body) = (path.clone(), body.clone());
        callers.spawn(async move {
            let mut times = Lags::default();
            loop {
                let sent = Instant::now();
                if sent >= end {
                    return Ok::<_, Failure>(times);
                }
                let answer = connection.drop_answer(Method::POST, &path, JSON, body.clone());
                let (status, _) = answer.await?;
                if !status.is_success() {
                    return Err(format!("a call was answered with {status}").into());
                }
                if sent >= begin {
                    times.push(sent.elapsed());
                }
            }
        });
    }
    let mut times = Lags::default();
    while let Some(caller) = callers.join_next().await {
        times.merge(caller??);
    }
    let per_second = times.len() as f64 / seconds.as_secs_f64();
    Ok(json!({ "call": times.summary(), "per_s": per_second }))
}

/// Fails unless the webhook accepts the pod and completes it.
async fn check(connection: &mut Connection, path: &str, body: Bytes) -> Result<(), Failure> {
    let answer = connection.json(Method::POST, path, JSON, body).await?;
    let response = &answer["response"];
    match response["allowed"] == true && response["patchType"] == "JSONPatch" {
        true => Ok(()),
        false => Err(format!("the webhook answers {answer}").into()),
    }
}

/// The creation of a pod.
fn review() -> Value {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    let pod = objects::pod(1);
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": kind, "requestKind": kind, "resource": resource, "requestResource": resource,
            "name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"],
            "operation": "CREATE", "dryRun": false, "object": pod, "oldObject": null,
            "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    })
}
