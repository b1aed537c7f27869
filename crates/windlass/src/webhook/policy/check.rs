//! Finds wrong expressions before a policy is installed.
//!
//! The API server reads `object` and `params` as they are, so that a misspelled field shows only when
//! a request is denied. Here the types of both are known.

use std::cell::Cell;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use windlass_cel::admission::{Environment, Gives};
use windlass_cel::{CALL_LIMIT, Decl, Expression, MATCH_LIMIT, REQUEST_LIMIT, Schema, Shape};
use windlass_manifests::schema;

use super::{Declared, Described};
use crate::error::{Error, Result};
use crate::webhook::is_builtin;

/// What the API server lets one expression cost.
const COST_MAX: u64 = CALL_LIMIT;
/// What it lets all conditions of a policy cost.
const CONDITIONS_COST_MAX: u64 = MATCH_LIMIT;
/// What it lets all other expressions of a policy cost, for each binding and object of parameters.
const POLICY_COST_MAX: u64 = REQUEST_LIMIT;
/// Estimates from here on come from texts of unknown length, such as `string(1)`, and mean nothing.
const COST_UNKNOWN: u64 = 1_000_000_000_000_000_000;
/// How many labels, annotations and the like objects are taken to have, and how many items the lists
/// of built-in kinds, whose schemas have no bounds.
const ITEMS_MAX: u64 = 100;
/// How many characters the texts of built-in kinds are taken to have.
const TEXT_MAX: u64 = 1000;

/// Compiles all expressions of a policy against the types of its objects and parameters, and without
/// them, as the API server does.
///
/// # Errors
///
/// Fails with one sentence about the first expression that is wrong.
pub(super) fn check(policy: &Declared) -> Result<()> {
    compile_all(policy, Checker::typed(policy))?;
    compile_all(policy, Checker::untyped(policy))
}

fn compile_all(policy: &Declared, mut checker: Checker<'_>) -> Result<()> {
    compile_each(policy, &mut checker)?;
    let Spent { conditions, rest } = checker.spent.get();
    for (what, cost, most) in [
        ("match conditions", conditions, CONDITIONS_COST_MAX),
        ("expressions", rest, POLICY_COST_MAX),
    ] {
        if cost > most {
            let (name, advice) = (&policy.model.name, checker.advice());
            return Err(Error::Invalid(format!(
                "policy {name:?}: all {what} together may cost {cost}, more than {most}: {advice}"
            )));
        }
    }
    Ok(())
}

fn compile_each(policy: &Declared, checker: &mut Checker<'_>) -> Result<()> {
    let spec = policy.model.spec(false);
    let changes = policy.model.spec(true);
    for condition in items(&spec, "matchConditions") {
        let environment = checker.plain.clone();
        checker.compile("condition", &condition["expression"], Gives::Bool, true, &environment)?;
    }
    for variable in items(&spec, "variables") {
        let environment = checker.composed.clone();
        let expression = &variable["expression"];
        let compiled =
            checker.compile("variable", expression, Gives::Anything, true, &environment)?;
        let name = variable["name"].as_str().unwrap_or_default();
        checker.composed.declare(name, compiled.as_ref());
    }
    let environment = checker.composed.clone();
    let compile = |what: &str, value: &Value, field: &str, gives: Gives, authorizer: bool| {
        checker.compile(what, &value[field], gives, authorizer, &environment).map(drop)
    };
    for validation in items(&spec, "validations") {
        compile("validation", validation, "expression", Gives::Bool, true)?;
        compile("message", validation, "messageExpression", Gives::Text, false)?;
    }
    for annotation in items(&spec, "auditAnnotations") {
        compile("audit annotation", annotation, "valueExpression", Gives::TextOrNull, true)?;
    }
    for mutation in items(&changes, "mutations") {
        compile("merge", &mutation["applyConfiguration"], "expression", Gives::Object, true)?;
        compile("patch", &mutation["jsonPatch"], "expression", Gives::Steps, true)?;
    }
    Ok(())
}

struct Checker<'a> {
    policy: &'a Declared,
    /// For conditions, which do not see variables.
    plain: Environment,
    composed: Environment,
    /// Whether the types of objects and parameters are known.
    typed: bool,
    spent: Cell<Spent>,
}

/// What expressions may cost together.
#[derive(Clone, Copy, Default)]
struct Spent {
    conditions: u64,
    rest: u64,
}

// === impl Checker ===

impl<'a> Checker<'a> {
    fn typed(policy: &'a Declared) -> Self {
        let object = declared(&policy.object);
        let params = policy.params.as_ref().map(declared);
        let typed = |environment: Environment| {
            let environment = environment.of(object.clone());
            match &params {
                Some(params) => environment.params(params.clone()),
                None => environment,
            }
        };
        Self {
            policy,
            plain: typed(Environment::new(false)),
            composed: typed(Environment::composed(false)),
            typed: true,
            spent: Cell::default(),
        }
    }

    fn untyped(policy: &'a Declared) -> Self {
        let has_params = policy.params.is_some();
        let (plain, composed) = (Environment::new(has_params), Environment::composed(has_params));
        Self { policy, plain, composed, typed: false, spent: Cell::default() }
    }

    /// Compiles an expression, if there is one.
    fn compile(
        &self,
        what: &str,
        expression: &Value,
        gives: Gives,
        authorizer: bool,
        environment: &Environment,
    ) -> Result<Option<Expression>> {
        let Some(expression) = expression.as_str() else { return Ok(None) };
        let wrong = |why: &str| {
            let (name, kind) = (&self.policy.model.name, self.policy.object.kind.kind());
            Error::Invalid(format!(
                "policy {name:?}: the {what} {expression:?} is wrong for {kind}: {why}"
            ))
        };
        let compiled = environment.compile(expression, gives, authorizer);
        let compiled = compiled.map_err(|error| {
            let why = one_line(&error.to_string());
            match self.typed {
                true => wrong(&why),
                false => wrong(&format!("the API server does not know the types of fields: {why}")),
            }
        })?;
        let cost = compiled.worst_cost();
        if self.typed && cost < COST_UNKNOWN {
            if cost > COST_MAX {
                let advice = self.advice();
                return Err(wrong(&format!("it may cost {cost}, more than {COST_MAX}: {advice}")));
            }
            let mut spent = self.spent.get();
            match what {
                "condition" => spent.conditions += cost,
                _ => spent.rest += cost,
            }
            self.spent.set(spent);
        }
        Ok(Some(compiled))
    }

    fn advice(&self) -> String {
        match is_builtin(self.policy.object.kind.group()) {
            true => format!(
                "with lists of {ITEMS_MAX} items and texts of {TEXT_MAX} characters: look at fewer items \
                 in each other's loops"
            ),
            false => {
                "bound the lists and texts that are read with `max_items` and `max_length`".into()
            }
        }
    }
}

/// The schema of the metadata of all objects, with bounds that keep estimates useful.
pub(super) fn metadata() -> Value {
    let mut metadata = schema::of::<ObjectMeta>();
    let fields = metadata["properties"].as_object_mut().into_iter().flatten();
    for (name, field) in fields {
        let bound = match field["type"].as_str() {
            Some("array") => "maxItems",
            Some("object") => "maxProperties",
            Some("string") if field.get("format").is_none() => "maxLength",
            _ => continue,
        };
        field[bound] = if name == "name" { 253.into() } else { ITEMS_MAX.into() };
    }
    metadata
}

fn declared(described: &Described) -> Arc<Decl> {
    let mut schema = described.schema();
    if is_builtin(described.kind.group()) {
        bound(&mut schema);
    }
    let schema = Schema::parse(&schema);
    Arc::new(decl(&schema, described.kind.kind()))
}

/// Bounds every list, map and text of a schema that has no bound.
fn bound(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    let limit = match keywords.get("type").and_then(Value::as_str) {
        Some("array") => Some(("maxItems", ITEMS_MAX)),
        Some("object") if keywords.contains_key("additionalProperties") => {
            Some(("maxProperties", ITEMS_MAX))
        }
        Some("string") if !["enum", "format"].iter().any(|name| keywords.contains_key(*name)) => {
            Some(("maxLength", TEXT_MAX))
        }
        _ => None,
    };
    if let Some((name, most)) = limit {
        keywords.entry(name).or_insert_with(|| most.into());
    }
    for name in ["items", "additionalProperties"] {
        keywords.get_mut(name).into_iter().for_each(bound);
    }
    let fields = keywords.get_mut("properties").and_then(Value::as_object_mut);
    fields.into_iter().flatten().for_each(|(_, field)| bound(field));
}

/// Declares what a schema describes; what it does not describe may be anything.
fn decl(schema: &Schema, name: &str) -> Decl {
    let open = schema.preserve_unknown == Some(true);
    let Some(mut made) = Decl::from_schema(schema, false, name).filter(|_| !open) else {
        return Decl::dynamic();
    };
    made.shape = match made.shape {
        Shape::List(item, kind) => match schema.items.as_deref() {
            Some(items) => Shape::List(Arc::new(decl(items, &format!("{name}.@idx"))), kind),
            None => Shape::List(item, kind),
        },
        Shape::Map(value) => match schema.additional_schema() {
            Some(values) => Shape::Map(Arc::new(decl(values, &format!("{name}.@elem")))),
            None => Shape::Map(value),
        },
        Shape::Object(_) if schema.properties.is_empty() => Shape::Dyn,
        Shape::Object(_) => {
            let field = |(key, below): (&String, &Schema)| {
                (key.clone(), decl(below, &format!("{name}.{key}")))
            };
            Decl::object(name, schema.properties.iter().map(field)).shape
        }
        other => other,
    };
    made
}

/// What is wrong, without the picture of the place.
fn one_line(text: &str) -> String {
    let messages = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once("ERROR: <input>:")?;
        rest.split_once(": ").map(|(_, message)| message)
    });
    let messages: Vec<&str> = messages.collect();
    match messages.is_empty() {
        true => text.lines().next().unwrap_or_default().to_owned(),
        false => messages.join("; "),
    }
}

fn items<'a>(spec: &'a Value, field: &str) -> &'a [Value] {
    spec[field].as_array().map_or(&[], Vec::as_slice)
}
