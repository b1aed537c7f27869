//! Match conditions: expressions that narrow down what a webhook or a policy is for.

use serde_json::Value;
use windlass_cel::{MATCH_LIMIT, Output};

use super::aggregate;
use super::environment::{Environment, Gives};
use super::expression::{Expression, Scope};

/// The conditions of one webhook or policy.
pub(super) struct Conditions(Vec<Expression>);

impl Conditions {
    /// Compiles conditions that may use the variables of an environment.
    pub fn parse(list: &Value, environment: &Environment) -> Self {
        let list = list.as_array().into_iter().flatten();
        let texts = list.map(|condition| condition["expression"].as_str().unwrap_or_default());
        Self(texts.map(|text| Expression::compile(text, Gives::Bool, environment)).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of them hold for a request.
    ///
    /// # Errors
    /// What could not be evaluated, when none of the others says no.
    pub fn hold(&self, scope: &Scope<'_>) -> Result<bool, String> {
        let mut errors = Vec::new();
        for condition in &self.0 {
            match condition.run(scope, MATCH_LIMIT) {
                Ok(Output::Bool(true)) => {}
                Ok(Output::Bool(false)) => return Ok(false),
                Ok(_) => errors.push(format!("expression '{}' gives no boolean", condition.text)),
                Err(error) => errors.push(error),
            }
        }
        aggregate(errors).map_or(Ok(true), Err)
    }
}
