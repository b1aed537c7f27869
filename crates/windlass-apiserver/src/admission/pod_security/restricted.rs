//! What the level `restricted` demands on top of `baseline`.

use serde_json::Value;

use super::{Violation, containers, found, named, plural, quoted, setters};
use crate::admission::text;
use crate::builtin::rules::value;

const VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Finds what is missing or forbidden.
pub(super) fn check(pod: &Value, out: &mut Vec<Violation>) {
    // Pods of another operating system have no such settings.
    let windows = pod["spec"]["os"]["name"] == "windows";
    if !windows {
        escalation(pod, out);
        capabilities(pod, out);
    }
    volumes(pod, out);
    non_root(pod, out);
    user(pod, out);
    if !windows {
        seccomp(pod, out);
    }
}

fn escalation(pod: &Value, out: &mut Vec<Violation>) {
    let bad = found(pod, |c| c["securityContext"]["allowPrivilegeEscalation"] != false);
    if !bad.is_empty() {
        let detail =
            format!("{} must set securityContext.allowPrivilegeEscalation=false", named(&bad));
        out.push(Violation { reason: "allowPrivilegeEscalation != false".into(), detail });
    }
}

fn capabilities(pod: &Value, out: &mut Vec<Violation>) {
    let drops_all = |container: &Value| {
        value::items(container, "securityContext.capabilities.drop").iter().any(|c| c == "ALL")
    };
    let keeping = found(pod, |c| !drops_all(c));
    let (mut adding, mut added): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for container in containers(pod) {
        let add = value::items(container, "securityContext.capabilities.add");
        let add = add.iter().filter_map(Value::as_str);
        let odd: Vec<&str> = add.filter(|c| *c != "NET_BIND_SERVICE").collect();
        if !odd.is_empty() {
            adding.push(text(container, &["name"]));
            added.extend(odd);
        }
    }
    added.sort_unstable();
    added.dedup();
    let mut details: Vec<String> = Vec::new();
    if !keeping.is_empty() {
        let who = named(&keeping);
        details.push(format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !adding.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            named(&adding),
            quoted(&added)
        ));
    }
    if !details.is_empty() {
        let reason = "unrestricted capabilities".into();
        out.push(Violation { reason, detail: details.join("; ") });
    }
}

fn volumes(pod: &Value, out: &mut Vec<Violation>) {
    let (mut names, mut kinds): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for volume in value::items(&pod["spec"], "volumes") {
        let fields = volume.as_object().into_iter().flatten();
        let kind = fields.map(|(name, _)| name.as_str()).find(|name| *name != "name");
        let kind = kind.unwrap_or("unknown");
        if !VOLUMES.contains(&kind) {
            names.push(text(volume, &["name"]));
            kinds.push(kind);
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    if !names.is_empty() {
        let detail = format!(
            "{} {} {} {} {}",
            plural("volume", "volumes", names.len()),
            quoted(&names),
            plural("uses", "use", names.len()),
            plural("restricted volume type", "restricted volume types", kinds.len()),
            quoted(&kinds)
        );
        out.push(Violation { reason: "restricted volume types".into(), detail });
    }
}

fn non_root(pod: &Value, out: &mut Vec<Violation>) {
    let set = |at: &Value| at["securityContext"]["runAsNonRoot"].as_bool();
    let of_pod = set(&pod["spec"]);
    let explicit = found(pod, |c| set(c) == Some(false));
    let implicit = found(pod, |c| set(c).is_none() && of_pod != Some(true));
    let reason = || "runAsNonRoot != true".to_owned();
    let all_set = implicit.is_empty();
    if !explicit.is_empty() || (of_pod == Some(false) && !all_set) {
        let who = setters(of_pod == Some(false) && !all_set, &explicit);
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        out.push(Violation { reason: reason(), detail });
    } else if !implicit.is_empty() {
        let detail =
            format!("pod or {} must set securityContext.runAsNonRoot=true", named(&implicit));
        out.push(Violation { reason: reason(), detail });
    }
}

fn user(pod: &Value, out: &mut Vec<Violation>) {
    let root = |at: &Value| at["securityContext"]["runAsUser"] == 0;
    let (of_pod, bad) = (root(&pod["spec"]), found(pod, root));
    if of_pod || !bad.is_empty() {
        let detail = format!("{} must not set runAsUser=0", setters(of_pod, &bad));
        out.push(Violation { reason: "runAsUser=0".into(), detail });
    }
}

fn seccomp(pod: &Value, out: &mut Vec<Violation>) {
    let kind = |at: &Value| text(at, &["securityContext", "seccompProfile", "type"]).to_owned();
    let good = |kind: &str| matches!(kind, "RuntimeDefault" | "Localhost");
    let of_pod = kind(&pod["spec"]);
    let odd = |kind: &str| !kind.is_empty() && !good(kind);
    let explicit = found(pod, |c| odd(&kind(c)));
    let implicit = found(pod, |c| kind(c).is_empty() && !good(&of_pod));
    let reason = || "seccompProfile".to_owned();
    if !explicit.is_empty() || (odd(&of_pod) && !implicit.is_empty()) {
        let mut kinds: Vec<String> =
            containers(pod).map(&kind).chain([of_pod.clone()]).filter(|k| odd(k)).collect();
        kinds.sort();
        kinds.dedup();
        let who = setters(odd(&of_pod) && !implicit.is_empty(), &explicit);
        let detail =
            format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&kinds));
        out.push(Violation { reason: reason(), detail });
    } else if !implicit.is_empty() {
        let detail = format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            named(&implicit)
        );
        out.push(Violation { reason: reason(), detail });
    }
}
