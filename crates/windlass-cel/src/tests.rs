//! Tables of whole expressions: results, errors and costs.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{CALL_LIMIT, Decl, Expression, Input, Output, Variable};
use crate::Schema;

mod costs;
mod errors;
mod results;
mod safety;

/// Compiles an expression over `self`, as described by a schema.
fn compile(schema: &Value, text: &str) -> Result<(Expression, Arc<Decl>), String> {
    let schema = Schema::parse(schema);
    let decl = Arc::new(Decl::from_schema(&schema, false, "selfType").expect("visible"));
    let variables = [Variable::new("self", decl.clone()), Variable::new("oldSelf", decl.clone())];
    let expression = Expression::compile(text, &variables).map_err(|error| error.to_string())?;
    Ok((expression, decl))
}

/// Runs an expression over `self`.
fn run(schema: &Value, value: &Value, text: &str) -> (Result<Output, String>, u64) {
    run_within(schema, value, text, CALL_LIMIT)
}

/// Runs an expression over `self` that may cost at most `limit`.
fn run_within(
    schema: &Value,
    value: &Value,
    text: &str,
    limit: u64,
) -> (Result<Output, String>, u64) {
    let (expression, decl) = match compile(schema, text) {
        Ok(compiled) => compiled,
        Err(error) => return (Err(error), 0),
    };
    expression.evaluate(&[Input::json(value, &decl), Input::absent()], limit)
}

/// Runs an expression without variables.
fn eval(text: &str) -> Result<Value, String> {
    let expression = Expression::compile(text, &[]).map_err(|error| error.to_string())?;
    Ok(match expression.evaluate(&[], CALL_LIMIT).0? {
        Output::Bool(value) => json!(value),
        Output::String(text) => json!(text),
        Output::Json(value) => value,
        Output::Other(name) => json!(format!("<{name}>")),
    })
}

#[test]
fn rules_of_a_schema_compile_and_tell_their_costs() {
    let schema = Schema::parse(&json!({
        "type": "string",
        "maxLength": 10,
        "x-kubernetes-validations": [
            {"rule": "self == oldSelf"},
            {"rule": "size(self)"},
            {"rule": "oldSelf.orValue('') != self", "optionalOldSelf": true},
            {"rule": "self == 'a'", "messageExpression": "1 + 1"},
            {"rule": "self == 'a'", "messageExpression": "self +"},
        ],
    }));
    schema.compile_rules();
    let compiled: Vec<_> = schema.rules.iter().map(|rule| rule.compiled().unwrap()).collect();
    assert!(compiled[0].uses_old_self);
    assert_eq!(compiled[0].max_cost, 2 + 4);
    assert_eq!(compiled[1].error.as_deref(), Some("cel expression must evaluate to a bool"));
    assert!(compiled[2].error.is_none() && compiled[2].uses_old_self);
    let text = "messageExpression must evaluate to a string";
    assert_eq!(compiled[3].message_error.as_deref(), Some(text));
    let reported = compiled[4].message_error.as_deref().unwrap_or_default();
    assert!(reported.starts_with("messageExpression compilation failed: ERROR: <input>:1:7: "));
}

#[test]
fn the_values_of_an_enum_are_found_by_their_hashes() {
    let values: Vec<Value> = (0..1_000).map(|n| json!(format!("v{n}"))).collect();
    let schema = Schema::parse(&json!({"enum": values}));
    let before = windlass_text::work::total();
    assert!(values.iter().all(|value| schema.allows(value)));
    assert!(!schema.allows(&json!("v1000")));
    assert!(windlass_text::work::total() - before < 2_000);
}

#[test]
fn numbers_of_an_enum_are_compared_as_go_converts_them() {
    let schema = Schema::parse(&json!({"enum": [1, 2.5, 0.0, null, true, ["a"], {"k": 1}]}));
    for value in [json!(1), json!(1.0), json!(1.9), json!(2.5), json!(0), json!(-0.0)] {
        assert!(schema.allows(&value), "{value}");
    }
    for value in [json!(true), json!(["a"]), json!({"k": 1})] {
        assert!(schema.allows(&value), "{value}");
    }
    for value in [json!(2), json!(2.6), json!(null), json!("1"), json!(false), json!([])] {
        assert!(!schema.allows(&value), "{value}");
    }
}
