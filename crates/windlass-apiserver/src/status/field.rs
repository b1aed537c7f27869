//! Field errors: what is wrong with which field of an object.
//!
//! **Invariant:** the errors collected for one answer are bounded in number and in size, whatever
//! the object looks like.

use std::fmt;
use std::ops::Deref;

use serde_json::Value;
use windlass_text::quote;

use crate::work;

/// The most field errors that one answer lists.
const ERRORS_MAX: usize = 1_000;
/// The most bytes of text in the field errors of one answer; the first error is always kept.
const ERROR_BYTES_MAX: usize = 2 << 20;

/// The most errors of one list that each show the whole list: their text would grow with the
/// square of its length.
pub(crate) const WHOLE_LISTS_MAX: usize = 4;

/// The field errors of one object, in the order in which they were found.
///
/// Only the first 1,000 errors (and 2 MiB of text) are kept: an answer with more of them helps
/// nobody, and a small body can have very many.
///
/// ```
/// use windlass_apiserver::status::{FieldError, FieldErrors};
///
/// let mut errors = FieldErrors::default();
/// errors.push(FieldError::required("spec.name", ""));
/// assert_eq!(errors[0].to_string(), "spec.name: Required value");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldErrors {
    list: Vec<FieldError>,
    bytes: usize,
}

/// One problem with one field, as Go's `field.Error`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// What is wrong with it.
    pub kind: FieldErrorKind,
    /// The path, `spec.containers[0].name`.
    pub field: String,
    /// The offending value as it is shown (already quoted, see [`show`]); empty when none is.
    pub value: String,
    /// The explanation; may be empty for some kinds.
    pub detail: String,
}

/// The kinds of field errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// `Duplicate value`.
    Duplicate,
    /// `Forbidden`.
    Forbidden,
    /// `Internal error`.
    Internal,
    /// `Invalid value`.
    Invalid,
    /// `Not found`.
    NotFound,
    /// `Required value`.
    Required,
    /// `Too long`.
    TooLong,
    /// `Too many`.
    TooMany,
    /// `Invalid value`, of a wrong type.
    TypeInvalid,
    /// `Unsupported value`.
    NotSupported,
}

impl FieldErrorKind {
    /// Returns the `reason` of the cause.
    pub fn cause(self) -> &'static str {
        match self {
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::Internal => "InternalError",
            Self::Invalid => "FieldValueInvalid",
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::Internal => "Internal error",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotSupported => "Unsupported value",
        }
    }
}

// === impl FieldErrors ===

impl FieldErrors {
    /// Adds an error, unless there are too many already.
    pub fn push(&mut self, error: FieldError) {
        self.insert(self.list.len(), error);
    }

    /// Inserts an error at an index, unless there are too many already.
    pub(crate) fn insert(&mut self, index: usize, error: FieldError) {
        if !self.is_full() {
            self.bytes += error.bytes();
            self.list.insert(index, error);
        }
    }

    /// Returns `true` if further errors are dropped.
    ///
    /// A check whose error shows a whole list asks this before it makes the error.
    pub fn is_full(&self) -> bool {
        self.list.len() >= ERRORS_MAX || self.bytes >= ERROR_BYTES_MAX
    }

    /// Sorts the errors by their text.
    pub(crate) fn sort_by_text(&mut self) {
        self.list.sort_by_cached_key(ToString::to_string);
    }
}

impl Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.list
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        for error in errors {
            if self.is_full() {
                return;
            }
            self.push(error);
        }
    }
}

impl FromIterator<FieldError> for FieldErrors {
    fn from_iter<I: IntoIterator<Item = FieldError>>(errors: I) -> Self {
        let mut out = Self::default();
        out.extend(errors);
        out
    }
}

impl<const N: usize> From<[FieldError; N]> for FieldErrors {
    fn from(errors: [FieldError; N]) -> Self {
        errors.into_iter().collect()
    }
}

impl<const N: usize> PartialEq<[FieldError; N]> for FieldErrors {
    fn eq(&self, other: &[FieldError; N]) -> bool {
        self.list == other
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a FieldErrors {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

// === impl FieldError ===

impl FieldError {
    /// Creates `field: Invalid value: <value>: <detail>`.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: impl Into<String>) -> Self {
        Self::raw(FieldErrorKind::Invalid, field, show(value), detail)
    }

    /// Does the same as [`FieldError::invalid`], for a string value.
    pub fn invalid_str(
        field: impl Into<String>,
        value: impl AsRef<str>,
        detail: impl Into<String>,
    ) -> Self {
        Self::raw(FieldErrorKind::Invalid, field, quote(value.as_ref()), detail)
    }

    /// Creates `field: Required value[: detail]`.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::raw(FieldErrorKind::Required, field, String::new(), detail)
    }

    /// Creates `field: Duplicate value: <value>`.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::raw(FieldErrorKind::Duplicate, field, show(value), "")
    }

    /// Creates `field: Forbidden: <detail>`.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::raw(FieldErrorKind::Forbidden, field, String::new(), detail)
    }

    /// Creates `field: Not found: <value>`.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::raw(FieldErrorKind::NotFound, field, show(value), "")
    }

    /// Creates `field: Unsupported value: <value>: supported values: "a", "b"`, in the order given.
    pub fn not_supported(
        field: impl Into<String>,
        value: &Value,
        supported: &[impl AsRef<str>],
    ) -> Self {
        let list: Vec<_> = supported.iter().map(|s| quote(s.as_ref())).collect();
        let detail = match list.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", list.join(", ")),
        };
        Self::raw(FieldErrorKind::NotSupported, field, show(value), detail)
    }

    /// Creates `field: Too long: may not be more than N bytes`.
    pub fn too_long(field: impl Into<String>, bytes_max: usize) -> Self {
        let detail = format!("may not be more than {bytes_max} bytes");
        Self::raw(FieldErrorKind::TooLong, field, String::new(), detail)
    }

    /// Creates `field: Too many: N: must have at most M items`.
    pub fn too_many(field: impl Into<String>, count: usize, count_max: usize) -> Self {
        let detail = format!("must have at most {count_max} items");
        Self::raw(FieldErrorKind::TooMany, field, count.to_string(), detail)
    }

    /// Creates `field: Internal error: <detail>`.
    pub fn internal(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::raw(FieldErrorKind::Internal, field, String::new(), detail)
    }

    /// Creates an error from its parts; `value` is shown as it is.
    pub fn raw(
        kind: FieldErrorKind,
        field: impl Into<String>,
        value: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let error = Self { kind, field: field.into(), value: value.into(), detail: detail.into() };
        work::spent(error.bytes());
        error
    }

    fn bytes(&self) -> usize {
        self.field.len() + self.value.len() + self.detail.len()
    }

    /// Returns the text without the field.
    pub fn body(&self) -> String {
        let mut out = String::from(self.kind.text());
        for part in [&self.value, &self.detail] {
            if !part.is_empty() {
                out.push_str(": ");
                out.push_str(part);
            }
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// Returns a value as error texts show it: strings quoted, everything else as JSON.
pub fn show(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_errors_of_very_many_are_kept() {
        let errors: FieldErrors =
            (0..5_000).map(|n| FieldError::required(format!("items[{n}]"), "")).collect();
        assert_eq!(errors.len(), ERRORS_MAX);
        assert_eq!(errors[999].field, "items[999]");
        assert!(errors.is_full());
    }

    #[test]
    fn the_text_of_all_errors_is_bounded() {
        let mut errors = FieldErrors::default();
        for _ in 0..100 {
            errors.push(FieldError::invalid_str("data", "x".repeat(1 << 20), ""));
        }
        assert_eq!(errors.len(), 2);
    }
}
