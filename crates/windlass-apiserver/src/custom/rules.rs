//! Validation rules (`x-kubernetes-validations`): everything about them except CEL itself.
//!
//! This module decides which rules run, against which old value, which failures are forgiven, and
//! how they are reported.
//!
//! **Invariant:** one object spends at most [`OBJECT_BUDGET`] cost units, whatever its rules say.

use std::collections::HashMap;

use serde_json::Value;
use windlass_cel::{
    CompiledRule, Evaluation, LIMIT_EXCEEDED, OUT_OF_BUDGET, REQUEST_LIMIT, Rule, Schema,
};

use super::correlation::{Correlation, unchanged};
use super::path;
use super::prune::child;
use crate::status::{FieldError, FieldErrorKind, FieldErrors, quote, show};
use crate::work;

/// The cost all rules of one object may have together.
pub const OBJECT_BUDGET: i64 = REQUEST_LIMIT as i64;

/// The longest message an expression may give, in bytes.
const MESSAGE_MAX: usize = 5 * 1024;

/// Returns `true` if the schema has any rule.
pub fn any(schema: &Schema) -> bool {
    schema.any(&|node| !node.rules.is_empty())
}

/// Errors and warnings of all rules.
#[derive(Debug, Default)]
pub struct Verdict {
    /// What refuses the object.
    pub errors: FieldErrors,
    /// Failures that existed before the update, returned as warnings.
    pub warnings: Vec<String>,
}

/// Returns the error in place of rules that did not run because the object is invalid in other
/// ways.
///
/// `required` is set if a value is missing that is not in `errors`.
pub fn blocked(errors: &[FieldError], required: bool) -> Option<FieldError> {
    let blocks = |error: &FieldError| {
        matches!(
            error.kind,
            FieldErrorKind::NotSupported
                | FieldErrorKind::Required
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooMany
                | FieldErrorKind::TypeInvalid
        )
    };
    (required || errors.iter().any(blocks)).then(|| {
        FieldError::raw(
            FieldErrorKind::Invalid,
            "<nil>",
            "null",
            "some validation rules were not checked because the object was invalid; correct the \
             existing errors to complete validation",
        )
    })
}

/// Runs all rules of a value at `base` (empty for a whole object), spending `budget`.
pub fn evaluate(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    base: &str,
    budget: &mut i64,
) -> Verdict {
    let mut run = Run { verdict: Verdict::default(), budget: *budget, unchanged: HashMap::new() };
    let place = Place { path: base.to_owned(), current: old, parent: None, root: true };
    run.node(schema, value, old, &place);
    *budget = run.budget;
    run.verdict
}

/// The path of a value, and the old value that it correlates with.
struct Place<'a> {
    path: String,
    /// The old value it correlates with.
    current: Option<&'a Value>,
    /// The nearest place above that correlates: its schema, value and old value.
    parent: Option<(&'a Schema, &'a Value, &'a Value)>,
    root: bool,
}

/// The most warnings that are collected; clients are shown a few kilobytes of them.
const WARNINGS_MAX: usize = 1_000;

struct Run {
    verdict: Verdict,
    budget: i64,
    /// Which values equal their old ones, by their addresses and the one of their schema: all
    /// items of a list may ask for the whole list.
    unchanged: HashMap<[usize; 3], bool>,
}

impl Run {
    fn node<'a>(
        &mut self,
        schema: &'a Schema,
        value: &'a Value,
        old: Option<&'a Value>,
        place: &Place<'a>,
    ) {
        work::spent(1);
        if value.is_null() || self.budget < 0 || work::is_stopped() {
            return;
        }
        self.rules(schema, value, old, place);
        for branch in &schema.all_of {
            let path = place.path.clone();
            let inner = Place { path, current: None, parent: place.parent, root: false };
            self.node(branch, value, old, &inner);
        }
        match value {
            Value::Array(items) => {
                let Some(next) = schema.items.as_deref() else { return };
                let list = |old: Option<&'a Value>| {
                    Correlation::new(schema, old.and_then(Value::as_array).map(Vec::as_slice))
                };
                let (old, current) = (list(old), list(place.current));
                for (index, item) in items.iter().enumerate() {
                    let path = format!("{}[{index}]", place.path);
                    let below = place.below(schema, value, path, current.of(item));
                    self.node(next, item, old.of(item), &below);
                }
            }
            Value::Object(map) => {
                for (key, value_of_key) in map {
                    let (next, path) =
                        match (schema.properties.get(key), schema.additional_schema()) {
                            (Some(next), _) => (next, child(&place.path, key)),
                            (None, Some(next)) => (next, format!("{}[{key}]", place.path)),
                            (None, None) => continue,
                        };
                    let old = old.and_then(|old| old.get(key)).filter(|old| !old.is_null());
                    let type_meta = place.root && (key == "apiVersion" || key == "kind");
                    let current = place.current.filter(|_| !type_meta).and_then(|o| o.get(key));
                    self.node(next, value_of_key, old, &place.below(schema, value, path, current));
                }
            }
            _ => {}
        }
    }

    fn rules(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, place: &Place<'_>) {
        if schema.rules.is_empty() {
            return;
        }
        if self.budget <= 0 {
            return self.stop(schema, place, OUT_OF_BUDGET.into());
        }
        for rule in &schema.rules {
            let Some(compiled) = rule.compiled() else { continue };
            if let Some(error) = &compiled.error {
                self.report(schema, &place.path, format!("rule compile error: {error}"));
                continue;
            }
            let optional = rule.optional_old_self == Some(true);
            if compiled.uses_old_self && old.is_none() && !optional {
                continue;
            }
            let Some(run) = compiled.evaluate(value, old) else { continue };
            let Evaluation { result, cost } = run;
            if !self.spend(cost) {
                return self.stop(schema, place, OUT_OF_BUDGET.into());
            }
            match result {
                Ok(true) => {}
                Ok(false) => {
                    if !self.failed(schema, value, old, place, rule, compiled) {
                        return;
                    }
                }
                Err(error) if error.starts_with("no such overload") => {
                    let text = format!(
                        "'{error}': call arguments did not match a supported operator, function \
                         or macro signature for rule: {}",
                        rule.name()
                    );
                    self.report(schema, &place.path, text);
                }
                Err(error) if error.starts_with(LIMIT_EXCEEDED) => {
                    let text = format!(
                        "'{error}': no further validation rules will be run due to call cost \
                         exceeds limit for rule: {}",
                        rule.name()
                    );
                    return self.stop(schema, place, text);
                }
                Err(error) => {
                    let text = format!("{error} evaluating rule: {}", rule.name());
                    self.report(schema, &place.path, text);
                }
            }
        }
    }

    /// Reports a rule that does not hold. Returns `false` if no further rule may run.
    fn failed(
        &mut self,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        place: &Place<'_>,
        rule: &Rule,
        compiled: &CompiledRule,
    ) -> bool {
        let field = match path::normalized(&rule.field_path, schema) {
            Some(below) => child(&place.path, &below),
            None => place.path.clone(),
        };
        let forgiven = !compiled.uses_old_self && self.unchanged(place, schema, value);
        let mut detail = None;
        if let Some(Evaluation { result, cost }) = compiled.message(value, old) {
            let stop = if !self.spend(cost) {
                Some(
                    "messageExpression evaluation failed due to running out of cost budget, no \
                     further validation rules will be run"
                        .to_owned(),
                )
            } else {
                result.as_ref().err().filter(|error| error.starts_with(LIMIT_EXCEEDED)).map(|_| {
                    format!(
                        "no further validation rules will be run due to call cost exceeds limit \
                         for messageExpression: {}",
                        quote(&rule.message_expression)
                    )
                })
            };
            if let Some(text) = stop {
                let error = FieldError::raw(
                    FieldErrorKind::Invalid,
                    or_nil(&field),
                    quote(&schema.kind),
                    text,
                );
                self.add(error, forgiven);
                self.budget = -1;
                return false;
            }
            let usable =
                |text: &str| !text.is_empty() && text.len() <= MESSAGE_MAX && !text.contains('\n');
            detail = result.ok().map(|text| text.trim().to_owned()).filter(|text| usable(text));
        }
        let detail = detail.unwrap_or_else(|| rule.failure());
        let shown = match schema.kind.as_str() {
            "object" | "array" => String::new(),
            _ => show(value),
        };
        let kind = match rule.reason.as_deref() {
            Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
            Some("FieldValueRequired") => FieldErrorKind::Required,
            Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
            _ => FieldErrorKind::Invalid,
        };
        let error = match kind {
            FieldErrorKind::Forbidden | FieldErrorKind::Required => {
                FieldError::raw(kind, or_nil(&field), "", detail)
            }
            FieldErrorKind::Duplicate => FieldError::raw(kind, or_nil(&field), shown, ""),
            _ => FieldError::raw(kind, or_nil(&field), shown, detail),
        };
        self.add(error, forgiven);
        true
    }

    fn unchanged(&mut self, place: &Place<'_>, schema: &Schema, value: &Value) -> bool {
        let (schema, value, old) = match (place.current, place.parent) {
            (Some(old), _) => (schema, value, old),
            (None, Some(parent)) => parent,
            (None, None) => return false,
        };
        let key = [
            std::ptr::from_ref(schema).addr(),
            std::ptr::from_ref(value).addr(),
            std::ptr::from_ref(old).addr(),
        ];
        *self.unchanged.entry(key).or_insert_with(|| unchanged(Some(schema), value, old))
    }

    fn spend(&mut self, cost: u64) -> bool {
        match i64::try_from(cost).ok().filter(|cost| *cost <= self.budget) {
            Some(cost) => self.budget -= cost,
            None => return false,
        }
        true
    }

    fn report(&mut self, schema: &Schema, path: &str, text: String) {
        let shown = quote(&schema.kind);
        self.add(FieldError::raw(FieldErrorKind::Invalid, or_nil(path), shown, text), false);
    }

    fn stop(&mut self, schema: &Schema, place: &Place<'_>, text: String) {
        self.report(schema, &place.path, text);
        self.budget = -1;
    }

    fn add(&mut self, error: FieldError, forgiven: bool) {
        match forgiven {
            true if self.verdict.warnings.len() >= WARNINGS_MAX => {}
            true => self.verdict.warnings.push(error.to_string()),
            false => self.verdict.errors.push(error),
        }
    }
}

// === impl Place ===

impl<'a> Place<'a> {
    fn below(
        &self,
        schema: &'a Schema,
        value: &'a Value,
        path: String,
        current: Option<&'a Value>,
    ) -> Self {
        let parent = match self.current {
            Some(old) => Some((schema, value, old)),
            None => self.parent,
        };
        Self { path, current, parent, root: false }
    }
}

fn or_nil(path: &str) -> &str {
    if path.is_empty() { "<nil>" } else { path }
}
