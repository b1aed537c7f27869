//! Roles and their bindings.

use serde_json::{Value, json};

use super::names::{dns_subdomain, push, selector};
use super::tools::{drop_empty, fill_text, has, items, items_mut, object, set, text};
use crate::builtin::{NameRule, Strategy};
use crate::status::{FieldError, FieldErrors};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Role and ClusterRole.
pub(super) struct Role {
    pub(super) cluster: bool,
}

impl Strategy for Role {
    fn defaults(&self, role: &mut Value) {
        if items(role, "rules").is_empty() {
            set(role, "rules", Value::Null);
        }
        for rule in items_mut(role, "rules") {
            for key in ["apiGroups", "resources", "resourceNames", "nonResourceURLs"] {
                drop_empty(rule, key);
            }
            super::tools::fill(rule, "verbs", Value::Null);
        }
    }

    fn validate(&self, role: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        for (at, rule) in items(role, "rules").iter().enumerate() {
            check_rule(&mut errors, &format!("rules[{at}]"), rule, !self.cluster);
        }
        if self.cluster && has(role, "aggregationRule") {
            let selectors = items(&role["aggregationRule"], "clusterRoleSelectors");
            let path = "aggregationRule.clusterRoleSelectors";
            if selectors.is_empty() {
                let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
                errors.push(FieldError::required(path, why));
            }
            for (at, one) in selectors.iter().enumerate() {
                let before = errors.len();
                selector(&mut errors, &format!("{path}[{at}]"), one);
                if errors.len() > before {
                    let why = "invalid label selector.";
                    errors.push(FieldError::invalid(format!("{path}[{at}]"), &Value::Null, why));
                }
            }
        }
        errors
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn grants_rights(&self) -> bool {
        true
    }
}

/// RoleBinding and ClusterRoleBinding.
pub(super) struct Binding {
    pub(super) cluster: bool,
}

impl Strategy for Binding {
    fn defaults(&self, binding: &mut Value) {
        fill_text(object(binding, "roleRef"), "apiGroup", GROUP);
        for subject in items_mut(binding, "subjects") {
            match text(subject, "kind") {
                "User" | "Group" => fill_text(subject, "apiGroup", GROUP),
                _ => drop_empty(subject, "apiGroup"),
            }
        }
        drop_empty(binding, "subjects");
    }

    fn validate(&self, binding: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let role = &binding["roleRef"];
        if text(role, "apiGroup") != GROUP {
            errors.push(FieldError::not_supported("roleRef.apiGroup", &role["apiGroup"], &[GROUP]));
        }
        let kinds: &[&str] = if self.cluster { &["ClusterRole"] } else { &["Role", "ClusterRole"] };
        if !kinds.contains(&text(role, "kind")) {
            let kind = text(role, "kind").into();
            errors.push(FieldError::not_supported("roleRef.kind", &kind, kinds));
        }
        let name = text(role, "name");
        match name.is_empty() {
            true => errors.push(FieldError::required("roleRef.name", "")),
            false => push(&mut errors, "roleRef.name", name, path_segment(name)),
        }
        for (at, subject) in items(binding, "subjects").iter().enumerate() {
            check_subject(&mut errors, &format!("subjects[{at}]"), subject, self.cluster);
        }
        errors
    }

    fn validate_update(&self, binding: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(binding);
        if binding["roleRef"] != old["roleRef"] {
            let role = &binding["roleRef"];
            let shown = json!({
                "APIGroup": text(role, "apiGroup"),
                "Kind": text(role, "kind"),
                "Name": text(role, "name"),
            });
            errors.push(FieldError::invalid("roleRef", &shown, "cannot change roleRef"));
        }
        errors
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn grants_rights(&self) -> bool {
        true
    }
}

fn check_rule(errors: &mut FieldErrors, path: &str, rule: &Value, namespaced: bool) {
    if items(rule, "verbs").is_empty() {
        let why = "verbs must contain at least one value";
        errors.push(FieldError::required(format!("{path}.verbs"), why));
    }
    let urls = format!("{path}.nonResourceURLs");
    if !items(rule, "nonResourceURLs").is_empty() {
        let shown = &rule["nonResourceURLs"];
        if namespaced {
            let why = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(&urls, shown, why));
        }
        let others = ["apiGroups", "resources", "resourceNames"];
        if others.iter().any(|key| !items(rule, key).is_empty()) {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(&urls, shown, why));
        }
        return;
    }
    if items(rule, "apiGroups").is_empty() {
        let why = "resource rules must supply at least one api group";
        errors.push(FieldError::required(format!("{path}.apiGroups"), why));
    }
    if items(rule, "resources").is_empty() {
        let why = "resource rules must supply at least one resource";
        errors.push(FieldError::required(format!("{path}.resources"), why));
    }
}

fn check_subject(errors: &mut FieldErrors, path: &str, subject: &Value, cluster: bool) {
    let name = text(subject, "name");
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let group = text(subject, "apiGroup");
    let mut need_group = |wanted: &str| {
        if group != wanted {
            let path = format!("{path}.apiGroup");
            errors.push(FieldError::not_supported(path, &group.into(), &[wanted]));
        }
    };
    match text(subject, "kind") {
        "ServiceAccount" => {
            need_group("");
            if !name.is_empty() {
                push(errors, &format!("{path}.name"), name, dns_subdomain(name));
            }
            if cluster && text(subject, "namespace").is_empty() {
                errors.push(FieldError::required(format!("{path}.namespace"), ""));
            }
        }
        "User" | "Group" => need_group(GROUP),
        other => errors.push(FieldError::not_supported(
            format!("{path}.kind"),
            &other.into(),
            &["ServiceAccount", "User", "Group"],
        )),
    }
}

fn path_segment(name: &str) -> Vec<String> {
    match name {
        "." | ".." => return vec![format!("may not be '{name}'")],
        _ => {}
    }
    ["/", "%"]
        .iter()
        .filter(|part| name.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}
