//! MutatingAdmissionPolicy: rules that change a write.

use serde_json::Value;
use windlass_cel::CALL_LIMIT;

use super::{Binding, Policy, Rule};
use crate::admission::criteria::is_exempt;
use crate::admission::environment::{Environment, Gives};
use crate::admission::expression::{Expression, Scope};
use crate::admission::round::Round;
use crate::admission::shown::Shown;
use crate::admission::{Review, text};
use crate::builtin::rules::value;
use crate::handler::Call;
use crate::merge::{json_patch, merge_configuration};
use crate::object;
use crate::schema::shape_of;
use crate::server::Inner;
use crate::status::{Cause, Result, Status};

/// One change of a policy.
pub(crate) enum Mutation {
    /// A piece of the object, merged into it.
    Configuration(Expression),
    /// Steps of a JSON patch.
    Steps(Expression),
}

/// Names of a policy, a binding and a parameter.
pub(crate) type Invocation = (String, String, String);

/// Why a change was not made.
enum Failure {
    /// The policy is at fault: its `failurePolicy` decides.
    Policy(String),
    /// The request is refused.
    Refused(Status),
}

/// What went wrong with a policy, and with which of its bindings.
struct Problem {
    text: String,
    invalid: bool,
}

impl Rule for Mutation {
    const POLICIES: &'static str = "mutatingadmissionpolicies";
    const BINDINGS: &'static str = "mutatingadmissionpolicybindings";

    fn parse(spec: &Value, environment: &Environment) -> Vec<Self> {
        let parse = |mutation: &Value| match text(mutation, &["patchType"]) {
            "JSONPatch" => {
                let source = text(mutation, &["jsonPatch", "expression"]);
                Self::Steps(Expression::compile(source, Gives::Steps, environment))
            }
            _ => {
                let source = text(mutation, &["applyConfiguration", "expression"]);
                Self::Configuration(Expression::compile(source, Gives::Object, environment))
            }
        };
        value::items(spec, "mutations").iter().map(parse).collect()
    }
}

impl Mutation {
    /// What the object becomes.
    ///
    /// # Errors
    /// Why the policy is of no use.
    fn made(&self, scope: &Scope<'_>, shown: &Shown, object: &Value) -> Result<Value, String> {
        match self {
            Self::Configuration(expression) => {
                let mut patch = expression.patch(scope, CALL_LIMIT)?;
                object::set_type(&mut patch, &shown.kind.api_version(), &shown.kind.kind);
                let own = shown.kind == shown.resource.gvk;
                let shape = if own { shown.resource.shape.clone() } else { shape_of(&shown.kind) };
                let merged = merge_configuration(object, &patch, &shape);
                merged.map_err(|why| format!("error applying patch: {why}"))
            }
            Self::Steps(expression) => {
                let steps = expression.patch(scope, CALL_LIMIT)?;
                let mut made = object.clone();
                for step in steps.as_array().into_iter().flatten() {
                    match json_patch(made, &Value::Array(vec![step.clone()])) {
                        Ok(next) => made = next,
                        // A test that fails means that nothing is to be done.
                        Err(_) if step["op"] == "test" => return Ok(object.clone()),
                        Err(_) => {
                            let (op, path) = (text(step, &["op"]), text(step, &["path"]));
                            return Err(format!(
                                "JSON Patch: {op} operation does not apply: doc is missing path: \
                                 {path}: missing value"
                            ));
                        }
                    }
                }
                Ok(made)
            }
        }
    }
}

impl Inner {
    /// Lets policies change the object. Returns `true` if any did.
    pub(in crate::admission) async fn mutate_by_policies(
        &self,
        review: &mut Review<'_>,
        call: &Call,
        round: &mut Round<Invocation>,
    ) -> Result<bool> {
        if is_exempt(review) || review.object.is_none() {
            return Ok(false);
        }
        let policies = self.admission.mutations.of(self);
        round.begin(review);
        let (mut changed, mut problems) = (false, Vec::new());
        for policy in policies.iter().filter(|policy| !policy.bindings.is_empty()) {
            match policy.criteria.matched(self, review) {
                Ok(None) => continue,
                Ok(Some(_)) => {}
                Err(status) => {
                    let why = format!("failed to configure policy: {}", status.message);
                    let text = format!("policy {:?} denied request: {why}", policy.name);
                    problems.extend(policy.problem(text, false));
                    continue;
                }
            }
            for binding in &policy.bindings {
                match self.mutate_bound(policy, binding, review, call, round).await {
                    Ok(made) => changed |= made,
                    Err(Failure::Refused(status)) => return Err(status),
                    Err(Failure::Policy(why)) => {
                        let invalid = !why.starts_with("failed to configure binding: ");
                        problems.extend(policy.problem(binding.message(policy, &why), invalid));
                    }
                }
            }
        }
        round.end(review);
        match problems.is_empty() {
            true => Ok(changed),
            false => Err(refusal(review, &problems)),
        }
    }

    async fn mutate_bound(
        &self,
        policy: &Policy<Mutation>,
        binding: &Binding,
        review: &mut Review<'_>,
        call: &Call,
        round: &mut Round<Invocation>,
    ) -> Result<bool, Failure> {
        let params = self.bound_params(policy, binding, review).await;
        let params =
            params.map_err(|why| Failure::Policy(format!("failed to configure binding: {why}")))?;
        let mut changed = false;
        for params in &params {
            let param = params.as_ref().map(|p| object::name(p).to_owned()).unwrap_or_default();
            let key = (policy.name.clone(), binding.name.clone(), param);
            for (index, mutation) in policy.rules.iter().enumerate() {
                // Each change sees what the one before made.
                let resource = policy.criteria.matched(self, review).map_err(Failure::Refused)?;
                let Some(resource) = resource else { break };
                let shown = self.show(review, resource, call).await.map_err(Failure::Refused)?;
                let Some(object) = &shown.object else { break };
                let made = {
                    let mut scope = Scope::new(self, review, &shown, params.as_ref());
                    if !policy.prepare(&mut scope).map_err(Failure::Policy)? {
                        break;
                    }
                    if index == 0 && round.skips(&key) {
                        break;
                    }
                    mutation.made(&scope, &shown, object).map_err(Failure::Policy)?
                };
                let taken = self.take_patched(review, &shown, made, call).await;
                if taken.map_err(Failure::Refused)? {
                    changed = true;
                    round.changed();
                }
            }
            if policy.reinvoked {
                round.called(key);
            }
        }
        Ok(changed)
    }
}

impl Policy<Mutation> {
    fn problem(&self, text: String, invalid: bool) -> Option<Problem> {
        (!self.ignores_failures).then_some(Problem { text, invalid })
    }
}

impl Binding {
    fn message(&self, policy: &Policy<Mutation>, why: &str) -> String {
        format!("policy '{}' with binding '{}' denied request: {why}", policy.name, self.name)
    }
}

/// The answer to a request that policies could not change.
fn refusal(review: &Review<'_>, problems: &[Problem]) -> Status {
    let mut status = review.forbidden("admission request denied by policy");
    if let Some(first) = problems.first() {
        status.message.clone_from(&first.text);
        if first.invalid {
            status.reason = "Invalid".into();
        }
    }
    if let Some(details) = &mut status.details {
        let cause = |problem: &Problem| Cause {
            reason: "".into(),
            message: problem.text.clone(),
            field: String::new(),
        };
        details.causes.extend(problems.iter().map(cause));
    }
    status
}
