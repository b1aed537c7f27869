//! Objects that cannot be read.

use crate::error::Error;

/// Why bytes are not an object, or not one of a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Malformed {
    /// The name of the object as far as it could be read.
    pub(crate) name: String,
    /// What is wrong.
    pub(crate) message: String,
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        let what = match malformed.name.as_str() {
            "" => "object".to_owned(),
            name => format!("object {name}"),
        };
        Self::Decode { what, source: serde::de::Error::custom(malformed.message) }
    }
}

/// Describes what is wrong with an object without quoting it: it may be a secret.
pub(crate) fn redacted(err: &serde_json::Error) -> String {
    let text = err.to_string();
    let Some(from) = text.find("string \"") else { return text };
    let Some(to) = text.rfind("\", expected").filter(|to| *to > from) else { return text };
    format!("{}string{}", &text[..from], &text[to + 1..])
}
