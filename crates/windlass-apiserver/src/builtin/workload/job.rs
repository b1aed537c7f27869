//! Jobs.

use serde_json::{Value, json};

use super::{job_policy, job_status, shared, spec_defaults, template};
use crate::builtin::Strategy;
use crate::builtin::rules::value::{
    copy_field, default_to, entries, flag, has, int, items, items_mut, object_mut, text,
};
use crate::builtin::rules::{IMMUTABLE, each_invalid, immutable, names, selector};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// The rules of `Job`.
pub struct Jobs;

const UID: &str = "batch.kubernetes.io/controller-uid";
const NAME: &str = "batch.kubernetes.io/job-name";
const LEGACY_UID: &str = "controller-uid";
const LEGACY_NAME: &str = "job-name";

impl Strategy for Jobs {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object_mut(object, "spec") else { return };
        job_spec_defaults(spec);
        if !has(spec, "completions") && !has(spec, "parallelism") {
            spec["completions"] = json!(1);
        }
        default_to(spec, "parallelism", 1);
        let backoff = if has(spec, "backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
        default_to(spec, "backoffLimit", backoff);
        default_to(spec, "completionMode", "NonIndexed");
        default_to(spec, "suspend", false);
        default_to(spec, "manualSelector", false);
        let replacement =
            if has(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
        default_to(spec, "podReplacementPolicy", replacement);
        // A new job takes its labels once the template is marked with its uid.
        if !object["metadata"]["uid"].is_null() {
            labels_from_template(object);
        }
        shared::status_with(object, &[]);
        shared::condition_times(object, &["lastProbeTime", "lastTransitionTime"]);
    }

    fn prepare_create(&self, object: &mut Value) {
        if !flag(object, "spec.manualSelector") {
            generate_selector(object);
        }
        shared::start(object, json!({}));
        labels_from_template(object);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        let changed = object["spec"] != old["spec"];
        shared::keep(object, old, changed);
        labels_from_template(object);
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        shared::keep_spec(object, old);
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        generated_selector(&mut errors, object);
        validate_spec(&mut errors, &object["spec"]);
        indexed_name(&mut errors, object);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        // The real server looks at it as a new job, and then as one that changes.
        generated_selector(&mut errors, object);
        validate_spec(&mut errors, &object["spec"]);
        validate_spec(&mut errors, &object["spec"]);
        spec_update(&mut errors, &object["spec"], old);
        errors
    }

    fn validate_status(&self, object: &Value, old: &Value) -> FieldErrors {
        job_status::validate(object, old)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut out = Vec::new();
        let why = names::dns_label(text(object, "metadata.name"));
        if old.is_none() && !why.is_empty() {
            out.push(format!(
                "metadata.name: this is used in Pod names and hostnames, which can result in \
                 surprising behavior; a DNS label is recommended: [{}]",
                why.join(" ")
            ));
        }
        if old.is_none_or(|old| old["spec"]["template"] != object["spec"]["template"]) {
            let template = &object["spec"]["template"];
            out.extend(super::pod::spec_warnings(template, "spec.template"));
        }
        out
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn selectable_fields(&self, object: &Value) -> Option<Vec<(&'static str, String)>> {
        let succeeded = int(object, "status.succeeded").unwrap_or_default();
        Some(vec![("status.successful", succeeded.to_string())])
    }

    fn orphans_dependents(&self) -> bool {
        true
    }

    fn deletion_warning(&self) -> Option<&'static str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set \
             propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
             suppress this warning",
        )
    }

    fn unselectable(&self, field: &str) -> String {
        format!("field label \"{field}\" not supported for Job")
    }
}

/// Defaults that a job's spec has even inside a cron job.
pub fn job_spec_defaults(spec: &mut Value) {
    spec_defaults::template(spec);
    if let Some(policy) = spec.get_mut("podFailurePolicy") {
        for rule in items_mut(policy, "rules") {
            for pattern in items_mut(rule, "onPodConditions") {
                default_to(pattern, "status", "True");
            }
        }
    }
}

/// The rules of the spec of a job or job template, apart from its selector.
pub fn validate_spec_at(errors: &mut FieldErrors, spec: &Value, field: &str) {
    shared::all_non_negative(
        errors,
        spec,
        field,
        &[
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
        ],
    );
    if has(spec, "maxFailedIndexes") && !has(spec, "backoffLimitPerIndex") {
        errors.push(FieldError::required(
            format!("{field}.backoffLimitPerIndex"),
            "when maxFailedIndexes is specified",
        ));
    }
    if let Some(name) = spec["managedBy"].as_str() {
        managed_by(errors, name, &format!("{field}.managedBy"));
    }
    completion_mode(errors, spec, field);
    job_policy::validate(errors, spec, field);
    replacement_policy(errors, spec, field);
    template::validate(errors, &spec["template"], &format!("{field}.template"));
    let field = format!("{field}.template.spec.restartPolicy");
    let policy = &spec["template"]["spec"]["restartPolicy"];
    match policy.as_str().unwrap_or_default() {
        "" | "Always" => {
            errors.push(FieldError::required(field, "valid values: \"OnFailure\", \"Never\""));
        }
        "OnFailure" if has(spec, "podFailurePolicy") => errors.push(FieldError::invalid(
            field,
            policy,
            "only \"Never\" is supported when podFailurePolicy is specified",
        )),
        "OnFailure" | "Never" => {}
        _ => errors.push(FieldError::not_supported(field, policy, &["OnFailure", "Never"])),
    }
}

fn completion_mode(errors: &mut FieldErrors, spec: &Value, field: &str) {
    let mode = &spec["completionMode"];
    let indexed = mode == "Indexed";
    if !mode.is_null() && !indexed && mode != "NonIndexed" {
        let field = format!("{field}.completionMode");
        errors.push(FieldError::not_supported(field, mode, &["NonIndexed", "Indexed"]));
    }
    if indexed {
        if !has(spec, "completions") {
            let why = "when completion mode is Indexed";
            errors.push(FieldError::required(format!("{field}.completions"), why));
        }
        if let Some(count) = int(spec, "parallelism").filter(|n| *n > 100_000) {
            errors.push(FieldError::invalid(
                format!("{field}.parallelism"),
                &count.into(),
                "must be less than or equal to 100000 when completion mode is Indexed",
            ));
        }
        if let (Some(failed), Some(completions)) =
            (int(spec, "maxFailedIndexes"), int(spec, "completions"))
            && failed > completions
        {
            errors.push(FieldError::invalid(
                format!("{field}.maxFailedIndexes"),
                &failed.into(),
                "must be less than or equal to completions",
            ));
        }
        many_indexes(errors, spec, field);
    } else if mode.is_null() || mode == "NonIndexed" {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if has(spec, key) {
                errors.push(FieldError::invalid(
                    format!("{field}.{key}"),
                    &spec[key],
                    "requires indexed completion mode",
                ));
            }
        }
    }
}

/// Bounds that keep the lists of indexes in the status of a job short.
fn many_indexes(errors: &mut FieldErrors, spec: &Value, field: &str) {
    const MANY: i64 = 100_000;
    const FEW: i64 = 10_000;
    let over = |key: &str, most: i64, rest: &str| {
        let count = int(spec, key).filter(|n| *n > most)?;
        let why = format!("must be less than or equal to {most}{rest}");
        Some(FieldError::invalid(format!("{field}.{key}"), &count.into(), why))
    };
    errors.extend(over("maxFailedIndexes", MANY, ""));
    if int(spec, "completions").is_none_or(|n| n <= MANY) || !has(spec, "backoffLimitPerIndex") {
        return;
    }
    if !has(spec, "maxFailedIndexes") {
        let why = format!("must be specified when completions is above {MANY}");
        errors.push(FieldError::required(format!("{field}.maxFailedIndexes"), why));
    }
    let rest = format!(" when completions are above {MANY} and used with backoff limit per index");
    errors.extend(over("parallelism", FEW, &rest));
    errors.extend(over("maxFailedIndexes", FEW, &rest));
}

fn replacement_policy(errors: &mut FieldErrors, spec: &Value, field: &str) {
    let policy = &spec["podReplacementPolicy"];
    let supported: &[&str] = match has(spec, "podFailurePolicy") {
        true => &["Failed"],
        false => &["Failed", "TerminatingOrFailed"],
    };
    if let Some(text) = policy.as_str()
        && !supported.contains(&text)
    {
        let field = format!("{field}.podReplacementPolicy");
        errors.push(FieldError::not_supported(field, policy, supported));
    }
}

fn validate_spec(errors: &mut FieldErrors, spec: &Value) {
    validate_spec_at(errors, spec, "spec");
    let found = &spec["selector"];
    match found.is_null() {
        true => errors.push(FieldError::required("spec.selector", "")),
        false => selector::validate(errors, found, "spec.selector"),
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if shared::parses(found) && !selector::matches(found, labels) {
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
}

/// A job without labels is read with those of its template: after its rules were looked at, so a
/// name that is too long for a label is reported for the template alone.
fn labels_from_template(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    let fits = |(_, value): (&String, &Value)| value.as_str().is_none_or(|v| v.len() <= 63);
    if labels.as_object().is_some_and(|labels| labels.iter().all(fits))
        && let Some(metadata) = object_mut(object, "metadata")
        && entries(metadata, "labels").next().is_none()
    {
        metadata["labels"] = labels;
    }
}

/// Marks the template with the job's name and uid, and selects by the uid.
fn generate_selector(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    let uid = object["metadata"]["uid"].clone();
    let Some(spec) = object_mut(object, "spec") else { return };
    if let Some(template) = object_mut(spec, "template")
        && let Some(metadata) = object_mut(template, "metadata")
        && let Some(labels) = object_mut(metadata, "labels")
    {
        for (key, value) in [(LEGACY_NAME, &name), (NAME, &name), (LEGACY_UID, &uid), (UID, &uid)] {
            spec_defaults::zero(labels, &[(key, value.clone())]);
        }
    }
    if let Some(found) = object_mut(spec, "selector")
        && let Some(labels) = object_mut(found, "matchLabels")
    {
        spec_defaults::zero(labels, &[(UID, uid)]);
    }
}

fn generated_selector(errors: &mut FieldErrors, object: &Value) {
    if flag(object, "spec.manualSelector") || object["spec"]["selector"].is_null() {
        return;
    }
    let (name, uid) = (text(object, "metadata.name"), text(object, "metadata.uid"));
    if uid.is_empty() {
        errors.push(FieldError::required("metadata.uid", ""));
    }
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    let expected = [(LEGACY_UID, uid), (LEGACY_NAME, name), (UID, uid), (NAME, name)];
    for (key, value) in expected {
        let field = format!("spec.template.metadata.labels[{key}]");
        let why = format!("must be '{value}'");
        match labels.get(key).and_then(Value::as_str) {
            None if value.is_empty() => {}
            None => errors.push(FieldError::required(field, why)),
            Some(found) if found != value => errors.push(FieldError::invalid(field, labels, why)),
            Some(_) => {}
        }
    }
    let found = &object["spec"]["selector"];
    let expected: Value = expected.into_iter().map(|(k, v)| (k.to_owned(), json!(v))).collect();
    if shared::parses(found) && !selector::matches(found, &expected) {
        errors.push(FieldError::raw(
            FieldErrorKind::Invalid,
            "spec.selector",
            selector::show(found),
            "`selector` not auto-generated",
        ));
    }
}

/// The last pod of an indexed job has to get a good host name.
fn indexed_name(errors: &mut FieldErrors, object: &Value) {
    let completions = int(object, "spec.completions").unwrap_or_default();
    if text(object, "spec.completionMode") != "Indexed" || completions <= 0 {
        return;
    }
    let name = text(object, "metadata.name");
    let host = format!("{name}-{}", completions - 1);
    if !names::dns_label(&host).is_empty() {
        let why = format!("will not able to create pod with invalid DNS label: {host}");
        errors.push(FieldError::invalid_str("metadata.name", name, why));
    }
}

fn spec_update(errors: &mut FieldErrors, spec: &Value, old: &Value) {
    let old_spec = &old["spec"];
    let completions = &spec["completions"];
    if completions != &old_spec["completions"] {
        if text(spec, "completionMode") != "Indexed" {
            errors.push(FieldError::invalid("spec.completions", completions, IMMUTABLE));
        } else if !completions.is_null() && completions != &spec["parallelism"] {
            errors.push(FieldError::invalid(
                "spec.completions",
                completions,
                "can only be modified in tandem with spec.parallelism",
            ));
        }
    }
    if spec["selector"] != old_spec["selector"] {
        let shown = selector::show(&spec["selector"]);
        errors.push(FieldError::raw(FieldErrorKind::Invalid, "spec.selector", shown, IMMUTABLE));
    }
    template_update(errors, &spec["template"], old);
    for key in
        ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        immutable(errors, &spec[key], &old_spec[key], &format!("spec.{key}"));
    }
}

/// A suspended job may change where its pods may run and what they need.
fn template_update(errors: &mut FieldErrors, new: &Value, old: &Value) {
    let mut kept = old["spec"]["template"].clone();
    let suspended = flag(old, "spec.suspend");
    if suspended {
        for key in ["labels", "annotations"] {
            copy_field(&mut kept["metadata"], &new["metadata"], key);
        }
        for key in ["nodeSelector", "tolerations", "schedulingGates"] {
            copy_field(&mut kept["spec"], &new["spec"], key);
        }
        let affinity = &new["spec"]["affinity"]["nodeAffinity"];
        if !affinity.is_null() {
            kept["spec"]["affinity"]["nodeAffinity"] = affinity.clone();
        } else if let Some(affinity) = kept["spec"].get_mut("affinity") {
            crate::builtin::rules::value::remove(affinity, "nodeAffinity");
            if affinity.as_object().is_some_and(serde_json::Map::is_empty)
                && !has(new, "spec.affinity")
            {
                crate::builtin::rules::value::remove(&mut kept["spec"], "affinity");
            }
        }
        for list in ["containers", "initContainers"] {
            let resources: Vec<Value> =
                items(&new["spec"], list).iter().map(|c| c["resources"].clone()).collect();
            for (container, resources) in
                items_mut(&mut kept["spec"], list).iter_mut().zip(resources)
            {
                container["resources"] = resources;
            }
        }
    }
    if &kept != new {
        let (field, shown) = match suspended {
            true => ("spec.template.spec", &new["spec"]),
            false => ("spec.template", new),
        };
        errors.push(FieldError::invalid(field, shown, IMMUTABLE));
    }
}

/// The managed-by name of a job: a path below a domain.
fn managed_by(errors: &mut FieldErrors, name: &str, field: &str) {
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    match name.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            each_invalid(errors, field, host, names::dns_subdomain(host));
        }
        _ => errors.push(FieldError::invalid_str(
            field,
            name,
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        )),
    }
    if name.len() > 63 {
        errors.push(FieldError::too_long(field, 63));
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::testing::{create, update};
    use super::*;

    fn task() -> Value {
        json!({"metadata": {"name": "task", "uid": "u1"}, "spec": {"template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "t:1"}]}}}})
    }

    #[test]
    fn the_selector_is_made_from_the_uid() {
        let job = create(&Jobs, task()).unwrap();
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {UID: "u1"}}));
        assert_eq!(job["metadata"]["labels"][LEGACY_NAME], "task");
        assert_eq!(job["spec"]["completions"], 1);
    }

    #[test]
    fn a_selector_of_ones_own_needs_the_manual_flag() {
        let mut job = task();
        job["spec"]["selector"] = json!({"matchLabels": {"x": "1"}});
        job["spec"]["template"]["metadata"] = json!({"labels": {"x": "1"}});
        let errors = create(&Jobs, job.clone()).unwrap_err();
        assert!(errors[0].ends_with("`selector` not auto-generated"), "{errors:?}");
        job["spec"]["manualSelector"] = json!(true);
        assert!(create(&Jobs, job).is_ok());
    }

    #[test]
    fn completions_of_plain_jobs_never_change() {
        let old = create(&Jobs, task()).unwrap();
        let mut new = old.clone();
        new["spec"]["completions"] = json!(9);
        assert_eq!(
            update(&Jobs, new, &old).unwrap_err(),
            ["spec.completions: Invalid value: 9: field is immutable"]
        );
    }

    #[test]
    fn suspended_jobs_may_move_but_not_change() {
        let mut old = create(&Jobs, task()).unwrap();
        old["spec"]["suspend"] = json!(true);
        let mut new = old.clone();
        new["spec"]["template"]["spec"]["nodeSelector"] = json!({"a": "b"});
        assert!(update(&Jobs, new.clone(), &old).is_ok());
        new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("t:2");
        assert!(update(&Jobs, new, &old).unwrap_err()[0].starts_with("spec.template.spec: Inv"));
    }
}
