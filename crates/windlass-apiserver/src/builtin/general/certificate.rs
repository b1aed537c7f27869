//! CertificateSigningRequest.

use serde_json::{Value, json};

use super::tools::{has, items, keep, object, set, text};
use crate::builtin::{NameRule, Strategy};
use crate::status::FieldError;

/// CertificateSigningRequest.
pub(super) struct SigningRequest;

impl Strategy for SigningRequest {
    fn defaults(&self, request: &mut Value) {
        object(request, "spec");
        object(request, "status");
    }

    fn prepare_create(&self, request: &mut Value) {
        set(request, "status", json!({}));
    }

    fn prepare_update(&self, request: &mut Value, old: &Value) {
        keep(request, old, "spec");
        keep(request, old, "status");
    }

    fn prepare_status(&self, request: &mut Value, old: &Value) {
        keep(request, old, "spec");
    }

    fn validate(&self, request: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let spec = &request["spec"];
        if !holds_pem(text(spec, "request"), "CERTIFICATE REQUEST") {
            let why = "PEM block type must be CERTIFICATE REQUEST";
            let shown = match text(spec, "request") {
                "" => json!([]),
                given => json!(given),
            };
            errors.push(FieldError::invalid("spec.request", &shown, why));
        }
        check_usages(&mut errors, items(spec, "usages"));
        check_signer(&mut errors, text(spec, "signerName"));
        if has(spec, "expirationSeconds")
            && spec["expirationSeconds"].as_i64().is_some_and(|n| n < 600)
        {
            errors.push(FieldError::invalid(
                "spec.expirationSeconds",
                &spec["expirationSeconds"],
                "may not specify a duration less than 600 seconds (10 minutes)",
            ));
        }
        errors
    }

    fn validate_update(&self, _: &Value, _: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_status(&self, request: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let status = &request["status"];
        check_conditions(&mut errors, items(status, "conditions"));
        let certificate = text(status, "certificate");
        if !certificate.is_empty() && !holds_pem(certificate, "CERTIFICATE") {
            let why = "must contain at least one CERTIFICATE PEM block";
            let shown = "<certificate data>";
            errors.push(FieldError::invalid_str("status.certificate", shown, why));
        }
        let of = |request: &Value, kind: &str| {
            items(&request["status"], "conditions").iter().filter(|c| c["type"] == kind).count()
        };
        for kind in ["Approved", "Denied", "Failed"] {
            if of(old, kind) > of(request, kind) {
                let why = format!("updates may not remove a condition of type \"{kind}\"");
                errors.push(FieldError::forbidden("status.conditions", why));
            }
        }
        errors
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn selectable_fields(&self, request: &Value) -> Option<Vec<(&'static str, String)>> {
        Some(vec![("spec.signerName", text(&request["spec"], "signerName").to_owned())])
    }
}

/// What the key of a certificate may be for.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn check_usages(errors: &mut Vec<FieldError>, usages: &[Value]) {
    if usages.is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    for (at, usage) in usages.iter().enumerate() {
        let path = format!("spec.usages[{at}]");
        if !usage.as_str().is_some_and(|u| USAGES.contains(&u)) {
            errors.push(FieldError::not_supported(&*path, usage, &USAGES));
        }
        if usages[..at].contains(usage) {
            errors.push(FieldError::duplicate(path, usage));
        }
    }
}

fn check_signer(errors: &mut Vec<FieldError>, signer: &str) {
    let path = "spec.signerName";
    let parts: Vec<&str> = signer.split('/').collect();
    if signer.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if parts.len() != 2 || parts.contains(&"") {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid_str(path, signer, why));
    } else if signer == "kubernetes.io/legacy-unknown" {
        let why = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid_str(path, signer, why));
    }
}

fn check_conditions(errors: &mut Vec<FieldError>, conditions: &[Value]) {
    for (at, condition) in conditions.iter().enumerate() {
        let (kind, status) = (text(condition, "type"), text(condition, "status"));
        if kind.is_empty() {
            errors.push(FieldError::required(format!("status.conditions[{at}].type"), ""));
        }
        let path = format!("status.conditions[{at}].status");
        let decides = matches!(kind, "Approved" | "Denied" | "Failed");
        match status {
            "" => errors.push(FieldError::required(path, "")),
            "True" => {}
            _ if decides => errors.push(FieldError::not_supported(path, &status.into(), &["True"])),
            _ => {}
        }
    }
}

/// Whether text in base64 is a PEM file with a block of a type.
fn holds_pem(encoded: &str, kind: &str) -> bool {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default();
    let pem = String::from_utf8_lossy(&bytes);
    pem.contains(&format!("-----BEGIN {kind}-----"))
        && pem.contains(&format!("-----END {kind}-----"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_stays_once_it_is_made() {
        let with = |conditions: Value| json!({"status": {"conditions": conditions}});
        let old = with(json!([{"type": "Approved", "status": "True"}]));
        let new = with(json!([{"type": "Denied", "status": "False"}, {"status": "True"}]));
        let errors = SigningRequest.validate_status(&new, &old);
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "status.conditions[0].status: Unsupported value: \"False\": supported values: \
                 \"True\"",
                "status.conditions[1].type: Required value",
                "status.conditions: Forbidden: updates may not remove a condition of type \
                 \"Approved\"",
            ]
        );
    }

    #[test]
    fn signers_have_a_domain_and_one_name() {
        let mut errors = Vec::new();
        for signer in ["a.b/c", "a.b/c/d", "", "kubernetes.io/legacy-unknown"] {
            check_signer(&mut errors, signer);
        }
        assert_eq!(errors.len(), 3);
    }
}
