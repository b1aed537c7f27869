//! Admission policies: rules in the expression language of Kubernetes, which the API server evaluates
//! itself.
//!
//! Where expressions suffice, a policy is better than a webhook: no server has to run, nothing fails
//! while the operator is down, and no request waits for a connection. `check` finds wrong
//! expressions before anything is installed, and `serve` evaluates the same rules in a webhook, for
//! clusters that are too old.

mod check;
mod merge;
mod serve;

use std::marker::PhantomData;

use k8s_openapi::api::admissionregistration::v1::{ParamKind, ParamRef, Validation, Variable};
use schemars::JsonSchema;
use serde_json::Value;
use windlass_manifests::rbac::{Grant, Reach, Rule};
use windlass_manifests::{Model, model, schema};

use super::{Served, is_builtin};
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};

/// Rules for the objects of one kind, in expressions that the API server evaluates.
///
/// The variables of an expression are those of Kubernetes: `object`, `oldObject`, `request`,
/// `namespaceObject`, `params`, `authorizer`, and `variables` for those of the policy itself.
/// [`Operator::model`](crate::Operator::model) fails if an expression does not fit the types of the
/// kind and of its parameters, or if it may cost too much.
///
/// # Examples
///
/// A limit that each namespace sets for itself, and a default:
///
/// ```
/// use windlass::Operator;
/// use windlass::webhook::Policy;
///
/// #[windlass::api(group = "example.com", version = "v1", kind = "Lamp")]
/// pub struct LampSpec {
///     pub watts: Option<i32>,
/// }
///
/// #[windlass::api(group = "example.com", version = "v1", kind = "Limit")]
/// pub struct LimitSpec {
///     pub watts: i32,
/// }
///
/// let policy = Policy::<Lamp>::new("watts")
///     .params::<Limit>("lamps")
///     .merge("Object{spec: Object.spec{watts: object.spec.?watts.orValue(40)}}")
///     .validate("object.spec.watts <= params.spec.watts", "needs more power than its namespace has");
/// let operator = Operator::new("lamp-operator").api::<Lamp>().api::<Limit>().policy(policy);
/// let install = operator.model().unwrap().install();
/// assert!(install.contains("kind: ValidatingAdmissionPolicy\n"));
///
/// // Kubernetes 1.30 has no mutating policies: the operator serves a webhook instead.
/// assert!(install.contains("kind: MutatingWebhookConfiguration\n"));
/// let newer = operator.installation(|model| model.kubernetes = "1.36".into());
/// assert!(newer.model().unwrap().install().contains("kind: MutatingAdmissionPolicy\n"));
/// ```
///
/// An expression that is wrong:
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass::Operator;
/// # use windlass::webhook::Policy;
/// let policy = Policy::<ConfigMap>::new("sealed").validate("object.imutable", "must be immutable");
/// let error = Operator::new("map-operator").policy(policy).model().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "policy \"sealed\": the validation \"object.imutable\" is wrong for ConfigMap: \
///      undefined field 'imutable'"
/// );
/// ```
#[must_use = "a policy does nothing until an operator declares it"]
pub struct Policy<K> {
    declared: Declared,
    kind: PhantomData<fn() -> K>,
}

/// A policy without the type of its objects.
#[derive(Clone)]
pub(crate) struct Declared {
    model: model::Policy,
    object: Described,
    params: Option<Described>,
}

/// A kind and its schema.
#[derive(Clone)]
struct Described {
    kind: Kind,
    schema: fn() -> Value,
}

// === impl Policy ===

impl<K: Object<DynamicType = ()> + JsonSchema> Policy<K> {
    /// Starts a policy without rules, for creations and updates.
    pub fn new(name: &str) -> Self {
        let kind = Kind::of::<K>();
        let mut model = model::Policy::new(name);
        model.rule(kind.group(), kind.version(), kind.plural(), &["CREATE", "UPDATE"]);
        let scope = if kind.namespaced() { "Namespaced" } else { "Cluster" };
        let constraints = model.spec.match_constraints.get_or_insert_default();
        let rules = constraints.resource_rules.iter_mut().flatten();
        rules.for_each(|rule| rule.scope = Some(scope.into()));
        model.everywhere = !is_builtin(kind.group());
        let object = Described { kind, schema: schema::of::<K> };
        Self { declared: Declared { model, object, params: None }, kind: PhantomData }
    }

    /// Adds a rule that has to hold, and what users read if it does not.
    pub fn validate(self, expression: &str, message: &str) -> Self {
        let message = Some(message.to_owned()).filter(|message| !message.is_empty());
        let expression = expression.to_owned();
        let validation = Validation { expression, message, ..Validation::default() };
        self.settings(|policy| policy.spec.validations.get_or_insert_default().push(validation))
    }

    /// Merges a part of the object, such as `Object{spec: Object.spec{watts: 40}}`, into it. Lists
    /// without keys and other parts that are owned as a whole cannot be merged.
    pub fn merge(self, expression: &str) -> Self {
        let mutation = model::Mutation::Merge(expression.to_owned());
        self.settings(|policy| policy.mutations.push(mutation))
    }

    /// Changes the object by the operations of a JSON patch, such as
    /// `[JSONPatch{op: "remove", path: "/spec/watts"}]`.
    pub fn patch(self, expression: &str) -> Self {
        let mutation = model::Mutation::Patch(expression.to_owned());
        self.settings(|policy| policy.mutations.push(mutation))
    }

    /// Adds a variable for the expressions that follow: `variables.NAME`.
    pub fn variable(self, name: &str, expression: &str) -> Self {
        let variable = Variable { name: name.to_owned(), expression: expression.to_owned() };
        self.settings(|policy| policy.spec.variables.get_or_insert_default().push(variable))
    }

    /// Reads the variable `params` from the object of this name; if its kind has namespaces, from the
    /// namespace of the request. Requests are denied while that object does not exist.
    pub fn params<P: Object<DynamicType = ()> + JsonSchema>(mut self, name: &str) -> Self {
        let kind = Kind::of::<P>();
        let param_kind = ParamKind {
            api_version: Some(kind.api_version().to_string()),
            kind: Some(kind.kind().to_owned()),
        };
        self.declared.params = Some(Described { kind, schema: schema::of::<P> });
        let reference = ParamRef {
            name: Some(name.to_owned()),
            parameter_not_found_action: Some("Deny".into()),
            ..ParamRef::default()
        };
        self.settings(|policy| {
            policy.spec.param_kind = Some(param_kind);
            policy.binding.param_ref = Some(reference);
        })
    }

    /// Validates deletions too: `object` is null, and `oldObject` is what is deleted.
    pub fn on_delete(self) -> Self {
        self.settings(|policy| {
            let constraints = policy.spec.match_constraints.iter_mut();
            let rules = constraints.flat_map(|c| c.resource_rules.iter_mut().flatten());
            for rule in rules {
                rule.operations.get_or_insert_default().push("DELETE".into());
            }
        })
    }

    /// Changes the policy and its binding: selectors, conditions, failure policy, expressions for
    /// messages, reasons, audit annotations, actions, missing parameters, reinvocation.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use windlass::webhook::Policy;
    ///
    /// let policy = Policy::<Pod>::new("names")
    ///     .validate("object.metadata.name.size() < 40", "the name is long")
    ///     .settings(|policy| {
    ///         policy.spec.failure_policy = Some("Ignore".into());
    ///         policy.binding.validation_actions = vec!["Warn".into(), "Audit".into()];
    ///     });
    /// # let _ = policy;
    /// ```
    pub fn settings(mut self, change: impl FnOnce(&mut model::Policy)) -> Self {
        change(&mut self.declared.model);
        self
    }
}

impl<K> Policy<K> {
    pub(crate) fn into_declared(self) -> Declared {
        self.declared
    }
}

impl<K> std::fmt::Debug for Policy<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy").field("name", &self.declared.model.name).finish_non_exhaustive()
    }
}

// === impl Declared ===

impl Declared {
    /// The policy as the manifests have it.
    pub(crate) fn model(&self) -> &model::Policy {
        &self.model
    }

    /// Checks the expressions, and that what is served as a webhook can be.
    pub(crate) fn check(&self, model: &Model) -> Result<()> {
        check::check(self)?;
        let served = self.parts(model).any(|mutating| {
            windlass_cel::admission::Policy::compile(&self.model.spec(mutating)).uses("authorizer")
        });
        match served {
            false => Ok(()),
            true => Err(Error::Invalid(format!(
                "policy {:?} uses `authorizer`, which a webhook does not have: state a version of \
                 Kubernetes with such policies instead of {}",
                self.model.name, model.kubernetes
            ))),
        }
    }

    /// The webhooks that take the place of the policy in clusters without such policies.
    pub(crate) fn webhooks(&self, model: &Model) -> Vec<Served> {
        self.parts(model).map(|mutating| serve::served(self, model, mutating)).collect()
    }

    /// What the operator may do to evaluate the policy itself.
    pub(crate) fn grants(&self, model: &Model) -> Vec<Grant> {
        if self.parts(model).next().is_none() {
            return Vec::new();
        }
        let mut grants = Vec::new();
        if let Some(Described { kind, .. }) = &self.params {
            let rule = Rule::new(kind.group(), kind.plural(), ["get", "list"]);
            grants.push(Grant::new(rule, Reach::Cluster).rare());
        }
        let spec = self.parts(model).map(|mutating| self.model.spec(mutating));
        let mut compiled = spec.map(|spec| windlass_cel::admission::Policy::compile(&spec));
        if compiled.any(|policy| policy.uses("namespaceObject")) {
            let rule = Rule::new("", "namespaces", ["get"]);
            grants.push(Grant::new(rule, Reach::Cluster).rare());
        }
        grants
    }

    /// The parts that are served as webhooks: `true` for the mutating one.
    fn parts(&self, model: &Model) -> impl Iterator<Item = bool> {
        let parts = [(true, self.model.mutates()), (false, self.model.validates())];
        let served = parts.map(|(mutating, has)| (mutating, has && !model.has_policies(mutating)));
        served.into_iter().filter(|(_, served)| *served).map(|(mutating, _)| mutating)
    }
}

// === impl Described ===

impl Described {
    /// The schema of whole objects: definitions leave the metadata out.
    fn schema(&self) -> Value {
        let mut schema = (self.schema)();
        schema["properties"]["metadata"] = check::metadata();
        for field in ["apiVersion", "kind"] {
            schema["properties"][field] = serde_json::json!({"type": "string"});
        }
        schema
    }
}
