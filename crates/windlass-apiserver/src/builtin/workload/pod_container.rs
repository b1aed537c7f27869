//! Containers: ports, environment, mounts, probes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{pod_resources, pod_restart, pod_security, shared};
use crate::builtin::rules::quantity::Quantity;
use crate::builtin::rules::value::{has, int, items, text};
use crate::builtin::rules::{each_invalid, names, net};
use crate::status::{FieldError, FieldErrors};

/// What the containers of a pod refer to by name.
#[derive(Default)]
pub struct PodNames<'a> {
    /// The valid volumes, and whether each is a claim.
    pub volumes: BTreeMap<&'a str, bool>,
    /// The pod's resource claims.
    pub claims: BTreeSet<&'a str>,
}

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Problems of the main containers.
pub fn main(errors: &mut FieldErrors, spec: &Value, known: &PodNames<'_>, field: &str) {
    let field = format!("{field}.containers");
    let containers = items(spec, "containers");
    if containers.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        let field = format!("{field}[{i}]");
        common(errors, container, spec, known, &field);
        if !seen.insert(text(container, "name")) {
            errors.push(FieldError::duplicate(format!("{field}.name"), &container["name"]));
        }
        lifecycle_and_probes(errors, container, spec, &field);
        pod_restart::policy(errors, container, &field);
    }
    host_port_conflicts(errors, containers, &field);
}

/// Problems of the init containers.
pub fn init(errors: &mut FieldErrors, spec: &Value, known: &PodNames<'_>, field: &str) {
    let mut seen: BTreeSet<_> = items(spec, "containers").iter().map(|c| text(c, "name")).collect();
    for (i, container) in items(spec, "initContainers").iter().enumerate() {
        let list = format!("{field}.initContainers");
        let field = format!("{list}[{i}]");
        common(errors, container, spec, known, &field);
        let policy = &container["restartPolicy"];
        pod_restart::init_policy(errors, container, &field);
        let name = text(container, "name");
        if !seen.insert(name) && !name.is_empty() {
            errors.push(FieldError::duplicate(format!("{field}.name"), &container["name"]));
        }
        host_port_conflicts(errors, std::slice::from_ref(container), &list);
        if policy == "Always" {
            lifecycle_and_probes(errors, container, spec, &field);
            continue;
        }
        for key in ["lifecycle"].into_iter().chain(PROBES) {
            if has(container, key) {
                errors.push(FieldError::forbidden(
                    format!("{field}.{key}"),
                    "may not be set for init containers without restartPolicy=Always",
                ));
            }
        }
    }
}

/// Problems that containers of every sort can have.
pub fn common(
    errors: &mut FieldErrors,
    container: &Value,
    spec: &Value,
    known: &PodNames<'_>,
    field: &str,
) {
    let name_field = format!("{field}.name");
    match text(container, "name") {
        "" => errors.push(FieldError::required(name_field, "")),
        name => each_invalid(errors, &name_field, name, names::dns_label(name)),
    }
    if text(container, "image").is_empty() {
        errors.push(FieldError::required(format!("{field}.image"), ""));
    }
    one_of(
        errors,
        &container["terminationMessagePolicy"],
        &["File", "FallbackToLogsOnError"],
        &format!("{field}.terminationMessagePolicy"),
    );
    ports(errors, container, &format!("{field}.ports"));
    env(errors, container, &format!("{field}.env"));
    env_from(errors, container, &format!("{field}.envFrom"));
    mounts(errors, container, known, &format!("{field}.volumeMounts"));
    devices(errors, container, known, &format!("{field}.volumeDevices"));
    one_of(
        errors,
        &container["imagePullPolicy"],
        &["Always", "IfNotPresent", "Never"],
        &format!("{field}.imagePullPolicy"),
    );
    pod_resources::validate(errors, &container["resources"], &format!("{field}.resources"));
    pod_restart::used_claims(errors, container, &known.claims, field);
    pod_restart::resize(errors, container, spec, field);
    let context = &container["securityContext"];
    pod_security::of_container(errors, context, spec, &format!("{field}.securityContext"));
}

/// A required choice between some words.
pub fn one_of(errors: &mut FieldErrors, value: &Value, supported: &[&str], field: &str) {
    match value.as_str().unwrap_or_default() {
        "" => errors.push(FieldError::required(field, "")),
        text if supported.contains(&text) => {}
        _ => errors.push(FieldError::not_supported(field, value, supported)),
    }
}

fn ports(errors: &mut FieldErrors, container: &Value, field: &str) {
    let mut seen = BTreeSet::new();
    for (i, port) in items(container, "ports").iter().enumerate() {
        let field = format!("{field}[{i}]");
        let name = text(port, "name");
        if !name.is_empty() {
            let why = net::port_name(name);
            if why.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(format!("{field}.name"), &port["name"]));
            }
            each_invalid(errors, &format!("{field}.name"), name, why);
        }
        let number = int(port, "containerPort").unwrap_or_default();
        if number == 0 {
            errors.push(FieldError::required(format!("{field}.containerPort"), ""));
        } else {
            port_number(errors, number, &format!("{field}.containerPort"));
        }
        if let Some(number) = int(port, "hostPort").filter(|n| *n != 0) {
            port_number(errors, number, &format!("{field}.hostPort"));
        }
        let protocols = ["SCTP", "TCP", "UDP"];
        one_of(errors, &port["protocol"], &protocols, &format!("{field}.protocol"));
    }
}

fn port_number(errors: &mut FieldErrors, number: i64, field: &str) {
    for why in net::port_number(number) {
        errors.push(FieldError::invalid(field, &number.into(), why));
    }
}

fn host_port_conflicts(errors: &mut FieldErrors, containers: &[Value], field: &str) {
    let mut seen = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in items(container, "ports").iter().enumerate() {
            let Some(number) = int(port, "hostPort").filter(|n| *n != 0) else { continue };
            let key = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if !seen.insert(key.clone()) {
                let field = format!("{field}[{i}].ports[{j}].hostPort");
                errors.push(FieldError::duplicate(field, &key.into()));
            }
        }
    }
}

fn env(errors: &mut FieldErrors, container: &Value, field: &str) {
    for (i, variable) in items(container, "env").iter().enumerate() {
        let field = format!("{field}[{i}]");
        let name_field = format!("{field}.name");
        match text(variable, "name") {
            "" => errors.push(FieldError::required(name_field, "")),
            name => each_invalid(errors, &name_field, name, names::env_var_name(name)),
        }
        let source = &variable["valueFrom"];
        if !source.is_null() {
            value_from(errors, variable, source, &format!("{field}.valueFrom"));
        }
    }
}

fn value_from(errors: &mut FieldErrors, variable: &Value, source: &Value, field: &str) {
    let mut count = 0;
    for key in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        if !has(source, key) {
            continue;
        }
        count += 1;
        let reference = &source[key];
        let field = format!("{field}.{key}");
        match key {
            "fieldRef" => field_reference(errors, reference, &field, ENV_FIELDS),
            "configMapKeyRef" | "secretKeyRef" => {
                let name = text(reference, "name");
                let name_field = format!("{field}.name");
                each_invalid(errors, &name_field, name, names::dns_subdomain(name));
                let key_field = format!("{field}.key");
                match text(reference, "key") {
                    "" => errors.push(FieldError::required(key_field, "")),
                    key => each_invalid(errors, &key_field, key, names::config_map_key(key)),
                }
            }
            "resourceFieldRef" => resource_reference(errors, reference, &field, false),
            _ => {}
        }
    }
    if count == 0 {
        errors.push(FieldError::invalid_str(
            field,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
             `secretKeyRef` or `fileKeyRef`",
        ));
    } else if !text(variable, "value").is_empty() {
        let why = "may not be specified when `value` is not empty";
        errors.push(FieldError::invalid_str(field, "", why));
    } else if count > 1 {
        let why = "may not have more than one field specified at a time";
        errors.push(FieldError::invalid_str(field, "", why));
    }
}

const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The fields that a volume of the downward API may show.
pub const VOLUME_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// A reference to an amount of a container; in a volume the container has to be named.
pub fn resource_reference(
    errors: &mut FieldErrors,
    reference: &Value,
    field: &str,
    in_volume: bool,
) {
    let resource = text(reference, "resource");
    let is_page = |name: &str| {
        name.starts_with("limits.hugepages-") || name.starts_with("requests.hugepages-")
    };
    if in_volume && text(reference, "containerName").is_empty() {
        errors.push(FieldError::required(format!("{field}.containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(format!("{field}.resource"), ""));
    } else if !RESOURCES.contains(&resource) && !is_page(resource) {
        let field = format!("{field}.resource");
        errors.push(FieldError::not_supported(field, &resource.into(), &RESOURCES));
    }
    let divisor = text(reference, "divisor");
    if Quantity::parse(divisor).is_none_or(|d| d.sign().is_eq()) {
        return;
    }
    let (kind, allowed, texts): (_, &[&str], _) = match resource {
        "limits.cpu" | "requests.cpu" => ("the cpu", &["1m", "1"], "1m and 1"),
        "limits.memory" | "requests.memory" => ("the memory", BYTES, BYTES_TEXT),
        name if name.ends_with(".ephemeral-storage") => {
            ("the local ephemeral storage", BYTES, BYTES_TEXT)
        }
        name if is_page(name) => ("the hugepages", BYTES, BYTES_TEXT),
        _ => return,
    };
    if !allowed.contains(&divisor) {
        let why = format!("only divisor's values {texts} are supported with {kind} resource");
        errors.push(FieldError::invalid_str(format!("{field}.divisor"), resource, why));
    }
}

const BYTES: &[&str] =
    &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
const BYTES_TEXT: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";

/// The fields of a pod that have a name in all versions.
const LABELS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];

/// A reference to a field of the pod itself.
pub fn field_reference(
    errors: &mut FieldErrors,
    reference: &Value,
    field: &str,
    supported: &[&str],
) {
    if text(reference, "apiVersion").is_empty() {
        errors.push(FieldError::required(format!("{field}.apiVersion"), ""));
        return;
    }
    let path = text(reference, "fieldPath");
    if path.is_empty() {
        errors.push(FieldError::required(format!("{field}.fieldPath"), ""));
        return;
    }
    let subscript = path.strip_suffix("']").and_then(|path| path.split_once("['"));
    if let Some((base, key)) = subscript {
        match base {
            "metadata.annotations" => {
                each_invalid(errors, field, key, names::qualified_name(&key.to_lowercase()));
            }
            "metadata.labels" => each_invalid(errors, field, key, names::qualified_name(key)),
            base => {
                let why = "does not support subscript";
                errors.push(FieldError::invalid_str(format!("{field}.fieldPath"), base, why));
            }
        }
    } else if !LABELS.contains(&path) {
        let why = format!("error converting fieldPath: field label not supported: {path}");
        errors.push(FieldError::invalid_str(format!("{field}.fieldPath"), path, why));
    } else if !supported.contains(&path) {
        let field = format!("{field}.fieldPath");
        errors.push(FieldError::not_supported(field, &reference["fieldPath"], supported));
    }
}

fn env_from(errors: &mut FieldErrors, container: &Value, field: &str) {
    let list = field;
    for (i, source) in items(container, "envFrom").iter().enumerate() {
        let field = format!("{list}[{i}]");
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            each_invalid(errors, &format!("{field}.prefix"), prefix, names::env_var_name(prefix));
        }
        let present: Vec<_> =
            ["configMapRef", "secretRef"].into_iter().filter(|key| has(source, key)).collect();
        for key in &present {
            match text(&source[*key], "name") {
                "" => errors.push(FieldError::required(format!("{field}.{key}.name"), "")),
                name => {
                    let field = format!("{field}.{key}.name");
                    each_invalid(errors, &field, name, names::dns_subdomain(name));
                }
            }
        }
        let why = match present.len() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid_str(list, "", why));
    }
}

fn mounts(errors: &mut FieldErrors, container: &Value, known: &PodNames<'_>, field: &str) {
    let mut seen = BTreeSet::new();
    let devices: BTreeSet<&str> =
        items(container, "volumeDevices").iter().map(|device| text(device, "name")).collect();
    for (i, mount) in items(container, "volumeMounts").iter().enumerate() {
        let at = format!("{field}[{i}]");
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        }
        if !known.volumes.contains_key(name) {
            errors.push(FieldError::not_found(format!("{at}.name"), &Value::from(name)));
        }
        if path.is_empty() {
            errors.push(FieldError::required(format!("{at}.mountPath"), ""));
        }
        if !seen.insert(path) {
            errors.push(FieldError::invalid_str(format!("{at}.mountPath"), path, "must be unique"));
        }
        if devices.contains(name) {
            let why = "must not already exist in volumeDevices";
            errors.push(FieldError::invalid_str(format!("{at}.name"), name, why));
        }
        // The real server names the list, not the mount, for these two.
        descending_path(errors, text(mount, "subPath"), &format!("{field}.subPath"));
        let expression = text(mount, "subPathExpr");
        if !expression.is_empty() && !text(mount, "subPath").is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid_str(format!("{at}.subPathExpr"), expression, why));
        }
        descending_path(errors, expression, &format!("{field}.subPathExpr"));
        sharing(errors, container, mount, field);
    }
}

/// Mounts that show others what is mounted below them, or are to be read only all the way down.
fn sharing(errors: &mut FieldErrors, container: &Value, mount: &Value, field: &str) {
    let privileged = container["securityContext"]["privileged"] == true;
    if text(mount, "mountPropagation") == "Bidirectional" && !privileged {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(FieldError::forbidden(format!("{field}.mountPropagation"), why));
    }
    let recursive = text(mount, "recursiveReadOnly");
    let field = format!("{field}.recursiveReadOnly");
    if matches!(recursive, "Enabled" | "IfPossible") {
        if mount["readOnly"] != true {
            let why = "may only be specified when readOnly is true";
            errors.push(FieldError::forbidden(&*field, why));
        }
        if !matches!(text(mount, "mountPropagation"), "" | "None") {
            let why = "may only be specified when mountPropagation is None or not specified";
            errors.push(FieldError::forbidden(field, why));
        }
    }
}

fn devices(errors: &mut FieldErrors, container: &Value, known: &PodNames<'_>, field: &str) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (i, device) in items(container, "volumeDevices").iter().enumerate() {
        let at = format!("{field}[{i}]");
        let (name, path) = (text(device, "name"), text(device, "devicePath"));
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        }
        if !names.insert(name) {
            errors.push(FieldError::invalid_str(format!("{at}.name"), name, "must be unique"));
        }
        match known.volumes.get(name) {
            Some(false) => errors.push(FieldError::invalid_str(
                format!("{at}.name"),
                name,
                "can only use volume source type of PersistentVolumeClaim, Ephemeral, or image \
                 for block mode",
            )),
            Some(true) => {}
            None => errors.push(FieldError::not_found(format!("{at}.name"), &Value::from(name))),
        }
        if path.is_empty() {
            errors.push(FieldError::required(format!("{at}.devicePath"), ""));
        }
        if !paths.insert(path) {
            let field = format!("{at}.devicePath");
            errors.push(FieldError::invalid_str(field, path, "must be unique"));
        }
    }
}

/// A path that stays below where it starts.
pub fn descending_path(errors: &mut FieldErrors, path: &str, field: &str) {
    if path.starts_with('/') {
        errors.push(FieldError::invalid_str(field, path, "must be a relative path"));
    }
    if path.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid_str(field, path, "must not contain '..'"));
    }
}

fn lifecycle_and_probes(errors: &mut FieldErrors, container: &Value, spec: &Value, at: &str) {
    for hook in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][hook];
        if handler.is_object() {
            self::handler(errors, handler, spec, &format!("{at}.lifecycle.{hook}"));
        }
    }
    for key in PROBES {
        let probe = &container[key];
        if !probe.is_object() {
            continue;
        }
        let field = format!("{at}.{key}");
        handler(errors, probe, spec, &field);
        shared::all_non_negative(
            errors,
            probe,
            &field,
            &[
                "initialDelaySeconds",
                "timeoutSeconds",
                "periodSeconds",
                "successThreshold",
                "failureThreshold",
            ],
        );
        let grace = format!("{field}.terminationGracePeriodSeconds");
        if let Some(n) = int(probe, "terminationGracePeriodSeconds").filter(|n| *n <= 0) {
            errors.push(FieldError::invalid(&*grace, &n.into(), "must be greater than 0"));
        }
        if key == "readinessProbe" && has(probe, "terminationGracePeriodSeconds") {
            let why = "must not be set for readinessProbes";
            errors.push(FieldError::invalid(grace, &probe["terminationGracePeriodSeconds"], why));
        }
        let threshold = int(probe, "successThreshold").unwrap_or_default();
        if key != "readinessProbe" && threshold != 1 {
            let field = format!("{field}.successThreshold");
            errors.push(FieldError::invalid(field, &threshold.into(), "must be 1"));
        }
    }
}

fn handler(errors: &mut FieldErrors, handler: &Value, spec: &Value, field: &str) {
    let mut found = false;
    for key in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = &handler[key];
        if action.is_null() {
            continue;
        }
        let field = format!("{field}.{key}");
        if found {
            errors.push(FieldError::forbidden(field, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match key {
            "exec" if items(action, "command").is_empty() => {
                errors.push(FieldError::required(format!("{field}.command"), ""));
            }
            "httpGet" => http_get(errors, action, &field),
            "tcpSocket" | "grpc" => port(errors, &action["port"], &format!("{field}.port")),
            "sleep" => {
                let grace = int(spec, "terminationGracePeriodSeconds").unwrap_or_default();
                let seconds = int(action, "seconds").unwrap_or_default();
                if seconds < 0 || seconds > grace {
                    let why = format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                    );
                    errors.push(FieldError::invalid(field, &seconds.into(), why));
                }
            }
            _ => {}
        }
    }
    if !found {
        errors.push(FieldError::required(field, "must specify a handler type"));
    }
}

fn http_get(errors: &mut FieldErrors, action: &Value, field: &str) {
    if text(action, "path").is_empty() {
        errors.push(FieldError::required(format!("{field}.path"), ""));
    }
    port(errors, &action["port"], &format!("{field}.port"));
    if !["HTTP", "HTTPS"].contains(&text(action, "scheme")) {
        let field = format!("{field}.scheme");
        errors.push(FieldError::not_supported(field, &action["scheme"], &["HTTP", "HTTPS"]));
    }
    for header in items(action, "httpHeaders") {
        let name = text(header, "name");
        let why = names::http_header_name(name);
        each_invalid(errors, &format!("{field}.httpHeaders"), name, why);
    }
}

fn port(errors: &mut FieldErrors, port: &Value, field: &str) {
    match port.as_str() {
        Some(name) => each_invalid(errors, field, name, net::port_name(name)),
        None => port_number(errors, port.as_i64().unwrap_or_default(), field),
    }
}

/// The id of a user or group.
pub fn id(errors: &mut FieldErrors, id: Option<i64>, field: &str) {
    if let Some(id) = id.filter(|id| !(0..=0x7fff_ffff).contains(id)) {
        let why = "must be between 0 and 2147483647, inclusive";
        errors.push(FieldError::invalid(field, &id.into(), why));
    }
}
