//! Rows of the kinds that run pods.

use jiff::Timestamp;
use serde_json::Value;

use super::age::{self, between, human_duration, moment, since_field};
use super::cells::{created, list, or_text, text};
use super::selector_text::{labels, selector};

/// Metrics shown before `+ N more...`.
const METRICS_MAX: usize = 2;

/// The cells of a workload.
pub(super) fn cells(plural: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    let age = age::age(object, now);
    let (spec, status) = (&object["spec"], &object["status"]);
    let count = |key: &str| Value::from(status[key].as_i64().unwrap_or_default());
    let wanted = spec["replicas"].as_i64().unwrap_or_default();
    let (names, images) = containers(&spec["template"]["spec"]);
    let ready = || format!("{}/{wanted}", count("readyReplicas"));
    match plural {
        "podtemplates" => {
            let template = &object["template"];
            let (names, images) = containers(&template["spec"]);
            vec![name, names, images, labels(&template["metadata"]["labels"]).into()]
        }
        "replicationcontrollers" | "replicasets" => {
            let selected = match plural {
                "replicasets" => selector(&spec["selector"]),
                _ => labels(&spec["selector"]),
            };
            vec![
                name,
                wanted.into(),
                count("replicas"),
                count("readyReplicas"),
                age,
                names,
                images,
                selected.into(),
            ]
        }
        "deployments" => vec![
            name,
            ready().into(),
            count("updatedReplicas"),
            count("availableReplicas"),
            age,
            names,
            images,
            selector(&spec["selector"]).into(),
        ],
        "statefulsets" => vec![name, ready().into(), age, names, images],
        "daemonsets" => vec![
            name,
            count("desiredNumberScheduled"),
            count("currentNumberScheduled"),
            count("numberReady"),
            count("updatedNumberScheduled"),
            count("numberAvailable"),
            labels(&spec["template"]["spec"]["nodeSelector"]).into(),
            age,
            names,
            images,
            selector(&spec["selector"]).into(),
        ],
        "controllerrevisions" => {
            vec![name, owner(object).into(), object["revision"].clone(), age]
        }
        "jobs" => job(object, now),
        "cronjobs" => cron_job(object, now),
        "horizontalpodautoscalers" => autoscaler(object, now),
        _ => vec![name, created(object)],
    }
}

/// Names and images of a pod's containers.
fn containers(spec: &Value) -> (Value, Value) {
    let of = |key: &str| {
        let all = list(&spec["containers"]).iter();
        let all: Vec<&str> = all.map(|c| c[key].as_str().unwrap_or_default()).collect();
        Value::from(all.join(","))
    };
    (of("name"), of("image"))
}

fn owner(object: &Value) -> String {
    let owners = list(&object["metadata"]["ownerReferences"]);
    let Some(owner) = owners.iter().find(|o| o["controller"] == true) else {
        return "<none>".to_owned();
    };
    let get = |key: &str| owner[key].as_str().unwrap_or_default();
    let kind = get("kind").to_lowercase();
    let (group, _) = crate::resource::split_api_version(get("apiVersion"));
    let dot = if group.is_empty() { "" } else { "." };
    format!("{kind}{dot}{group}/{}", get("name"))
}

fn job(job: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let succeeded = status["succeeded"].as_i64().unwrap_or_default();
    let completions = match (spec["completions"].as_i64(), spec["parallelism"].as_i64()) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, Some(parallel)) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        _ => format!("{succeeded}/1"),
    };
    let started = moment(&status["startTime"]);
    let ended = moment(&status["completionTime"]).unwrap_or(now);
    let duration = started.map(|start| human_duration(between(start, ended))).unwrap_or_default();
    let has = |kind: &str| {
        list(&status["conditions"]).iter().any(|c| c["type"] == kind && c["status"] == "True")
    };
    let deleted = job["metadata"].get("deletionTimestamp").is_some_and(|t| !t.is_null());
    let state = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if deleted => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let (names, images) = containers(&spec["template"]["spec"]);
    vec![
        job["metadata"]["name"].clone(),
        state.into(),
        completions.into(),
        duration.into(),
        age::age(job, now),
        names,
        images,
        selector(&spec["selector"]).into(),
    ]
}

fn cron_job(job: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let suspend = match spec["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = match status["lastScheduleTime"].is_string() {
        true => since_field(&status["lastScheduleTime"], now),
        false => "<none>".to_owned(),
    };
    let template = &spec["jobTemplate"]["spec"];
    let (names, images) = containers(&template["template"]["spec"]);
    vec![
        job["metadata"]["name"].clone(),
        text(&spec["schedule"]),
        or_text(&spec["timeZone"], "<none>"),
        suspend.into(),
        list(&status["active"]).len().into(),
        last.into(),
        age::age(job, now),
        names,
        images,
        selector(&template["selector"]).into(),
    ]
}

fn autoscaler(autoscaler: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&autoscaler["spec"], &autoscaler["status"]);
    let target = &spec["scaleTargetRef"];
    let get = |key: &str| target[key].as_str().unwrap_or_default();
    vec![
        autoscaler["metadata"]["name"].clone(),
        format!("{}/{}", get("kind"), get("name")).into(),
        metrics(autoscaler).into(),
        or_text(&spec["minReplicas"], "<unset>"),
        spec["maxReplicas"].as_i64().unwrap_or_default().into(),
        status["currentReplicas"].as_i64().unwrap_or_default().into(),
        age::age(autoscaler, now),
    ]
}

/// `cpu: 10%/80%` for up to two metrics.
fn metrics(autoscaler: &Value) -> String {
    let (spec, status) = (&autoscaler["spec"], &autoscaler["status"]);
    if let Some(wanted) = spec["targetCPUUtilizationPercentage"].as_i64() {
        let current = status["currentCPUUtilizationPercentage"].as_i64();
        let current = current.map_or_else(|| "<unknown>".to_owned(), |n| format!("{n}%"));
        return format!("cpu: {current}/{wanted}%");
    }
    let wanted = list(&spec["metrics"]);
    if wanted.is_empty() {
        return "<none>".to_owned();
    }
    let current = list(&status["currentMetrics"]);
    let shown: Vec<String> = wanted
        .iter()
        .enumerate()
        .take(METRICS_MAX)
        .map(|(at, metric)| metric_text(metric, current.get(at)))
        .collect();
    let shown = shown.join(", ");
    match wanted.len().checked_sub(METRICS_MAX) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ => shown,
    }
}

fn metric_text(metric: &Value, current: Option<&Value>) -> String {
    let field = match metric["type"].as_str().unwrap_or_default() {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => return "<unknown type>".to_owned(),
    };
    let part = &metric[field];
    let now = current.map_or(&Value::Null, |c| &c[field]["current"]);
    let target = &part["target"];
    let prefix = match field {
        "resource" | "containerResource" => {
            format!("{}: ", part["name"].as_str().unwrap_or_default())
        }
        _ => String::new(),
    };
    let amount = |value: &Value| value.as_str().map(str::to_owned);
    let unknown = || "<unknown>".to_owned();
    if let Some(percent) = target["averageUtilization"].as_i64() {
        let now = now["averageUtilization"].as_i64();
        let now = now.map_or_else(unknown, |n| format!("{n}%"));
        return format!("{prefix}{now}/{percent}%");
    }
    if let Some(average) = amount(&target["averageValue"]) {
        let now = amount(&now["averageValue"]).unwrap_or_else(unknown);
        let suffix = if matches!(field, "object" | "external") { " (avg)" } else { "" };
        return format!("{prefix}{now}/{average}{suffix}");
    }
    let value = amount(&target["value"]).unwrap_or_else(|| "<auto>".to_owned());
    let now = amount(&now["value"]).unwrap_or_else(unknown);
    format!("{prefix}{now}/{value}")
}
