//! Validation rules (`x-kubernetes-validations`): reading, compiling and running one of them.
//!
//! Which rules run on an object, against which old value and with which budget, is decided by
//! the code that validates the object.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::decl::{Decl, REQUEST_MAX, Shape};
use super::schema::Schema;
use super::types::Type;
use super::{CALL_LIMIT, Expression, Input, Output, Variable};

/// The error of rules at a node whose schema declares nothing that expressions could read.
pub const NO_DECLARATIONS: &str = "unable to convert structural schema to CEL declarations";

/// One rule of a schema node.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// The expression.
    pub rule: String,
    /// The message of a failure.
    pub message: String,
    /// An expression that computes the message.
    pub message_expression: String,
    /// The reason of a failure.
    pub reason: Option<String>,
    /// The field that a failure is reported at, relative to the node.
    pub field_path: String,
    /// Whether `oldSelf` is optional.
    pub optional_old_self: Option<bool>,
    compiled: OnceLock<Arc<CompiledRule>>,
}

/// A rule after compilation: its program and estimated cost, or the errors found.
#[derive(Debug, Default)]
pub struct CompiledRule {
    /// Why the rule did not compile.
    pub error: Option<String>,
    /// Why the message expression did not compile.
    pub message_error: Option<String>,
    /// Whether the rule names `oldSelf`.
    pub uses_old_self: bool,
    /// The estimated worst cost of one run.
    pub max_cost: u64,
    /// How often the node can occur at most in a request, if the schema does not bound it.
    pub max_cardinality: u64,
    /// The estimated worst cost of the message expression, if there is one.
    pub message_max_cost: Option<u64>,
    program: Option<Program>,
}

/// A result and its cost.
#[derive(Debug)]
pub struct Evaluation<T> {
    /// The value, or the error in the words of the API server.
    pub result: Result<T, String>,
    /// The cost of the run.
    pub cost: u64,
}

#[derive(Debug)]
struct Program {
    rule: Expression,
    message: Option<Expression>,
    optional: bool,
}

// === impl Rule ===

impl Rule {
    /// Reads a rule; a field with the wrong JSON type counts as absent.
    pub fn parse(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        Self {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: value["reason"].as_str().map(str::to_owned),
            field_path: text("fieldPath"),
            optional_old_self: value["optionalOldSelf"].as_bool(),
            compiled: OnceLock::new(),
        }
    }

    /// Returns the compiled rule, once [`Schema::compile_rules`] ran.
    pub fn compiled(&self) -> Option<&CompiledRule> {
        self.compiled.get().map(|compiled| &**compiled)
    }

    /// Returns the rule as error texts show it.
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

    /// Returns what errors call the rule: its message, or else its expression.
    pub fn name(&self) -> &str {
        match self.message.is_empty() {
            true => self.rule.trim(),
            false => self.message.trim(),
        }
    }

    /// Returns the text of a failure, unless the message expression gives one.
    pub fn failure(&self) -> String {
        match self.message.is_empty() {
            true => format!("failed rule: {}", self.rule.trim()),
            false => self.message.trim().to_owned(),
        }
    }

    fn compile(&self, decl: &Arc<Decl>) -> CompiledRule {
        if self.rule.trim().is_empty() {
            return CompiledRule::default();
        }
        let optional = self.optional_old_self == Some(true);
        let old = match optional {
            true => Arc::new(Decl::new(Shape::Value(decl.ty().optional()))),
            false => decl.clone(),
        };
        let variables = [Variable::new("self", decl.clone()), Variable::new("oldSelf", old)];
        let program = match Expression::compile(&self.rule, &variables) {
            Ok(program) => program,
            Err(error) => return CompiledRule::failed(error.to_string()),
        };
        if !matches!(program.ty(), Type::Bool) {
            return CompiledRule::failed("cel expression must evaluate to a bool".into());
        }
        let mut compiled = CompiledRule {
            uses_old_self: program.uses("oldSelf"),
            max_cost: program.estimate(decl),
            max_cardinality: (REQUEST_MAX / (decl.min_size + 1)).unsigned_abs(),
            ..CompiledRule::default()
        };
        let message = compiled.compile_message(self, &variables, decl);
        compiled.program = Some(Program { rule: program, message, optional });
        compiled
    }
}

// === impl Schema ===

impl Schema {
    /// Compiles the rules of this node, taken as a whole object, and of every node below it.
    ///
    /// ```
    /// use serde_json::json;
    /// use windlass_cel::Schema;
    ///
    /// let schema = Schema::parse(&json!({
    ///     "type": "object",
    ///     "properties": {"size": {"type": "integer"}},
    ///     "x-kubernetes-validations": [{"rule": "self.size <= 3"}, {"rule": "self.sise <= 3"}],
    /// }));
    /// schema.compile_rules();
    /// let good = schema.rules[0].compiled().unwrap();
    /// assert_eq!(good.max_cost, 3);
    /// let run = good.evaluate(&json!({"size": 5}), None).unwrap();
    /// assert_eq!(run.result, Ok(false));
    /// let bad = schema.rules[1].compiled().unwrap();
    /// assert!(bad.error.as_ref().unwrap().contains("undefined field 'sise'"));
    /// ```
    pub fn compile_rules(&self) {
        self.compile_rules_at(true);
    }

    fn compile_rules_at(&self, root: bool) {
        if !self.rules.is_empty() {
            let decl = Decl::from_schema(self, root || self.embedded, "selfType").map(Arc::new);
            for rule in &self.rules {
                rule.compiled.get_or_init(|| {
                    Arc::new(match &decl {
                        Some(decl) => rule.compile(decl),
                        None => CompiledRule::failed(NO_DECLARATIONS.to_owned()),
                    })
                });
            }
        }
        let below = self.properties.values().chain(self.items.as_deref());
        for child in below.chain(self.additional_schema()).chain(&self.all_of) {
            child.compile_rules_at(false);
        }
    }
}

// === impl CompiledRule ===

impl CompiledRule {
    /// Runs the rule on a value and its old value, if there is one; `None` if the rule did not
    /// compile.
    pub fn evaluate(&self, value: &Value, old: Option<&Value>) -> Option<Evaluation<bool>> {
        let program = self.program.as_ref()?;
        let (result, cost) = program.run(&program.rule, value, old);
        let result = result.and_then(|output| match output {
            Output::Bool(value) => Ok(value),
            _ => Err("cel expression must evaluate to a bool".into()),
        });
        Some(Evaluation { result, cost })
    }

    /// Runs the message expression, if there is one; the text is not trimmed or checked.
    pub fn message(&self, value: &Value, old: Option<&Value>) -> Option<Evaluation<String>> {
        let program = self.program.as_ref()?;
        let (result, cost) = program.run(program.message.as_ref()?, value, old);
        let result = result.and_then(|output| match output {
            Output::String(text) => Ok(text),
            _ => Err("messageExpression must evaluate to a string".into()),
        });
        Some(Evaluation { result, cost })
    }

    fn failed(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    fn compile_message(
        &mut self,
        rule: &Rule,
        variables: &[Variable],
        decl: &Decl,
    ) -> Option<Expression> {
        if rule.message_expression.is_empty() {
            return None;
        }
        match Expression::compile(&rule.message_expression, variables) {
            Err(error) => self.message_error = Some(format!("messageExpression {error}")),
            Ok(program) if !matches!(program.ty(), Type::String) => {
                let error = "messageExpression must evaluate to a string";
                self.message_error = Some(error.into());
            }
            Ok(program) => {
                self.message_max_cost = Some(program.estimate(decl));
                return Some(program);
            }
        }
        None
    }
}

// === impl Program ===

impl Program {
    fn run(
        &self,
        expression: &Expression,
        value: &Value,
        old: Option<&Value>,
    ) -> (Result<Output, String>, u64) {
        let decl = &expression.variables()[0].decl;
        let this = Input::json(value, decl);
        let before = match (self.optional, old) {
            (true, old) => Input::optional(old, decl),
            (false, Some(old)) => Input::json(old, decl),
            (false, None) => Input::absent(),
        };
        expression.evaluate(&[this, before], CALL_LIMIT)
    }
}
