//! The cells of built-in kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::{self, human_duration, moment, since_field};
use super::selector_text::{none_if_empty, selector};
use super::{network, pods, volumes, workloads};

/// The cells of an object; kinds without a printer have their name and time of creation.
pub(super) fn cells(group: &str, plural: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    let age = age::age(object, now);
    let (spec, status) = (&object["spec"], &object["status"]);
    match (group, plural) {
        ("", "pods") => pods::cells(object, now),
        ("", "configmaps") => {
            vec![name, (size(&object["data"]) + size(&object["binaryData"])).into(), age]
        }
        ("", "secrets") => {
            vec![name, object["type"].clone(), size(&object["data"]).into(), age]
        }
        ("", "componentstatuses") => {
            let health = &object["conditions"][0];
            let healthy = if health["status"] == "True" { "Healthy" } else { "Unhealthy" };
            vec![name, healthy.into(), text(&health["message"]), text(&health["error"])]
        }
        ("", "serviceaccounts") => vec![name, age],
        ("", "namespaces") => vec![name, text(&status["phase"]), age],
        ("", "services") => network::service(object, now),
        ("", "endpoints") => vec![name, network::endpoints(object).into(), age],
        ("", "events") => event(object, now),
        ("events.k8s.io", "events") => {
            event(&crate::builtin::general::event::to_core_v1(object), now)
        }
        ("", "nodes") => node(object, now),
        ("", "persistentvolumes") => volumes::volume(object, now),
        ("", "persistentvolumeclaims") => volumes::claim(object, now),
        ("", "resourcequotas") => quota(object, now),
        ("", "podtemplates" | "replicationcontrollers") | ("apps" | "batch" | "autoscaling", _) => {
            workloads::cells(plural, object, now)
        }
        ("policy", "poddisruptionbudgets") => {
            let or = |value: &Value| or_text(value, "N/A");
            let allowed = status["disruptionsAllowed"].as_i64().unwrap_or_default();
            vec![name, or(&spec["minAvailable"]), or(&spec["maxUnavailable"]), allowed.into(), age]
        }
        ("discovery.k8s.io", "endpointslices") => {
            let (ports, addresses) = network::slice(object);
            vec![name, text(&object["addressType"]), ports.into(), addresses.into(), age]
        }
        ("networking.k8s.io", _) => network::networking(plural, object, now),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            binding(object, now)
        }
        ("storage.k8s.io", _) => volumes::storage(plural, object, now),
        ("admissionregistration.k8s.io", _) => admission(plural, object, now),
        ("coordination.k8s.io", "leases") => vec![name, text(&spec["holderIdentity"]), age],
        ("scheduling.k8s.io", "priorityclasses") => vec![
            name,
            object["value"].as_i64().unwrap_or_default().into(),
            (object["globalDefault"] == true).into(),
            age,
            text(&object["preemptionPolicy"]),
        ],
        ("node.k8s.io", "runtimeclasses") => vec![name, text(&object["handler"]), age],
        ("certificates.k8s.io", _) => signing_request(object, now),
        ("resource.k8s.io", _) => devices(plural, object, now),
        ("flowcontrol.apiserver.k8s.io", _) => flow(plural, object, now),
        ("apiregistration.k8s.io", _) => api_service(object, now),
        _ => vec![name, created(object)],
    }
}

/// The items of a list, or none.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A text; empty if it is missing.
pub(super) fn text(value: &Value) -> Value {
    value.as_str().unwrap_or_default().into()
}

/// A value as text, or the text for a missing one.
pub(super) fn or_text(value: &Value, missing: &str) -> Value {
    match value {
        Value::Null => missing.into(),
        Value::String(text) if text.is_empty() => missing.into(),
        Value::String(text) => text.clone().into(),
        other => other.to_string().into(),
    }
}

/// The time of creation, as kinds without a printer show it.
pub(super) fn created(object: &Value) -> Value {
    object["metadata"]["creationTimestamp"].clone()
}

fn size(value: &Value) -> usize {
    value.as_object().map_or(0, |map| map.len())
}

fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let happened = &event["eventTime"];
    let pick = |key: &str| match event[key].is_string() {
        true => since_field(&event[key], now),
        false => since_field(happened, now),
    };
    let (first, mut last) = (pick("firstTimestamp"), pick("lastTimestamp"));
    let mut count = event["count"].as_i64().unwrap_or_default();
    if let Some(series) = event["series"].as_object() {
        last = series.get("lastObservedTime").map_or(last, |time| since_field(time, now));
        count = series.get("count").and_then(Value::as_i64).unwrap_or_default();
    } else if count == 0 {
        count = 1;
    }
    let about = &event["involvedObject"];
    let kind = about["kind"].as_str().unwrap_or_default().to_lowercase();
    let target = match about["name"].as_str() {
        Some(name) if !name.is_empty() => format!("{kind}/{name}"),
        _ => kind,
    };
    let get = |parent: &Value, key: &str| parent[key].as_str().unwrap_or_default().to_owned();
    let source = &event["source"];
    let (component, host) = match get(source, "component").is_empty() {
        true => (get(event, "reportingComponent"), get(event, "reportingInstance")),
        false => (get(source, "component"), get(source, "host")),
    };
    let source = if host.is_empty() { component } else { format!("{component}, {host}") };
    vec![
        last.into(),
        text(&event["type"]),
        text(&event["reason"]),
        target.into(),
        text(&about["fieldPath"]),
        source.into(),
        event["message"].as_str().unwrap_or_default().trim().into(),
        first.into(),
        count.into(),
        event["metadata"]["name"].clone(),
    ]
}

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let status = &node["status"];
    let ready = list(&status["conditions"]).iter().find(|c| c["type"] == "Ready");
    let mut state = match ready {
        None => "Unknown",
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
    }
    .to_owned();
    if node["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = Vec::new();
    for (key, value) in node["metadata"]["labels"].as_object().into_iter().flatten() {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => roles.push(role),
            None if key == "kubernetes.io/role" => roles.extend(value.as_str()),
            _ => {}
        }
    }
    roles.sort_unstable();
    roles.dedup();
    let address = |kind: &str| {
        let found = list(&status["addresses"]).iter().find(|a| a["type"] == kind);
        or_text(found.map_or(&Value::Null, |a| &a["address"]), "<none>")
    };
    let info = &status["nodeInfo"];
    vec![
        node["metadata"]["name"].clone(),
        state.into(),
        none_if_empty(roles.join(",")).into(),
        age::age(node, now),
        text(&info["kubeletVersion"]),
        address("InternalIP"),
        address("ExternalIP"),
        or_text(&info["osImage"], "<unknown>"),
        or_text(&info["kernelVersion"], "<unknown>"),
        or_text(&info["containerRuntimeVersion"], "<unknown>"),
    ]
}

fn quota(quota: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in quota["status"]["hard"].as_object().into_iter().flatten() {
        let used = quota["status"]["used"][name].as_str().unwrap_or("0");
        let cell = format!("{name}: {used}/{}", hard.as_str().unwrap_or_default());
        if name.starts_with("limits.") { &mut limits } else { &mut requests }.push(cell);
    }
    vec![
        quota["metadata"]["name"].clone(),
        requests.join(", ").into(),
        limits.join(", ").into(),
        age::age(quota, now),
    ]
}

fn binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let of = |kind: &str| {
        let found: Vec<String> = list(&binding["subjects"])
            .iter()
            .filter(|s| s["kind"] == kind)
            .map(|s| match s["namespace"].as_str() {
                Some(namespace) if kind == "ServiceAccount" => {
                    format!("{namespace}/{}", s["name"].as_str().unwrap_or_default())
                }
                _ if kind == "ServiceAccount" => {
                    format!("/{}", s["name"].as_str().unwrap_or_default())
                }
                _ => s["name"].as_str().unwrap_or_default().to_owned(),
            })
            .collect();
        Value::from(found.join(", "))
    };
    let role = &binding["roleRef"];
    let get = |key: &str| role[key].as_str().unwrap_or_default();
    vec![
        binding["metadata"]["name"].clone(),
        format!("{}/{}", get("kind"), get("name")).into(),
        age::age(binding, now),
        of("User"),
        of("Group"),
        of("ServiceAccount"),
    ]
}

fn admission(plural: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    let age = age::age(object, now);
    let spec = &object["spec"];
    let kind = || match spec["paramKind"].is_null() {
        true => "<unset>".to_owned(),
        false => {
            let get = |key: &str| spec["paramKind"][key].as_str().unwrap_or_default();
            format!("{}/{}", get("apiVersion"), get("kind"))
        }
    };
    let count = |value: &Value| Value::from(list(value).len());
    match plural {
        "validatingadmissionpolicies" => {
            vec![name, count(&spec["validations"]), kind().into(), age]
        }
        "mutatingadmissionpolicies" => vec![name, count(&spec["mutations"]), kind().into(), age],
        "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings" => {
            let reference = &spec["paramRef"];
            let shown = match (reference.is_null(), reference["name"].as_str()) {
                (true, _) => "<unset>".to_owned(),
                (false, Some(name)) if !name.is_empty() => {
                    match reference["namespace"].as_str().filter(|n| !n.is_empty()) {
                        Some(namespace) => format!("{namespace}/{name}"),
                        None => format!("*/{name}"),
                    }
                }
                (false, _) => selector(&reference["selector"]),
            };
            vec![name, text(&spec["policyName"]), shown.into(), age]
        }
        _ => vec![name, count(&object["webhooks"]), age],
    }
}

fn signing_request(request: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &request["spec"];
    let has = |kind: &str| list(&request["status"]["conditions"]).iter().any(|c| c["type"] == kind);
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if request["status"]["certificate"].as_str().is_some_and(|c| !c.is_empty()) {
        state.push_str(",Issued");
    }
    let duration = spec["expirationSeconds"].as_i64().map(human_duration);
    vec![
        request["metadata"]["name"].clone(),
        age::age(request, now),
        or_text(&spec["signerName"], "<none>"),
        text(&spec["username"]),
        duration.unwrap_or_else(|| "<none>".to_owned()).into(),
        state.into(),
    ]
}

fn devices(plural: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    let age = age::age(object, now);
    let spec = &object["spec"];
    match plural {
        "resourceclaims" => {
            let mut states = Vec::new();
            if moment(&object["metadata"]["deletionTimestamp"]).is_some() {
                states.push("deleted");
            }
            if !object["status"]["allocation"].is_null() {
                states.push("allocated");
            } else if states.is_empty() {
                states.push("pending");
            }
            if !list(&object["status"]["reservedFor"]).is_empty() {
                states.push("reserved");
            }
            vec![name, states.join(",").into(), age]
        }
        "resourceslices" => {
            let node = or_text(&spec["nodeName"], "<unset>");
            vec![name, node, text(&spec["driver"]), text(&spec["pool"]["name"]), age]
        }
        _ => vec![name, age],
    }
}

fn flow(plural: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    let age = age::age(object, now);
    let spec = &object["spec"];
    if plural == "flowschemas" {
        let dangling =
            list(&object["status"]["conditions"]).iter().find(|c| c["type"] == "Dangling");
        let missing = match dangling.map(|c| &c["status"]) {
            Some(Value::String(status)) if status == "True" => "True",
            Some(Value::String(status)) if status == "False" => "False",
            _ => "?",
        };
        return vec![
            name,
            text(&spec["priorityLevelConfiguration"]["name"]),
            spec["matchingPrecedence"].clone(),
            or_text(&spec["distinguisherMethod"]["type"], "<none>"),
            age,
            missing.into(),
        ];
    }
    let limited = &spec["limited"];
    let queuing = &limited["limitResponse"]["queuing"];
    let or_none = |value: &Value| if value.is_null() { json!("<none>") } else { value.clone() };
    let shares = match spec["exempt"].is_null() {
        true => &limited["nominalConcurrencyShares"],
        false => &spec["exempt"]["nominalConcurrencyShares"],
    };
    vec![
        name,
        text(&spec["type"]),
        or_none(shares),
        or_none(&queuing["queues"]),
        or_none(&queuing["handSize"]),
        or_none(&queuing["queueLengthLimit"]),
        age,
    ]
}

fn api_service(service: &Value, now: Timestamp) -> Vec<Value> {
    let target = &service["spec"]["service"];
    let get = |key: &str| target[key].as_str().unwrap_or_default();
    let shown = match target.is_null() {
        true => "Local".to_owned(),
        false => format!("{}/{}", get("namespace"), get("name")),
    };
    let conditions = list(&service["status"]["conditions"]);
    let available = match conditions.iter().find(|c| c["type"] == "Available") {
        None => "Unknown".to_owned(),
        Some(c) if c["status"] == "True" => "True".to_owned(),
        Some(c) => format!(
            "{} ({})",
            c["status"].as_str().unwrap_or_default(),
            c["reason"].as_str().unwrap_or_default()
        ),
    };
    vec![
        service["metadata"]["name"].clone(),
        shown.into(),
        available.into(),
        age::age(service, now),
    ]
}
