//! Security contexts of pods and containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod_container::{descending_path, id};
use crate::builtin::rules::value::{flag, has, int, items, text};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const SYSCTL_MAX: usize = 253;

/// Problems of the security context of a pod.
pub fn of_pod(errors: &mut FieldErrors, spec: &Value, field: &str) {
    let context = &spec["securityContext"];
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(errors, int(context, key), &format!("{field}.{key}"));
    }
    for (i, group) in items(context, "supplementalGroups").iter().enumerate() {
        id(errors, group.as_i64(), &format!("{field}.supplementalGroups[{i}]"));
    }
    if flag(spec, "shareProcessNamespace") && flag(spec, "hostPID") {
        errors.push(FieldError::invalid(
            format!("{field}.shareProcessNamespace"),
            &true.into(),
            "ShareProcessNamespace and HostPID cannot both be enabled",
        ));
    }
    sysctls(errors, context, &format!("{field}.sysctls"));
    one_of(errors, context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], field);
    seccomp(errors, &context["seccompProfile"], &format!("{field}.seccompProfile"));
    app_armor(errors, &context["appArmorProfile"], &format!("{field}.appArmorProfile"));
    one_of(errors, context, "supplementalGroupsPolicy", &["Merge", "Strict"], field);
    one_of(errors, context, "seLinuxChangePolicy", &["Recursive"], field);
}

/// Problems of the security context of a container.
pub fn of_container(errors: &mut FieldErrors, context: &Value, spec: &Value, field: &str) {
    for key in ["runAsUser", "runAsGroup"] {
        id(errors, int(context, key), &format!("{field}.{key}"));
    }
    one_of(errors, context, "procMount", &["Default", "Unmasked"], field);
    if text(context, "procMount") == "Unmasked" && spec["hostUsers"] != false {
        errors.push(FieldError::invalid_str(
            format!("{field}.procMount"),
            "Unmasked",
            "`hostUsers` must be false to use `Unmasked`",
        ));
    }
    seccomp(errors, &context["seccompProfile"], &format!("{field}.seccompProfile"));
    if context["allowPrivilegeEscalation"] == false {
        if context["privileged"] == true {
            errors.push(FieldError::raw(
                FieldErrorKind::Invalid,
                field,
                shown(context),
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ));
        }
        let added = items(context, "capabilities.add");
        if added.iter().any(|c| c == "CAP_SYS_ADMIN") {
            errors.push(FieldError::raw(
                FieldErrorKind::Invalid,
                field,
                shown(context),
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` \
                 CAP_SYS_ADMIN",
            ));
        }
    }
    app_armor(errors, &context["appArmorProfile"], &format!("{field}.appArmorProfile"));
}

/// The context as the real server shows it: its own struct, with Go's field names.
fn shown(context: &Value) -> String {
    let part = |key: &str, fields: &[(&str, &str)]| match context[key].is_object() {
        true => named_fields(&context[key], fields),
        false => "null".to_owned(),
    };
    let capabilities = part("capabilities", &[("Add", "add"), ("Drop", "drop")]);
    let labels = [("User", "user"), ("Role", "role"), ("Type", "type"), ("Level", "level")];
    let profile = [("Type", "type"), ("LocalhostProfile", "localhostProfile")];
    let windows = [
        ("GMSACredentialSpecName", "gmsaCredentialSpecName"),
        ("GMSACredentialSpec", "gmsaCredentialSpec"),
        ("RunAsUserName", "runAsUserName"),
        ("HostProcess", "hostProcess"),
    ];
    let plain = named_fields(
        context,
        &[
            ("RunAsUser", "runAsUser"),
            ("RunAsGroup", "runAsGroup"),
            ("RunAsNonRoot", "runAsNonRoot"),
            ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
            ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
            ("ProcMount", "procMount"),
        ],
    );
    format!(
        "{{\"Capabilities\":{capabilities},\"Privileged\":{},\"SELinuxOptions\":{},\
         \"WindowsOptions\":{},{},\"SeccompProfile\":{},\"AppArmorProfile\":{}}}",
        context["privileged"],
        part("seLinuxOptions", &labels),
        part("windowsOptions", &windows),
        plain.trim_matches(['{', '}']),
        part("seccompProfile", &profile),
        part("appArmorProfile", &profile),
    )
}

fn named_fields(value: &Value, fields: &[(&str, &str)]) -> String {
    let each = fields.iter().map(|(name, key)| format!("\"{name}\":{}", value[*key]));
    format!("{{{}}}", each.collect::<Vec<_>>().join(","))
}

fn one_of(errors: &mut FieldErrors, context: &Value, key: &str, all: &[&str], field: &str) {
    if let Some(value) = context[key].as_str()
        && !all.contains(&value)
    {
        errors.push(FieldError::not_supported(format!("{field}.{key}"), &value.into(), all));
    }
}

fn sysctls(errors: &mut FieldErrors, context: &Value, field: &str) {
    let mut seen = BTreeSet::new();
    for (i, sysctl) in items(context, "sysctls").iter().enumerate() {
        let name = text(sysctl, "name");
        let field = format!("{field}[{i}].name");
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if name.len() > SYSCTL_MAX || !is_sysctl(name) {
            errors.push(FieldError::invalid_str(
                field,
                name,
                "must have at most 253 characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            ));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(field, &name.into()));
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    name.split(['.', '/']).all(|part| {
        let alnum = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let ends = part.bytes().next().is_some_and(alnum) && part.bytes().last().is_some_and(alnum);
        ends && part.bytes().all(|b| alnum(b) || b == b'-' || b == b'_')
    })
}

fn seccomp(errors: &mut FieldErrors, profile: &Value, field: &str) {
    if profile.is_null() {
        return;
    }
    let kind = text(profile, "type");
    let kind_field = format!("{field}.type");
    if kind.is_empty() {
        let why = "type is required when seccompProfile is set";
        errors.push(FieldError::required(kind_field, why));
    } else if !PROFILES.contains(&kind) {
        errors.push(FieldError::not_supported(kind_field, &kind.into(), &PROFILES));
    }
    let local = format!("{field}.localhostProfile");
    match (kind, profile["localhostProfile"].as_str()) {
        ("Localhost", None) => {
            let why = "must be set when seccomp type is Localhost";
            errors.push(FieldError::required(local, why));
        }
        ("Localhost", Some(path)) => descending_path(errors, path, &local),
        (_, Some(path)) => {
            let shown = serde_json::json!({"Type": kind, "LocalhostProfile": path});
            let shown =
                crate::builtin::rules::value::show_ordered(&shown, &["Type", "LocalhostProfile"]);
            errors.push(FieldError::raw(
                FieldErrorKind::Invalid,
                local,
                shown,
                "can only be set when seccomp type is Localhost",
            ));
        }
        (_, None) => {}
    }
}

fn app_armor(errors: &mut FieldErrors, profile: &Value, field: &str) {
    if profile.is_null() {
        return;
    }
    let local = format!("{field}.localhostProfile");
    let required = "must be set when AppArmor type is Localhost";
    match (text(profile, "type"), profile["localhostProfile"].as_str()) {
        ("Localhost", None) => errors.push(FieldError::required(local, required)),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                let why = "must not be padded with whitespace";
                errors.push(FieldError::invalid_str(&*local, name, why));
            } else if name.is_empty() {
                errors.push(FieldError::required(&*local, required));
            }
            if name.len() > 4095 {
                errors.push(FieldError::too_long(local, 4095));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            let why = "can only be set when AppArmor type is Localhost";
            errors.push(FieldError::invalid_str(local, name, why));
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => {
            let why = "type is required when appArmorProfile is set";
            errors.push(FieldError::required(format!("{field}.type"), why));
        }
        (other, _) => {
            let field = format!("{field}.type");
            errors.push(FieldError::not_supported(field, &other.into(), &PROFILES));
        }
    }
}

/// Problems of the operating system a pod is made for.
pub fn os(errors: &mut FieldErrors, spec: &Value, field: &str) {
    if !has(spec, "os") {
        return;
    }
    match text(&spec["os"], "name") {
        "" => errors.push(FieldError::required(format!("{field}.name"), "")),
        "linux" | "windows" => {}
        other => {
            errors.push(FieldError::not_supported(field, &other.into(), &["linux", "windows"]));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(spec: Value) -> Vec<String> {
        let mut errors = FieldErrors::default();
        of_pod(&mut errors, &spec, "sc");
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn sysctls_have_names_once() {
        let spec = json!({"securityContext": {"sysctls": [
            {"name": "net.ipv4.ip_forward"}, {"name": "net.ipv4.ip_forward"}, {}, {"name": "A"},
        ]}});
        let shown = problems(spec);
        assert_eq!(shown[0], "sc.sysctls[1].name: Duplicate value: \"net.ipv4.ip_forward\"");
        assert_eq!(shown[1], "sc.sysctls[2].name: Required value");
        assert!(
            shown[2].starts_with("sc.sysctls[3].name: Invalid value: \"A\": must have at most")
        );
    }

    #[test]
    fn a_seccomp_profile_needs_a_known_type() {
        assert_eq!(
            problems(json!({"securityContext": {"seccompProfile": {}}})),
            ["sc.seccompProfile.type: Required value: type is required when seccompProfile is set"]
        );
        let spec = json!({"securityContext": {"seccompProfile": {"type": "Localhost"}}});
        assert_eq!(
            problems(spec),
            ["sc.seccompProfile.localhostProfile: Required value: must be set when seccomp type \
              is Localhost"]
        );
    }

    #[test]
    fn policies_have_to_be_known() {
        let shown = problems(json!({"securityContext": {"fsGroupChangePolicy": ""}}));
        assert_eq!(
            shown,
            ["sc.fsGroupChangePolicy: Unsupported value: \"\": supported values: \"Always\", \
              \"OnRootMismatch\""]
        );
    }
}
