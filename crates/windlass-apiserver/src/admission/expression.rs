//! Expressions over a request: what they may use, and what they give.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_cel::{self as cel, Input, Kept, Output, Variable};

use super::Review;
use super::environment::{Environment, Gives, namespace_decl, request_decl};
use super::shown::{Shown, kind_of};
use crate::auth::{Attributes, User};
use crate::lookup::Lookup;
use crate::resource::{Gvk, Resource};
use crate::server::Inner;

/// An expression, compiled if it can be.
pub(super) struct Expression {
    pub text: String,
    compiled: Result<cel::Expression, String>,
}

/// The values of the variables of an expression.
pub(super) struct Scope<'a> {
    asker: Asker<'a>,
    object: &'a Value,
    old: &'a Value,
    request: Value,
    namespace: Arc<Value>,
    params: Option<&'a Value>,
    /// The values of the policy's variables so far, or why they have none.
    pub variables: Vec<(String, Result<Kept, String>)>,
}

/// Answers the questions of `authorizer`.
struct Asker<'a> {
    server: &'a Inner,
    user: &'a User,
}

static NOTHING: Value = Value::Null;

// === impl Expression ===

impl Expression {
    /// Compiles a text that has to give something.
    pub fn compile(text: &str, gives: Gives, environment: &Environment) -> Self {
        let compiled = environment.compile(text, gives, true);
        Self { text: text.to_owned(), compiled: compiled.map_err(|why| why.to_string()) }
    }

    /// What it compiled to.
    pub fn compiled(&self) -> Option<&cel::Expression> {
        self.compiled.as_ref().ok()
    }

    /// Runs it.
    ///
    /// # Errors
    /// What went wrong, in the real server's words.
    pub fn run(&self, scope: &Scope<'_>, limit: u64) -> Result<Output, String> {
        let compiled = self.compiled.as_ref().map_err(|why| format!("compilation error: {why}"))?;
        let (result, _cost) = compiled.evaluate(&scope.inputs(compiled), limit);
        result.map_err(|error| self.failed(scope, error))
    }

    /// Runs it, and keeps what it gives for others.
    ///
    /// # Errors
    /// What went wrong, in the real server's words.
    pub fn keep(&self, scope: &Scope<'_>, limit: u64) -> Result<Kept, String> {
        let compiled = self.compiled.as_ref().map_err(|why| format!("compilation error: {why}"))?;
        let result = compiled.evaluate_kept(&scope.inputs(compiled), limit);
        result.map_err(|error| self.failed(scope, error))
    }

    /// Runs it for the patch it makes.
    ///
    /// # Errors
    /// What went wrong, in the real server's words.
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
    pub fn new(
        server: &'a Inner,
        review: &'a Review<'_>,
        shown: &'a Shown,
        params: Option<&'a Value>,
    ) -> Self {
        let own = review.concerns("", "namespaces");
        let namespace = match review.namespace.as_str() {
            "" => None,
            _ if own => None,
            name => server.get("", "namespaces", "", name),
        };
        Self {
            asker: Asker { server, user: review.user },
            object: shown.object.as_ref().unwrap_or(&NOTHING),
            old: shown.old.as_ref().unwrap_or(&NOTHING),
            request: request(review, shown),
            namespace: namespace.unwrap_or_default(),
            params,
            variables: Vec::new(),
        }
    }

    /// The values of the variables an expression was compiled with.
    fn inputs<'s>(&'s self, compiled: &cel::Expression) -> Vec<Input<'s>> {
        let value = |variable: &Variable| match variable.name.as_str() {
            "object" => Input::plain(self.object),
            "oldObject" => Input::plain(self.old),
            "request" => Input::json(&self.request, request_decl()),
            "namespaceObject" => Input::json(&self.namespace, namespace_decl()),
            "authorizer" => Input::authorizer(&self.asker),
            "params" => Input::plain(self.params.unwrap_or(&NOTHING)),
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

/// The variable `request`.
fn request(review: &Review<'_>, shown: &Shown) -> Value {
    let kind =
        |gvk: &Gvk| json!({"group": &*gvk.group, "version": &*gvk.version, "kind": &*gvk.kind});
    let resource = |resource: &Resource| {
        let gvk = &resource.gvk;
        json!({"group": &*gvk.group, "version": &*gvk.version, "resource": &*resource.plural})
    };
    json!({
        "kind": kind(&shown.kind), "resource": resource(&shown.resource),
        "subResource": review.subresource, "requestSubResource": review.subresource,
        "requestKind": kind(&kind_of(review.resource, review.subresource)),
        "requestResource": resource(review.resource),
        "name": review.name, "namespace": review.namespace,
        "operation": review.operation.as_str(), "userInfo": review.user.to_json(),
        "dryRun": review.dry_run, "options": review.options,
    })
}

// === impl Asker ===

impl fmt::Debug for Asker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asker").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl cel::Authorizer for Asker<'_> {
    fn decide(&self, request: &cel::Request) -> cel::Decision {
        let account = request.service_account.as_ref();
        let account = account.map(|(namespace, name)| User::service_account(namespace, name));
        let user = account.as_ref().unwrap_or(self.user);
        let attributes = match &request.path {
            Some(path) => Attributes::path(user, &request.verb, path),
            None => Attributes {
                subresource: &request.subresource,
                namespace: &request.namespace,
                name: &request.name,
                ..Attributes::resource(user, &request.verb, &request.group, &request.resource)
            },
        };
        if user.is_master() {
            return cel::Decision { allowed: true, ..cel::Decision::default() };
        }
        let decided = self.server.authorizer.authorize(self.server, &attributes);
        cel::Decision { allowed: decided.allowed, reason: decided.reason, error: None }
    }
}
