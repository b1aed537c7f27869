//! The row of a pod.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;

/// What a pod's containers amount to.
struct Summary {
    ready: i64,
    total: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

/// The cells of a pod.
pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summarize(pod);
    let restarts = match summary.last_restart {
        Some(then) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, age::since(then, now))
        }
        _ => summary.restarts.to_string(),
    };
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let or_none = |value: &Value| match value.as_str() {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => "<none>".to_owned(),
    };
    let ip = match status["podIPs"][0]["ip"].as_str() {
        Some(_) => &status["podIPs"][0]["ip"],
        None => &status["podIP"],
    };
    vec![
        pod["metadata"]["name"].clone(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        age::age(pod, now),
        or_none(ip).into(),
        or_none(&spec["nodeName"]).into(),
        or_none(&status["nominatedNodeName"]).into(),
        gates(pod).into(),
    ]
}

/// The condition of a row whose pod has ended.
pub(super) fn row_conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod["status"]["phase"].as_str()? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": reason, "message": message}))
}

fn gates(pod: &Value) -> String {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let met = gates.iter().filter(|gate| condition_is_true(pod, &gate["conditionType"])).count();
    format!("{met}/{}", gates.len())
}

fn summarize(pod: &Value) -> Summary {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut out = Summary {
        ready: 0,
        total: list(&spec["containers"]).len(),
        reason: text(&status["phase"]),
        restarts: 0,
        last_restart: None,
    };
    if !text(&status["reason"]).is_empty() {
        out.reason = text(&status["reason"]);
    }
    if list(&status["conditions"])
        .iter()
        .any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated")
    {
        out.reason = "SchedulingGated".to_owned();
    }
    let (sidecars, initializing) = init_containers(pod, &mut out);
    if !initializing || condition_is_true(pod, &"Initialized".into()) {
        (out.restarts, out.last_restart) = sidecars;
        main_containers(pod, &mut out);
    }
    let deleted = pod["metadata"].get("deletionTimestamp").is_some_and(|t| !t.is_null());
    let ended = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
    if deleted && status["reason"] == "NodeLost" {
        out.reason = "Unknown".to_owned();
    } else if deleted && !ended {
        out.reason = "Terminating".to_owned();
    }
    out
}

/// Looks at the init containers up to the first one that has not finished.
fn init_containers(pod: &Value, out: &mut Summary) -> ((i64, Option<Timestamp>), bool) {
    let declared = list(&pod["spec"]["initContainers"]);
    let is_sidecar = |name: &Value| {
        declared.iter().any(|c| &c["name"] == name && c["restartPolicy"] == "Always")
    };
    out.total += declared.iter().filter(|c| c["restartPolicy"] == "Always").count();
    let mut sidecars = (0, None);
    for (at, status) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
        let restarts = status["restartCount"].as_i64().unwrap_or_default();
        let last = last_end(status);
        out.restarts += restarts;
        out.last_restart = out.last_restart.max(last);
        let sidecar = is_sidecar(&status["name"]);
        if sidecar {
            sidecars = (sidecars.0 + restarts, sidecars.1.max(last));
        }
        let (terminated, waiting) = (&status["state"]["terminated"], &status["state"]["waiting"]);
        if !terminated.is_null() && code(terminated, "exitCode") == 0 {
            continue;
        }
        if sidecar && status["started"] == true {
            out.ready += i64::from(status["ready"] == true);
            continue;
        }
        out.reason = if !terminated.is_null() {
            format!("Init:{}", end_reason(terminated))
        } else {
            match waiting["reason"].as_str() {
                Some(reason) if !reason.is_empty() && reason != "PodInitializing" => {
                    format!("Init:{reason}")
                }
                _ => format!("Init:{at}/{}", declared.len()),
            }
        };
        return (sidecars, true);
    }
    (sidecars, false)
}

fn main_containers(pod: &Value, out: &mut Summary) {
    let mut running = false;
    for status in list(&pod["status"]["containerStatuses"]).iter().rev() {
        out.restarts += status["restartCount"].as_i64().unwrap_or_default();
        out.last_restart = out.last_restart.max(last_end(status));
        let state = &status["state"];
        let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
        if !waiting.is_empty() {
            out.reason = waiting.to_owned();
        } else if !state["terminated"].is_null() {
            out.reason = end_reason(&state["terminated"]);
        } else if status["ready"] == true && !state["running"].is_null() {
            running = true;
            out.ready += 1;
        }
    }
    if out.reason == "Completed" && running {
        let ready = condition_is_true(pod, &"Ready".into());
        out.reason = if ready { "Running" } else { "NotReady" }.to_owned();
    }
}

fn end_reason(terminated: &Value) -> String {
    match terminated["reason"].as_str() {
        Some(reason) if !reason.is_empty() => reason.to_owned(),
        _ if code(terminated, "signal") != 0 => format!("Signal:{}", code(terminated, "signal")),
        _ => format!("ExitCode:{}", code(terminated, "exitCode")),
    }
}

fn code(terminated: &Value, key: &str) -> i64 {
    terminated[key].as_i64().unwrap_or_default()
}

fn last_end(status: &Value) -> Option<Timestamp> {
    age::moment(&status["lastState"]["terminated"]["finishedAt"])
}

fn condition_is_true(pod: &Value, kind: &Value) -> bool {
    list(&pod["status"]["conditions"]).iter().any(|c| &c["type"] == kind && c["status"] == "True")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
