//! The expressions within policies and webhooks: whether they compile and give what they should.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_cel::Expression;
use windlass_cel::admission::{Environment, Gives, Unusable};

use super::names::push;
use super::tools::{has, items, text};
use crate::builtin::rules::names::qualified_name;
use crate::status::{FieldError, FieldErrors};

const CONDITIONS_MAX: usize = 64;
const ANNOTATIONS_MAX: usize = 20;
const ANNOTATION_BYTES_MAX: usize = 5 * 1024;

/// Checks conditions that narrow down what a webhook or a policy is for.
pub(super) fn check_conditions(
    errors: &mut FieldErrors,
    path: &str,
    conditions: &[Value],
    params: bool,
) {
    if conditions.len() > CONDITIONS_MAX {
        errors.push(FieldError::too_many(path, conditions.len(), CONDITIONS_MAX));
    }
    let environment = Environment::new(params);
    let mut names = BTreeSet::new();
    for (at, condition) in conditions.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let expression = text(condition, "expression").trim();
        check(errors, &format!("{path}.expression"), expression, "", |text| {
            environment.compile(text, Gives::Bool, true)
        });
        let (name, path) = (text(condition, "name"), format!("{path}.name"));
        match name {
            "" => errors.push(FieldError::required(path, "")),
            _ => {
                push(errors, &path, name, qualified_name(name));
                if !names.insert(name) {
                    errors.push(FieldError::duplicate(path, &name.into()));
                }
            }
        }
    }
}

/// Checks variables, and gives what expressions after them may use.
pub(super) fn check_variables(errors: &mut FieldErrors, spec: &Value, always: bool) -> Environment {
    let (params, variables) = (has(spec, "paramKind"), items(spec, "variables"));
    let mut environment = match always || !variables.is_empty() {
        true => Environment::composed(params),
        false => Environment::new(params),
    };
    for (at, variable) in variables.iter().enumerate() {
        let path = format!("spec.variables[{at}]");
        let name = text(variable, "name");
        if name.trim().is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), "name is not specified"));
        } else if !is_identifier(name) {
            let why = "must be a valid CEL identifier";
            errors.push(FieldError::invalid_str(format!("{path}.name"), name, why));
        }
        let expression = text(variable, "expression");
        let compiled = check(
            errors,
            &format!("{path}.expression"),
            expression,
            "expression is not specified",
            |text| environment.compile(text, Gives::Anything, true),
        );
        environment.declare(name, compiled.as_ref());
    }
    environment
}

/// Checks what a validating policy asks for.
pub(super) fn check_validations(errors: &mut FieldErrors, policy: &Value) {
    let spec = &policy["spec"];
    let environment = check_variables(errors, spec, false);
    let (validations, annotations) = (items(spec, "validations"), items(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        for key in ["validations", "auditAnnotations"] {
            errors.push(FieldError::required(
                format!("spec.{key}"),
                "validations or auditAnnotations must contain at least one item",
            ));
        }
    }
    for (at, validation) in validations.iter().enumerate() {
        check_validation(errors, &format!("spec.validations[{at}]"), validation, &environment);
    }
    if annotations.len() > ANNOTATIONS_MAX {
        let why = format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations");
        errors.push(FieldError::invalid("spec.auditAnnotations", &spec["auditAnnotations"], why));
    }
    let mut keys = BTreeSet::new();
    for (at, annotation) in annotations.iter().enumerate() {
        let path = format!("spec.auditAnnotations[{at}]");
        let key = text(annotation, "key");
        check_annotation(errors, &path, policy, annotation, &environment);
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(format!("{path}.key"), &key.into()));
        }
    }
}

fn check_validation(
    errors: &mut FieldErrors,
    path: &str,
    validation: &Value,
    environment: &Environment,
) {
    let at = |key: &str| format!("{path}.{key}");
    let none = "expression is not specified";
    check(errors, &at("expression"), text(validation, "expression"), none, |text| {
        environment.compile(text, Gives::Bool, true)
    });
    let rule = text(validation, "messageExpression");
    if !rule.is_empty() && rule.trim().is_empty() {
        let why = "must be non-empty if specified";
        errors.push(FieldError::invalid_str(at("messageExpression"), rule, why));
    } else if !rule.is_empty() {
        check(errors, &at("messageExpression"), rule, "", |text| {
            environment.compile(text, Gives::Text, false)
        });
    }
    let message = text(validation, "message");
    if !message.is_empty() && message.trim().is_empty() {
        let why = "must be non-empty if specified";
        errors.push(FieldError::invalid_str(at("message"), message, why));
    } else if message.trim().contains(['\n', '\r']) {
        let why = "must not contain line breaks";
        errors.push(FieldError::invalid_str(at("message"), message, why));
    }
    let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    let reason = &validation["reason"];
    if reason.as_str().is_some_and(|reason| !reasons.contains(&reason)) {
        errors.push(FieldError::not_supported(at("reason"), reason, &reasons));
    }
}

fn check_annotation(
    errors: &mut FieldErrors,
    path: &str,
    policy: &Value,
    annotation: &Value,
    environment: &Environment,
) {
    let (name, key) = (crate::object::name(policy), text(annotation, "key"));
    let full = format!("{name}/{key}");
    match name.is_empty() {
        true => {
            let why = "requires metadata.name be non-empty";
            errors.push(FieldError::invalid_str(format!("{path}.key"), key, why));
        }
        false => push(errors, &format!("{path}.key"), &full, qualified_name(&full)),
    }
    let path = format!("{path}.valueExpression");
    let expression = text(annotation, "valueExpression").trim();
    if expression.len() > ANNOTATION_BYTES_MAX {
        let why = format!("must not exceed {ANNOTATION_BYTES_MAX} bytes in length");
        errors.push(FieldError::required(path, why));
        return;
    }
    check(errors, &path, expression, "valueExpression is not specified", |text| {
        environment.compile(text, Gives::TextOrNull, true)
    });
}

/// Checks what a mutating policy asks for.
pub(super) fn check_mutations(errors: &mut FieldErrors, spec: &Value) {
    let environment = check_variables(errors, spec, true);
    let mutations = items(spec, "mutations");
    if mutations.is_empty() {
        let why = "mutations must contain at least one item";
        errors.push(FieldError::required("spec.mutations", why));
    }
    for (at, mutation) in mutations.iter().enumerate() {
        check_mutation(errors, &format!("spec.mutations[{at}]"), mutation, &environment);
    }
    let path = "spec.reinvocationPolicy";
    match text(spec, "reinvocationPolicy") {
        "Never" | "IfNeeded" => {}
        "" => errors.push(FieldError::required(path, "")),
        other => {
            errors.push(FieldError::not_supported(path, &other.into(), &["IfNeeded", "Never"]));
        }
    }
}

fn check_mutation(
    errors: &mut FieldErrors,
    path: &str,
    mutation: &Value,
    environment: &Environment,
) {
    let kind = text(mutation, "patchType");
    let (own, other, gives) = match kind {
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Gives::Steps),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Gives::Object),
        "" => return errors.push(FieldError::required(format!("{path}.patchType"), "")),
        _ => {
            let all = ["ApplyConfiguration", "JSONPatch"];
            let path = format!("{path}.patchType");
            return errors.push(FieldError::not_supported(path, &kind.into(), &all));
        }
    };
    if has(mutation, own) {
        let expression = text(&mutation[own], "expression").trim();
        check(errors, &format!("{path}.{own}.expression"), expression, "", |text| {
            environment.compile(text, gives, true)
        });
    } else {
        let why = format!("must be specified when patchType is {kind}");
        errors.push(FieldError::required(format!("{path}.{own}"), why));
    }
    if has(mutation, other) {
        let why = format!("must not be specified when patchType is {kind}");
        let shown = format!("{{{other}}}");
        errors.push(FieldError::invalid_str(format!("{path}.{other}"), shown, why));
    }
}

/// Checks one expression; `none` is the error if it is missing.
fn check(
    errors: &mut FieldErrors,
    path: &str,
    expression: &str,
    none: &str,
    compile: impl FnOnce(&str) -> Result<Expression, Unusable>,
) -> Option<Expression> {
    if expression.trim().is_empty() {
        errors.push(FieldError::required(path, none));
        return None;
    }
    match compile(expression) {
        Ok(compiled) => return Some(compiled),
        Err(Unusable::Invalid(why)) => {
            errors.push(FieldError::invalid_str(path, expression, why));
        }
        Err(Unusable::Internal(why)) => errors.push(FieldError::internal(path, why)),
    }
    None
}

fn is_identifier(name: &str) -> bool {
    let start = |c: char| c == '_' || c.is_ascii_alphabetic();
    name.starts_with(start)
        && name.chars().all(|c| start(c) || c.is_ascii_digit())
        && !windlass_cel::is_reserved(name)
}
