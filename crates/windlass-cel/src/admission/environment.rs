//! What the expressions of policies and webhooks may use, and what they have to give.

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::{CompileError, Decl, Expression, Shape, Type, Variable};

/// The variables that an expression may use.
///
/// ```
/// use windlass_cel::admission::{Environment, Gives};
///
/// let environment = Environment::new(false);
/// environment.compile("object.spec.size <= 5", Gives::Bool, true).unwrap();
/// let wrong = environment.compile("request.name", Gives::Bool, true).unwrap_err();
/// assert_eq!(wrong.to_string(), "must evaluate to bool but got string");
/// ```
#[derive(Clone, Debug)]
pub struct Environment {
    /// What `params` looks like, if there is a variable of that name.
    params: Option<Arc<Decl>>,
    /// What `object` and `oldObject` look like.
    object: Arc<Decl>,
    /// The policy's own variables so far; `None` if it cannot have any.
    variables: Option<Vec<(String, Type)>>,
}

/// What an expression has to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// True or false.
    Bool,
    /// A text.
    Text,
    /// A text or null.
    TextOrNull,
    /// Anything.
    Anything,
    /// A piece of the object.
    Object,
    /// Steps of a JSON patch.
    Steps,
}

/// Why an expression is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is wrong.
    Invalid(String),
    /// A constant part of it fails.
    Internal(String),
}

static REQUEST: LazyLock<Arc<Decl>> = LazyLock::new(|| Arc::new(request()));
static NAMESPACE: LazyLock<Arc<Decl>> = LazyLock::new(|| Arc::new(namespace()));

/// What the variable `request` looks like.
pub(super) fn request_decl() -> &'static Decl {
    &REQUEST
}

/// What the variable `namespaceObject` looks like.
pub(super) fn namespace_decl() -> &'static Decl {
    &NAMESPACE
}

// === impl Environment ===

impl Environment {
    /// Returns the variables of a policy or webhook; `params` is `true` if there is one of that
    /// name.
    pub fn new(params: bool) -> Self {
        let any = || Arc::new(Decl::dynamic());
        Self { params: params.then(any), object: any(), variables: None }
    }

    /// Returns the environment of expressions that may use variables of the policy.
    pub fn composed(params: bool) -> Self {
        Self { variables: Some(Vec::new()), ..Self::new(params) }
    }

    /// Returns the environment of expressions for objects of this shape.
    pub fn of(self, object: Arc<Decl>) -> Self {
        Self { object, ..self }
    }

    /// Returns the environment of expressions for parameters of this shape.
    pub fn params(self, params: Arc<Decl>) -> Self {
        Self { params: Some(params), ..self }
    }

    /// Adds a variable of the policy; one that does not compile may be anything.
    pub fn declare(&mut self, name: &str, expression: Option<&Expression>) {
        let ty = expression.map_or(Type::Dyn, |expression| expression.ty().clone());
        self.variables.get_or_insert_default().push((name.to_owned(), ty));
    }

    /// Compiles an expression; `authorizer` is `true` if it may ask for permissions.
    ///
    /// # Errors
    /// Why it does not compile, or that it gives something else.
    pub fn compile(
        &self,
        text: &str,
        gives: Gives,
        authorizer: bool,
    ) -> Result<Expression, Unusable> {
        let mut variables = vec![
            Variable::new("object", self.object.clone()),
            Variable::new("oldObject", self.object.clone()),
            Variable::new("request", REQUEST.clone()),
            Variable::new("namespaceObject", NAMESPACE.clone()),
        ];
        if let Some(own) = &self.variables {
            let own = own.iter().map(|(name, ty)| {
                let shape = if ty.is_dyn() { Shape::Dyn } else { Shape::Value(ty.clone()) };
                (name.clone(), Decl::new(shape))
            });
            let own = Decl::object("kubernetes.variables", own);
            variables.push(Variable::new("variables", Arc::new(own)));
        }
        if authorizer {
            variables.push(Variable::authorizer());
        }
        if let Some(params) = &self.params {
            variables.push(Variable::new("params", params.clone()));
        }
        let patches = matches!(gives, Gives::Object | Gives::Steps);
        let compile = if patches { Expression::compile_patch } else { Expression::compile };
        let compiled = compile(text, &variables).map_err(|error| match error {
            CompileError::Compilation(_) => Unusable::Invalid(error.to_string()),
            CompileError::Instantiation(_) => Unusable::Internal(error.to_string()),
        })?;
        gives.check(compiled.ty()).map_err(Unusable::Invalid)?;
        Ok(compiled)
    }
}

// === impl Gives ===

impl Gives {
    fn check(self, ty: &Type) -> Result<(), String> {
        let name = declared(ty);
        let wanted = match self {
            Self::Bool => "bool",
            Self::Text => "string",
            Self::TextOrNull if name == "string" || name == "null_type" => return Ok(()),
            Self::TextOrNull => {
                return Err(format!("must evaluate to one of [string null_type] but got {name}"));
            }
            Self::Anything => return Ok(()),
            Self::Object => "Object",
            Self::Steps => "list(JSONPatch)",
        };
        if name == wanted {
            return Ok(());
        }
        Err(format!("must evaluate to {wanted} but got {name}"))
    }
}

/// The name of a type as the real server prints it.
fn declared(ty: &Type) -> String {
    let parts: Vec<String> = ty.parts().into_iter().map(declared).collect();
    match parts.is_empty() {
        true => ty.runtime_name().to_owned(),
        false => format!("{}({})", ty.runtime_name(), parts.join(", ")),
    }
}

// === impl Unusable ===

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Invalid(why) | Self::Internal(why)) = self;
        f.write_str(why)
    }
}

fn object<const N: usize>(name: &str, fields: [(&str, Decl); N]) -> Decl {
    Decl::object(name, fields.map(|(name, decl)| (name.to_owned(), decl)))
}

fn text() -> Decl {
    Decl::new(Shape::Str)
}

fn texts() -> Decl {
    Decl::list(text())
}

fn request() -> Decl {
    let named = |name: &str, last: &str| {
        object(name, [("group", text()), ("version", text()), (last, text())])
    };
    let kind = || named("kubernetes.GroupVersionKind", "kind");
    let resource = || named("kubernetes.GroupVersionResource", "resource");
    let user = object(
        "kubernetes.UserInfo",
        [("username", text()), ("uid", text()), ("groups", texts()), ("extra", Decl::map(texts()))],
    );
    object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Decl::new(Shape::Bool)),
            ("options", Decl::dynamic()),
        ],
    )
}

fn namespace() -> Decl {
    let time = || Decl::new(Shape::Timestamp);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", Decl::map(text())),
            ("annotations", Decl::map(text())),
            ("UID", text()),
            ("creationTimestamp", time()),
            ("deletionGracePeriodSeconds", Decl::new(Shape::Int)),
            ("deletionTimestamp", time()),
            ("generation", Decl::new(Shape::Int)),
            ("resourceVersion", text()),
            ("finalizers", texts()),
        ],
    );
    let condition = object(
        "kubernetes.NamespaceCondition",
        [
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", time()),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let status = [("conditions", Decl::list(condition)), ("phase", text())];
    let mut namespace = object(
        "kubernetes.Namespace",
        [
            ("metadata", metadata),
            ("spec", object("kubernetes.NamespaceSpec", [("finalizers", texts())])),
            ("status", object("kubernetes.NamespaceStatus", status)),
        ],
    );
    namespace.nullable = true;
    namespace
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(text: &str, gives: Gives) -> Result<(), String> {
        let made = Environment::new(false).compile(text, gives, true);
        made.map(drop).map_err(|why| why.to_string())
    }

    #[test]
    fn expressions_give_what_is_asked_for() {
        compile("request.dryRun || object.x == 1", Gives::Bool).unwrap();
        compile("Object{spec: Object.spec{replicas: 3}}", Gives::Object).unwrap();
        compile("[JSONPatch{op: 'add', path: '/x', value: 1}]", Gives::Steps).unwrap();
        let wrong = compile("'a'", Gives::Bool).unwrap_err();
        assert_eq!(wrong, "must evaluate to bool but got string");
        let wrong = compile("[1]", Gives::Steps).unwrap_err();
        assert_eq!(wrong, "must evaluate to list(JSONPatch) but got list(int)");
        let wrong = compile("object.x", Gives::TextOrNull).unwrap_err();
        assert_eq!(wrong, "must evaluate to one of [string null_type] but got dyn");
    }

    #[test]
    fn what_is_not_there_does_not_compile() {
        let all = ["request.nothing", "variables.x", "params.x", "Object{}", "namespaceObject.x"];
        for text in all {
            compile(text, Gives::Anything).unwrap_err();
        }
    }
}
