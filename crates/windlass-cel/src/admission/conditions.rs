//! Match conditions: expressions that narrow down what a webhook or a policy is for.

use serde_json::Value;

use super::environment::{Environment, Gives};
use super::program::{Program, Scope};
use crate::{MATCH_LIMIT, Output};

/// The conditions of one webhook or policy.
#[derive(Debug)]
pub struct Conditions(Vec<Program>);

impl Conditions {
    /// Compiles conditions that may use the variables of an environment.
    pub fn parse(list: &Value, environment: &Environment) -> Self {
        let list = list.as_array().into_iter().flatten();
        let texts = list.map(|condition| condition["expression"].as_str().unwrap_or_default());
        Self(texts.map(|text| Program::compile(text, Gives::Bool, environment)).collect())
    }

    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if a condition uses a variable.
    pub fn uses(&self, name: &str) -> bool {
        self.0.iter().any(|condition| condition.uses(name))
    }

    /// Returns `true` if all of them hold for a request.
    ///
    /// # Errors
    /// What could not be evaluated, when none of the others says no; or that they cost too much.
    pub fn hold(&self, scope: &Scope<'_>) -> Result<bool, String> {
        scope.allow(MATCH_LIMIT);
        let (mut holds, mut errors) = (true, Vec::new());
        for condition in &self.0 {
            match condition.run(scope) {
                Err(error) if scope.is_spent() => return Err(error),
                Ok(Output::Bool(held)) => holds &= held,
                Ok(_) => errors.push(format!("expression '{}' gives no boolean", condition.text())),
                Err(error) => errors.push(error),
            }
        }
        match aggregate(errors) {
            Some(errors) if holds => Err(errors),
            _ => Ok(holds),
        }
    }
}

/// Several problems as one text, each included once.
fn aggregate(problems: Vec<String>) -> Option<String> {
    let mut seen: Vec<String> = Vec::new();
    for problem in problems {
        if !seen.contains(&problem) {
            seen.push(problem);
        }
    }
    match seen.len() {
        0 => None,
        1 => seen.pop(),
        _ => Some(format!("[{}]", seen.join(", "))),
    }
}
