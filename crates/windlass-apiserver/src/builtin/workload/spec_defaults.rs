//! What a pod spec gets when its author leaves it out, in pods and in templates.

use serde_json::{Map, Value, json};

use crate::builtin::rules::quantity::Quantity;
use crate::builtin::rules::value::{
    default_to, default_zero, flag, has, items_mut, object_mut, remove, text,
};

/// The lists of containers in a pod spec.
pub const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Defaults of a pod spec.
pub fn pod_spec(spec: &mut Value) {
    default_to(spec, "dnsPolicy", "ClusterFirst");
    default_to(spec, "restartPolicy", "Always");
    default_to(spec, "terminationGracePeriodSeconds", 30);
    default_to(spec, "schedulerName", "default-scheduler");
    object_mut(spec, "securityContext");
    // Two names of one field.
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount").to_owned(),
        name => name.to_owned(),
    };
    match account.is_empty() {
        true => {
            remove(spec, "serviceAccountName");
            remove(spec, "serviceAccount");
        }
        false => {
            spec["serviceAccountName"] = account.clone().into();
            spec["serviceAccount"] = account.into();
        }
    }
    for list in CONTAINER_LISTS {
        for container in items_mut(spec, list) {
            self::container(container);
        }
    }
    for volume in items_mut(spec, "volumes") {
        self::volume(volume);
    }
    if let Some(overhead) = spec.get_mut("overhead") {
        round_up(overhead);
    }
}

/// Defaults of a pod template's metadata and spec.
pub fn template(parent: &mut Value) {
    let Some(template) = object_mut(parent, "template") else { return };
    object_mut(template, "metadata");
    if let Some(spec) = object_mut(template, "spec") {
        pod_spec(spec);
    }
}

/// Defaults that only pods have, not templates.
pub fn pod_only(spec: &mut Value) {
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|s| s < 0) {
        spec["terminationGracePeriodSeconds"] = 1.into();
    }
    default_to(spec, "enableServiceLinks", true);
    let host_network = flag(spec, "hostNetwork");
    for list in ["initContainers", "containers"] {
        for container in items_mut(spec, list) {
            requests_from_limits(container);
            if host_network {
                for port in items_mut(container, "ports") {
                    let number = port["containerPort"].as_i64().unwrap_or_default();
                    default_zero(port, "hostPort", number);
                }
            }
        }
    }
}

/// Defaults of a pod's status: the single address and the list of them agree.
pub fn pod_status(status: &mut Value) {
    let ip = text(status, "podIP").to_owned();
    let first = text(&status["podIPs"][0], "ip").to_owned();
    match (ip.is_empty(), first.is_empty()) {
        (true, true) => {}
        (true, false) => status["podIP"] = first.into(),
        (false, _) if ip != first => status["podIPs"] = json!([{ "ip": ip }]),
        (false, _) => {}
    }
    for condition in items_mut(status, "conditions") {
        null_unless_set(condition, "lastProbeTime");
        null_unless_set(condition, "lastTransitionTime");
    }
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in items_mut(status, list) {
            object_mut(container, "state");
            object_mut(container, "lastState");
            zero(container, &[("ready", false.into()), ("restartCount", 0.into())]);
            zero(container, &[("image", "".into()), ("imageID", "".into())]);
        }
    }
}

/// Sets missing fields that the API always writes.
pub fn zero(value: &mut Value, fields: &[(&str, Value)]) {
    let Some(object) = value.as_object_mut() else { return };
    for (key, zero) in fields {
        object.entry(*key).or_insert_with(|| zero.clone());
    }
}

/// Writes `null` where a time is missing that the API always writes.
pub fn null_unless_set(value: &mut Value, key: &str) {
    zero(value, &[(key, Value::Null)]);
}

fn container(container: &mut Value) {
    object_mut(container, "resources");
    if let Some(resources) = container.get_mut("resources") {
        for list in ["limits", "requests"] {
            if let Some(list) = resources.get_mut(list) {
                round_up(list);
            }
        }
    }
    let policy = pull_policy(text(container, "image"));
    default_to(container, "imagePullPolicy", policy);
    default_to(container, "terminationMessagePath", "/dev/termination-log");
    default_to(container, "terminationMessagePolicy", "File");
    for port in items_mut(container, "ports") {
        default_to(port, "protocol", "TCP");
    }
    for env in items_mut(container, "env") {
        if let Some(source) = env.get_mut("valueFrom") {
            field_source(source);
        }
    }
    for probe in PROBES {
        if let Some(probe) = container.get_mut(probe).filter(|p| p.is_object()) {
            default_zero(probe, "timeoutSeconds", 1);
            default_zero(probe, "periodSeconds", 10);
            default_zero(probe, "successThreshold", 1);
            default_zero(probe, "failureThreshold", 3);
            handler(probe);
        }
    }
    if let Some(lifecycle) = container.get_mut("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = lifecycle.get_mut(hook) {
                handler(hook);
            }
        }
    }
}

fn handler(handler: &mut Value) {
    if let Some(http) = handler.get_mut("httpGet").filter(|h| h.is_object()) {
        default_to(http, "path", "/");
        default_to(http, "scheme", "HTTP");
    }
    if let Some(grpc) = handler.get_mut("grpc").filter(|g| g.is_object()) {
        zero(grpc, &[("service", "".into())]);
    }
}

/// Defaults of a value from a field or a container's resources.
fn field_source(source: &mut Value) {
    if let Some(field) = source.get_mut("fieldRef").filter(|f| f.is_object()) {
        default_to(field, "apiVersion", "v1");
    }
    if let Some(field) = source.get_mut("resourceFieldRef").filter(|f| f.is_object()) {
        default_to(field, "divisor", "0");
    }
}

fn volume(volume: &mut Value) {
    let empty = volume
        .as_object()
        .is_some_and(|v| v.iter().all(|(key, value)| key == "name" || value.is_null()));
    if empty {
        volume["emptyDir"] = Value::Object(Map::new());
        return;
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source) {
            default_to(source, "defaultMode", 420);
        }
    }
    if let Some(source) = volume.get_mut("downwardAPI") {
        items_mut(source, "items").iter_mut().for_each(field_source);
    }
    if let Some(projected) = volume.get_mut("projected") {
        for source in items_mut(projected, "sources") {
            if let Some(token) = source.get_mut("serviceAccountToken") {
                default_to(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = source.get_mut("downwardAPI") {
                items_mut(downward, "items").iter_mut().for_each(field_source);
            }
        }
    }
    other_volume(volume);
}

fn other_volume(volume: &mut Value) {
    const TEXTS: [(&str, &str, &str); 10] = [
        ("iscsi", "iscsiInterface", "default"),
        ("rbd", "pool", "rbd"),
        ("rbd", "user", "admin"),
        ("rbd", "keyring", "/etc/ceph/keyring"),
        ("azureDisk", "cachingMode", "ReadWrite"),
        ("azureDisk", "kind", "Shared"),
        ("azureDisk", "fsType", "ext4"),
        ("scaleIO", "storageMode", "ThinProvisioned"),
        ("scaleIO", "fsType", "xfs"),
        ("hostPath", "type", ""),
    ];
    for (source, key, default) in TEXTS {
        if let Some(source) = volume.get_mut(source) {
            default_to(source, key, default);
        }
    }
    if let Some(disk) = volume.get_mut("azureDisk") {
        default_to(disk, "readOnly", false);
    }
    if let Some(image) = volume.get_mut("image").filter(|i| i.is_object()) {
        let policy = pull_policy(text(image, "reference"));
        default_to(image, "pullPolicy", policy);
    }
    if has(volume, "ephemeral.volumeClaimTemplate")
        && let Some(ephemeral) = volume.get_mut("ephemeral")
        && let Some(claim) = object_mut(ephemeral, "volumeClaimTemplate")
    {
        object_mut(claim, "metadata");
        if let Some(spec) = object_mut(claim, "spec") {
            default_to(spec, "volumeMode", "Filesystem");
            object_mut(spec, "resources");
        }
    }
}

/// The longest name of an image within its registry.
const IMAGE_NAME_MAX: usize = 255;
/// The start of the name of an image that is only one word.
const LIBRARY: &str = "library/";

/// `Always` for the tag `latest` (also when no tag and no digest is given).
fn pull_policy(image: &str) -> &'static str {
    if image.is_empty() || image.trim() != image {
        return "IfNotPresent";
    }
    let (name, digest) = image.split_once('@').unwrap_or((image, ""));
    let last = name.rsplit('/').next().unwrap_or(name);
    // A name that is too long is not read; the name of the registry does not count.
    let tag = last.find(':').map_or(0, |at| last.len() - at);
    let length = match name.split_once('/') {
        None => LIBRARY.len() + name.len(),
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => rest.len(),
        Some(_) => name.len(),
    };
    if length - tag > IMAGE_NAME_MAX {
        return "IfNotPresent";
    }
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
        None if digest.is_empty() => "Always",
        None => "IfNotPresent",
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(resources) = container.get_mut("resources") else { return };
    let Some(limits) = resources["limits"].as_object().filter(|l| !l.is_empty()).cloned() else {
        return;
    };
    if let Some(Value::Object(requests)) = object_mut(resources, "requests") {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// Rounds quantities up to thousandths, the finest the API keeps.
fn round_up(list: &mut Value) {
    for value in list.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Some(quantity) = value.as_str().and_then(Quantity::parse)
            && quantity.is_finer_than_milli()
        {
            *value = quantity.to_decimal().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pull_policy_follows_the_tag() {
        assert_eq!(pull_policy("registry:5000/app"), "Always");
        assert_eq!(pull_policy("registry:5000/app:v1"), "IfNotPresent");
        assert_eq!(pull_policy("app:latest"), "Always");
        assert_eq!(pull_policy("app@sha256:00"), "IfNotPresent");
        assert_eq!(pull_policy(&"x".repeat(247)), "Always");
        assert_eq!(pull_policy(&"x".repeat(248)), "IfNotPresent");
    }

    #[test]
    fn a_bare_spec_gets_all_defaults() {
        let mut spec = json!({"serviceAccount": "robot", "volumes": [{"name": "v"}],
            "containers": [{"name": "c", "image": "i:1", "readinessProbe": {"grpc": {"port": 1}},
                "resources": {"limits": {"cpu": "100u"}}}]});
        pod_spec(&mut spec);
        assert_eq!(spec["serviceAccountName"], "robot");
        assert_eq!(spec["volumes"][0], json!({"name": "v", "emptyDir": {}}));
        let container = &spec["containers"][0];
        assert_eq!(container["resources"]["limits"]["cpu"], "1m");
        assert_eq!(container["readinessProbe"]["grpc"]["service"], "");
        assert_eq!(container["readinessProbe"]["periodSeconds"], 10);
        assert!(spec.get("enableServiceLinks").is_none());
    }

    #[test]
    fn host_network_gives_ports_of_the_host() {
        let mut spec = json!({"hostNetwork": true, "containers": [
            {"ports": [{"containerPort": 9}], "resources": {"limits": {"memory": "1Mi"}}}]});
        pod_only(&mut spec);
        assert_eq!(spec["containers"][0]["ports"][0]["hostPort"], 9);
        assert_eq!(spec["containers"][0]["resources"]["requests"]["memory"], "1Mi");
    }

    #[test]
    fn the_single_address_wins_over_the_list() {
        let mut status = json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.2"}]});
        pod_status(&mut status);
        assert_eq!(status["podIPs"], json!([{"ip": "10.0.0.1"}]));
    }
}
