//! MutatingAdmissionPolicy: rules that change a write.

use serde_json::Value;

use super::{Binding, Policy, Rule};
use crate::admission::Review;
use crate::admission::criteria::is_exempt;
use crate::admission::round::Round;
use crate::admission::shown::Shown;
use crate::handler::Call;
use crate::merge::merge_configuration;
use crate::object;
use crate::schema::shape_of;
use crate::server::Inner;
use crate::status::{Cause, Result, Status};

/// Mutating policies.
pub(crate) enum Mutation {}

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
}

/// Merges a part of an object, as a policy makes it, into an object.
fn merge(shown: &Shown, object: &Value, mut patch: Value) -> Result<Value, String> {
    object::set_type(&mut patch, &shown.kind.api_version(), &shown.kind.kind);
    let own = shown.kind == shown.resource.gvk;
    let shape = if own { shown.resource.shape.clone() } else { shape_of(&shown.kind) };
    merge_configuration(object, &patch, &shape)
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
        policy: &Policy,
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
            for (index, mutation) in policy.expressions.mutations().iter().enumerate() {
                // Each change sees what the one before made.
                let resource = policy.criteria.matched(self, review).map_err(Failure::Refused)?;
                let Some(resource) = resource else { break };
                let shown = self.show(review, resource, call).await.map_err(Failure::Refused)?;
                let Some(object) = &shown.object else { break };
                let made = {
                    let mut scope = self.scope(review, &shown, params.as_ref());
                    if !policy.expressions.applies(&mut scope).map_err(Failure::Policy)? {
                        break;
                    }
                    if index == 0 && round.skips(&key) {
                        break;
                    }
                    let made = mutation.apply(&scope, object, |patch| merge(&shown, object, patch));
                    made.map_err(Failure::Policy)?
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

impl Policy {
    fn problem(&self, text: String, invalid: bool) -> Option<Problem> {
        (!self.expressions.ignores_failures()).then_some(Problem { text, invalid })
    }
}

impl Binding {
    fn message(&self, policy: &Policy, why: &str) -> String {
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
