//! Warnings about pods that work, but not as their author may think.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::spec_defaults::CONTAINER_LISTS;
use crate::builtin::rules::quantity::Quantity;
use crate::builtin::rules::value::{has, int, items, text};
use crate::builtin::rules::{names, net};
use crate::status::quote;

/// Volume types that are gone or going, and since when.
const VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Resources that are counted in bytes.
const BYTES: [&str; 2] = ["memory", "ephemeral-storage"];

/// The most warnings that are collected; clients are shown a few kilobytes of them.
const WARNINGS_MAX: usize = 1_000;

/// Warnings about the spec of a pod or template; `prefix` is the path to it, with a dot.
pub fn of(object: &Value, prefix: &str) -> Vec<String> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    let at = format!("{prefix}spec");
    for (key, _) in object["metadata"]["annotations"].as_object().into_iter().flatten() {
        let why = if key.starts_with("container.apparmor.security.beta.kubernetes.io/") {
            "deprecated since v1.30; use the \"appArmorProfile\" field instead"
        } else if key == "scheduler.alpha.kubernetes.io/critical-pod" {
            "non-functional in v1.16+; use the \"priorityClassName\" field instead"
        } else if key == "security.alpha.kubernetes.io/sysctls"
            || key == "security.alpha.kubernetes.io/unsafe-sysctls"
        {
            "non-functional in v1.11+; use the \"sysctls\" field instead"
        } else if key == "seccomp.security.alpha.kubernetes.io/pod"
            || key.starts_with("container.seccomp.security.alpha.kubernetes.io/")
        {
            "non-functional in v1.27+; use the \"seccompProfile\" field instead"
        } else {
            continue;
        };
        out.push(format!("{prefix}metadata.annotations[{key}]: {why}"));
    }
    for (label, _) in spec["nodeSelector"].as_object().into_iter().flatten() {
        if let Some(why) = deprecated_label(label) {
            out.push(format!("{at}.nodeSelector[{label}]: {why}"));
        }
    }
    for (i, server) in items(&spec["dnsConfig"], "nameservers").iter().enumerate() {
        let field = format!("{at}.dnsConfig.nameservers[{i}]");
        out.extend(net::ip_warning(&field, server.as_str().unwrap_or_default()));
    }
    for (i, alias) in items(spec, "hostAliases").iter().enumerate() {
        out.extend(net::ip_warning(&format!("{at}.hostAliases[{i}].ip"), text(alias, "ip")));
    }
    for (i, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let at = format!("{at}.topologySpreadConstraints[{i}]");
        let key = text(constraint, "topologyKey");
        if let Some(why) = deprecated_label(key) {
            out.push(format!("{at}.topologyKey: {key} is {why}"));
        }
        null_selector(&mut out, constraint, &at);
    }
    volumes(&mut out, spec, &at);
    for resource in BYTES {
        fraction(&mut out, &spec["overhead"], &format!("{at}.overhead"), resource);
    }
    repeated(&mut out, spec, &at, "hostAliases", "ip");
    repeated(&mut out, spec, &at, "imagePullSecrets", "name");
    for (i, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            out.push(format!("{at}.imagePullSecrets[{i}].name: invalid empty name \"\""));
        }
    }
    containers(&mut out, spec, &at);
    ports(&mut out, spec, &at);
    if int(spec, "terminationGracePeriodSeconds").is_some_and(|s| s < 0) {
        out.push(format!(
            "{at}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and \
             will be treated as 1"
        ));
    }
    affinity(&mut out, &spec["affinity"], &at);
    out
}

fn volumes(out: &mut Vec<String>, spec: &Value, at: &str) {
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        for (kind, why) in VOLUMES.iter().filter(|(kind, _)| has(volume, kind)) {
            let kind = if *kind == "storageos" { "storageOS" } else { kind };
            out.push(format!("{at}.volumes[{i}].{kind}: {why}"));
        }
        let template = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
        let at = format!("{at}.volumes[{i}].ephemeral.volumeClaimTemplate.spec");
        claim(out, template, &at);
    }
}

/// Returns why a label of nodes should not be used any more.
pub fn deprecated_label(label: &str) -> Option<String> {
    let (since, instead) = match label {
        "beta.kubernetes.io/arch" => ("v1.14", "kubernetes.io/arch"),
        "beta.kubernetes.io/os" => ("v1.14", "kubernetes.io/os"),
        "failure-domain.beta.kubernetes.io/region" => ("v1.17", "topology.kubernetes.io/region"),
        "failure-domain.beta.kubernetes.io/zone" => ("v1.17", "topology.kubernetes.io/zone"),
        "beta.kubernetes.io/instance-type" => ("v1.17", "node.kubernetes.io/instance-type"),
        "app.kubernetes.io/created-by" => return Some("deprecated since v1.9".into()),
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            return Some("deprecated since v1.22; use Taints and Tolerations instead".into());
        }
        "node-role.kubernetes.io/master" => {
            return Some("use \"node-role.kubernetes.io/control-plane\" instead".into());
        }
        _ => return None,
    };
    Some(format!("deprecated since {since}; use \"{instead}\" instead"))
}

/// Warnings about the labels that the expressions of a selector name.
pub fn expressions(out: &mut Vec<String>, selector: &Value, at: &str) {
    for (i, expression) in items(selector, "matchExpressions").iter().enumerate() {
        let key = text(expression, "key");
        if let Some(why) = deprecated_label(key) {
            out.push(format!("{at}.matchExpressions[{i}].key: {key} is {why}"));
        }
    }
}

fn null_selector(out: &mut Vec<String>, term: &Value, at: &str) {
    if term["labelSelector"].is_null() {
        out.push(format!("{at}.labelSelector: a null labelSelector results in matching no pod"));
    }
}

fn repeated(out: &mut Vec<String>, spec: &Value, at: &str, list: &str, key: &str) {
    let mut seen = HashSet::new();
    for (i, item) in items(spec, list).iter().enumerate() {
        let value = text(item, key);
        if !seen.insert(value) {
            out.push(format!("{at}.{list}[{i}].{key}: duplicate {key} {}", quote(value)));
        }
    }
}

fn all_containers<'a>(
    spec: &'a Value,
    at: &'a str,
) -> impl Iterator<Item = (String, &'a Value)> + 'a {
    CONTAINER_LISTS.into_iter().flat_map(move |list| {
        let numbered = items(spec, list).iter().enumerate();
        numbered.map(move |(i, container)| (format!("{at}.{list}[{i}]"), container))
    })
}

/// Warnings about the spec of a claim.
pub fn claim(out: &mut Vec<String>, spec: &Value, at: &str) {
    for list in ["requests", "limits"] {
        fraction(out, &spec["resources"][list], &format!("{at}.resources.{list}"), "storage");
    }
}

/// The warning about an amount of bytes that is not whole.
fn fraction(out: &mut Vec<String>, list: &Value, at: &str, resource: &str) {
    let amount = text(list, resource);
    if Quantity::parse(amount).is_some_and(|amount| !amount.is_integer()) {
        out.push(format!(
            "{at}[{resource}]: fractional byte value {} is invalid, must be an integer",
            quote(amount)
        ));
    }
}

fn containers(out: &mut Vec<String>, spec: &Value, at: &str) {
    for (at, container) in all_containers(spec, at) {
        for resource in BYTES {
            for list in ["limits", "requests"] {
                let path = format!("{at}.resources.{list}");
                fraction(out, &container["resources"][list], &path, resource);
            }
        }
        let mut seen = HashSet::new();
        for (i, variable) in items(container, "env").iter().enumerate() {
            let name = text(variable, "name");
            let reference = format!("$({name})");
            let value = text(variable, "value");
            // A later definition that builds on the earlier one is meant.
            let hides =
                has(variable, "valueFrom") || value == reference || !value.contains(&reference);
            if !seen.insert(name) && hides {
                out.push(format!(
                    "{at}.env[{i}]: hides previous definition of {}, which may be dropped when \
                     using apply",
                    quote(name)
                ));
            }
        }
    }
}

fn ports(out: &mut Vec<String>, spec: &Value, at: &str) {
    let mut seen: BTreeMap<(i64, &str), Vec<(String, &Value)>> = BTreeMap::new();
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    let mut repeated_names = Vec::new();
    for (at, container) in all_containers(spec, at) {
        for (i, port) in items(container, "ports").iter().enumerate() {
            let at = format!("{at}.ports[{i}]");
            let number = int(port, "containerPort").unwrap_or_default();
            let host_port = int(port, "hostPort").unwrap_or_default();
            if !text(port, "hostIP").is_empty() && host_port == 0 {
                let part = |key| text(port, key);
                out.push(format!(
                    "{at}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{number} \
                     Protocol:{} HostIP:{}}}",
                    part("name"),
                    part("protocol"),
                    part("hostIP")
                ));
            }
            let others = seen.entry((number, text(port, "protocol"))).or_default();
            // Each port may clash with every one before it.
            let others_max = WARNINGS_MAX.saturating_sub(out.len());
            for (other_at, other) in others.iter().take(others_max) {
                let host = |p: &Value| int(p, "hostPort").unwrap_or_default();
                let ips = (text(port, "hostIP"), text(other, "hostIP"));
                if ips.0 == ips.1 && host(port) == host(other) {
                    out.push(format!("{at}: duplicate port definition with {other_at}"));
                } else if host(port) == 0 || host(other) == 0 {
                    out.push(format!("{at}: overlapping port definition with {other_at}"));
                } else if host(port) == host(other) && ips.0.is_empty() != ips.1.is_empty() {
                    out.push(format!(
                        "{at}: dangerously ambiguous port definition with {other_at}"
                    ));
                }
            }
            others.push((at.clone(), port));
            let name = text(port, "name");
            if name.is_empty() {
                continue;
            }
            match names.get(name) {
                Some(other) => repeated_names.push(format!(
                    "{at}: duplicate port name {} with {other}, services and probes that select \
                     ports by name will use {other}",
                    quote(name)
                )),
                None => {
                    names.insert(name, at);
                }
            }
        }
    }
    out.extend(repeated_names);
}

fn node_affinity(out: &mut Vec<String>, affinity: &Value, at: &str) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = items(&affinity[required], "nodeSelectorTerms");
    for (i, term) in terms.iter().enumerate() {
        expressions(out, term, &format!("{at}.{required}.nodeSelectorTerms[{i}]"));
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (i, term) in items(affinity, preferred).iter().enumerate() {
        let (term, at) = (&term["preference"], format!("{at}.{preferred}[{i}].preference"));
        expressions(out, term, &at);
        for (i, expression) in items(term, "matchExpressions").iter().enumerate() {
            for (n, value) in items(expression, "values").iter().enumerate() {
                let value = value.as_str().unwrap_or_default();
                let at = format!("{at}.matchExpressions[{i}].values[{n}]");
                let problems = names::label_value(value).into_iter();
                out.extend(problems.map(|why| format!("{at}: {value} is invalid, {why}")));
            }
        }
    }
}

fn affinity(out: &mut Vec<String>, affinity: &Value, at: &str) {
    node_affinity(out, &affinity["nodeAffinity"], &format!("{at}.affinity.nodeAffinity"));
    for kind in ["podAffinity", "podAntiAffinity"] {
        let at = format!("{at}.affinity.{kind}");
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in items(&affinity[kind], required).iter().enumerate() {
            null_selector(out, term, &format!("{at}.{required}[{i}]"));
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in items(&affinity[kind], preferred).iter().enumerate() {
            let at = format!("{at}.{preferred}[{i}].podAffinityTerm");
            null_selector(out, &term["podAffinityTerm"], &at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn repeated_ports_and_variables_are_noticed() {
        let pod = json!({"spec": {"containers": [{
            "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"},
                {"name": "A", "value": "$(A)3"}],
            "ports": [{"containerPort": 1, "name": "x"}, {"containerPort": 1, "name": "x"}]}]}});
        assert_eq!(
            of(&pod, "spec.template."),
            [
                "spec.template.spec.containers[0].env[1]: hides previous definition of \"A\", \
                 which may be dropped when using apply",
                "spec.template.spec.containers[0].ports[1]: duplicate port definition with \
                 spec.template.spec.containers[0].ports[0]",
                "spec.template.spec.containers[0].ports[1]: duplicate port name \"x\" with \
                 spec.template.spec.containers[0].ports[0], services and probes that select \
                 ports by name will use spec.template.spec.containers[0].ports[0]",
            ]
        );
    }
}
