//! CertificateSigningRequest.

use crate::auth::User;
use crate::builtin::{Action, Part};
use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::names::{dns_label, dns_subdomain, push};
use super::pem;
use super::tools::{drop_empty, fill_text, has, items, items_mut, keep, object, set, text};
use crate::builtin::{NameRule, Strategy};
use crate::status::{FieldError, FieldErrors, quote};

/// CertificateSigningRequest.
pub struct SigningRequest;

impl Strategy for SigningRequest {
    fn action(&self, subresource: &str) -> Action {
        match subresource {
            "approval" => Action::Part(Part::Approval),
            _ => Action::shared(subresource),
        }
    }

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

    fn validate(&self, request: &Value) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let spec = &request["spec"];
        if let Err(why) = organizations(request) {
            errors.push(FieldError::invalid("spec.request", &spec["request"], why));
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

    fn validate_update(&self, _: &Value, _: &Value) -> FieldErrors {
        FieldErrors::default()
    }

    fn validate_status(&self, request: &Value, old: &Value) -> FieldErrors {
        validate_part(Part::Status, request, old)
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn selectable_fields(&self, request: &Value) -> Option<Vec<(&'static str, String)>> {
        Some(vec![("spec.signerName", text(&request["spec"], "signerName").to_owned())])
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &["spec", "status"]
    }

    fn reset_part_fields(&self, subresource: &str) -> &'static [&'static str] {
        match subresource {
            "status" => &["spec", "status.conditions"],
            "approval" => &["spec", "status.certificate"],
            _ => &[],
        }
    }

    fn prepare_part(&self, part: Part, request: &mut Value, old: &Value, now: &str) {
        match part {
            Part::Main => self.prepare_update(request, old),
            _ => prepare_part(part, request, old, now),
        }
    }

    fn validate_part(&self, part: Part, request: &Value, old: &Value) -> FieldErrors {
        match part {
            Part::Main => self.validate_update(request, old),
            _ => validate_part(part, request, old),
        }
    }

    fn record_creator(&self, request: &mut Value, user: &User) {
        let (spec, user) = (object(request, "spec"), user.to_json());
        for key in ["username", "uid", "groups", "extra"] {
            keep(spec, &user, key);
        }
    }

    fn selects_namespace(&self) -> bool {
        false
    }
}

/// Prepares an update of the part `status` or `approval`; times that are left out are `now`.
fn prepare_part(part: Part, request: &mut Value, old: &Value, now: &str) {
    keep(request, old, "spec");
    let before = items(&old["status"], "conditions");
    if part == Part::Status {
        // Decisions are made elsewhere: they stay as they are, if none came or went.
        for kind in ["Approved", "Denied"] {
            let kept: Vec<Value> = before.iter().filter(|c| c["type"] == kind).cloned().collect();
            let decisions = items_mut(object(request, "status"), "conditions")
                .filter(|condition| condition["type"] == kind);
            let decisions: Vec<&mut Value> = decisions.collect();
            if decisions.len() == kept.len() {
                decisions.into_iter().zip(kept).for_each(|(new, old)| *new = old);
            }
        }
    }
    let mut times: HashMap<(&Value, &Value), &str> = HashMap::new();
    for old in before.iter().filter(|old| !text(old, "lastTransitionTime").is_empty()) {
        let time = text(old, "lastTransitionTime");
        times.entry((&old["type"], &old["status"])).or_insert(time);
    }
    for condition in items_mut(object(request, "status"), "conditions") {
        fill_text(condition, "lastUpdateTime", now);
        let same = times.get(&(&condition["type"], &condition["status"]));
        let since = same.copied().unwrap_or(now).to_owned();
        fill_text(condition, "lastTransitionTime", &since);
    }
    if part == Part::Approval {
        let conditions = request["status"]["conditions"].take();
        keep(request, old, "status");
        set(object(request, "status"), "conditions", conditions);
        drop_empty(object(request, "status"), "conditions");
    }
}

/// Problems of an update of the part `status` or `approval`.
fn validate_part(part: Part, request: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let (status, path) = (&request["status"], "status.conditions");
    check_conditions(&mut errors, items(status, "conditions"), items(&old["status"], "conditions"));
    let certificate = text(status, "certificate");
    let issued = text(&old["status"], "certificate");
    if !certificate.is_empty()
        && certificate != issued
        && let Err(why) = check_certificates(certificate)
    {
        let shown = "<certificate data>";
        errors.push(FieldError::invalid_str("status.certificate", shown, why));
    }
    fn of<'a>(request: &'a Value, kind: &'a str) -> Vec<&'a Value> {
        items(&request["status"], "conditions").iter().filter(|c| c["type"] == kind).collect()
    }
    for kind in ["Approved", "Denied", "Failed"] {
        if of(request, kind).len() < of(old, kind).len() {
            let why = format!("updates may not remove a condition of type \"{kind}\"");
            errors.push(FieldError::forbidden(path, why));
        }
    }
    for kind in ["Approved", "Denied"].iter().filter(|_| part != Part::Approval) {
        let (new, old) = (of(request, kind), of(old, kind));
        if new.len() > old.len() {
            let why = format!("updates may not add a condition of type \"{kind}\"");
            errors.push(FieldError::forbidden(path, why));
        } else if new.len() == old.len() && new != old {
            let why = format!("updates may not modify a condition of type \"{kind}\"");
            errors.push(FieldError::forbidden(path, why));
        }
    }
    if certificate != issued {
        let why = match part {
            Part::Status if issued.is_empty() => return errors,
            Part::Status => "updates may not modify existing certificate content",
            _ => "updates may not set certificate content",
        };
        errors.push(FieldError::forbidden("status.certificate", why));
    }
    errors
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

fn check_usages(errors: &mut FieldErrors, usages: &[Value]) {
    if usages.is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    let path = |at: usize| format!("spec.usages[{at}]");
    for (at, usage) in usages.iter().enumerate() {
        if !usage.as_str().is_some_and(|u| USAGES.contains(&u)) {
            errors.push(FieldError::not_supported(path(at), usage, &USAGES));
        }
    }
    let mut seen = BTreeSet::new();
    for (at, usage) in usages.iter().enumerate() {
        if !seen.insert(usage.as_str()) {
            errors.push(FieldError::duplicate(path(at), usage));
        }
    }
}

fn check_signer(errors: &mut FieldErrors, signer: &str) {
    let path = "spec.signerName";
    if signer.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if signer == "kubernetes.io/legacy-unknown" {
        let why = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid_str(path, signer, why));
        return;
    }
    let [domain, name] = signer.split('/').collect::<Vec<_>>()[..] else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid_str(path, signer, why));
        return;
    };
    if domain.len() > SUBDOMAIN_MAX {
        errors.push(FieldError::too_long(path, SUBDOMAIN_MAX));
    }
    check_labels(errors, domain, dns_label);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid_str(path, domain, why));
    }
    check_labels(errors, name, dns_subdomain);
    if name.len() > SIGNER_PATH_MAX {
        errors.push(FieldError::too_long(path, SIGNER_PATH_MAX));
    }
}

/// The longest domain of a signer, and the longest name below it.
const SUBDOMAIN_MAX: usize = 253;
const SIGNER_PATH_MAX: usize = SUBDOMAIN_MAX + 63 + 1;

/// Reports the first label that breaks a rule.
fn check_labels(errors: &mut FieldErrors, text: &str, rule: fn(&str) -> Vec<String>) {
    let broken = text.split('.').map(|label| (label, rule(label))).find(|(_, why)| !why.is_empty());
    let Some((label, why)) = broken else { return };
    let why = why.into_iter().map(|why| format!("validating label {}: {why}", quote(label)));
    push(errors, "spec.signerName", text, why);
}

fn check_conditions(errors: &mut FieldErrors, conditions: &[Value], old: &[Value]) {
    let path = "status.conditions";
    let decided = |list: &[Value], kind: &str| list.iter().any(|c| c["type"] == kind);
    let both = decided(old, "Approved") && decided(old, "Denied");
    let mut seen = BTreeSet::new();
    for (at, condition) in conditions.iter().enumerate() {
        let (kind, status) = (text(condition, "type"), text(condition, "status"));
        if kind.is_empty() {
            errors.push(FieldError::required(format!("{path}[{at}].type"), ""));
        }
        let place = format!("{path}[{at}].status");
        let decides = matches!(kind, "Approved" | "Denied" | "Failed");
        match status {
            "" => errors.push(FieldError::required(place, "")),
            "True" => {}
            _ if decides => {
                errors.push(FieldError::not_supported(place, &status.into(), &["True"]));
            }
            "False" | "Unknown" => {}
            _ => {
                let known = ["False", "True", "Unknown"];
                errors.push(FieldError::not_supported(place, &status.into(), &known));
            }
        }
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !both && !other.is_empty() && seen.contains(other) {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid_str(path, kind, why));
        }
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(format!("{path}[{at}].type"), &kind.into()));
        }
    }
}

/// Returns the organizations that the subject of a request names.
///
/// # Errors
/// Why the request is not one.
pub fn organizations(request: &Value) -> Result<Vec<String>, &'static str> {
    let first = pem::blocks(text(&request["spec"], "request")).into_iter().next();
    let block = first.filter(|block| block.kind == "CERTIFICATE REQUEST");
    let block = block.ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    match X509CertificationRequest::from_der(&block.bytes) {
        Ok(([], parsed)) => {
            let named = parsed.certification_request_info.subject.iter_organization();
            Ok(named.filter_map(|name| Some(name.as_str().ok()?.to_owned())).collect())
        }
        Ok(_) => Err("asn1: syntax error: trailing data"),
        Err(_) => Err("asn1: structure error: malformed certificate request"),
    }
}

/// Checks that text in base64 is PEM with certificates and nothing else.
fn check_certificates(encoded: &str) -> Result<(), String> {
    let blocks = pem::blocks(encoded);
    if blocks.is_empty() {
        return Err("must contain at least one CERTIFICATE PEM block".into());
    }
    for block in blocks {
        if block.kind != "CERTIFICATE" {
            let kind = quote(&block.kind);
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {kind}"));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".into());
        }
        if block.bytes.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".into());
        }
        let mut rest = &block.bytes[..];
        while !rest.is_empty() {
            let parsed = X509Certificate::from_der(rest);
            rest = parsed.map_err(|_| "x509: malformed certificate")?.0;
        }
    }
    Ok(())
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
                "status.conditions: Forbidden: updates may not add a condition of type \"Denied\"",
            ]
        );
    }

    #[test]
    fn an_approval_gets_its_times_and_changes_nothing_else() {
        let old = json!({"spec": {"a": 1}, "status": {"certificate": "x"}});
        let mut new = json!({"spec": {"a": 2}, "status": {"certificate": "y",
            "conditions": [{"type": "Approved", "status": "True"}]}});
        prepare_part(Part::Approval, &mut new, &old, "now");
        assert_eq!(
            new,
            json!({"spec": {"a": 1}, "status": {"certificate": "x", "conditions": [
                {"type": "Approved", "status": "True",
                    "lastUpdateTime": "now", "lastTransitionTime": "now"}]}})
        );
        assert_eq!(validate_part(Part::Approval, &new, &old), []);
        assert_eq!(
            validate_part(Part::Status, &new, &old)[0].to_string(),
            "status.conditions: Forbidden: updates may not add a condition of type \"Approved\""
        );
    }

    #[test]
    fn the_requester_is_the_user_whatever_the_request_says() {
        let mut request = json!({"spec": {"username": "x", "uid": "y", "signerName": "a.b/c"}});
        let alice = User { name: "alice".into(), groups: vec!["g".into()], ..User::default() };
        SigningRequest.record_creator(&mut request, &alice);
        let spec = json!({"username": "alice", "groups": ["g"], "signerName": "a.b/c"});
        assert_eq!(request["spec"], spec);
    }

    #[test]
    fn signers_have_a_domain_and_one_name() {
        let mut errors = FieldErrors::default();
        for signer in ["a.b/c", "a.b/c/d", "", "kubernetes.io/legacy-unknown"] {
            check_signer(&mut errors, signer);
        }
        assert_eq!(errors.len(), 3);
    }
}
