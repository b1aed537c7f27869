//! FlowSchema.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::names::{dns_label, dns_subdomain, push};
use super::tools::{has, items, keep, keep_meta, number, object, set, text};
use crate::builtin::Strategy;
use crate::status::{FieldError, FieldErrors};

/// FlowSchema.
pub(super) struct FlowSchema;

impl Strategy for FlowSchema {
    fn defaults(&self, schema: &mut Value) {
        let spec = object(schema, "spec");
        if number(spec, "matchingPrecedence") == 0 {
            set(spec, "matchingPrecedence", 1000);
        }
        object(schema, "status");
    }

    fn prepare_create(&self, schema: &mut Value) {
        set(schema, "status", json!({}));
    }

    fn prepare_update(&self, schema: &mut Value, old: &Value) {
        keep(schema, old, "status");
    }

    fn prepare_status(&self, schema: &mut Value, old: &Value) {
        keep(schema, old, "spec");
        keep_meta(schema, old);
    }

    fn validate(&self, schema: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &schema["spec"];
        check_precedence(&mut errors, text(&schema["metadata"], "name"), spec);
        if has(spec, "distinguisherMethod") {
            let kind = text(&spec["distinguisherMethod"], "type");
            if !["ByNamespace", "ByUser"].contains(&kind) {
                errors.push(FieldError::not_supported(
                    "spec.distinguisherMethod.type",
                    &json!({"Type": kind}),
                    &["ByNamespace", "ByUser"],
                ));
            }
        }
        let path = "spec.priorityLevelConfiguration.name";
        match text(&spec["priorityLevelConfiguration"], "name") {
            "" => errors.push(FieldError::required(path, "must reference a priority level")),
            name => push(&mut errors, path, name, dns_subdomain(name)),
        }
        for (at, rule) in items(spec, "rules").iter().enumerate() {
            check_rule(&mut errors, &format!("spec.rules[{at}]"), rule);
        }
        errors
    }

    fn validate_update(&self, schema: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(schema);
        let name = text(&schema["metadata"], "name");
        if ["exempt", "catch-all"].contains(&name) && schema["spec"] != old["spec"] {
            let why = format!("spec of '{name}' must equal the fixed value");
            errors.push(FieldError::invalid("spec", &schema["spec"], why));
        }
        errors
    }

    fn validate_status(&self, schema: &Value, _: &Value) -> FieldErrors {
        condition_types(schema)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn reset_part_fields(&self, subresource: &str) -> &'static [&'static str] {
        if subresource == "status" { &["spec", "metadata"] } else { &[] }
    }
}

fn check_precedence(errors: &mut FieldErrors, name: &str, spec: &Value) {
    let precedence = number(spec, "matchingPrecedence");
    let why = match precedence {
        ..=0 => "must be a positive value",
        10_001.. => "must not be greater than 10000",
        1 if name != "exempt" => "only the schema named 'exempt' may have matchingPrecedence 1",
        _ => return,
    };
    errors.push(FieldError::invalid("spec.matchingPrecedence", &precedence.into(), why));
}

fn check_rule(errors: &mut FieldErrors, path: &str, rule: &Value) {
    let subjects = items(rule, "subjects");
    if subjects.is_empty() {
        let why = "subjects must contain at least one value";
        errors.push(FieldError::required(format!("{path}.subjects"), why));
    }
    for (at, subject) in subjects.iter().enumerate() {
        check_subject(errors, &format!("{path}.subjects[{at}]"), subject);
    }
    let (resources, paths) = (items(rule, "resourceRules"), items(rule, "nonResourceRules"));
    if resources.is_empty() && paths.is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(path, why));
    }
    for (at, rule) in resources.iter().enumerate() {
        check_resources(errors, &format!("{path}.resourceRules[{at}]"), rule);
    }
    for (at, rule) in paths.iter().enumerate() {
        check_paths(errors, &format!("{path}.nonResourceRules[{at}]"), rule);
    }
}

fn check_subject(errors: &mut FieldErrors, path: &str, subject: &Value) {
    let kinds = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = text(subject, "kind");
    let Some((_, own)) = kinds.iter().find(|(name, _)| *name == kind) else {
        let path = format!("{path}.kind");
        let known = ["Group", "ServiceAccount", "User"];
        errors.push(FieldError::not_supported(path, &kind.into(), &known));
        return;
    };
    let at = format!("{path}.{own}");
    match has(subject, own) {
        false => {
            let why = format!("{own} is required when subject kind is '{kind}'");
            errors.push(FieldError::required(at, why));
        }
        true => {
            let (name, account) = (text(&subject[own], "name"), kind == "ServiceAccount");
            match name {
                "" => errors.push(FieldError::required(format!("{at}.name"), "")),
                "*" => {}
                name if account => {
                    push(errors, &format!("{at}.name"), name, dns_subdomain(name));
                }
                _ => {}
            }
            match text(&subject[own], "namespace") {
                _ if !account => {}
                "" => {
                    let why = "must specify namespace for service account";
                    errors.push(FieldError::required(format!("{at}.namespace"), why));
                }
                name => push(errors, &format!("{at}.namespace"), name, dns_label(name)),
            }
        }
    }
    for (name, key) in kinds.iter().filter(|(name, key)| *name != kind && has(subject, key)) {
        let why = format!("{key} is forbidden when subject kind is not '{name}'");
        errors.push(FieldError::forbidden(format!("{path}.{key}"), why));
    }
}

const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

fn check_verbs(errors: &mut FieldErrors, path: &str, rule: &Value) {
    let verbs = items(rule, "verbs");
    if list_of_all(errors, path, rule, "verbs", "verbs must contain at least one value", "verbs") {
        return;
    }
    let known = |verb: &Value| verb.as_str().is_some_and(|verb| VERBS.contains(&verb));
    if !verbs.is_empty() && !verbs.iter().all(known) {
        let path = format!("{path}.verbs");
        errors.push(FieldError::not_supported(path, &rule["verbs"], &VERBS));
    }
}

/// Checks that a list is not empty, and that `*` is its only item. Returns `true` if it has `*`.
fn list_of_all(
    errors: &mut FieldErrors,
    path: &str,
    rule: &Value,
    key: &str,
    missing: &str,
    others: &str,
) -> bool {
    let list = items(rule, key);
    if list.is_empty() && !missing.is_empty() {
        errors.push(FieldError::required(format!("{path}.{key}"), missing));
    }
    let all = list.iter().any(|item| item == "*");
    if all && list.len() > 1 {
        let why = format!("if '*' is present, must not specify other {others}");
        errors.push(FieldError::invalid(format!("{path}.{key}"), &rule[key], why));
    }
    all
}

fn check_resources(errors: &mut FieldErrors, path: &str, rule: &Value) {
    check_verbs(errors, path, rule);
    let missing = "resource rules must supply at least one api group";
    list_of_all(errors, path, rule, "apiGroups", missing, "api groups");
    let missing = "resource rules must supply at least one resource";
    list_of_all(errors, path, rule, "resources", missing, "resources");
    let missing = match rule["clusterScope"].as_bool().unwrap_or_default() {
        true => "",
        false => "resource rules that are not cluster scoped must supply at least one namespace",
    };
    if list_of_all(errors, path, rule, "namespaces", missing, "namespaces") {
        return;
    }
    for (at, name) in items(rule, "namespaces").iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        let problems = dns_label(name)
            .into_iter()
            .map(|why| format!("each member of this list must be '*' or a DNS-1123 label; {why}"));
        push(errors, &format!("{path}.namespaces[{at}]"), name, problems);
    }
}

fn check_paths(errors: &mut FieldErrors, path: &str, rule: &Value) {
    check_verbs(errors, path, rule);
    let missing = "nonResourceURLs must contain at least one value";
    if list_of_all(errors, path, rule, "nonResourceURLs", missing, "non-resource URLs") {
        return;
    }
    for (at, url) in items(rule, "nonResourceURLs").iter().enumerate() {
        let url = url.as_str().unwrap_or_default();
        let stars = url.matches('*').count();
        let why = match url {
            "" => "must not be empty",
            "/" => continue,
            url if !url.starts_with('/') => "must start with slash",
            url if url.contains(' ') => "must not contain white-space",
            url if url.contains("//") => "must not contain double slash",
            url if stars > 1 || (stars == 1 && !url.ends_with("/*")) => {
                "wildcard can only do suffix matching"
            }
            _ => continue,
        };
        errors.push(FieldError::invalid_str(format!("{path}.nonResourceURLs[{at}]"), url, why));
    }
}

/// Conditions need a type each, and no two the same.
pub(super) fn condition_types(object: &Value) -> FieldErrors {
    let (mut errors, mut seen) = (FieldErrors::default(), BTreeSet::new());
    for (at, condition) in items(&object["status"], "conditions").iter().enumerate() {
        let (path, kind) = (format!("status.conditions[{at}].type"), text(condition, "type"));
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(&path, &kind.into()));
        }
        if kind.is_empty() {
            errors.push(FieldError::required(path, ""));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(FieldError::to_string).collect()
    }

    #[test]
    fn rules_of_a_schema_need_subjects_and_known_verbs() {
        let schema = json!({"metadata": {"name": "x"}, "spec": {
            "matchingPrecedence": 1,
            "priorityLevelConfiguration": {"name": "p"},
            "rules": [{
                "subjects": [{"kind": "User", "group": {"name": "g"}}],
                "resourceRules": [{"verbs": ["eat"], "apiGroups": ["*"], "resources": ["*", "pods"]}],
            }, {}],
        }});
        assert_eq!(
            texts(&FlowSchema.validate(&schema)),
            [
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may \
                 have matchingPrecedence 1",
                "spec.rules[0].subjects[0].user: Required value: user is required when subject \
                 kind is 'User'",
                "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject \
                 kind is not 'Group'",
                "spec.rules[0].resourceRules[0].verbs: Unsupported value: [\"eat\"]: supported \
                 values: \"create\", \"delete\", \"deletecollection\", \"get\", \"list\", \
                 \"patch\", \"proxy\", \"update\", \"watch\"",
                "spec.rules[0].resourceRules[0].resources: Invalid value: [\"*\",\"pods\"]: if \
                 '*' is present, must not specify other resources",
                "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that \
                 are not cluster scoped must supply at least one namespace",
                "spec.rules[1].subjects: Required value: subjects must contain at least one value",
                "spec.rules[1]: Required value: at least one of resourceRules and \
                 nonResourceRules has to be non-empty",
            ]
        );
    }
}
