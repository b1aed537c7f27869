//! What may change in a pod, and in its status.

use std::collections::HashSet;

use serde_json::Value;

use super::pod_spec;
use crate::builtin::rules::value::{copy_field, has, int, items, items_mut, remove, text};
use crate::builtin::rules::{each_invalid, immutable, names, net};
use crate::status::{FieldError, FieldErrors};

const UPDATABLE: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Problems of the change from one spec to another.
pub fn validate(errors: &mut FieldErrors, new: &Value, old: &Value) {
    for list in ["containers", "initContainers"] {
        if !containers(errors, new, old, list) {
            return;
        }
    }
    if !deadline(errors, new, old) {
        return;
    }
    added_tolerations(errors, new, old);
    let gates: HashSet<_> = items(old, "schedulingGates").iter().map(|g| text(g, "name")).collect();
    for (i, gate) in items(new, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        if !gates.contains(&name) {
            errors.push(FieldError::forbidden(
                format!("spec.schedulingGates[{i}].name"),
                format!("only deletion is allowed, but found new scheduling gate '{name}'"),
            ));
        }
    }
    let mut munged = new.clone();
    for list in ["containers", "initContainers"] {
        for (container, old) in items_mut(&mut munged, list).iter_mut().zip(items(old, list)) {
            copy_field(container, old, "image");
        }
    }
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        copy_field(&mut munged, old, key);
    }
    let grace = "terminationGracePeriodSeconds";
    if int(old, grace).is_some_and(|s| s < 0) && int(&munged, grace) == Some(1) {
        copy_field(&mut munged, old, grace);
    }
    if !gates.is_empty() {
        copy_field(&mut munged, old, "nodeSelector");
        copy_field(&mut munged, old, "affinity");
    }
    if &munged != old {
        let diff = diff(old, &munged);
        errors.push(FieldError::forbidden("spec", format!("{UPDATABLE}\n{diff}")));
    }
}

/// Problems of an update of the status.
pub fn validate_status(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let status = &new["status"];
    for (i, condition) in items(status, "conditions").iter().enumerate() {
        let generation = int(condition, "observedGeneration").unwrap_or_default();
        if generation < 0 {
            errors.push(FieldError::invalid(
                format!("status.conditions[{i}].observedGeneration"),
                &generation.into(),
                "must be a non-negative integer",
            ));
        }
    }
    let nominated = text(status, "nominatedNodeName");
    if !nominated.is_empty() && nominated != text(old, "status.nominatedNodeName") {
        let why = names::dns_subdomain(nominated);
        each_invalid(&mut errors, "status.nominatedNodeName", nominated, why);
    }
    if let Some(generation) = int(status, "observedGeneration").filter(|g| *g < 0) {
        let why = "must be a non-negative integer";
        errors.push(FieldError::invalid("status.observedGeneration", &generation.into(), why));
    }
    let (new_qos, old_qos) = (&status["qosClass"], &old["status"]["qosClass"]);
    immutable(&mut errors, new_qos, old_qos, "status.qosClass");
    addresses(&mut errors, status, "podIPs");
    let first = items(status, "hostIPs").first().map(|address| text(address, "ip"));
    if let Some(first) = first.filter(|first| *first != text(status, "hostIP")) {
        let why = "must be equal to `hostIP`";
        errors.push(FieldError::invalid_str("status.hostIPs[0].ip", first, why));
    }
    addresses(&mut errors, status, "hostIPs");
    errors
}

fn containers(errors: &mut FieldErrors, new: &Value, old: &Value, list: &str) -> bool {
    if items(new, list).len() != items(old, list).len() {
        let why = "pod updates may not add or remove containers";
        errors.push(FieldError::forbidden(format!("spec.{list}"), why));
        return false;
    }
    for (i, container) in items(new, list).iter().enumerate() {
        let image = text(container, "image");
        let field = format!("spec.{list}[{i}].image");
        if image.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if image.trim() != image {
            let why = "must not have leading or trailing whitespace";
            errors.push(FieldError::invalid_str(field, image, why));
        }
    }
    true
}

fn deadline(errors: &mut FieldErrors, new: &Value, old: &Value) -> bool {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    let (new, old) = (int(new, "activeDeadlineSeconds"), int(old, "activeDeadlineSeconds"));
    let why = match (new, old) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            "must be between 0 and 2147483647, inclusive"
        }
        (Some(new), Some(old)) if old < new => "must be less than or equal to previous value",
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(FIELD, &Value::Null, why));
            return true;
        }
        _ => return true,
    };
    errors.push(FieldError::invalid(FIELD, &new.into(), why));
    false
}

fn added_tolerations(errors: &mut FieldErrors, new: &Value, old: &Value) {
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        remove(&mut toleration, "tolerationSeconds");
        toleration
    };
    let now: HashSet<Value> = items(new, "tolerations").iter().map(timeless).collect();
    let kept = items(old, "tolerations").iter().all(|old| now.contains(&timeless(old)));
    if kept {
        pod_spec::tolerations(errors, new, "spec.tolerations");
    } else {
        errors.push(FieldError::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
}

fn addresses(errors: &mut FieldErrors, status: &Value, list: &str) {
    let mut seen = Vec::new();
    let mut known = HashSet::new();
    for (i, address) in items(status, list).iter().enumerate() {
        let ip = text(address, "ip");
        let field = format!("status.{list}[{i}]");
        each_invalid(errors, &field, ip, net::ip(ip));
        if !known.insert(ip) {
            errors.push(FieldError::duplicate(field, &address["ip"]));
        }
        seen.push(ip);
    }
    let families: Vec<_> = seen.iter().filter_map(|ip| net::parse_ip(ip)).collect();
    let v6 = families.iter().filter(|ip| ip.is_ipv6()).count();
    if families.len() == seen.len() && (families.len() > 2 || (families.len() == 2 && v6 != 1)) {
        let why = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(format!("status.{list}"), &status[list], why));
    }
}

/// The changed lines of the two values' JSON, old ones marked `-`, new ones `+`.
///
/// The real server dumps its Go structs here; the fields that changed are the same.
fn diff(old: &Value, new: &Value) -> String {
    let mut out = String::new();
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    let mut all = keys(old);
    all.extend(keys(new));
    all.sort();
    all.dedup();
    for key in all {
        if old[&key] == new[&key] {
            continue;
        }
        for (mark, value) in [("-", old), ("+", new)] {
            if has(value, &key) {
                out.push_str(&format!("{mark} \t{key}: {},\n", value[&key]));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::shared::testing::texts;
    use super::*;
    use serde_json::json;

    fn spec() -> Value {
        json!({"containers": [{"name": "c", "image": "a:1"}], "restartPolicy": "Always",
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}]})
    }

    fn check(new: Value) -> Vec<String> {
        let mut errors = FieldErrors::default();
        validate(&mut errors, &new, &spec());
        texts(&errors)
    }

    #[test]
    fn images_and_added_tolerations_may_change() {
        let mut new = spec();
        new["containers"][0]["image"] = json!("a:2");
        new["activeDeadlineSeconds"] = json!(9);
        new["tolerations"] = json!([{"key": "other", "operator": "Exists"}, {"key": "k",
            "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]);
        assert_eq!(check(new), Vec::<String>::new());
    }

    #[test]
    fn everything_else_stays() {
        let mut new = spec();
        new["restartPolicy"] = json!("Never");
        let errors = check(new);
        assert!(errors[0].starts_with("spec: Forbidden: pod updates may not change fields other"));
        assert!(errors[0].ends_with("+ \trestartPolicy: \"Never\",\n"), "{errors:?}");
        let mut new = spec();
        new["tolerations"] = json!([]);
        assert_eq!(
            check(new),
            ["spec.tolerations: Forbidden: existing toleration can not be modified except its \
              tolerationSeconds"]
        );
    }

    #[test]
    fn two_addresses_need_two_families() {
        let pod = |ips: Value| json!({"status": {"podIPs": ips}});
        let good = pod(json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]));
        assert!(validate_status(&good, &good).is_empty());
        let bad = pod(json!([{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]));
        assert_eq!(validate_status(&bad, &bad).len(), 1);
    }
}
