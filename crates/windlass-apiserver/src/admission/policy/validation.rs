//! ValidatingAdmissionPolicy: rules that refuse a write, or warn about it.

use windlass_cel::admission::Denial;

use super::{Binding, Policy, Rule};
use crate::admission::Review;
use crate::admission::criteria::is_exempt;
use crate::admission::shown::Shown;
use crate::handler::Call;
use crate::server::Inner;
use crate::status::{Cause, Result, Status};

/// Validating policies.
pub(crate) enum Validation {}

impl Rule for Validation {
    const POLICIES: &'static str = "validatingadmissionpolicies";
    const BINDINGS: &'static str = "validatingadmissionpolicybindings";
}

impl Inner {
    /// Lets policies refuse the write, or warn about it.
    pub(in crate::admission) async fn check_policies(
        &self,
        review: &Review<'_>,
        call: &Call,
    ) -> Result<()> {
        if is_exempt(review) {
            return Ok(());
        }
        let policies = self.admission.validations.of(self);
        let mut denied: Option<(String, Denial)> = None;
        for policy in policies.iter().filter(|policy| !policy.bindings.is_empty()) {
            let resource = match policy.criteria.matched(self, review) {
                Ok(Some(resource)) => resource,
                Ok(None) => continue,
                Err(status) => {
                    let message = format!("failed to configure policy: {}", status.message);
                    let denial = policy.expressions.failed(message);
                    let head = format!("ValidatingAdmissionPolicy '{}'", policy.name);
                    denied = denied.or(denial.map(|denial| (head, denial)));
                    continue;
                }
            };
            let shown = self.show(review, resource, call).await?;
            for binding in &policy.bindings {
                for denial in self.evaluate_binding(policy, binding, review, &shown).await {
                    let head = format!(
                        "ValidatingAdmissionPolicy '{}' with binding '{}'",
                        policy.name, binding.name
                    );
                    let acts = |wanted: &str| binding.actions.iter().any(|action| action == wanted);
                    if denial.rule.is_some() && acts("Warn") {
                        call.warn(format!("Validation failed for {head}: {}", denial.message));
                    }
                    if denial.rule.is_none() || acts("Deny") {
                        denied = denied.or(Some((head, denial)));
                    }
                }
            }
        }
        denied.map_or(Ok(()), |(head, denial)| Err(refusal(review, &head, denial)))
    }

    async fn evaluate_binding(
        &self,
        policy: &Policy,
        binding: &Binding,
        review: &Review<'_>,
        shown: &Shown,
    ) -> Vec<Denial> {
        let params = match self.bound_params(policy, binding, review).await {
            Ok(params) => params,
            Err(why) => {
                let denial =
                    policy.expressions.failed(format!("failed to configure binding: {why}"));
                return denial.map(|denial| Denial { rule: None, ..denial }).into_iter().collect();
            }
        };
        let scopes = params.iter().map(|params| self.scope(review, shown, params.as_ref()));
        scopes.flat_map(|mut scope| policy.expressions.validate(&mut scope).denials).collect()
    }
}

/// The answer to a request that a policy denied.
fn refusal(review: &Review<'_>, head: &str, denial: Denial) -> Status {
    let message = format!("{head} denied request: {}", denial.message);
    let mut status = review.forbidden(&message);
    let reason = if denial.reason.is_empty() { "Invalid".to_owned() } else { denial.reason };
    status.code = match reason.as_str() {
        "Unauthorized" => 401,
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    status.reason = reason.into();
    if let Some(details) = &mut status.details {
        details.causes.push(Cause { reason: "".into(), message, field: String::new() });
    }
    status
}
