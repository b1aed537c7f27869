//! The document that the API server sends to an admission webhook, and the answer to it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::core::Status;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::patch;
use crate::error::{Error, Result};

/// The most warnings of one answer; the server shows 4 KiB of them.
const WARNINGS_MAX: usize = 100;

/// What a handler answers.
pub(crate) enum Answer {
    /// The request is accepted, with operations of a JSON patch.
    Allowed { patch: Vec<Value>, warnings: Vec<String> },
    /// The request is denied.
    Denied { status: Box<Status>, warnings: Vec<String> },
    /// The response as the author wrote it.
    Raw(Value),
}

/// A review that can be answered.
pub(crate) struct Review {
    api_version: String,
    uid: String,
    pub(crate) request: Value,
}

// === impl Answer ===

impl Answer {
    pub(super) fn allowed() -> Self {
        Self::Allowed { patch: Vec::new(), warnings: Vec::new() }
    }

    pub(super) fn patched(raw: &Value, before: &Value, after: &Value) -> Self {
        Self::Allowed { patch: patch::patch(raw, before, after), warnings: Vec::new() }
    }

    fn denied(status: Status) -> Self {
        Self::Denied { status: status.boxed(), warnings: Vec::new() }
    }

    /// The answer to a request whose handler failed.
    pub(crate) fn failed(error: &Error) -> Self {
        if let Some(status) = error.status() {
            return Self::denied(status.clone());
        }
        let (code, reason) = match error {
            Error::Decode { .. } => (400, "BadRequest"),
            Error::Panic(_) => (500, "InternalError"),
            Error::Timeout { .. } => (504, "Timeout"),
            _ => (403, "Forbidden"),
        };
        Self::denied(Status::failure(&error.chain(), reason).with_code(code))
    }

    /// Returns `true` if the request is denied.
    pub(crate) fn is_denied(&self) -> bool {
        match self {
            Self::Allowed { .. } => false,
            Self::Denied { .. } => true,
            Self::Raw(response) => response["allowed"] != true,
        }
    }

    /// The `response` of a review.
    fn into_response(self) -> Map<String, Value> {
        let mut response = Map::new();
        let warnings = match self {
            Self::Raw(Value::Object(fields)) => return fields,
            Self::Raw(other) => {
                let text = format!("the handler returned {other} instead of a response");
                let status = Status::failure(&text, "InternalError").with_code(500);
                return Self::denied(status).into_response();
            }
            Self::Denied { status, warnings } => {
                response.insert("allowed".into(), false.into());
                response.insert("status".into(), json!(status));
                warnings
            }
            Self::Allowed { patch, warnings } => {
                response.insert("allowed".into(), true.into());
                if !patch.is_empty() {
                    let patch = STANDARD.encode(Value::Array(patch).to_string());
                    response.insert("patch".into(), patch.into());
                    response.insert("patchType".into(), "JSONPatch".into());
                }
                warnings
            }
        };
        let warnings: Vec<String> = warnings.iter().take(WARNINGS_MAX).map(|w| tidy(w)).collect();
        if warnings.iter().any(|warning| !warning.is_empty()) {
            response.insert("warnings".into(), warnings.into());
        }
        response
    }
}

/// Makes one line of a warning: the API server drops those with control characters.
fn tidy(warning: &str) -> String {
    let plain = warning.replace(char::is_control, " ");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

// === impl Review ===

impl Review {
    /// Reads a review.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with it, if it cannot be answered.
    pub(crate) fn read(mut review: Value) -> Result<Self, String> {
        let api_version = review["apiVersion"].as_str().unwrap_or_default().to_owned();
        let known = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];
        if review["kind"] != "AdmissionReview" || !known.contains(&api_version.as_str()) {
            return Err(format!(
                "expected an AdmissionReview of admission.k8s.io/v1, got {} of {}",
                review["kind"], review["apiVersion"]
            ));
        }
        let request = review["request"].take();
        let uid = request["uid"].as_str().unwrap_or_default().to_owned();
        if uid.is_empty() {
            return Err("the AdmissionReview has no request with a uid".into());
        }
        Ok(Self { api_version, uid, request })
    }

    /// Makes the review that answers this one; its `request` may have been taken.
    pub(crate) fn respond(&self, answer: Answer) -> Value {
        let mut response = answer.into_response();
        response.insert("uid".into(), self.uid.clone().into());
        json!({
            "apiVersion": self.api_version,
            "kind": "AdmissionReview",
            "response": response,
        })
    }
}

/// The object as the type writes it.
pub(super) fn encode(object: &impl Serialize) -> Result<Value> {
    serde_json::to_value(object)
        .map_err(|source| Error::Decode { what: "the object of the handler".into(), source })
}
