//! Expressions over a request, and the values of their variables.

use std::cell::Cell;
use std::sync::Arc;

use serde_json::Value;

use super::environment::{Environment, Gives, namespace_decl, request_decl};
use crate::{Authorizer, CALL_LIMIT, Expression, Input, Kept, OUT_OF_BUDGET, Output, Variable};

/// An expression, compiled if it can be.
#[derive(Debug)]
pub struct Program {
    text: String,
    compiled: Result<Expression, String>,
}

/// The values of the variables of an expression.
pub struct Scope<'a> {
    object: &'a Value,
    old: &'a Value,
    request: Value,
    namespace: Arc<Value>,
    params: &'a Value,
    authorizer: Option<Box<dyn Authorizer + 'a>>,
    /// The variables of the policy so far.
    variables: Vec<Composed>,
    /// What expressions may still cost; `None` if they have cost more.
    left: Cell<Option<u64>>,
}

/// A variable of a policy.
struct Composed {
    name: String,
    /// Its value, or why it has none.
    value: Result<Kept, String>,
    /// The text of its expression.
    text: String,
    /// What its value has cost, charged to the first expression that uses it.
    cost: u64,
    charged: Cell<bool>,
}

static NOTHING: Value = Value::Null;

// === impl Program ===

impl Program {
    /// Compiles a text that has to give something.
    pub fn compile(text: &str, gives: Gives, environment: &Environment) -> Self {
        let compiled = environment.compile(text, gives, true);
        Self { text: text.to_owned(), compiled: compiled.map_err(|why| why.to_string()) }
    }

    /// Returns the text that was compiled.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns what it compiled to.
    pub fn compiled(&self) -> Option<&Expression> {
        self.compiled.as_ref().ok()
    }

    /// Returns `true` if it uses a variable.
    pub fn uses(&self, name: &str) -> bool {
        self.compiled().is_some_and(|compiled| compiled.uses(name))
    }

    /// Runs it, and charges what it costs to the scope.
    ///
    /// # Errors
    /// What went wrong, in the words of the API server.
    pub fn run(&self, scope: &Scope<'_>) -> Result<Output, String> {
        let compiled = self.compiled.as_ref().map_err(|why| format!("compilation error: {why}"))?;
        let (result, cost) = compiled.evaluate(&scope.inputs(compiled), CALL_LIMIT);
        scope.charge(&self.text, cost)?;
        result.map_err(|error| self.failed(scope, error))
    }

    /// Runs it, and adds what it gives to the scope as a variable, which costs nothing before it is
    /// used.
    pub(super) fn compose(&self, name: &str, scope: &mut Scope<'_>) {
        let (value, cost) = match &self.compiled {
            Ok(compiled) => compiled.evaluate_kept(&scope.inputs(compiled), CALL_LIMIT),
            Err(why) => (Err(format!("compilation error: {why}")), 0),
        };
        let value = value.map_err(|error| match self.compiled {
            Ok(_) => self.failed(scope, error),
            Err(_) => error,
        });
        let (name, text, charged) = (name.to_owned(), self.text.clone(), Cell::new(false));
        scope.variables.push(Composed { name, value, text, cost, charged });
    }

    /// Runs it for the patch it makes, and charges what it costs to the scope.
    ///
    /// # Errors
    /// What went wrong, in the words of the API server.
    pub fn patch(&self, scope: &Scope<'_>) -> Result<Value, String> {
        let compiled = self.compiled.as_ref().map_err(Clone::clone)?;
        let (result, cost) = compiled.evaluate_patch(&scope.inputs(compiled), CALL_LIMIT);
        scope.charge(&self.text, cost)?;
        result.map_err(|error| match error.starts_with("type mismatch: ") {
            true => error,
            false => self.failed(scope, error),
        })
    }

    fn failed(&self, scope: &Scope<'_>, error: String) -> String {
        let error = self.failed_variable(scope).unwrap_or(error);
        format!("expression '{}' resulted in error: {error}", self.text)
    }

    /// The error of a variable that this expression uses.
    fn failed_variable(&self, scope: &Scope<'_>) -> Option<String> {
        scope.variables.iter().find_map(|Composed { name, value, .. }| {
            let error = value.as_ref().err()?;
            let text = || format!("composited variable \"{name}\" fails to evaluate: {error}");
            uses_variable(&self.text, name).then(text)
        })
    }
}

// === impl Scope ===

impl<'a> Scope<'a> {
    /// Returns the values for a request: the objects, null if the request has none, and the request
    /// itself without them.
    pub fn new(object: &'a Value, old: &'a Value, request: Value) -> Self {
        Self {
            object,
            old,
            request,
            namespace: Arc::default(),
            params: &NOTHING,
            authorizer: None,
            variables: Vec::new(),
            left: Cell::new(Some(0)),
        }
    }

    /// Sets the namespace of the object.
    pub fn namespace(self, namespace: Arc<Value>) -> Self {
        Self { namespace, ..self }
    }

    /// Sets the parameter.
    pub fn params(self, params: Option<&'a Value>) -> Self {
        Self { params: params.unwrap_or(&NOTHING), ..self }
    }

    /// Sets who answers the questions of `authorizer`; without one, using that variable is an error.
    pub fn authorizer(self, authorizer: impl Authorizer + 'a) -> Self {
        Self { authorizer: Some(Box::new(authorizer)), ..self }
    }

    /// Sets what the expressions that follow may cost together.
    pub(super) fn allow(&self, limit: u64) {
        self.left.set(Some(limit));
        self.variables.iter().for_each(|variable| variable.charged.set(false));
    }

    /// Returns `true` if expressions have cost more than they may together.
    pub(super) fn is_spent(&self) -> bool {
        self.left.get().is_none()
    }

    /// Charges an expression, and the variables that it is the first to use.
    fn charge(&self, text: &str, cost: u64) -> Result<(), String> {
        let cost = cost.saturating_add(self.cost_of_variables(text));
        self.left.set(self.left.get().and_then(|left| left.checked_sub(cost)));
        match self.is_spent() {
            true => Err(OUT_OF_BUDGET.to_owned()),
            false => Ok(()),
        }
    }

    fn cost_of_variables(&self, text: &str) -> u64 {
        let used = self.variables.iter().filter(|variable| uses_variable(text, &variable.name));
        used.fold(0, |sum: u64, variable| match variable.charged.replace(true) {
            true => sum,
            false => {
                let below = self.cost_of_variables(&variable.text);
                sum.saturating_add(variable.cost).saturating_add(below)
            }
        })
    }

    /// The values of the variables an expression was compiled with.
    fn inputs<'s>(&'s self, compiled: &Expression) -> Vec<Input<'s>> {
        let value = |variable: &Variable| match variable.name.as_str() {
            "object" => Input::plain(self.object),
            "oldObject" => Input::plain(self.old),
            "request" => Input::json(&self.request, request_decl()),
            "namespaceObject" => Input::json(&self.namespace, namespace_decl()),
            "authorizer" => {
                self.authorizer.as_deref().map_or_else(Input::absent, Input::authorizer)
            }
            "params" => Input::plain(self.params),
            _ => {
                let known = self.variables.iter();
                let known = known.filter_map(|Composed { name, value, .. }| {
                    Some((name.clone(), value.as_ref().ok()?))
                });
                Input::results(known.map(|(name, value)| (name, Input::kept(value))))
            }
        };
        compiled.variables().iter().map(value).collect()
    }
}

/// Returns `true` if the text of an expression names a variable of the policy.
fn uses_variable(text: &str, name: &str) -> bool {
    text.match_indices("variables.").any(|(at, dotted)| {
        let rest = text[at + dotted.len()..].strip_prefix(name);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("request", &self.request).finish_non_exhaustive()
    }
}
