//! The Common Expression Language as Kubernetes runs it: the libraries, limits, costs and error
//! texts of v1.36, without a server.
//!
//! 1. [`check_syntax`] parses a text without knowing any type.
//! 2. [`Schema`] reads an OpenAPI structural schema; [`Decl::from_schema`] declares the type of the
//!    values it describes.
//! 3. [`Expression::compile`] checks a text against declared [`Variable`]s, once.
//! 4. [`Expression::estimate`] returns the worst cost of a run.
//! 5. [`Expression::evaluate`] runs it, often, on JSON values that are only borrowed.
//!
//! ```
//! use std::sync::Arc;
//! use serde_json::json;
//! use windlass_cel::{CALL_LIMIT, Decl, Expression, Input, Output, Schema, Variable};
//!
//! let schema = Schema::parse(&json!({
//!     "type": "object",
//!     "properties": {
//!         "replicas": {"type": "integer"},
//!         "zones": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 63}},
//!     },
//! }));
//! let decl = Arc::new(Decl::from_schema(&schema, false, "Spec").unwrap());
//! let variables = [Variable::new("self", decl.clone())];
//!
//! let expression = Expression::compile("self.replicas >= self.zones.size()", &variables).unwrap();
//! assert!(expression.estimate(&decl) < 100);
//!
//! let value = json!({"replicas": 3, "zones": ["a", "b"]});
//! let (result, cost) = expression.evaluate(&[Input::json(&value, &decl)], CALL_LIMIT);
//! assert_eq!(result, Ok(Output::Bool(true)));
//! assert_eq!(cost, 6);
//!
//! let error = Expression::compile("self.zones < 3", &variables).unwrap_err();
//! assert!(error.to_string().contains("no matching overload for '_<_'"));
//! ```
//!
//! The validation rules of a whole schema (`x-kubernetes-validations`) are compiled by
//! [`Schema::compile_rules`]. The expressions of webhooks and policies are those of [`admission`].
//!
//! **Invariant:** nothing here panics on any text or data, and every run ends within its limit.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub mod admission;
mod ast;
mod authorize;
mod charge;
mod check;
mod clauses;
mod cost;
mod decl;
mod escape;
mod eval;
mod functions;
mod library;
mod literal;
mod macros;
mod message;
mod meter;
mod parse;
mod plan;
mod range;
mod rule;
mod schema;
mod signatures;
mod source;
#[cfg(test)]
mod tests;
mod time;
mod token;
mod types;
mod value;

pub use authorize::{Authorizer, Decision, Request};
pub use check::Variable;
pub use decl::{Decl, Field, ListKind, Object, Shape};
pub use escape::is_reserved;
pub use rule::{CompiledRule, Evaluation, NO_DECLARATIONS, Rule};
pub use schema::{Additional, Forbidden, Schema};
pub use source::Problem;
pub use types::Type;

use check::Checked;
use plan::Plan;
use value::{Fault, Res, Val};

/// What one run of a rule may cost.
pub const CALL_LIMIT: u64 = 1_000_000;

/// What all match conditions of a webhook or policy may cost together.
pub const MATCH_LIMIT: u64 = 2_500_000;

/// What all rules of one object, or all expressions of a policy for one request, may cost together.
pub const REQUEST_LIMIT: u64 = 10_000_000;

/// The error of a run that exceeded its limit.
pub const LIMIT_EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

/// The error of expressions that exceeded what they may cost together.
pub const OUT_OF_BUDGET: &str = "validation failed due to running out of cost budget, no further \
     validation rules will be run";

/// The type of the variable `authorizer`.
pub const AUTHORIZER: Type = functions::AUTHORIZER;

/// Checks that a text is a well-formed expression, without knowing the types of its variables.
///
/// ```
/// let problems = windlass_cel::check_syntax("self.size <= ").unwrap_err();
/// assert_eq!((problems[0].line, problems[0].column), (Some(1), Some(14)));
/// assert!(problems[0].message.starts_with("Syntax error: mismatched input '<EOF>'"));
/// assert!(windlass_cel::check_syntax("self.anything.at(all)").is_ok());
/// ```
///
/// # Errors
/// Everything that is wrong with it, sorted by place; never empty.
pub fn check_syntax(text: &str) -> Result<(), Vec<Problem>> {
    let issues = match parse::parse(text) {
        Ok(ast) => plan::literals(&ast),
        Err(issues) => issues,
    };
    match issues.is_empty() {
        true => Ok(()),
        false => Err(source::problems(text, &issues)),
    }
}

/// A compiled expression.
pub struct Expression {
    ast: ast::Ast,
    checked: Checked,
    plan: Plan,
    variables: Vec<Variable>,
}

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// It is not well formed, or its types do not fit; the text shows where.
    Compilation(String),
    /// A constant part of it fails.
    Instantiation(String),
}

/// A value for a variable.
#[derive(Clone, Debug)]
pub struct Input<'a>(Res<'a>);

/// What an expression gave, kept for others.
#[derive(Clone, Debug)]
pub struct Kept(Val<'static>);

/// What an expression gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// True or false.
    Bool(bool),
    /// A text.
    String(String),
    /// Anything else that JSON can say.
    Json(Value),
    /// A value JSON has no words for, by the name of its type.
    Other(String),
}

// === impl Variable ===

impl Variable {
    /// Declares a variable.
    pub fn new(name: impl Into<String>, decl: Arc<Decl>) -> Self {
        Self { name: name.into(), decl }
    }

    /// Declares the variable `authorizer`.
    pub fn authorizer() -> Self {
        Self::new("authorizer", Arc::new(Decl::new(Shape::Value(AUTHORIZER))))
    }
}

// === impl CompileError ===

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compilation(text) => write!(f, "compilation failed: {text}"),
            Self::Instantiation(text) => write!(f, "program instantiation failed: {text}"),
        }
    }
}

impl std::error::Error for CompileError {}

// === impl Input ===

impl<'a> Input<'a> {
    /// Creates an input of data that looks as declared.
    pub fn json(value: &'a Value, decl: &'a Decl) -> Self {
        Self(Val::of_json(value, decl))
    }

    /// Creates an input of data of which nothing is known.
    pub fn plain(value: &'a Value) -> Self {
        Self(Val::of_json(value, &decl::DYN))
    }

    /// Creates an optional with or without data.
    pub fn optional(value: Option<&'a Value>, decl: &'a Decl) -> Self {
        Self(match value {
            Some(value) => Val::of_json(value, decl).map(Val::some),
            None => Ok(Val::Opt(None)),
        })
    }

    /// Creates an input without a value: using the variable is an error.
    pub fn absent() -> Self {
        Self(value::fault("no such attribute(s)"))
    }

    /// Creates an input of named values that other expressions gave; one that failed fails where it
    /// is used.
    pub fn results(values: impl IntoIterator<Item = (String, Input<'a>)>) -> Self {
        let good = values.into_iter().filter_map(|(name, input)| Some((name, input.0.ok()?)));
        Self(Ok(Val::map(good)))
    }

    /// Creates an input of what another expression gave.
    pub fn kept(value: &Kept) -> Self {
        Self(Ok(value.0.clone()))
    }

    /// Returns the value of the variable `authorizer`.
    pub fn authorizer(authorizer: &'a dyn Authorizer) -> Self {
        Self(Ok(Val::Check(Arc::new(authorize::Check::start(authorizer)))))
    }
}

// === impl Expression ===

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expression").field("type", self.ty()).finish_non_exhaustive()
    }
}

impl Expression {
    /// Compiles a text that may use the given variables.
    pub fn compile(text: &str, variables: &[Variable]) -> Result<Self, CompileError> {
        Self::build(text, variables, false)
    }

    /// Compiles a text that may also make patches: messages of the types `Object`, those below it,
    /// and `JSONPatch`.
    pub fn compile_patch(text: &str, variables: &[Variable]) -> Result<Self, CompileError> {
        Self::build(text, variables, true)
    }

    fn build(text: &str, variables: &[Variable], patches: bool) -> Result<Self, CompileError> {
        let shown =
            |issues: Vec<source::Issue>| CompileError::Compilation(source::display(text, &issues));
        let ast = parse::parse(text).map_err(shown)?;
        let checked = check::check(&ast, variables, patches).map_err(shown)?;
        let mut wrong = plan::literals(&ast);
        wrong.extend(clauses::check(&ast, &checked));
        if !wrong.is_empty() {
            return Err(shown(wrong));
        }
        let plan = plan::plan(&ast, &checked).map_err(CompileError::Instantiation)?;
        Ok(Self { ast, checked, plan, variables: variables.to_vec() })
    }

    /// Returns the type of the result.
    pub fn ty(&self) -> &Type {
        self.checked.ty(&self.ast.root)
    }

    /// Returns the variables it was compiled with.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Returns `true` if it uses a variable.
    pub fn uses(&self, name: &str) -> bool {
        let index = self.variables.iter().position(|variable| variable.name == name);
        let is = |reference: &Option<check::Reference>| match reference {
            Some(check::Reference::Variable(used)) => Some(*used) == index,
            _ => false,
        };
        self.checked.references.iter().any(is)
    }

    /// Returns the worst cost of a run, where every variable looks like `root`.
    pub fn estimate(&self, root: &Decl) -> u64 {
        cost::estimate(&self.ast, &self.checked, &|_: &str| Some(root))
    }

    /// Returns the worst cost of a run, where every variable looks as declared. What is declared
    /// without bounds may be as large as a request.
    pub fn worst_cost(&self) -> u64 {
        let decl = |name: &str| {
            let declared = self.variables.iter().find(|variable| variable.name == name);
            declared.map(|variable| &*variable.decl)
        };
        cost::estimate(&self.ast, &self.checked, &decl)
    }

    /// Runs it with one input per variable; returns the result, or the error in the words of the
    /// reference, and what the run cost.
    pub fn evaluate(&self, inputs: &[Input<'_>], limit: u64) -> (Result<Output, String>, u64) {
        let (result, cost) = self.run(inputs, limit, |made| Ok(Output::of(&made)));
        (result.map_err(fault_text), cost)
    }

    /// Runs it like [`Expression::evaluate`] for the patch it makes: an object, or a list of steps.
    ///
    /// # Errors
    /// As [`Expression::evaluate`], and if a message is not named after its place.
    pub fn evaluate_patch(&self, inputs: &[Input<'_>], limit: u64) -> (Result<Value, String>, u64) {
        let (result, cost) = self.run(inputs, limit, |made| patch_of(&made));
        (result.map_err(fault_text), cost)
    }

    /// Runs it like [`Expression::evaluate`], and keeps the result as an input for others.
    ///
    /// # Errors
    /// As [`Expression::evaluate`], and if the result can not be kept.
    pub fn evaluate_kept(&self, inputs: &[Input<'_>], limit: u64) -> (Result<Kept, String>, u64) {
        let keep = |made: Val<'_>| match made.detached()? {
            Some(kept) => Ok(Kept(kept)),
            None => value::fault(format!("a value of type {} can not be kept", made.type_name())),
        };
        let (result, cost) = self.run(inputs, limit, keep);
        (result.map_err(fault_text), cost)
    }

    /// Runs it and reads the result, all within the limit.
    fn run<T>(
        &self,
        inputs: &[Input<'_>],
        limit: u64,
        read: impl FnOnce(Val<'_>) -> Result<T, Fault>,
    ) -> (Result<T, Fault>, u64) {
        let variables: Vec<Res<'_>> = inputs.iter().map(|input| input.0.clone()).collect();
        meter::run(limit, || {
            let (result, cost) = eval::run(&self.plan, &variables, limit);
            (result.and_then(read), cost)
        })
    }
}

/// The patch that an expression made.
fn patch_of(made: &Val<'_>) -> Result<Value, Fault> {
    let messages = match made {
        Val::List(list) => list.items()?,
        _ => vec![made.clone()],
    };
    for made in &messages {
        let Val::Message(made) = made else { continue };
        let step = &*made.name == message::STEP;
        let object = if step { made.get("value") } else { Some(Val::Message(made.clone())) };
        if let Some(Val::Message(object)) = object {
            object.check_names().or_else(|why| value::fault(format!("type mismatch: {why}")))?;
        }
    }
    match made.to_json() {
        Some(patch) => Ok(patch),
        None => value::fault(format!("{} is no JSON", made.type_name())),
    }
}

fn fault_text(fault: Fault) -> String {
    match fault {
        Fault::Cost => LIMIT_EXCEEDED.to_owned(),
        Fault::Error(text) => text.into(),
    }
}

// === impl Output ===

impl Output {
    fn of(value: &Val<'_>) -> Self {
        match value {
            Val::Bool(value) => Self::Bool(*value),
            Val::Str(text) => Self::String(text.to_string()),
            other => match other.to_json() {
                Some(json) => Self::Json(json),
                None => Self::Other(other.type_name()),
            },
        }
    }
}
