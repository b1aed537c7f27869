//! `serviceaccounts/token`: a `TokenRequest` answered with a token.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Bound, Claims, Signer};
use crate::auth::{stamp, strings, text};
use crate::lookup::Lookup;
use crate::resource::split_api_version;
use crate::status::{FieldError, GroupResource, Result, Status, quote};

const GROUP: &str = "authentication.k8s.io";
/// What kubelets ask for; such tokens live on for a year, with a warning.
const WARN_ONLY_SECONDS: i64 = 60 * 60 + 7;
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

/// Answers a request for a token of a service account.
pub fn token_request(
    signer: &Signer,
    lookup: &dyn Lookup,
    namespace: &str,
    name: &str,
    mut body: Value,
    now: Timestamp,
) -> Result<Value> {
    check_metadata(&body, namespace, name)?;
    let account = find(lookup, "serviceaccounts", namespace, name)?;
    let uid = text(&account, &["metadata", "uid"]);
    let wanted = text(&body, &["metadata", "uid"]);
    if !wanted.is_empty() && wanted != uid {
        let gr = GroupResource { group: GROUP, resource: "TokenRequest" };
        let why = format!(
            "the UID in the token request ({wanted}) does not match the UID of the service \
             account ({uid})"
        );
        return Err(Status::conflict(&gr, name, why));
    }
    let seconds = body["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
    check_seconds(seconds)?;
    let mut audiences = strings(&body["spec"]["audiences"]);
    if audiences.is_empty() {
        audiences = signer.audiences().to_vec();
    }
    let mut claims =
        Claims { namespace, name, uid, audiences: &audiences, seconds, ..Claims::default() };
    if body["spec"]["boundObjectRef"].is_object() {
        bind(lookup, &body["spec"]["boundObjectRef"], &mut claims)?;
    }
    let own = audiences.iter().all(|a| signer.audiences().contains(a));
    if claims.pod.is_some() && seconds == WARN_ONLY_SECONDS && own {
        claims.warn_after = Some(seconds);
        claims.seconds = EXTENDED_SECONDS;
    }
    let token = signer.sign(&claims, now);
    let until = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now);

    body["apiVersion"] = format!("{GROUP}/v1").into();
    body["kind"] = "TokenRequest".into();
    if !body["metadata"].is_object() {
        body["metadata"] = json!({});
    }
    body["metadata"]["name"] = name.into();
    body["metadata"]["namespace"] = namespace.into();
    body["metadata"]["uid"] = uid.into();
    body["metadata"]["creationTimestamp"] = stamp(now).into();
    if !body["spec"].is_object() {
        body["spec"] = json!({});
    }
    body["spec"]["audiences"] = audiences.clone().into();
    body["spec"]["expirationSeconds"] = seconds.into();
    // The real type writes this field even when it is not set.
    body["spec"]["boundObjectRef"] = body["spec"]["boundObjectRef"].take();
    body["status"] = json!({"token": token, "expirationTimestamp": stamp(until)});
    Ok(body)
}

fn check_metadata(body: &Value, namespace: &str, name: &str) -> Result<()> {
    let checks = [
        ("name", name, "must match the service account name if specified"),
        ("namespace", namespace, "must match the service account namespace if specified"),
    ];
    for (key, expected, detail) in checks {
        let given = text(body, &["metadata", key]);
        if !given.is_empty() && given != expected {
            let error = FieldError::invalid_str(format!("metadata.{key}"), given, detail);
            return Err(Status::invalid(GROUP, "TokenRequest", name, &[error]));
        }
    }
    Ok(())
}

fn check_seconds(seconds: i64) -> Result<()> {
    let detail = match seconds {
        ..600 => "may not specify a duration less than 10 minutes",
        0x1_0000_0001.. => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    let error = FieldError::invalid("spec.expirationSeconds", &seconds.into(), detail);
    Err(Status::invalid(GROUP, "TokenRequest", "", &[error]))
}

fn bind(lookup: &dyn Lookup, reference: &Value, claims: &mut Claims<'_>) -> Result<()> {
    let (kind, name) = (text(reference, &["kind"]), text(reference, &["name"]));
    let (group, version) = split_api_version(text(reference, &["apiVersion"]));
    let bound = |object: &Value| Bound {
        name: text(object, &["metadata", "name"]).to_owned(),
        uid: text(object, &["metadata", "uid"]).to_owned(),
    };
    let uid = match (group, kind) {
        ("", "Pod") => {
            let pod = find(lookup, "pods", claims.namespace, name)?;
            if text(&pod, &["spec", "serviceAccountName"]) != claims.name {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {} to pod running with different \
                     serviceaccount name.",
                    quote(claims.name)
                )));
            }
            let node = text(&pod, &["spec", "nodeName"]);
            if !node.is_empty() {
                // A node that is deleted is still named.
                claims.node = Some(match lookup.get("", "nodes", "", node) {
                    Some(node) => bound(&node),
                    None => Bound { name: node.to_owned(), uid: String::new() },
                });
            }
            &claims.pod.insert(bound(&pod)).uid
        }
        ("", "Secret") => {
            let secret = find(lookup, "secrets", claims.namespace, name)?;
            &claims.secret.insert(bound(&secret)).uid
        }
        ("", "Node") => &claims.node.insert(bound(&*find(lookup, "nodes", "", name)?)).uid,
        _ => {
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    };
    let wanted = text(reference, &["uid"]);
    if !wanted.is_empty() && wanted != uid {
        let gr = GroupResource { group, resource: kind };
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. \
             The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(&gr, name, why));
    }
    Ok(())
}

fn find(
    lookup: &dyn Lookup,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<std::sync::Arc<Value>> {
    let gr = GroupResource { group: "", resource };
    lookup.get("", resource, namespace, name).ok_or_else(|| Status::not_found(&gr, name))
}
