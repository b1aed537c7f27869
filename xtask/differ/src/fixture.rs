//! Stored sequences with the answers of the real server.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::sequence::Sequence;
use crate::server::Answer;

/// A sequence and what the real server answered, masked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Fixture {
    /// The requests.
    #[serde(flatten)]
    pub sequence: Sequence,
    /// The answers; `None` for steps that only wait.
    pub expect: Vec<Option<Expected>>,
}

/// A masked answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Expected {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
    /// The warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl From<Answer> for Expected {
    fn from(answer: Answer) -> Self {
        Self { status: answer.status, body: answer.body, warnings: answer.warnings }
    }
}

impl From<&Expected> for Answer {
    fn from(expected: &Expected) -> Self {
        Self {
            status: expected.status,
            body: expected.body.clone(),
            warnings: expected.warnings.clone(),
        }
    }
}
