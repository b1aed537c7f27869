//! The `AdmissionReview` document: what is asked, and what may be answered.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::admission::shown::{Shown, kind_of};
use crate::admission::{Review, text};
use crate::resource::{Gvk, Resource};
use crate::status::{Cause, Details, Status, quote};

/// The versions of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V1Beta1,
}

/// What a webhook answered.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub allowed: bool,
    /// `response.status`, if it was there.
    pub status: Value,
    /// The decoded patch.
    pub patch: Option<Value>,
    pub patch_type: String,
    pub warnings: Vec<String>,
}

impl Version {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// The document a webhook is sent.
pub(super) fn request(version: Version, uid: &str, review: &Review<'_>, shown: &Shown) -> Value {
    let mut request = Map::new();
    let mut put = |key: &str, value: Value| request.insert(key.into(), value);
    put("uid", uid.into());
    put("kind", kind_json(&shown.kind));
    put("resource", resource_json(&shown.resource));
    put("requestKind", kind_json(&kind_of(review.resource, review.subresource)));
    put("requestResource", resource_json(review.resource));
    for (key, text) in [
        ("subResource", review.subresource),
        ("requestSubResource", review.subresource),
        ("name", &review.name),
        ("namespace", &review.namespace),
    ] {
        if !text.is_empty() {
            put(key, text.into());
        }
    }
    put("operation", review.operation.as_str().into());
    put("userInfo", review.user.to_json());
    put("object", shown.object.clone().unwrap_or_default());
    put("oldObject", shown.old.clone().unwrap_or_default());
    put("dryRun", review.dry_run.into());
    put("options", review.options.clone());
    json!({
        "kind": "AdmissionReview", "apiVersion": version.api_version(), "request": request,
    })
}

fn kind_json(gvk: &Gvk) -> Value {
    json!({"group": &*gvk.group, "version": &*gvk.version, "kind": &*gvk.kind})
}

fn resource_json(resource: &Resource) -> Value {
    let gvk = &resource.gvk;
    json!({"group": &*gvk.group, "version": &*gvk.version, "resource": &*resource.plural})
}

/// Reads an answer.
///
/// # Errors
/// Why it is not a valid response to this request, to follow `failed calling webhook "name": `.
pub(super) fn verdict(
    version: Version,
    uid: &str,
    mutating: bool,
    answer: &Value,
) -> Result<Verdict, String> {
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let response = &answer["response"];
    check_types(answer).map_err(|why| format!("failed to call webhook: {why}"))?;
    if response.is_null() {
        return Err(invalid("webhook response was absent".into()));
    }
    let patch = text(response, &["patch"]);
    let patch_type = response["patchType"].as_str();
    if version == Version::V1 {
        let answered = text(response, &["uid"]);
        if answered != uid {
            return Err(invalid(format!(
                "expected response.uid={}, got {}",
                quote(uid),
                quote(answered)
            )));
        }
        let (group, rest) = crate::resource::split_api_version(text(answer, &["apiVersion"]));
        let got = format!("{group}/{rest}, Kind={}", text(answer, &["kind"]));
        let want = "admission.k8s.io/v1, Kind=AdmissionReview";
        if got != want {
            return Err(invalid(format!("expected webhook response of {want}, got {got}")));
        }
        check_patch(mutating, patch, patch_type).map_err(invalid)?;
    }
    let warnings = response["warnings"].as_array().into_iter().flatten();
    Ok(Verdict {
        allowed: response["allowed"] == true,
        status: response["status"].clone(),
        patch: match patch {
            "" => None,
            patch if mutating => Some(decode_patch(patch)?),
            _ => None,
        },
        patch_type: match (version, patch_type) {
            (Version::V1Beta1, _) => "JSONPatch".into(),
            (Version::V1, kind) => kind.unwrap_or_default().into(),
        },
        warnings: warnings.filter_map(|w| w.as_str().map(str::to_owned)).collect(),
    })
}

fn check_patch(mutating: bool, patch: &str, patch_type: Option<&str>) -> Result<(), String> {
    let problem = match (mutating, patch.is_empty(), patch_type) {
        (true, false, None) => "webhook returned response.patch but not response.patchType",
        (true, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, false, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (false, false, _) => "validating webhook may not return response.patch",
        (false, true, Some(_)) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    };
    Err(problem.into())
}

fn decode_patch(patch: &str) -> Result<Value, String> {
    let bytes = STANDARD.decode(patch).map_err(|error| {
        format!("failed to call webhook: illegal base64 data in response.patch: {error}")
    })?;
    serde_json::from_slice(&bytes).map_err(|error| {
        format!("received invalid webhook response: response.patch is no JSON: {error}")
    })
}

/// Whether the fields have the types that a typed reader wants.
fn check_types(answer: &Value) -> Result<(), String> {
    if !answer.is_object() {
        return Err("couldn't get version/kind; json parse error: json: cannot unmarshal into Go value of type struct".into());
    }
    let response = &answer["response"];
    let wrong = |field: &str, value: &Value, kind: &str| {
        let got = match value {
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            _ => "object",
        };
        Err(format!(
            "json: cannot unmarshal {got} into Go struct field AdmissionReview.{field} of type {kind}"
        ))
    };
    if !(response.is_null() || response.is_object()) {
        return wrong("response", response, "v1.AdmissionResponse");
    }
    for field in ["uid", "patch", "patchType"] {
        let value = &response[field];
        if !(value.is_null() || value.is_string()) {
            return wrong(&format!("response.{field}"), value, "string");
        }
    }
    let allowed = &response["allowed"];
    if !(allowed.is_null() || allowed.is_boolean()) {
        return wrong("response.allowed", allowed, "bool");
    }
    let status = &response["status"];
    if !(status.is_null() || status.is_object()) {
        return wrong("response.status", status, "v1.Status");
    }
    Ok(())
}

/// The answer to a request that a webhook denied.
pub(super) fn denial(name: &str, given: &Value) -> Status {
    let denied = format!("admission webhook {} denied the request", quote(name));
    let (message, reason) = (text(given, &["message"]), text(given, &["reason"]));
    let message = match (message, reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = given["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(0);
    let mut status = Status::new(code.max(400), reason.to_owned(), message);
    if given["details"].is_object() {
        status = status.with_details(details(&given["details"]));
    }
    status
}

fn details(given: &Value) -> Details {
    let own = |key: &str| text(given, &[key]).to_owned();
    let causes = given["causes"].as_array().into_iter().flatten().map(|cause| Cause {
        reason: text(cause, &["reason"]).to_owned().into(),
        message: text(cause, &["message"]).to_owned(),
        field: text(cause, &["field"]).to_owned(),
    });
    let after = given["retryAfterSeconds"].as_u64().and_then(|s| u32::try_from(s).ok());
    Details {
        name: own("name"),
        group: own("group"),
        kind: own("kind"),
        uid: own("uid"),
        causes: causes.collect(),
        retry_after: after.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(response: Value) -> Value {
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
    }

    #[test]
    fn answers_are_checked_before_they_are_believed() {
        let fails =
            |mutating: bool, value: Value| verdict(Version::V1, "u", mutating, &value).unwrap_err();
        let head = "received invalid webhook response: ";
        for (mutating, value, want) in [
            (true, answer(Value::Null), "webhook response was absent"),
            (true, answer(json!({"uid": "v"})), "expected response.uid=\"u\", got \"v\""),
            (
                true,
                json!({"response": {"uid": "u"}}),
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
            (
                true,
                answer(json!({"uid": "u", "patch": "W10="})),
                "webhook returned response.patch but not response.patchType",
            ),
            (
                true,
                answer(json!({"uid": "u", "patchType": "JSONPatch"})),
                "webhook returned response.patchType but not response.patch",
            ),
            (
                false,
                answer(json!({"uid": "u", "patch": "W10="})),
                "validating webhook may not return response.patch",
            ),
        ] {
            assert_eq!(fails(mutating, value), format!("{head}{want}"));
        }
        assert!(
            fails(true, answer(json!({"uid": 1}))).starts_with("failed to call webhook: json: ")
        );
    }

    #[test]
    fn a_denial_says_who_and_why() {
        let refusal = |given: Value| {
            let status = denial("w.x", &given);
            (status.code, status.message)
        };
        let head = "admission webhook \"w.x\" denied the request";
        assert_eq!(refusal(Value::Null), (400, format!("{head} without explanation")));
        assert_eq!(refusal(json!({"reason": "No", "code": 200})), (400, format!("{head}: No")));
        assert_eq!(refusal(json!({"message": "m", "code": 403})), (403, format!("{head}: m")));
    }
}
