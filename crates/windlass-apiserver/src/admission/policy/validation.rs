//! ValidatingAdmissionPolicy: rules that refuse a write, or warn about it.

use serde_json::Value;
use windlass_cel::{CALL_LIMIT, Output};

use super::{Binding, Policy, Rule};
use crate::admission::criteria::is_exempt;
use crate::admission::environment::{Environment, Gives};
use crate::admission::expression::{Expression, Scope};
use crate::admission::shown::Shown;
use crate::admission::{Review, text};
use crate::builtin::rules::value;
use crate::handler::Call;
use crate::server::Inner;
use crate::status::{Cause, Result, Status};

/// The longest message an expression may make.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// One rule of a policy.
pub(crate) struct Validation {
    rule: Expression,
    message: String,
    message_rule: Option<Expression>,
    reason: String,
}

/// A refusal by a policy.
struct Denial {
    message: String,
    reason: String,
}

impl Rule for Validation {
    const POLICIES: &'static str = "validatingadmissionpolicies";
    const BINDINGS: &'static str = "validatingadmissionpolicybindings";

    fn parse(spec: &Value, environment: &Environment) -> Vec<Self> {
        let all = value::items(spec, "validations").iter();
        all.map(|validation| Self::parse_one(validation, environment)).collect()
    }
}

impl Policy<Validation> {
    /// What evaluation says: one denial per rule that does not hold.
    fn evaluate(&self, mut scope: Scope<'_>) -> Vec<Denial> {
        match self.prepare(&mut scope) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(message) => return self.failed(message).into_iter().collect(),
        }
        self.rules.iter().filter_map(|validation| self.check(validation, &scope)).collect()
    }

    fn check(&self, validation: &Validation, scope: &Scope<'_>) -> Option<Denial> {
        match validation.rule.run(scope, CALL_LIMIT) {
            Ok(Output::Bool(true)) => None,
            Ok(_) => Some(Denial {
                message: validation.message(scope),
                reason: validation.reason.clone(),
            }),
            Err(message) => self.failed(message),
        }
    }

    fn failed(&self, message: String) -> Option<Denial> {
        (!self.ignores_failures).then(|| Denial { message, reason: String::new() })
    }
}

impl Validation {
    fn parse_one(validation: &Value, environment: &Environment) -> Self {
        let field = |name: &str| text(validation, &[name]).trim().to_owned();
        let message_rule = text(validation, &["messageExpression"]);
        Self {
            rule: Expression::compile(text(validation, &["expression"]), Gives::Bool, environment),
            message: field("message"),
            message_rule: (!message_rule.is_empty())
                .then(|| Expression::compile(message_rule, Gives::Text, environment)),
            reason: field("reason"),
        }
    }

    /// What to say: what an expression makes, or the fixed text, or the rule itself.
    fn message(&self, scope: &Scope<'_>) -> String {
        if let Some(rule) = &self.message_rule
            && let Ok(Output::String(made)) = rule.run(scope, CALL_LIMIT)
        {
            let made = made.trim();
            if !made.is_empty() && made.len() <= MESSAGE_BYTES_MAX && !made.contains('\n') {
                return made.to_owned();
            }
        }
        match self.message.as_str() {
            "" => format!("failed expression: {}", self.rule.text.trim()),
            message => message.to_owned(),
        }
    }
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
                    let denial = policy.failed(message);
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
                    if binding.actions.iter().any(|action| action == "Warn") {
                        call.warn(format!("Validation failed for {head}: {}", denial.message));
                    }
                    if binding.actions.iter().any(|action| action == "Deny") {
                        denied = denied.or(Some((head, denial)));
                    }
                }
            }
        }
        denied.map_or(Ok(()), |(head, denial)| Err(refusal(review, &head, denial)))
    }

    async fn evaluate_binding(
        &self,
        policy: &Policy<Validation>,
        binding: &Binding,
        review: &Review<'_>,
        shown: &Shown,
    ) -> Vec<Denial> {
        let params = match self.bound_params(policy, binding, review).await {
            Ok(params) => params,
            Err(why) => {
                return policy
                    .failed(format!("failed to configure binding: {why}"))
                    .into_iter()
                    .collect();
            }
        };
        let scopes = params.iter().map(|params| Scope::new(self, review, shown, params.as_ref()));
        scopes.flat_map(|scope| policy.evaluate(scope)).collect()
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
