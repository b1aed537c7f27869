//! PodSecurity: what the labels of a namespace say about its pods.

use serde_json::Value;

use super::{Review, text};
use crate::builtin::rules::value;
use crate::handler::Call;
use crate::lookup::Lookup;
use crate::object;
use crate::server::Inner;
use crate::status::{FieldError, FieldErrors, Result, Status};

mod baseline;
mod restricted;

const PREFIX: &str = "pod-security.kubernetes.io/";
/// Pods of a namespace that are looked at when its level changes.
const EXISTING_MAX: usize = 3000;

/// How much a level forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// A level with the version of its rules, as the label says it.
struct Policy {
    level: Level,
    version: String,
}

/// Something a level forbids: what, and where.
struct Violation {
    reason: String,
    detail: String,
}

impl Inner {
    pub(super) fn check_pod_security(&self, review: &Review<'_>, call: &Call) -> Result<()> {
        let Some(object) = &review.object else { return Ok(()) };
        if review.writes("", "namespaces") {
            return self.check_namespace_labels(review, object, call);
        }
        let pod = review.concerns("", "pods");
        let Some(template) = (if pod { Some(object) } else { template_of(review, object) }) else {
            return Ok(());
        };
        if pod && !matches!(review.subresource, "" | "ephemeralcontainers")
            || !pod && !review.subresource.is_empty()
            || review.is_update() && pod && !is_significant(review)
        {
            return Ok(());
        }
        let Some(namespace) = self.get("", "namespaces", "", &review.namespace) else {
            return Ok(());
        };
        let enforce = Policy::read(&namespace, "enforce");
        if pod && let Some(found) = evaluate(&enforce, template) {
            return Err(review.forbidden(format!("violates PodSecurity {enforce}: {found}")));
        }
        let warn = Policy::read(&namespace, "warn");
        if let Some(found) = evaluate(&warn, template) {
            call.warn(format!("would violate PodSecurity {warn}: {found}"));
        }
        Ok(())
    }

    fn check_namespace_labels(
        &self,
        review: &Review<'_>,
        namespace: &Value,
        call: &Call,
    ) -> Result<()> {
        let name = object::name(namespace);
        let errors = label_errors(namespace);
        let before = review.old.map(label_errors).unwrap_or_default();
        if !errors.is_empty() && errors != before {
            return Err(Status::invalid("", "Namespace", name, &errors));
        }
        let Some(old) = review.old.filter(|_| review.is_update()) else { return Ok(()) };
        let (was, now) = (Policy::read(old, "enforce"), Policy::read(namespace, "enforce"));
        if now.level <= was.level && now.version == was.version {
            return Ok(());
        }
        let mut warnings: Vec<String> = Vec::new();
        for pod in self.list("", "pods", Some(name)).iter().take(EXISTING_MAX) {
            if let Some(found) = reasons(&now, pod) {
                warnings.push(format!("{}: {found}", object::name(pod)));
            }
        }
        if !warnings.is_empty() {
            call.warn(format!(
                "existing pods in namespace \"{name}\" violate the new PodSecurity enforce level {now}"
            ));
            warnings.into_iter().for_each(|text| call.warn(text));
        }
        Ok(())
    }
}

impl Policy {
    /// The policy of a namespace for one of the modes; without a label everything is allowed.
    fn read(namespace: &Value, mode: &str) -> Self {
        let labels = &namespace["metadata"]["labels"];
        let label = |name: String| labels[name.as_str()].as_str().map(str::to_owned);
        let level = match label(format!("{PREFIX}{mode}")).as_deref() {
            None | Some("privileged") => Level::Privileged,
            Some("baseline") => Level::Baseline,
            // An unknown level counts as the strictest one.
            Some(_) => Level::Restricted,
        };
        let version = label(format!("{PREFIX}{mode}-version"));
        let version = version.filter(|text| is_version(text)).unwrap_or_else(|| "latest".into());
        Self { level, version }
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        write!(f, "\"{level}:{}\"", self.version)
    }
}

fn is_version(text: &str) -> bool {
    let minor = text.strip_prefix("v1.").unwrap_or_default();
    let number = minor == "0" || (!minor.starts_with('0') && minor.parse::<u16>().is_ok());
    text == "latest" || (number && minor.bytes().all(|b| b.is_ascii_digit()))
}

fn label_errors(namespace: &Value) -> FieldErrors {
    let labels = &namespace["metadata"]["labels"];
    let mut errors = FieldErrors::default();
    for mode in ["enforce", "audit", "warn"] {
        let name = format!("{PREFIX}{mode}");
        if let Some(level) = labels[&name].as_str()
            && !matches!(level, "privileged" | "baseline" | "restricted")
        {
            let field = format!("metadata.labels[{name}]");
            let why = "must be one of privileged, baseline, restricted";
            errors.push(FieldError::invalid_str(field, level, why));
        }
        let name = format!("{PREFIX}{mode}-version");
        if let Some(version) = labels[&name].as_str()
            && !is_version(version)
        {
            let field = format!("metadata.labels[{name}]");
            let why = "must be \"latest\" or \"v1.x\"";
            errors.push(FieldError::invalid_str(field, version, why));
        }
    }
    errors
}

/// The pod a workload runs.
fn template_of<'a>(review: &Review<'_>, object: &'a Value) -> Option<&'a Value> {
    let spec = &object["spec"];
    match (&*review.resource.gvk.group, &*review.resource.plural) {
        ("", "podtemplates") => Some(&object["template"]),
        ("", "replicationcontrollers")
        | ("apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
        | ("batch", "jobs") => Some(&spec["template"]),
        ("batch", "cronjobs") => Some(&spec["jobTemplate"]["spec"]["template"]),
        _ => None,
    }
}

/// Returns `true` if an update of a pod changes what the levels look at.
fn is_significant(review: &Review<'_>) -> bool {
    let (Some(new), Some(old)) = (&review.object, &review.old) else { return true };
    let relevant = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "nodeName"] {
            spec[field] = Value::Null;
        }
        for list in ["containers", "initContainers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                container["image"] = Value::Null;
                container["resources"] = Value::Null;
            }
        }
        let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
        let profiles: Vec<(String, Value)> = annotations
            .filter(|(name, _)| name.contains("apparmor") || name.contains("seccomp"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        (spec, profiles)
    };
    relevant(new) != relevant(old)
}

fn violations(policy: &Policy, pod: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    if policy.level >= Level::Baseline {
        baseline::check(pod, policy.level == Level::Restricted, &mut found);
    }
    if policy.level == Level::Restricted {
        restricted::check(pod, &mut found);
    }
    found
}

fn evaluate(policy: &Policy, pod: &Value) -> Option<String> {
    let texts: Vec<String> = violations(policy, pod)
        .iter()
        .map(|found| match found.detail.as_str() {
            "" => found.reason.clone(),
            detail => format!("{} ({detail})", found.reason),
        })
        .collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

fn reasons(policy: &Policy, pod: &Value) -> Option<String> {
    let texts: Vec<String> = violations(policy, pod).into_iter().map(|v| v.reason).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// All containers of a pod, init containers first.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(|list| value::items(&pod["spec"], list))
}

/// The names of the containers that a check finds.
fn found(pod: &Value, bad: impl Fn(&Value) -> bool) -> Vec<&str> {
    containers(pod).filter(|c| bad(c)).map(|c| text(c, &["name"])).collect()
}

/// `container "a"`, `containers "a", "b"`.
fn named(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

fn quoted<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<String> = names.iter().map(|name| crate::status::quote(name.as_ref())).collect();
    shown.join(", ")
}

fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// `pod`, `container "a"` or `pod and container "a"`.
fn setters(pod: bool, names: &[&str]) -> String {
    match (pod, names.is_empty()) {
        (true, true) => "pod".into(),
        (true, false) => format!("pod and {}", named(names)),
        (false, _) => named(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy(level: Level) -> Policy {
        Policy { level, version: "latest".into() }
    }

    #[test]
    fn a_plain_pod_is_fine_for_baseline_and_not_for_restricted() {
        let pod = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
        assert_eq!(evaluate(&policy(Level::Baseline), &pod), None);
        let text = evaluate(&policy(Level::Restricted), &pod).unwrap();
        assert_eq!(
            text,
            "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
        );
    }

    #[test]
    fn a_hardened_pod_is_fine_for_restricted() {
        let pod = json!({"spec": {
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "c", "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            }}],
        }});
        assert_eq!(evaluate(&policy(Level::Restricted), &pod), None);
    }

    #[test]
    fn baseline_forbids_the_host() {
        let pod = json!({"spec": {"hostNetwork": true, "hostPID": true,
            "volumes": [{"name": "h", "hostPath": {"path": "/"}}],
            "containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}],
                "securityContext": {"privileged": true}}]}});
        assert_eq!(
            evaluate(&policy(Level::Baseline), &pod).unwrap(),
            "host namespaces (hostNetwork=true, hostPID=true), hostPath volumes (volume \"h\"), hostPort (container \"c\" uses hostPort 80), privileged (container \"c\" must not set securityContext.privileged=true)"
        );
    }

    #[test]
    fn labels_of_a_namespace_are_checked() {
        let label = |name: &str, text: &str| json!({"metadata": {"labels": {name: text}}});
        assert_eq!(
            label_errors(&label("pod-security.kubernetes.io/enforce", "odd"))[0].to_string(),
            "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"odd\": must be one of privileged, baseline, restricted"
        );
        let versions = ["latest", "v1.0", "v1.36"];
        assert!(versions.iter().all(|version| is_version(version)));
        assert!(!["1.2", "v1.x", "v1.", "v1.01", ""].iter().any(|version| is_version(version)));
    }
}
