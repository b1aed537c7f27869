//! Admission policies and their bindings.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_text::select::key;

use super::expressions::{check_conditions, check_mutations, check_validations};
use super::names::{dns_1035_label, push, selector};
use super::tools::{
    fill, has, items, items_mut, keep, keep_meta, object, one_of_if_set, set, text,
};
use super::webhook::check_rule;
use crate::builtin::Strategy;
use crate::builtin::rules::conditions;
use crate::builtin::rules::names::path_segment;
use crate::status::{FieldError, FieldErrors};

/// ValidatingAdmissionPolicy and MutatingAdmissionPolicy.
pub(super) struct Policy {
    pub(super) mutating: bool,
}

impl Strategy for Policy {
    fn qualifies_finalizers(&self) -> bool {
        false
    }

    fn defaults(&self, policy: &mut Value) {
        let spec = object(policy, "spec");
        fill(spec, "failurePolicy", "Fail");
        if has(spec, "matchConstraints") {
            default_match(object(spec, "matchConstraints"));
        }
        if !self.mutating {
            object(policy, "status");
        }
    }

    fn prepare_create(&self, policy: &mut Value) {
        if !self.mutating {
            set(policy, "status", json!({}));
        }
    }

    fn prepare_update(&self, policy: &mut Value, old: &Value) {
        keep(policy, old, "status");
    }

    fn prepare_status(&self, policy: &mut Value, old: &Value) {
        keep(policy, old, "spec");
        keep_meta(policy, old);
    }

    fn validate(&self, policy: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &policy["spec"];
        let failures = ["Fail", "Ignore"];
        one_of_if_set(&mut errors, "spec.failurePolicy", &spec["failurePolicy"], &failures);
        if has(spec, "paramKind") {
            check_param_kind(&mut errors, &spec["paramKind"]);
        }
        match has(spec, "matchConstraints") {
            true => {
                let constraints = &spec["matchConstraints"];
                if items(constraints, "resourceRules").is_empty() {
                    errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
                }
                check_match(&mut errors, "spec.matchConstraints", constraints);
                if self.mutating {
                    check_operations(&mut errors, "spec.matchConstraints", constraints);
                }
            }
            false => errors.push(FieldError::required("spec.matchConstraints", "")),
        }
        let conditions = items(spec, "matchConditions");
        check_conditions(&mut errors, "spec.matchConditions", conditions, has(spec, "paramKind"));
        match self.mutating {
            true => check_mutations(&mut errors, spec),
            false => check_validations(&mut errors, policy),
        }
        errors
    }

    fn validate_update(&self, policy: &Value, old: &Value) -> FieldErrors {
        // What was valid once stays so.
        if policy["spec"] == old["spec"] { FieldErrors::default() } else { self.validate(policy) }
    }

    fn validate_status(&self, policy: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let warnings = items(&policy["status"]["typeChecking"], "expressionWarnings");
        for (at, warning) in warnings.iter().enumerate() {
            for key in ["warning", "fieldRef"] {
                let value = text(warning, key);
                if value.is_empty() || key == "fieldRef" && value.trim().is_empty() {
                    let path = format!("status.typeChecking.expressionWarnings[{at}].{key}");
                    errors.push(FieldError::required(path, ""));
                }
            }
        }
        let list = items(&policy["status"], "conditions");
        conditions::validate(&mut errors, list, "status.conditions");
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn reset_part_fields(&self, subresource: &str) -> &'static [&'static str] {
        match subresource {
            "status" if self.mutating => &["spec"],
            "status" => &["spec", "metadata"],
            _ => &[],
        }
    }
}

/// ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding.
pub(super) struct Binding {
    pub(super) mutating: bool,
}

impl Strategy for Binding {
    fn qualifies_finalizers(&self) -> bool {
        false
    }

    fn defaults(&self, binding: &mut Value) {
        let spec = object(binding, "spec");
        if has(spec, "matchResources") {
            default_match(object(spec, "matchResources"));
        }
    }

    fn validate(&self, binding: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &binding["spec"];
        let policy = text(spec, "policyName");
        match policy.is_empty() {
            true => errors.push(FieldError::required("spec.policyName", "")),
            false => push(&mut errors, "spec.policyName", policy, key::subdomain(policy)),
        }
        if has(spec, "paramRef") {
            check_param_ref(&mut errors, &spec["paramRef"]);
        }
        if has(spec, "matchResources") {
            check_match(&mut errors, "spec.matchResources", &spec["matchResources"]);
            if self.mutating {
                check_operations(&mut errors, "spec.matchResources", &spec["matchResources"]);
            }
        }
        if !self.mutating {
            check_actions(&mut errors, items(spec, "validationActions"));
        }
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }
}

fn default_match(resources: &mut Value) {
    fill(resources, "matchPolicy", "Equivalent");
    fill(resources, "namespaceSelector", json!({}));
    fill(resources, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in items_mut(resources, list) {
            fill(rule, "scope", "*");
        }
    }
}

fn check_match(errors: &mut FieldErrors, path: &str, resources: &Value) {
    let policies = ["Equivalent", "Exact"];
    one_of_if_set(errors, &format!("{path}.matchPolicy"), &resources["matchPolicy"], &policies);
    for key in ["namespaceSelector", "objectSelector"] {
        selector(errors, &format!("{path}.{key}"), &resources[key]);
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for (at, rule) in items(resources, list).iter().enumerate() {
            let path = format!("{path}.{list}[{at}]");
            let mut names = BTreeSet::new();
            for (at, name) in items(rule, "resourceNames").iter().enumerate() {
                let path = format!("{path}.resourceNames[{at}]");
                let text = name.as_str().unwrap_or_default();
                push(errors, &path, text, path_segment(text));
                if !names.insert(text) {
                    errors.push(FieldError::duplicate(path, name));
                }
            }
            check_rule(errors, &path, rule);
        }
    }
}

/// Only what makes or changes objects can be changed on its way.
fn check_operations(errors: &mut FieldErrors, path: &str, resources: &Value) {
    let all = ["*", "CONNECT", "CREATE", "UPDATE"];
    let rules = items(resources, "resourceRules").iter();
    for operation in rules.flat_map(|rule| items(rule, "operations")) {
        if !operation.as_str().is_some_and(|operation| all.contains(&operation)) {
            let path = format!("{path}.resourceRules.operations");
            errors.push(FieldError::not_supported(path, operation, &all));
        }
    }
}

fn check_param_kind(errors: &mut FieldErrors, kind: &Value) {
    let (path, full) = ("spec.paramKind.apiVersion", text(kind, "apiVersion"));
    let mut parts = full.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (_, _, Some(_)) => {
            let why = format!("unexpected GroupVersion string: {full}");
            errors.push(FieldError::invalid_str(path, full, why));
        }
        _ if full.is_empty() => errors.push(FieldError::required(path, "")),
        _ => {
            let (group, version) = full.split_once('/').unwrap_or(("", full));
            if !group.is_empty() {
                push_joined(errors, path, group, "", &key::subdomain(group));
            }
            match version.is_empty() {
                true => {
                    let why = "version must be specified";
                    errors.push(FieldError::invalid_str(path, full, why));
                }
                false => push_joined(errors, path, version, "", &dns_1035_label(version)),
            }
        }
    }
    let (path, kind) = ("spec.paramKind.kind", text(kind, "kind"));
    match kind.is_empty() {
        true => errors.push(FieldError::required(path, "")),
        false => {
            let head = "may have mixed case, but should otherwise match: ";
            push_joined(errors, path, kind, head, &dns_1035_label(&kind.to_lowercase()));
        }
    }
}

fn push_joined(errors: &mut FieldErrors, path: &str, value: &str, head: &str, why: &[String]) {
    if !why.is_empty() {
        errors.push(FieldError::invalid_str(path, value, format!("{head}{}", why.join(","))));
    }
}

fn check_param_ref(errors: &mut FieldErrors, reference: &Value) {
    let path = "spec.paramRef";
    let (name, selected) = (text(reference, "name"), has(reference, "selector"));
    let both = "name and selector are mutually exclusive";
    if !name.is_empty() {
        push(errors, &format!("{path}.name"), name, path_segment(name));
        if selected {
            errors.push(FieldError::forbidden(format!("{path}.name"), both));
        }
    }
    if selected {
        selector(errors, &format!("{path}.selector"), &reference["selector"]);
        if !name.is_empty() {
            errors.push(FieldError::forbidden(format!("{path}.selector"), both));
        }
    }
    if name.is_empty() && !selected {
        errors.push(FieldError::required(path, "one of name or selector must be specified"));
    }
    let action = format!("{path}.parameterNotFoundAction");
    match text(reference, "parameterNotFoundAction") {
        "" => errors.push(FieldError::required(action, "")),
        "Allow" | "Deny" => {}
        other => {
            errors.push(FieldError::not_supported(action, &other.into(), &["Deny", "Allow"]));
        }
    }
}

fn check_actions(errors: &mut FieldErrors, actions: &[Value]) {
    let path = "spec.validationActions";
    if actions.is_empty() {
        errors.push(FieldError::required(path, "at least one validation action is required"));
        return;
    }
    let all = ["Audit", "Deny", "Warn"];
    let mut seen = BTreeSet::new();
    for (at, action) in actions.iter().enumerate() {
        let name = action.as_str().unwrap_or_default();
        if !all.contains(&name) {
            errors.push(FieldError::not_supported(format!("{path}[{at}]"), action, &all));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}[{at}]"), action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure \
                   information in the API response and headers serves no purpose)";
        let shown = Value::Array(actions.to_vec());
        errors.push(FieldError::invalid(path, &shown, why));
    }
}
