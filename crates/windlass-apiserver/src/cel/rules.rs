//! Validation rules of custom resources, on top of expressions.

use std::sync::Arc;

use serde_json::Value;

use super::decl::{Decl, REQUEST_MAX, Shape};
use super::types::Type;
use super::{CALL_LIMIT, Expression, Variable};
use crate::custom::Schema;
use crate::custom::rules::{Compiled, Engine, Evaluation, Program, Rule};

/// What is told of rules where nothing is declared to look at.
pub const NO_DECLARATIONS: &str = "unable to convert structural schema to CEL declarations";

/// The engine of validation rules.
#[derive(Debug, Default)]
pub struct Rules;

#[derive(Debug)]
struct Compilation {
    rule: Expression,
    message: Option<Expression>,
    optional: bool,
}

impl Engine for Rules {
    fn compile(&self, node: &Schema, root: bool) -> Vec<Compiled> {
        let Some(decl) = Decl::from_schema(node, root, "selfType") else {
            let error = || Some(NO_DECLARATIONS.to_owned());
            let failed = || Compiled { error: error(), ..Compiled::default() };
            return node.rules.iter().map(|_| failed()).collect();
        };
        let decl = Arc::new(decl);
        node.rules.iter().map(|rule| compile(rule, &decl)).collect()
    }
}

fn compile(rule: &Rule, decl: &Arc<Decl>) -> Compiled {
    if rule.rule.trim().is_empty() {
        return Compiled::default();
    }
    let optional = rule.optional_old_self == Some(true);
    let old = match optional {
        true => Arc::new(Decl::new(Shape::Value(decl.ty().optional()))),
        false => decl.clone(),
    };
    let variables = [Variable::new("self", decl.clone()), Variable::new("oldSelf", old)];
    let failed = |error: String| Compiled { error: Some(error), ..Compiled::default() };
    let program = match Expression::compile(&rule.rule, &variables) {
        Ok(program) => program,
        Err(error) => return failed(error.to_string()),
    };
    if !matches!(program.ty(), Type::Bool) {
        return failed("cel expression must evaluate to a bool".into());
    }
    let mut compiled = Compiled {
        uses_old_self: program.uses("oldSelf"),
        max_cost: program.estimate(decl),
        max_cardinality: (REQUEST_MAX / (decl.min_size + 1)).unsigned_abs(),
        ..Compiled::default()
    };
    let mut message = None;
    if !rule.message_expression.is_empty() {
        match Expression::compile(&rule.message_expression, &variables) {
            Err(error) => compiled.message_error = Some(format!("messageExpression {error}")),
            Ok(program) if !matches!(program.ty(), Type::String) => {
                let error = "messageExpression must evaluate to a string";
                compiled.message_error = Some(error.into());
            }
            Ok(program) => {
                compiled.message_max_cost = Some(program.estimate(decl));
                message = Some(program);
            }
        }
    }
    compiled.program = Some(Arc::new(Compilation { rule: program, message, optional }));
    compiled
}

impl Compilation {
    fn run(
        &self,
        program: &Expression,
        object: &Value,
        old: Option<&Value>,
    ) -> (Result<super::Output, String>, u64) {
        let decl = &program.variables()[0].decl;
        let this = super::Input::json(object, decl);
        let before = match (self.optional, old) {
            (true, old) => super::Input::optional(old, decl),
            (false, Some(old)) => super::Input::json(old, decl),
            (false, None) => super::Input::absent(),
        };
        program.evaluate(&[this, before], CALL_LIMIT)
    }
}

impl Program for Compilation {
    fn evaluate(&self, object: &Value, old: Option<&Value>) -> Evaluation<bool> {
        let (result, cost) = self.run(&self.rule, object, old);
        let result = result.and_then(|output| match output {
            super::Output::Bool(value) => Ok(value),
            _ => Err("cel expression must evaluate to a bool".into()),
        });
        Evaluation { result, cost }
    }

    fn message(&self, object: &Value, old: Option<&Value>) -> Option<Evaluation<String>> {
        let (result, cost) = self.run(self.message.as_ref()?, object, old);
        let result = result.and_then(|output| match output {
            super::Output::String(text) => Ok(text),
            _ => Err("messageExpression must evaluate to a string".into()),
        });
        Some(Evaluation { result, cost })
    }
}
