//! What a validation finds: field errors, worded as those of the API server, and warnings.
//!
//! **Invariant:** the number of errors and warnings that are reported is bounded.

use kube::core::response::{Status, StatusCause, StatusDetails};
use serde::Serialize;
use serde_json::Value;
use windlass_text::quote::quote;

use super::Answer;
use crate::kind::Kind;

/// The most field errors, and the most warnings, that one answer carries.
const FINDINGS_MAX: usize = 100;

/// The field errors and the warnings of a validation.
///
/// Paths are written as the API server writes them: `spec.size`, `spec.ports[0].name`,
/// `metadata.labels[app]`.
///
/// ```
/// use windlass::webhook::Findings;
///
/// let mut found = Findings::new();
/// found.invalid("spec.size", 6, "must be between 1 and 5");
/// found.required("spec.image", "");
/// found.not_supported("spec.mode", "fast", &["safe", "exact"]);
/// found.warn("spec.color is deprecated");
/// assert_eq!(
///     found.errors(),
///     [
///         "spec.size: Invalid value: 6: must be between 1 and 5",
///         "spec.image: Required value",
///         r#"spec.mode: Unsupported value: "fast": supported values: "safe", "exact""#,
///     ]
/// );
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "findings deny a request only if they are returned"]
pub struct Findings {
    causes: Vec<StatusCause>,
    warnings: Vec<String>,
}

// === impl Findings ===

impl Findings {
    /// Starts without errors and warnings, which accepts the request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an error: the field has a value that is not valid.
    pub fn invalid(&mut self, path: &str, value: impl Serialize, detail: &str) {
        self.push("FieldValueInvalid", path, with(&valued("Invalid value", &value), detail));
    }

    /// Adds an error: the field has to have a value. The detail may be empty.
    pub fn required(&mut self, path: &str, detail: &str) {
        self.push("FieldValueRequired", path, with("Required value", detail));
    }

    /// Adds an error: the field may not be set, or not be changed by this user.
    pub fn forbidden(&mut self, path: &str, detail: &str) {
        self.push("FieldValueForbidden", path, with("Forbidden", detail));
    }

    /// Adds an error: the value has to be unique and is not.
    pub fn duplicate(&mut self, path: &str, value: impl Serialize) {
        self.push("FieldValueDuplicate", path, valued("Duplicate value", &value));
    }

    /// Adds an error: the value is not one of those that are supported.
    pub fn not_supported(&mut self, path: &str, value: impl Serialize, supported: &[&str]) {
        let known: Vec<String> = supported.iter().map(|text| quote(text)).collect();
        let detail = match known.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", known.join(", ")),
        };
        let body = with(&valued("Unsupported value", &value), &detail);
        self.push("FieldValueNotSupported", path, body);
    }

    /// Adds an error: the value names something that does not exist.
    pub fn not_found(&mut self, path: &str, value: impl Serialize) {
        self.push("FieldValueNotFound", path, valued("Not found", &value));
    }

    /// Adds an error: the text has more bytes than allowed.
    pub fn too_long(&mut self, path: &str, max: usize) {
        let detail = format!("may not be more than {max} bytes");
        self.push("FieldValueTooLong", path, with("Too long", &detail));
    }

    /// Adds an error: the list has more items than allowed.
    pub fn too_many(&mut self, path: &str, actual: usize, max: usize) {
        let items = if max == 1 { "item" } else { "items" };
        let body = format!("Too many: {actual}: must have at most {max} {items}");
        self.push("FieldValueTooMany", path, body);
    }

    /// Shows a warning to the user, whether the request is accepted or not. Up to 120 characters in
    /// one line are shown by all clients.
    pub fn warn(&mut self, text: &str) {
        if self.warnings.len() < FINDINGS_MAX {
            self.warnings.push(text.to_owned());
        }
    }

    /// Returns the field errors as the user sees them.
    pub fn errors(&self) -> Vec<String> {
        self.causes.iter().map(line).collect()
    }

    fn push(&mut self, reason: &str, field: &str, message: String) {
        if self.causes.len() < FINDINGS_MAX {
            let (reason, field) = (reason.to_owned(), field.to_owned());
            self.causes.push(StatusCause { reason, message, field });
        }
    }

    /// Returns the answer to a request for an object.
    pub(super) fn answer(self, kind: &Kind, name: &str) -> Answer {
        if self.causes.is_empty() {
            return Answer::Allowed { patch: Vec::new(), warnings: self.warnings };
        }
        let qualified = match kind.group() {
            "" => kind.kind().to_owned(),
            group => format!("{}.{group}", kind.kind()),
        };
        let mut lines: Vec<String> = Vec::new();
        for line in self.causes.iter().map(line) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let all = match &lines[..] {
            [one] => one.clone(),
            lines => format!("[{}]", lines.join(", ")),
        };
        let message = format!("{qualified} {} is invalid: {all}", quote(name));
        let status = Status::failure(&message, "Invalid").with_code(422);
        let status = status.with_details(StatusDetails {
            name: name.to_owned(),
            group: kind.group().to_owned(),
            kind: kind.kind().to_owned(),
            uid: String::new(),
            causes: self.causes,
            retry_after_seconds: 0,
        });
        Answer::Denied { status: status.boxed(), warnings: self.warnings }
    }
}

fn line(cause: &StatusCause) -> String {
    format!("{}: {}", cause.field, cause.message)
}

/// Appends a detail, if there is one.
fn with(body: &str, detail: &str) -> String {
    match detail {
        "" => body.to_owned(),
        detail => format!("{body}: {detail}"),
    }
}

/// Shows a value as the API server does: texts are quoted, everything else is JSON.
fn valued(what: &str, value: &impl Serialize) -> String {
    match serde_json::to_value(value).unwrap_or_default() {
        Value::Null => format!("{what}: \"null\""),
        Value::String(text) => format!("{what}: {}", quote(&text)),
        other => format!("{what}: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_errors_are_listed_once_each_and_bounded() {
        let mut found = Findings::new();
        for _ in 0..2 {
            found.duplicate("spec.ports[1]", "http");
        }
        found.too_many("spec.ports", 5, 3);
        found.too_long("spec.note", 10);
        found.not_found("spec.class", Option::<u8>::None);
        let kind = Kind::new("", "v1", "Port", "ports");
        let Answer::Denied { status, .. } = found.answer(&kind, "a\"b") else {
            panic!("errors deny")
        };
        assert_eq!(
            status.message,
            r#"Port "a\"b" is invalid: [spec.ports[1]: Duplicate value: "http", spec.ports: Too many: 5: must have at most 3 items, spec.note: Too long: may not be more than 10 bytes, spec.class: Not found: "null"]"#
        );
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
        let mut many = Findings::new();
        (0..10_000).for_each(|at| many.required(&format!("spec[{at}]"), "it is needed"));
        assert_eq!(many.errors().len(), FINDINGS_MAX);
        assert_eq!(many.errors()[0], "spec[0]: Required value: it is needed");
    }
}
