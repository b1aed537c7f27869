//! What the level `baseline` forbids: the ways to the node.

use serde_json::Value;

use super::{Violation, containers, found, named, plural, quoted, setters};
use crate::admission::text;
use crate::builtin::rules::value;

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];
const SELINUX_TYPES: [&str; 5] =
    ["", "container_engine_t", "container_init_t", "container_kvm_t", "container_t"];
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Finds what is forbidden; some checks have a stricter form in `restricted`, which replaces them.
pub(super) fn check(pod: &Value, restricted: bool, out: &mut Vec<Violation>) {
    app_armor(pod, out);
    if !restricted {
        capabilities(pod, out);
    }
    host_namespaces(pod, out);
    if !restricted {
        host_paths(pod, out);
    }
    host_ports(pod, out);
    let privileged = found(pod, |c| c["securityContext"]["privileged"] == true);
    if !privileged.is_empty() {
        let detail = format!("{} must not set securityContext.privileged=true", named(&privileged));
        out.push(Violation { reason: "privileged".into(), detail });
    }
    proc_mount(pod, out);
    selinux(pod, out);
    if !restricted {
        seccomp(pod, out);
    }
    sysctls(pod, out);
    host_process(pod, out);
}

fn app_armor(pod: &Value, out: &mut Vec<Violation>) {
    let unconfined = |at: &Value| at["securityContext"]["appArmorProfile"]["type"] == "Unconfined";
    let mut details: Vec<String> = Vec::new();
    if unconfined(&pod["spec"]) {
        details.push("pod must not set AppArmor profile type to \"Unconfined\"".into());
    }
    let bad = found(pod, unconfined);
    if !bad.is_empty() {
        let who = named(&bad);
        details.push(format!("{who} must not set AppArmor profile type to \"Unconfined\""));
    }
    let annotations = value::entries(&pod["metadata"], "annotations");
    let odd: Vec<String> = annotations
        .filter(|(name, _)| name.starts_with(APPARMOR))
        .filter(|(_, profile)| {
            let profile = profile.as_str().unwrap_or_default();
            !(profile.is_empty()
                || profile == "runtime/default"
                || profile.starts_with("localhost/"))
        })
        .map(|(name, profile)| format!("\"{name}\"={profile}"))
        .collect();
    if !odd.is_empty() {
        let word = plural("annotation", "annotations", odd.len());
        details.push(format!("{word} {}", odd.join(", ")));
    }
    if !details.is_empty() {
        let reason =
            plural("forbidden AppArmor profile", "forbidden AppArmor profiles", details.len());
        out.push(Violation { reason: reason.into(), detail: details.join("; ") });
    }
}

fn capabilities(pod: &Value, out: &mut Vec<Violation>) {
    let mut odd: Vec<&str> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for container in containers(pod) {
        let added = value::items(container, "securityContext.capabilities.add");
        let added = added.iter().filter_map(Value::as_str);
        let bad: Vec<&str> = added.filter(|c| !CAPABILITIES.contains(c)).collect();
        if !bad.is_empty() {
            names.push(text(container, &["name"]));
            odd.extend(bad);
        }
    }
    odd.sort_unstable();
    odd.dedup();
    if !odd.is_empty() {
        let detail = format!(
            "{} must not include {} in securityContext.capabilities.add",
            named(&names),
            quoted(&odd)
        );
        out.push(Violation { reason: "non-default capabilities".into(), detail });
    }
}

fn host_namespaces(pod: &Value, out: &mut Vec<Violation>) {
    let used: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .iter()
        .filter(|field| pod["spec"][**field] == true)
        .map(|field| format!("{field}=true"))
        .collect();
    if !used.is_empty() {
        out.push(Violation { reason: "host namespaces".into(), detail: used.join(", ") });
    }
}

fn host_paths(pod: &Value, out: &mut Vec<Violation>) {
    let volumes = value::items(&pod["spec"], "volumes").iter();
    let bad: Vec<&str> = volumes
        .filter(|volume| !volume["hostPath"].is_null())
        .map(|volume| text(volume, &["name"]))
        .collect();
    if !bad.is_empty() {
        let detail = format!("{} {}", plural("volume", "volumes", bad.len()), quoted(&bad));
        out.push(Violation { reason: "hostPath volumes".into(), detail });
    }
}

fn host_ports(pod: &Value, out: &mut Vec<Violation>) {
    let (mut names, mut ports): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    for container in containers(pod) {
        let used = value::items(container, "ports").iter();
        let used: Vec<i64> =
            used.filter_map(|port| port["hostPort"].as_i64()).filter(|port| *port != 0).collect();
        if !used.is_empty() {
            names.push(text(container, &["name"]));
            ports.extend(used.iter().map(ToString::to_string));
        }
    }
    ports.sort();
    ports.dedup();
    if !names.is_empty() {
        let detail = format!(
            "{} {} {} {}",
            named(&names),
            plural("uses", "use", names.len()),
            plural("hostPort", "hostPorts", ports.len()),
            ports.join(", ")
        );
        out.push(Violation { reason: "hostPort".into(), detail });
    }
}

fn proc_mount(pod: &Value, out: &mut Vec<Violation>) {
    let odd = |container: &Value| {
        let mount = text(container, &["securityContext", "procMount"]);
        !mount.is_empty() && mount != "Default"
    };
    let bad = found(pod, odd);
    let mut kinds: Vec<&str> = containers(pod)
        .filter(|c| odd(c))
        .map(|c| text(c, &["securityContext", "procMount"]))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    if !bad.is_empty() {
        let detail =
            format!("{} must not set securityContext.procMount to {}", named(&bad), quoted(&kinds));
        out.push(Violation { reason: "procMount".into(), detail });
    }
}

fn selinux(pod: &Value, out: &mut Vec<Violation>) {
    let options = |at: &Value| at["securityContext"]["seLinuxOptions"].clone();
    let mut types: Vec<String> = Vec::new();
    let (mut user, mut role) = (false, false);
    let mut is_bad = |at: &Value| {
        let options = options(at);
        let kind = text(&options, &["type"]);
        let set = |field: &str| !text(&options, &[field]).is_empty();
        let odd = !SELINUX_TYPES.contains(&kind);
        if odd {
            types.push(kind.to_owned());
        }
        user |= set("user");
        role |= set("role");
        odd || set("user") || set("role")
    };
    let pod_bad = is_bad(&pod["spec"]);
    let mut names = Vec::new();
    for container in containers(pod) {
        if is_bad(container) {
            names.push(text(container, &["name"]));
        }
    }
    if !pod_bad && names.is_empty() {
        return;
    }
    types.sort();
    types.dedup();
    let mut problems: Vec<String> = Vec::new();
    if !types.is_empty() {
        problems.push(format!("{} {}", plural("type", "types", types.len()), quoted(&types)));
    }
    if user {
        problems.push("user may not be set".into());
    }
    if role {
        problems.push("role may not be set".into());
    }
    let who = setters(pod_bad, &names);
    let detail =
        format!("{who} set forbidden securityContext.seLinuxOptions: {}", problems.join("; "));
    out.push(Violation { reason: "seLinuxOptions".into(), detail });
}

fn seccomp(pod: &Value, out: &mut Vec<Violation>) {
    let unconfined = |at: &Value| at["securityContext"]["seccompProfile"]["type"] == "Unconfined";
    let (of_pod, bad) = (unconfined(&pod["spec"]), found(pod, unconfined));
    if of_pod || !bad.is_empty() {
        let detail = format!(
            "{} must not set securityContext.seccompProfile.type to \"Unconfined\"",
            setters(of_pod, &bad)
        );
        out.push(Violation { reason: "seccompProfile".into(), detail });
    }
}

fn sysctls(pod: &Value, out: &mut Vec<Violation>) {
    let set = value::items(&pod["spec"], "securityContext.sysctls").iter();
    let bad: Vec<&str> =
        set.map(|s| text(s, &["name"])).filter(|name| !SYSCTLS.contains(name)).collect();
    if !bad.is_empty() {
        out.push(Violation { reason: "forbidden sysctls".into(), detail: bad.join(", ") });
    }
}

fn host_process(pod: &Value, out: &mut Vec<Violation>) {
    let on = |at: &Value| at["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let (of_pod, bad) = (on(&pod["spec"]), found(pod, on));
    if of_pod || !bad.is_empty() {
        let detail = format!(
            "{} must not set securityContext.windowsOptions.hostProcess=true",
            setters(of_pod, &bad)
        );
        out.push(Violation { reason: "hostProcess".into(), detail });
    }
}
