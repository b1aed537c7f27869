//! The state that controllers arrive at, on two clusters.

use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::reads::get;
use crate::run::Run;
use crate::sequence::Step;
use crate::server::{Answer, Server};
use crate::workloads::{Move, Script};
use crate::{compare, mask};

/// What is compared in a namespace.
const COLLECTIONS: [&str; 14] = [
    "/api/v1/namespaces/{ns}/pods",
    "/api/v1/namespaces/{ns}/endpoints",
    "/api/v1/namespaces/{ns}/services",
    "/api/v1/namespaces/{ns}/resourcequotas",
    "/apis/apps/v1/namespaces/{ns}/controllerrevisions",
    "/apis/apps/v1/namespaces/{ns}/daemonsets",
    "/apis/apps/v1/namespaces/{ns}/deployments",
    "/apis/apps/v1/namespaces/{ns}/replicasets",
    "/apis/apps/v1/namespaces/{ns}/statefulsets",
    "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers",
    "/apis/batch/v1/namespaces/{ns}/cronjobs",
    "/apis/batch/v1/namespaces/{ns}/jobs",
    "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices",
    "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
];
/// How long a state has to stay as it is, in turns of [`TURN`].
const QUIET: usize = 5;
/// How long different states have to stay, in turns of [`TURN`]: the slower side may not have begun.
const DIFFERENT: usize = 3 * QUIET;
/// The same where controllers act every 15 seconds.
const DIFFERENT_SLOWLY: usize = 80;
/// How many turns controllers are waited for beyond that.
const TURNS: usize = 35;
const TURN: Duration = Duration::from_millis(200);

/// The end of a generated name, or the hash of a template, for which the real controllers print a Go
/// struct.
static SUFFIX: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"-[bcdfghjklmnpqrstvwxz2456789]{5,10}\b").expect("the pattern is valid")
});
/// Labels that hold such a hash.
const HASHES: [&str; 3] =
    ["controller-revision-hash", "controller.kubernetes.io/hash", "pod-template-hash"];

/// Runs a script on both clusters, and returns the move after which their states differ, and how.
///
/// # Errors
/// If a server does not answer.
pub async fn compare_states(
    real: &Server,
    ours: &Server,
    script: &Script,
    id: &str,
) -> Result<(usize, Option<Vec<String>>), String> {
    let (real, ours) = (Run::new(real, id), Run::new(ours, id));
    let (one, two) = tokio::join!(real.namespace(), ours.namespace());
    one?;
    two?;
    for (index, step) in script.moves.iter().enumerate() {
        let (one, two) = tokio::join!(make(&real, script, step), make(&ours, script, step));
        one?;
        two?;
        let different = if script.slow { DIFFERENT_SLOWLY } else { DIFFERENT };
        let found = settle(&real, &ours, different).await?;
        if !found.is_empty() {
            return Ok((index, Some(found)));
        }
    }
    Ok((script.moves.len(), None))
}

/// Waits until nothing changes on both sides, and returns what differs then.
async fn settle(real: &Run<'_>, ours: &Run<'_>, different: usize) -> Result<Vec<String>, String> {
    let (mut last, mut quiet) = ((Value::Null, Value::Null), 0);
    for _ in 0..TURNS + different {
        tokio::time::sleep(TURN).await;
        let (one, two) = tokio::join!(state(real), state(ours));
        let now = (one?, two?);
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
        let needed = if last.0 == last.1 { QUIET } else { different };
        if quiet >= needed {
            break;
        }
    }
    let answer = |body: Value| Answer { status: 200, body, warnings: Vec::new() };
    Ok(compare::answers(&answer(last.0), &answer(last.1)))
}

async fn make(run: &Run<'_>, script: &Script, step: &Move) -> Result<(), String> {
    let phase = match step {
        Move::Request(step) => return run.send(step).await.map(drop),
        Move::Pods(phase) => *phase,
    };
    let path = COLLECTIONS[0];
    let listed = run.send(&get(path.to_owned())).await?;
    let mut pods = listed.body["items"].as_array().cloned().unwrap_or_default();
    let is = |pod: &Value, phases: &[&str]| phases.iter().any(|end| pod["status"]["phase"] == *end);
    let used = pods.iter().filter_map(|pod| pod["status"]["podIP"].as_str()?.rsplit('.').next());
    let used = used.filter_map(|end| end.parse::<usize>().ok()).max().unwrap_or_default();
    pods.retain(|pod| !is(pod, &["Succeeded", "Failed"]) && !is(pod, &[phase]));
    // Names are random: pods that differ otherwise come in an order that both sides have, those that
    // run first.
    let index = "batch.kubernetes.io/job-completion-index";
    pods.sort_by_key(|pod| {
        let address = pod["status"]["podIP"].to_string();
        (
            address,
            pod["metadata"]["annotations"][index].to_string(),
            shown(&pod["spec"]).to_string(),
        )
    });
    // Controllers delete the other pods of some workloads when one ends.
    pods.truncate(if phase == "Running" { pods.len() } else { 1 });
    for (index, pod) in pods.iter().enumerate() {
        let address = match pod["status"]["podIP"].as_str() {
            Some(address) => address.to_owned(),
            None => format!("10.1.0.{}", used + index + 1),
        };
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        if script.node && pod["spec"]["nodeName"].is_null() {
            let target = json!({"kind": "Node", "name": "node-{id}.example.com"});
            let body = json!({"apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": name}, "target": target});
            run.send(&Step {
                request: format!("POST {path}/{name}/binding"),
                body: Some(body),
                ..Step::default()
            })
            .await?;
        }
        let ready = if phase == "Running" { "True" } else { "False" };
        let time = "2026-01-02T03:04:05Z";
        let condition =
            |kind: &str| json!({"type": kind, "status": ready, "lastTransitionTime": time});
        let status = json!({"phase": phase, "startTime": time,
            "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [condition("Ready"), condition("ContainersReady")]});
        run.send(&Step {
            request: format!("PATCH {path}/{name}/status"),
            body: Some(json!({"status": status})),
            content_type: Some("application/merge-patch+json".into()),
            ..Step::default()
        })
        .await?;
    }
    Ok(())
}

/// The masked objects of a namespace.
async fn state(run: &Run<'_>) -> Result<Value, String> {
    let mut found = Map::new();
    for path in COLLECTIONS {
        let listed = mask::answer(&run.send(&get(path.to_owned())).await?, run.id());
        let mut items: Vec<Value> =
            listed.body["items"].as_array().into_iter().flatten().map(shown).collect();
        if path.ends_with("endpointslices") {
            // It counts the writes, and one can be about several pods.
            items.iter_mut().for_each(|slice| slice["metadata"]["generation"] = Value::Null);
        }
        items.sort_by_key(Value::to_string);
        let name = path.rsplit('/').next().unwrap_or_default();
        found.insert(name.to_owned(), Value::Array(items));
    }
    Ok(Value::Object(found))
}

/// An object without generated names, and without how often and by whom it was written.
fn shown(object: &Value) -> Value {
    match object {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| !["managedFields", "resourceVersion"].contains(&key.as_str()))
            .map(|(key, value)| match HASHES.contains(&key.as_str()) {
                true => (key.clone(), json!("<hash>")),
                false => (key.clone(), shown(value)),
            })
            .collect(),
        Value::Array(list) => {
            let mut list: Vec<Value> = list.iter().map(shown).collect();
            list.sort_by_key(Value::to_string);
            Value::Array(list)
        }
        Value::String(text) => SUFFIX.replace_all(text, "-<random>").into_owned().into(),
        other => other.clone(),
    }
}
