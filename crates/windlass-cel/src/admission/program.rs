//! Expressions over a request, and the values of their variables.

use std::sync::Arc;

use serde_json::Value;

use super::environment::{Environment, Gives, namespace_decl, request_decl};
use crate::{Authorizer, Expression, Input, Kept, Output, Variable};

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
    /// The values of the policy's variables so far, or why they have none.
    variables: Vec<(String, Result<Kept, String>)>,
}

static NOTHING: Value = Value::Null;

// === impl Program ===

impl Program {
    /// Compiles a text that has to give something.
    pub fn compile(text: &str, gives: Gives, environment: &Environment) -> Self {
        let compiled = environment.compile(text, gives, true);
        Self { text: text.to_owned(), compiled: compiled.map_err(|why| why.to_string()) }
    }

    /// The text that was compiled.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it compiled to.
    pub fn compiled(&self) -> Option<&Expression> {
        self.compiled.as_ref().ok()
    }

    /// Returns `true` if it uses a variable.
    pub fn uses(&self, name: &str) -> bool {
        self.compiled().is_some_and(|compiled| compiled.uses(name))
    }

    /// Runs it.
    ///
    /// # Errors
    /// What went wrong, in the words of the API server.
    pub fn run(&self, scope: &Scope<'_>, limit: u64) -> Result<Output, String> {
        let compiled = self.compiled.as_ref().map_err(|why| format!("compilation error: {why}"))?;
        let (result, _cost) = compiled.evaluate(&scope.inputs(compiled), limit);
        result.map_err(|error| self.failed(scope, error))
    }

    /// Runs it, and keeps what it gives for others.
    ///
    /// # Errors
    /// What went wrong, in the words of the API server.
    pub fn keep(&self, scope: &Scope<'_>, limit: u64) -> Result<Kept, String> {
        let compiled = self.compiled.as_ref().map_err(|why| format!("compilation error: {why}"))?;
        let result = compiled.evaluate_kept(&scope.inputs(compiled), limit);
        result.map_err(|error| self.failed(scope, error))
    }

    /// Runs it for the patch it makes.
    ///
    /// # Errors
    /// What went wrong, in the words of the API server.
    pub fn patch(&self, scope: &Scope<'_>, limit: u64) -> Result<Value, String> {
        let compiled = self.compiled.as_ref().map_err(Clone::clone)?;
        let result = compiled.evaluate_patch(&scope.inputs(compiled), limit);
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
        scope.variables.iter().find_map(|(name, value)| {
            let error = value.as_ref().err()?;
            let used = self.text.contains(&format!("variables.{name}"));
            used.then(|| format!("composited variable \"{name}\" fails to evaluate: {error}"))
        })
    }
}

// === impl Scope ===

impl<'a> Scope<'a> {
    /// The values for a request: the objects, null if the request has none, and the request itself
    /// without them.
    pub fn new(object: &'a Value, old: &'a Value, request: Value) -> Self {
        Self {
            object,
            old,
            request,
            namespace: Arc::default(),
            params: &NOTHING,
            authorizer: None,
            variables: Vec::new(),
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

    /// Adds a variable of the policy.
    pub(super) fn set(&mut self, name: &str, value: Result<Kept, String>) {
        self.variables.push((name.to_owned(), value));
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
                let known =
                    known.filter_map(|(name, value)| Some((name.clone(), value.as_ref().ok()?)));
                Input::results(known.map(|(name, value)| (name, Input::kept(value))))
            }
        };
        compiled.variables().iter().map(value).collect()
    }
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("request", &self.request).finish_non_exhaustive()
    }
}
