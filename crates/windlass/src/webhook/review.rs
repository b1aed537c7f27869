//! The document that the API server sends to an admission webhook, and the answer to it.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::core::Status;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{Objects, patch};
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
    pub(crate) objects: Objects,
}

/// A review as it is sent.
#[derive(Deserialize)]
struct Sent<'a> {
    #[serde(rename = "apiVersion", default)]
    api_version: Value,
    #[serde(default)]
    kind: Value,
    #[serde(borrow, default)]
    request: Option<BTreeMap<String, &'a RawValue>>,
}

// === impl Answer ===

impl Answer {
    pub(super) fn allowed() -> Self {
        Self::Allowed { patch: Vec::new(), warnings: Vec::new() }
    }

    /// The changes between two texts of an object, for the text that was sent.
    pub(super) fn patched(sent: &str, before: &str, after: &str) -> Result<Self> {
        Ok(Self::Allowed { patch: patch::patch(sent, before, after)?, warnings: Vec::new() })
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
    pub(crate) fn read(review: &[u8]) -> Result<Self, String> {
        let not_json = |error: serde_json::Error| format!("the request is not JSON: {error}");
        let sent: Sent<'_> = serde_json::from_slice(review).map_err(not_json)?;
        let api_version = sent.api_version.as_str().unwrap_or_default().to_owned();
        let known = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];
        if sent.kind != "AdmissionReview" || !known.contains(&api_version.as_str()) {
            return Err(format!(
                "expected an AdmissionReview of admission.k8s.io/v1, got {} of {}",
                sent.kind, sent.api_version
            ));
        }
        let (mut request, mut objects) = (Map::new(), Objects::default());
        for (name, text) in sent.request.into_iter().flatten() {
            match name.as_str() {
                "object" => objects.object = Some(text.to_owned()),
                "oldObject" => objects.old = Some(text.to_owned()),
                _ => {
                    request.insert(name, serde_json::from_str(text.get()).map_err(not_json)?);
                }
            }
        }
        let uid = request.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned();
        if uid.is_empty() {
            return Err("the AdmissionReview has no request with a uid".into());
        }
        Ok(Self { api_version, uid, request: Value::Object(request), objects })
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
pub(super) fn encode(object: &impl Serialize) -> Result<String> {
    serde_json::to_string(object)
        .map_err(|source| Error::Decode { what: "the object of the handler".into(), source })
}
