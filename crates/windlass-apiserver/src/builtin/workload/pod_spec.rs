//! The rules of a pod spec, in pods and in templates.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{pod_container, pod_resources, pod_restart, pod_security, pod_volume};
use crate::builtin::rules::value::{flag, has, int, items, text};
use crate::builtin::rules::{each_invalid, meta, names, net, node_selector, selector};
use crate::status::{FieldError, FieldErrors};

/// Problems of a pod spec; `is_pod` is false in templates.
pub fn validate(errors: &mut FieldErrors, spec: &Value, field: &str, is_pod: bool) {
    if !has(spec, "terminationGracePeriodSeconds") {
        errors.push(FieldError::required(format!("{field}.terminationGracePeriodSeconds"), ""));
    }
    let volumes = pod_volume::validate(errors, spec, field, is_pod);
    pod_restart::claims(errors, spec, field);
    pod_container::main(errors, spec, &volumes, field);
    pod_container::init(errors, spec, &volumes, field);
    host_network_ports(errors, spec, field, is_pod);
    pod_container::one_of(
        errors,
        &spec["restartPolicy"],
        &["Always", "OnFailure", "Never"],
        &format!("{field}.restartPolicy"),
    );
    pod_container::one_of(
        errors,
        &spec["dnsPolicy"],
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        &format!("{field}.dnsPolicy"),
    );
    meta::labels(errors, &spec["nodeSelector"], &format!("{field}.nodeSelector"));
    pod_security::of_pod(errors, spec, &format!("{field}.securityContext"));
    affinity(errors, &spec["affinity"], &format!("{field}.affinity"));
    dns_config(errors, spec, &format!("{field}.dnsConfig"));
    gates(errors, spec, field);
    topology(errors, spec, &format!("{field}.topologySpreadConstraints"));
    named(errors, spec, field);
    if let Some(seconds) = int(spec, "activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let why = "must be between 1 and 2147483647, inclusive";
        let field = format!("{field}.activeDeadlineSeconds");
        errors.push(FieldError::invalid(field, &seconds.into(), why));
    }
    tolerations(errors, spec, &format!("{field}.tolerations"));
    host_aliases(errors, spec, &format!("{field}.hostAliases"));
    let policy = &spec["preemptionPolicy"];
    if !policy.is_null() {
        let supported = ["PreemptLowerPriority", "Never"];
        let field = format!("{field}.preemptionPolicy");
        pod_container::one_of(errors, policy, &supported, &field);
    }
    pod_security::os(errors, spec, &format!("{field}.os"));
    if has(spec, "resources") {
        pod_resources::validate_pod(errors, &spec["resources"], &format!("{field}.resources"));
    }
    if spec["hostUsers"] == false {
        for key in ["hostNetwork", "hostPID", "hostIPC"].iter().filter(|key| flag(spec, key)) {
            let why = "when `hostUsers` is false";
            errors.push(FieldError::forbidden(format!("{field}.{key}"), why));
        }
    }
}

fn host_network_ports(errors: &mut FieldErrors, spec: &Value, field: &str, is_pod: bool) {
    if !flag(spec, "hostNetwork") {
        return;
    }
    for (i, container) in items(spec, "containers").iter().enumerate() {
        for (j, port) in items(container, "ports").iter().enumerate() {
            let host = int(port, "hostPort").unwrap_or_default();
            if (is_pod || host != 0) && host != int(port, "containerPort").unwrap_or_default() {
                errors.push(FieldError::invalid(
                    format!("{field}.containers[{i}].ports[{j}].hostPort"),
                    &host.into(),
                    "must match `containerPort` when `hostNetwork` is true",
                ));
            }
        }
    }
}

fn named(errors: &mut FieldErrors, spec: &Value, field: &str) {
    let checks: [(&str, names::Check); 6] = [
        ("serviceAccountName", names::dns_subdomain),
        ("nodeName", names::dns_subdomain),
        ("hostname", names::dns_label),
        ("subdomain", names::dns_label),
        ("priorityClassName", names::dns_subdomain),
        ("runtimeClassName", names::dns_subdomain),
    ];
    for (key, check) in checks {
        let name = text(spec, key);
        if !name.is_empty() {
            each_invalid(errors, &format!("{field}.{key}"), name, check(name));
        }
    }
}

/// Problems of tolerations.
pub fn tolerations(errors: &mut FieldErrors, spec: &Value, field: &str) {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    for (i, toleration) in items(spec, "tolerations").iter().enumerate() {
        let at = format!("{field}[{i}]");
        let [key, operator, value, effect] =
            ["key", "operator", "value", "effect"].map(|key| text(toleration, key));
        let operator_field = format!("{at}.operator");
        if !key.is_empty() {
            each_invalid(errors, &format!("{at}.key"), key, names::qualified_name(key));
        } else if operator != "Exists" {
            errors.push(FieldError::invalid_str(
                &*operator_field,
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and \
                 all keys\"",
            ));
        }
        if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid_str(format!("{at}.effect"), effect, why));
        }
        match operator {
            "Equal" | "" => {
                let why = names::label_value(value);
                if !why.is_empty() {
                    errors.push(FieldError::invalid_str(operator_field, value, why.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid_str(operator_field, value, why));
            }
            "Exists" => {}
            "Lt" | "Gt" => errors.push(FieldError::not_supported(
                operator_field,
                &toleration["operator"],
                &["Equal", "Exists", "Lt", "Gt"],
            )),
            _ => errors.push(FieldError::not_supported(
                operator_field,
                &toleration["operator"],
                &["Equal", "Exists"],
            )),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            let field = format!("{at}.effect");
            errors.push(FieldError::not_supported(field, &toleration["effect"], &EFFECTS));
        }
    }
}

fn host_aliases(errors: &mut FieldErrors, spec: &Value, field: &str) {
    for (i, alias) in items(spec, "hostAliases").iter().enumerate() {
        let ip = text(alias, "ip");
        each_invalid(errors, &format!("{field}[{i}].ip"), ip, net::ip(ip));
        for (j, name) in items(alias, "hostnames").iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            let why = names::dns_subdomain(name);
            each_invalid(errors, &format!("{field}[{i}].hostnames[{j}]"), name, why);
        }
    }
}

fn dns_config(errors: &mut FieldErrors, spec: &Value, field: &str) {
    let config = &spec["dnsConfig"];
    let servers = items(config, "nameservers");
    if text(spec, "dnsPolicy") == "None" {
        if config.is_null() {
            let why = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.push(FieldError::required(field, why));
            return;
        }
        if servers.is_empty() {
            errors.push(FieldError::required(
                format!("{field}.nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            ));
            return;
        }
    }
    if servers.len() > 3 {
        errors.push(FieldError::invalid(
            format!("{field}.nameservers"),
            &config["nameservers"],
            "must not have more than 3 nameservers",
        ));
    }
    for (i, server) in servers.iter().enumerate() {
        let server = server.as_str().unwrap_or_default();
        each_invalid(errors, &format!("{field}.nameservers[{i}]"), server, net::ip(server));
    }
    if items(config, "searches").len() > 32 {
        errors.push(FieldError::invalid(
            format!("{field}.searches"),
            &config["searches"],
            "must not have more than 32 search paths",
        ));
    }
    for (i, search) in items(config, "searches").iter().enumerate() {
        let search = search.as_str().unwrap_or_default();
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            let why = names::dns_subdomain_with_underscore(search);
            each_invalid(errors, &format!("{field}.searches[{i}]"), search, why);
        }
    }
    for (i, option) in items(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.push(FieldError::required(format!("{field}.options[{i}]"), "must not be empty"));
        }
    }
}

fn gates(errors: &mut FieldErrors, spec: &Value, field: &str) {
    for (i, gate) in items(spec, "readinessGates").iter().enumerate() {
        let kind = text(gate, "conditionType");
        let field = format!("{field}.readinessGates[{i}].conditionType");
        each_invalid(errors, &field, kind, names::qualified_name(kind));
    }
    let mut seen = std::collections::BTreeSet::new();
    for (i, gate) in items(spec, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        let field = format!("{field}.schedulingGates[{i}]");
        each_invalid(errors, &field, name, names::qualified_name(name));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(field, &gate["name"]));
        }
    }
}

fn topology(errors: &mut FieldErrors, spec: &Value, field: &str) {
    let constraints = items(spec, "topologySpreadConstraints");
    let pair = |constraint: &'_ Value| {
        ["topologyKey", "whenUnsatisfiable"].map(|key| constraint[key].clone())
    };
    let last: HashMap<[Value; 2], usize> =
        constraints.iter().enumerate().map(|(i, constraint)| (pair(constraint), i)).collect();
    for (i, constraint) in constraints.iter().enumerate() {
        let at = format!("{field}[{i}]");
        let skew = int(constraint, "maxSkew").unwrap_or_default();
        if skew <= 0 {
            let why = "must be greater than zero";
            errors.push(FieldError::invalid(format!("{at}.maxSkew"), &skew.into(), why));
        }
        match text(constraint, "topologyKey") {
            "" => {
                let why = "can not be empty";
                errors.push(FieldError::required(format!("{at}.topologyKey"), why));
            }
            key => {
                let field = format!("{at}.topologyKey");
                each_invalid(errors, &field, key, names::qualified_name(key));
            }
        }
        let action = text(constraint, "whenUnsatisfiable");
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            errors.push(FieldError::not_supported(
                format!("{at}.whenUnsatisfiable"),
                &Value::from(action),
                &["DoNotSchedule", "ScheduleAnyway"],
            ));
        }
        if last.get(&pair(constraint)).is_some_and(|last| *last > i) {
            let pair = format!("{{{}, {action}}}", text(constraint, "topologyKey"));
            let field = format!("{at}.{{topologyKey, whenUnsatisfiable}}");
            errors.push(FieldError::duplicate(field, &pair.into()));
        }
        spread(errors, constraint, action, &at);
        label_keys(errors, constraint, &at);
        selector::validate(errors, &constraint["labelSelector"], &format!("{at}.labelSelector"));
    }
}

/// What says between which nodes pods are spread.
fn spread(errors: &mut FieldErrors, constraint: &Value, action: &str, at: &str) {
    if let Some(domains) = int(constraint, "minDomains") {
        let field = format!("{at}.minDomains");
        if domains <= 0 {
            let why = "must be greater than zero";
            errors.push(FieldError::invalid(&*field, &domains.into(), why));
        }
        if action != "DoNotSchedule" {
            let why =
                format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            errors.push(FieldError::invalid(field, &domains.into(), why));
        }
    }
    for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if has(constraint, key) {
            let field = format!("{at}.{key}");
            pod_container::one_of(errors, &constraint[key], &["Ignore", "Honor"], &field);
        }
    }
}

fn affinity(errors: &mut FieldErrors, affinity: &Value, field: &str) {
    node_affinity(errors, &affinity["nodeAffinity"], &format!("{field}.nodeAffinity"));
    for kind in ["podAffinity", "podAntiAffinity"] {
        let part = &affinity[kind];
        let required = format!("{field}.{kind}.requiredDuringSchedulingIgnoredDuringExecution");
        let terms = items(part, "requiredDuringSchedulingIgnoredDuringExecution");
        for (i, term) in terms.iter().enumerate() {
            pod_term(errors, term, &format!("{required}[{i}]"));
        }
        let preferred = format!("{field}.{kind}.preferredDuringSchedulingIgnoredDuringExecution");
        let terms = items(part, "preferredDuringSchedulingIgnoredDuringExecution");
        for (i, term) in terms.iter().enumerate() {
            weight(errors, term, &format!("{preferred}[{i}].weight"));
            let field = format!("{preferred}[{i}].podAffinityTerm");
            pod_term(errors, &term["podAffinityTerm"], &field);
        }
    }
}

fn weight(errors: &mut FieldErrors, term: &Value, field: &str) {
    let weight = int(term, "weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(field, &weight.into(), "must be in the range 1-100"));
    }
}

fn pod_term(errors: &mut FieldErrors, term: &Value, field: &str) {
    selector::validate(errors, &term["labelSelector"], &format!("{field}.labelSelector"));
    selector::validate(errors, &term["namespaceSelector"], &format!("{field}.namespaceSelector"));
    for name in items(term, "namespaces") {
        let name = name.as_str().unwrap_or_default();
        each_invalid(errors, &format!("{field}.namespace"), name, names::dns_label(name));
    }
    label_keys(errors, term, field);
    let (key, key_field) = (text(term, "topologyKey"), format!("{field}.topologyKey"));
    if key.is_empty() {
        errors.push(FieldError::required(&*key_field, "can not be empty"));
    }
    each_invalid(errors, &key_field, key, names::qualified_name(key));
}

/// The rules of keys whose values pods bring themselves.
fn label_keys(errors: &mut FieldErrors, term: &Value, field: &str) {
    let selector = &term["labelSelector"];
    let keys = |list: &str| -> Vec<String> {
        items(term, list).iter().filter_map(|key| Some(key.as_str()?.to_owned())).collect()
    };
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        let field = format!("{field}.{list}");
        if selector.is_null() && !keys(list).is_empty() {
            let why = "must not be specified when labelSelector is not set";
            errors.push(FieldError::forbidden(field, why));
            continue;
        }
        for (i, key) in keys(list).iter().enumerate() {
            each_invalid(errors, &format!("{field}[{i}]"), key, names::qualified_name(key));
        }
    }
    let (own, other) = (keys("matchLabelKeys"), keys("mismatchLabelKeys"));
    // The selector has the pod's own values already: a key that is there twice was given twice.
    let mut selected: HashSet<&str> =
        selector["matchLabels"].as_object().into_iter().flatten().map(|(k, _)| &**k).collect();
    let last: HashMap<&str, usize> =
        own.iter().enumerate().map(|(i, key)| (key.as_str(), i)).collect();
    for expression in items(selector, "matchExpressions") {
        let key = text(expression, "key");
        if let Some(i) = last.get(key).filter(|_| selected.contains(key)) {
            let why = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid_str(format!("{field}[{i}]"), key, why));
        }
        selected.insert(key);
    }
    let other: HashSet<&String> = other.iter().collect();
    for (i, key) in own.iter().enumerate().filter(|(_, key)| other.contains(key)) {
        let why = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.push(FieldError::invalid_str(format!("{field}.matchLabelKeys[{i}]"), key, why));
    }
}

fn node_affinity(errors: &mut FieldErrors, affinity: &Value, field: &str) {
    let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
    if required.is_object() {
        let field = format!("{field}.requiredDuringSchedulingIgnoredDuringExecution");
        node_selector::validate(errors, required, &field);
    }
    let terms = items(affinity, "preferredDuringSchedulingIgnoredDuringExecution");
    for (i, term) in terms.iter().enumerate() {
        let at = format!("{field}.preferredDuringSchedulingIgnoredDuringExecution[{i}]");
        weight(errors, term, &format!("{at}.weight"));
        node_selector::validate_term(errors, &term["preference"], &format!("{at}.preference"));
    }
}
