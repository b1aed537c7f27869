//! The `Status` object every failed request is answered with, and the field errors inside it.
//!
//! **Invariant:** texts here are the real server's, letter by letter; clients match on them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde_json::{Map, Value, json};

use crate::work;

mod field;

pub(crate) use field::WHOLE_LISTS_MAX;
pub use field::{FieldError, FieldErrorKind, FieldErrors, show};
pub use windlass_text::quote;

/// The result of a handler: a value, or the `Status` to answer with.
pub type Result<T, E = Status> = std::result::Result<T, E>;

/// A failure as the API reports it (`kind: Status`).
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason; empty for untyped errors.
    pub reason: Cow<'static, str>,
    /// The sentence for people.
    pub message: String,
    /// `details`; `None` leaves the field out, an empty one is written as `{}`.
    pub details: Option<Details>,
    /// A body that is plain text instead of a `Status` (`404 page not found`).
    pub plain: bool,
    /// `metadata.continue` of a 410 answer that offers to go on.
    pub cont: Option<String>,
}

/// `status.details`: which object, and the causes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// Its API group.
    pub group: String,
    /// The resource (or, for `Invalid`, the kind).
    pub kind: String,
    /// Its uid.
    pub uid: String,
    /// One entry per single problem.
    pub causes: Vec<Cause>,
    /// Seconds after which to try again; 0 leaves it out.
    pub retry_after: u32,
}

/// One entry of `details.causes`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// `FieldValueInvalid` and the like.
    pub reason: Cow<'static, str>,
    /// The text without the field.
    pub message: String,
    /// The field path; empty leaves it out.
    pub field: String,
}

/// The group and resource of an error: prints as `deployments.apps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupResource<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Plural resource name.
    pub resource: &'a str,
}

impl fmt::Display for GroupResource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

// === impl Status ===

impl Status {
    /// Creates a status from its parts, without details.
    pub fn new(
        code: u16,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            plain: false,
            cont: None,
        }
    }

    /// Adds details.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(details);
        self
    }

    /// Returns 400 with a free text.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Returns 401.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// Returns 403: `<gr> "name" is forbidden: <why>`.
    pub fn forbidden(gr: &GroupResource<'_>, name: &str, why: impl fmt::Display) -> Self {
        let message = if gr.resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{gr} is forbidden: {why}")
        } else {
            format!("{gr} \"{name}\" is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).with_details(Details::of(gr, name))
    }

    /// Returns 404: `<gr> "name" not found`.
    pub fn not_found(gr: &GroupResource<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{gr} \"{name}\" not found"))
            .with_details(Details::of(gr, name))
    }

    /// Returns 404 for a path below a served group: no such resource.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with_details(Details::default())
    }

    /// Returns 404 in plain text: no such path at all.
    pub fn no_such_path() -> Self {
        Self { plain: true, ..Self::new(404, "", "404 page not found\n") }
    }

    /// Returns 405 for a verb the resource does not have.
    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details(Details::default())
    }

    /// Returns 409: `<gr> "name" already exists`.
    pub fn already_exists(gr: &GroupResource<'_>, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{gr} \"{name}\" already exists"))
            .with_details(Details::of(gr, name))
    }

    /// Returns 409: `Operation cannot be fulfilled on <gr> "name": <why>`.
    pub fn conflict(gr: &GroupResource<'_>, name: &str, why: impl fmt::Display) -> Self {
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {gr} \"{name}\": {why}"),
        )
        .with_details(Details::of(gr, name))
    }

    /// Returns 409 for a write whose resourceVersion is not the stored one.
    pub fn modified(gr: &GroupResource<'_>, name: &str) -> Self {
        Self::conflict(
            gr,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// Returns 410 with a free text.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// Returns 413.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// Returns 415 with the accepted media types.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    /// Returns 422: `<Kind>.<group> "name" is invalid: ...` with a cause per error.
    ///
    /// The message lists equal errors once; the causes contain all of them.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut known: HashSet<String> = HashSet::with_capacity(errors.len());
        let mut seen: Vec<String> = Vec::with_capacity(errors.len());
        for error in errors {
            let text = error.to_string();
            work::spent(text.len());
            if known.insert(text.clone()) {
                seen.push(text);
            }
        }
        let what = match seen.len() {
            1 => seen.remove(0),
            _ => format!("[{}]", seen.join(", ")),
        };
        let dot = if group.is_empty() { "" } else { "." };
        Self::new(422, "Invalid", format!("{kind}{dot}{group} \"{name}\" is invalid: {what}"))
            .with_details(Details {
                name: name.to_owned(),
                group: group.to_owned(),
                kind: kind.to_owned(),
                causes: errors
                    .iter()
                    .map(|e| Cause {
                        reason: e.kind.cause().into(),
                        message: e.body(),
                        field: e.field.clone(),
                    })
                    .collect(),
                ..Details::default()
            })
    }

    /// Returns 500 `Internal error occurred: ...`.
    pub fn internal(why: impl fmt::Display) -> Self {
        let why = why.to_string();
        Self::new(500, "InternalError", format!("Internal error occurred: {why}")).with_details(
            Details {
                causes: vec![Cause { reason: "".into(), message: why, field: String::new() }],
                ..Details::default()
            },
        )
    }

    /// Returns 500 without a reason: the raw text of an untyped error.
    pub fn untyped(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// Returns `true` if this is a 404 about an object.
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// Returns the JSON body.
    pub fn to_json(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.cont {
            metadata.insert("continue".into(), token.clone().into());
        }
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata,
            "status": "Failure", "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            body["reason"] = self.reason.clone().into();
        }
        if let Some(details) = &self.details {
            body["details"] = details.to_json();
        }
        body
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

// === impl Details ===

impl Details {
    /// Details that name an object of a resource.
    pub fn of(gr: &GroupResource<'_>, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: gr.group.to_owned(),
            kind: gr.resource.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the JSON form, empty fields left out.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                out.insert(key.into(), text.clone().into());
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|c| {
                let mut cause = Map::new();
                for (key, text) in
                    [("reason", &*c.reason), ("message", &*c.message), ("field", &*c.field)]
                {
                    if !text.is_empty() {
                        cause.insert(key.into(), text.into());
                    }
                }
                Value::Object(cause)
            });
            out.insert("causes".into(), causes.collect());
        }
        if self.retry_after > 0 {
            out.insert("retryAfterSeconds".into(), self.retry_after.into());
        }
        Value::Object(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_reports_equal_errors_once_but_keeps_their_causes() {
        let error = FieldError::required("metadata.name", "name or generateName is required");
        let status = Status::invalid("", "ConfigMap", "", &[error.clone(), error]);
        assert_eq!(
            status.message,
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"
        );
        assert_eq!(status.details.unwrap().causes.len(), 2);
    }

    #[test]
    fn unsupported_value_lists_what_is_supported() {
        let error = FieldError::not_supported("spec.type", &json!("x"), &["A", "B"]);
        assert_eq!(
            error.to_string(),
            "spec.type: Unsupported value: \"x\": supported values: \"A\", \"B\""
        );
    }
}
