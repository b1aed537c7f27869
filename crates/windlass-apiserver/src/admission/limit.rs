//! LimitRanger: defaults and bounds for the resources of pods and claims.

use serde_json::{Map, Value, json};
use windlass_text::quantity::Quantity;

use super::resources::{List, list, pod_limits, pod_requests};
use super::{Review, aggregate, text};
use crate::builtin::rules::value;
use crate::lookup::Lookup;
use crate::object;
use crate::server::Inner;
use crate::status::Result;
use crate::work;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The largest amount whose thousandths still are a number.
const MILLI_MAX: i64 = i64::MAX / 1000;

impl Inner {
    /// Gives containers what the namespace's ranges say when they say nothing themselves.
    pub(super) fn limit_defaults(&self, review: &mut Review<'_>) {
        if !review.writes("", "pods") || !review.is_create() {
            return;
        }
        for range in self.list("", "limitranges", Some(&review.namespace)) {
            if let Some(pod) = &mut review.object {
                set_defaults(pod, &range);
            }
        }
    }

    /// Refuses what is out of range.
    pub(super) fn check_limits(&self, review: &Review<'_>) -> Result<()> {
        let Some(object) = &review.object else { return Ok(()) };
        let created = review.is_create() && review.subresource.is_empty();
        let resized = review.is_update() && review.subresource == "resize";
        let pod = review.concerns("", "pods") && (created || resized);
        let claim = review.writes("", "persistentvolumeclaims");
        if !(pod || claim) || review.old.is_some_and(object::is_deleting) {
            return Ok(());
        }
        for range in self.list("", "limitranges", Some(&review.namespace)) {
            let problems =
                if pod { pod_problems(object, &range) } else { claim_problems(object, &range) };
            if let Some(why) = aggregate(problems) {
                return Err(review.forbidden(why));
            }
        }
        Ok(())
    }
}

fn limits_of<'a>(range: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    value::items(range, "spec.limits").iter().filter(move |limit| limit["type"] == kind)
}

fn set_defaults(pod: &mut Value, range: &Value) {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for limit in limits_of(range, "Container") {
        let copy = |to: &mut Map<String, Value>, field: &str| {
            let given = limit[field].as_object().into_iter().flatten();
            to.extend(given.map(|(name, amount)| (name.clone(), amount.clone())));
        };
        copy(&mut requests, "defaultRequest");
        copy(&mut limits, "default");
    }
    let mut notes = Vec::new();
    for (field, word) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod["spec"].get_mut(field).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            work::spent(1);
            let name = text(container, &["name"]).to_owned();
            let set_limits = fill(container, "limits", &limits);
            let set_requests = fill(container, "requests", &requests);
            for (set, what) in [(set_requests, "request"), (set_limits, "limit")] {
                if !set.is_empty() {
                    notes.push(format!("{} {what} for {word} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        let metadata = object::meta_mut(pod);
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if annotations.is_null() {
            *annotations = json!({});
        }
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(ANNOTATION.into(), note.into());
        }
    }
}

/// Puts amounts where none are; gives the names of those that were put.
fn fill(container: &mut Value, field: &str, defaults: &Map<String, Value>) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in defaults {
        if container["resources"][field].get(name).is_none() {
            crate::custom::put(container, &["resources", field, name], amount.clone());
            set.push(name.clone());
        }
    }
    set
}

fn pod_problems(pod: &Value, range: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let spec = &pod["spec"];
    for limit in value::items(range, "spec.limits") {
        match limit["type"].as_str() {
            Some("Container") => {
                let lists = ["containers", "initContainers"];
                for container in lists.iter().flat_map(|list| value::items(spec, list)) {
                    work::spent(1);
                    let resources = &container["resources"];
                    let (requests, limits) =
                        (list(&resources["requests"]), list(&resources["limits"]));
                    check(&mut problems, limit, "Container", &requests, &limits);
                }
            }
            Some("Pod") => {
                check(&mut problems, limit, "Pod", &pod_requests(spec), &pod_limits(spec));
            }
            _ => {}
        }
    }
    problems
}

fn check(problems: &mut Vec<String>, limit: &Value, kind: &str, requests: &List, limits: &List) {
    for (name, bound) in list(&limit["min"]) {
        problems.extend(below(kind, &name, &bound, requests, limits));
    }
    for (name, bound) in list(&limit["max"]) {
        problems.extend(above(kind, &name, &bound, requests, limits));
    }
    for (name, bound) in list(&limit["maxLimitRequestRatio"]) {
        problems.extend(ratio(kind, &name, &bound, requests, limits));
    }
}

fn claim_problems(claim: &Value, range: &Value) -> Vec<String> {
    let kind = "PersistentVolumeClaim";
    let requests = list(&claim["spec"]["resources"]["requests"]);
    let mut problems = Vec::new();
    for limit in limits_of(range, kind) {
        for (name, bound) in list(&limit["min"]) {
            problems.extend(below(kind, &name, &bound, &requests, &List::new()));
        }
        for (name, bound) in list(&limit["max"]) {
            let head = format!("maximum {name} usage per {kind} is {bound}");
            match requests.get(&name) {
                None => problems.push(format!("{head}.  No request is specified")),
                Some(request) if *request > bound => {
                    problems.push(format!("{head}, but request is {request}"));
                }
                Some(_) => {}
            }
        }
    }
    problems
}

fn below(
    kind: &str,
    name: &str,
    bound: &Quantity,
    requests: &List,
    limits: &List,
) -> Option<String> {
    let head = format!("minimum {name} usage per {kind} is {bound}");
    match (requests.get(name), limits.get(name)) {
        (None, _) => Some(format!("{head}.  No request is specified")),
        (Some(request), _) if request < bound => Some(format!("{head}, but request is {request}")),
        (_, Some(limit)) if limit < bound => Some(format!("{head}, but limit is {limit}")),
        _ => None,
    }
}

fn above(
    kind: &str,
    name: &str,
    bound: &Quantity,
    requests: &List,
    limits: &List,
) -> Option<String> {
    let head = format!("maximum {name} usage per {kind} is {bound}");
    match (requests.get(name), limits.get(name)) {
        (_, None) => Some(format!("{head}.  No limit is specified")),
        (_, Some(limit)) if limit > bound => Some(format!("{head}, but limit is {limit}")),
        (Some(request), _) if request > bound => Some(format!("{head}, but request is {request}")),
        _ => None,
    }
}

fn ratio(
    kind: &str,
    name: &str,
    bound: &Quantity,
    requests: &List,
    limits: &List,
) -> Option<String> {
    let head = format!("{name} max limit to request ratio per {kind} is {bound}, but");
    let there = |list: &List| list.get(name).filter(|amount| !amount.is_zero()).cloned();
    let Some(request) = there(requests) else {
        return Some(format!("{head} no request is specified or request is 0"));
    };
    let Some(limit) = there(limits) else {
        return Some(format!("{head} no limit is specified or limit is 0"));
    };
    let fine = [bound, &request, &limit].iter().all(|amount| amount.value() <= MILLI_MAX);
    let number = |amount: &Quantity| match fine {
        true => amount.milli_value() as f64,
        false => amount.value() as f64,
    };
    let observed = number(&limit) / number(&request);
    let allowed = if fine { bound.milli_value() as f64 / 1000.0 } else { bound.value() as f64 };
    (observed > allowed).then(|| format!("{head} provided ratio is {observed:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(limit: Value) -> Value {
        json!({"spec": {"limits": [limit]}})
    }

    fn pod(resources: Value) -> Value {
        json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
    }

    #[test]
    fn defaults_are_noted_in_an_annotation_and_set_once() {
        let range = range(json!({"type": "Container", "default": {"cpu": "1"},
            "defaultRequest": {"memory": "1Mi", "cpu": "1"}}));
        let mut pod = pod(json!({"requests": {"cpu": "100m"}}));
        set_defaults(&mut pod, &range);
        let resources = &pod["spec"]["containers"][0]["resources"];
        assert_eq!(resources["requests"], json!({"cpu": "100m", "memory": "1Mi"}));
        let note =
            "LimitRanger plugin set: memory request for container c; cpu limit for container c";
        assert_eq!(pod["metadata"]["annotations"][ANNOTATION], note);
        let before = pod.clone();
        set_defaults(&mut pod, &range);
        assert_eq!(pod, before);
    }

    #[test]
    fn bounds_and_ratios_are_reported_with_their_values() {
        let limits = range(json!({"type": "Container", "min": {"cpu": "50m"}, "max": {"cpu": "1"},
            "maxLimitRequestRatio": {"cpu": "2"}}));
        let small = pod(json!({"requests": {"cpu": "10m"}, "limits": {"cpu": "2"}}));
        assert_eq!(
            pod_problems(&small, &limits),
            [
                "minimum cpu usage per Container is 50m, but request is 10m",
                "maximum cpu usage per Container is 1, but limit is 2",
                "cpu max limit to request ratio per Container is 2, but provided ratio is 200.000000",
            ]
        );
        let empty = pod(json!({}));
        assert_eq!(
            pod_problems(&empty, &limits)[0],
            "minimum cpu usage per Container is 50m.  No request is specified"
        );
    }
}
