//! Validation rules (`x-kubernetes-validations`): everything about them except CEL itself.
//!
//! [`Engine`] is the seam: it turns the rules of one node into [`Program`]s when the definition is
//! checked and when it is compiled. This module decides which rules run, against which old value,
//! which failures are ignored, and how they are reported.
//!
//! **Invariant:** one object spends at most [`OBJECT_BUDGET`] cost units, whatever its rules say.

use std::collections::HashMap;

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::correlation::{Correlation, unchanged};
use super::path;
use super::prune::child;
use super::schema::Schema;
use crate::status::{FieldError, FieldErrorKind, FieldErrors, quote, show};

/// The cost all rules of one object may have together.
pub const OBJECT_BUDGET: i64 = 10_000_000;

/// The longest message an expression may give, in bytes.
const MESSAGE_MAX: usize = 5 * 1024;

const OUT_OF_BUDGET: &str = "validation failed due to running out of cost budget, no further \
     validation rules will be run";
const COST_LIMIT: &str = "operation cancelled: actual cost limit exceeded";

/// One rule of a node.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// The expression.
    pub rule: String,
    /// The message of a failure.
    pub message: String,
    /// An expression for the message.
    pub message_expression: String,
    /// The reason of a failure.
    pub reason: Option<String>,
    /// The field that a failure is reported for, relative to the node.
    pub field_path: String,
    /// Whether `oldSelf` is optional.
    pub optional_old_self: Option<bool>,
    program: OnceLock<Arc<Compiled>>,
}

/// What compiling a rule gave.
#[derive(Debug, Default)]
pub struct Compiled {
    /// The program, if the rule compiled.
    pub program: Option<Arc<dyn Program>>,
    /// Why the rule did not compile.
    pub error: Option<String>,
    /// Why the message expression did not compile.
    pub message_error: Option<String>,
    /// Whether the rule names `oldSelf`.
    pub uses_old_self: bool,
    /// The estimated worst cost of one run.
    pub max_cost: u64,
    /// How often the node can occur at most in a request, if nothing bounds it.
    pub max_cardinality: u64,
    /// The estimated worst cost of the message expression, if there is one.
    pub message_max_cost: Option<u64>,
}

/// A result and what it cost.
#[derive(Debug)]
pub struct Evaluation<T> {
    /// The value, or the error of the evaluation in cel-go's words.
    pub result: Result<T, String>,
    /// What it cost.
    pub cost: u64,
}

/// A compiled rule.
pub trait Program: Send + Sync + fmt::Debug {
    /// Whether the rule holds.
    fn evaluate(&self, object: &Value, old: Option<&Value>) -> Evaluation<bool>;

    /// The message, if the rule has an expression for it; not yet trimmed or checked.
    fn message(&self, object: &Value, old: Option<&Value>) -> Option<Evaluation<String>>;
}

/// Compiles the rules of one node.
pub trait Engine: Send + Sync {
    /// One result per rule of the node; `root` is `true` if the node is a whole object.
    fn compile(&self, node: &Schema, root: bool) -> Vec<Compiled>;
}

static ENGINE: OnceLock<&'static dyn Engine> = OnceLock::new();

/// Plugs in the engine of this process; the first one stays.
pub fn install(engine: &'static dyn Engine) {
    // A second engine would change answers of running servers: it is ignored.
    let _ = ENGINE.set(engine);
}

/// The engine: the one that is plugged in, or else the one of this crate.
pub fn engine() -> Option<&'static dyn Engine> {
    Some(ENGINE.get().copied().unwrap_or(&crate::cel::Rules))
}

// === impl Rule ===

impl Rule {
    /// Reads a rule.
    pub fn parse(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        Self {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: value["reason"].as_str().map(str::to_owned),
            field_path: text("fieldPath"),
            optional_old_self: value["optionalOldSelf"].as_bool(),
            program: OnceLock::new(),
        }
    }

    /// What compiling gave, once the node was compiled.
    pub fn compiled(&self) -> Option<&Compiled> {
        self.program.get().map(|compiled| &**compiled)
    }

    /// The rule as error texts show it.
    pub fn shown(&self) -> String {
        let field = |value: &Value| {
            value
                .to_string()
                .replace('<', "\\u003c")
                .replace('>', "\\u003e")
                .replace('&', "\\u0026")
        };
        format!(
            "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\
             \"OptionalOldSelf\":{}}}",
            field(&json!(self.rule)),
            field(&json!(self.message)),
            field(&json!(self.message_expression)),
            field(&json!(self.reason)),
            field(&json!(self.field_path)),
            field(&json!(self.optional_old_self)),
        )
    }

    fn name(&self) -> &str {
        match self.message.is_empty() {
            true => self.rule.trim(),
            false => self.message.trim(),
        }
    }

    fn failure(&self) -> String {
        match self.message.is_empty() {
            true => format!("failed rule: {}", self.rule.trim()),
            false => self.message.trim().to_owned(),
        }
    }
}

/// Compiles all rules of a schema; does nothing without an engine.
pub fn compile(schema: &Schema) {
    let Some(engine) = engine() else { return };
    compile_node(engine, schema, true);
}

fn compile_node(engine: &dyn Engine, node: &Schema, root: bool) {
    if !node.rules.is_empty() {
        let results = engine.compile(node, root || node.embedded);
        for (rule, compiled) in node.rules.iter().zip(results) {
            rule.program.get_or_init(|| Arc::new(compiled));
        }
    }
    let below = node.properties.values().chain(node.items.as_deref());
    for child in below.chain(node.additional_schema()).chain(&node.all_of) {
        compile_node(engine, child, false);
    }
}

/// Whether the schema has any rule.
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

/// The error in place of rules that did not run because the object is invalid in other ways.
pub fn blocked(errors: &[FieldError]) -> Option<FieldError> {
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
    errors.iter().any(blocks).then(|| {
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
        if value.is_null() || self.budget < 0 {
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
        if schema.rules.is_empty() || engine().is_none() {
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
            let Some(program) = &compiled.program else { continue };
            let optional = rule.optional_old_self == Some(true);
            if compiled.uses_old_self && old.is_none() && !optional {
                continue;
            }
            let Evaluation { result, cost } = program.evaluate(value, old);
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
                Err(error) if error.starts_with(COST_LIMIT) => {
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
        compiled: &Compiled,
    ) -> bool {
        let field = match path::normalized(&rule.field_path, schema) {
            Some(below) => child(&place.path, &below),
            None => place.path.clone(),
        };
        let forgiven = !compiled.uses_old_self && self.unchanged(place, schema, value);
        let mut detail = None;
        let message = compiled.program.as_ref().and_then(|program| program.message(value, old));
        if let Some(Evaluation { result, cost }) = message {
            let stop = if !self.spend(cost) {
                Some(
                    "messageExpression evaluation failed due to running out of cost budget, no \
                     further validation rules will be run"
                        .to_owned(),
                )
            } else {
                result.as_ref().err().filter(|error| error.starts_with(COST_LIMIT)).map(|_| {
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
