//! Reviews: questions to the server about users, tokens and rights.
//!
//! Each takes the decoded body and gives the answer, which is the body with its `status` filled.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::authn::Accepted;
use super::{Attributes, Authenticator, Authorizer, User, stamp, strings, text};
use crate::builtin::rules::selector;
use crate::builtin::rules::value::show_ordered;
use crate::lookup::Lookup;
use crate::status::{FieldError, FieldErrorKind, FieldErrors, Result, Status};

const AUTHORIZATION: &str = "authorization.k8s.io";

/// Metadata and its managers in the order of the real server's structs.
const META_ORDER: [&str; 22] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
    "manager",
    "operation",
    "apiVersion",
    "time",
    "fieldsType",
    "fieldsV1",
    "subresource",
];

/// A review that a user asks for.
pub struct Asked<'a> {
    /// Who asks.
    pub user: &'a User,
    /// The namespace of the request.
    pub namespace: &'a str,
    /// The review.
    pub body: Value,
    /// Who decides about rights.
    pub authorizer: &'a Authorizer,
    /// Who decides about tokens.
    pub authenticator: &'a Authenticator,
    /// The objects of the server.
    pub lookup: &'a dyn Lookup,
    /// The time of the request.
    pub now: Timestamp,
}

/// Answers a review; `None` if the kind is not one.
pub fn answer(kind: &str, asked: Asked<'_>) -> Option<Result<Value>> {
    let Asked { user, namespace, body, authorizer, authenticator, lookup, now } = asked;
    Some(match kind {
        "SelfSubjectAccessReview" => self_subject_access_review(user, body, authorizer, lookup),
        "SubjectAccessReview" => subject_access_review(body, authorizer, lookup),
        "LocalSubjectAccessReview" => {
            local_subject_access_review(namespace, body, authorizer, lookup)
        }
        "SelfSubjectRulesReview" => self_subject_rules_review(user, body, authorizer, lookup),
        "SelfSubjectReview" => Ok(self_subject_review(user, body, now)),
        "TokenReview" => token_review(body, authenticator, lookup, now),
        _ => return None,
    })
}

/// Answers a `SelfSubjectAccessReview`: may the requesting user do this?
pub fn self_subject_access_review(
    user: &User,
    body: Value,
    authorizer: &Authorizer,
    lookup: &dyn Lookup,
) -> Result<Value> {
    let mut errors = check_spec(&body["spec"]);
    check_metadata(&body, &[], "must be empty", &mut errors);
    decide(user, body, &errors, authorizer, lookup)
}

/// Answers a `SubjectAccessReview`: may a user do this?
pub fn subject_access_review(
    body: Value,
    authorizer: &Authorizer,
    lookup: &dyn Lookup,
) -> Result<Value> {
    let mut errors = check_spec(&body["spec"]);
    check_subject(&body["spec"], &mut errors);
    check_metadata(&body, &[], "must be empty", &mut errors);
    decide(&subject(&body["spec"]), body, &errors, authorizer, lookup)
}

/// Answers a `LocalSubjectAccessReview`: may a user do this in the namespace of the request?
pub fn local_subject_access_review(
    namespace: &str,
    mut body: Value,
    authorizer: &Authorizer,
    lookup: &dyn Lookup,
) -> Result<Value> {
    if !body["metadata"].is_object() {
        body["metadata"] = json!({});
    }
    if text(&body, &["metadata", "namespace"]).is_empty() {
        body["metadata"]["namespace"] = namespace.into();
    }
    let mut errors = check_spec(&body["spec"]);
    check_subject(&body["spec"], &mut errors);
    check_metadata(&body, &["namespace"], "must be empty except for namespace", &mut errors);
    let resource = &body["spec"]["resourceAttributes"];
    let asked = text(resource, &["namespace"]);
    if resource.is_object() && asked != text(&body, &["metadata", "namespace"]) {
        let detail = "must match metadata.namespace";
        errors.push(FieldError::invalid_str("spec.resourceAttributes.namespace", asked, detail));
    }
    let path = &body["spec"]["nonResourceAttributes"];
    if path.is_object() {
        let detail = "disallowed on this kind of request";
        errors.push(invalid_path("spec.nonResourceAttributes", path, detail));
    }
    if errors.is_empty() && text(&body, &["metadata", "namespace"]) != namespace {
        return Err(Status::bad_request(format!(
            "spec.resourceAttributes.namespace must match namespace: {namespace}"
        )));
    }
    decide(&subject(&body["spec"]), body, &errors, authorizer, lookup)
}

/// Answers a `SelfSubjectRulesReview`: what may the requesting user do in a namespace?
pub fn self_subject_rules_review(
    user: &User,
    mut body: Value,
    authorizer: &Authorizer,
    lookup: &dyn Lookup,
) -> Result<Value> {
    let namespace = text(&body, &["spec", "namespace"]);
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let (rules, error) = authorizer.rules_for(lookup, user, namespace);
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in &rules {
        if !rule.resources.is_empty() {
            let mut shown = Map::new();
            shown.insert("verbs".into(), rule.verbs.clone().into());
            for (key, list) in [
                ("apiGroups", &rule.groups),
                ("resources", &rule.resources),
                ("resourceNames", &rule.names),
            ] {
                if !list.is_empty() {
                    shown.insert(key.into(), list.clone().into());
                }
            }
            resources.push(Value::Object(shown));
        }
        if !rule.urls.is_empty() {
            paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.urls}));
        }
    }
    let mut status =
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if !error.is_empty() {
        status["evaluationError"] = error.into();
    }
    body["metadata"] = json!({});
    body["spec"] = json!({});
    body["status"] = status;
    Ok(body)
}

/// Answers a `SelfSubjectReview`: who is the requesting user?
pub fn self_subject_review(user: &User, mut body: Value, now: Timestamp) -> Value {
    body["metadata"] = json!({"creationTimestamp": stamp(now)});
    body["status"] = json!({"userInfo": user.to_json()});
    body
}

/// Answers a `TokenReview`: whose token is this?
pub fn token_review(
    body: Value,
    authenticator: &Authenticator,
    lookup: &dyn Lookup,
    now: Timestamp,
) -> Result<Value> {
    let token = text(&body, &["spec", "token"]);
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let mut audiences = strings(&body["spec"]["audiences"]);
    if audiences.is_empty() {
        audiences = authenticator.signer().audiences().to_vec();
    }
    // The text is read as the header of a request would be: its first word is the token.
    let word = token.trim_end().split(' ').next().unwrap_or_default();
    let found = match word.is_empty() {
        true => Ok(Accepted { user: User::anonymous(), audiences: audiences.clone() }),
        false => authenticator.token(word, &audiences, lookup, now),
    };
    let status = match found {
        Ok(accepted) => json!({
            "authenticated": true, "user": accepted.user.to_json(),
            "audiences": accepted.audiences,
        }),
        Err(error) => json!({"user": {}, "error": error}),
    };
    let mut body = with_metadata(body);
    body["status"] = status;
    Ok(body)
}

fn with_metadata(mut body: Value) -> Value {
    if !body["metadata"].is_object() {
        body["metadata"] = json!({});
    }
    body
}

/// Answers an access review, or returns what is wrong with it.
fn decide(
    user: &User,
    body: Value,
    errors: &[FieldError],
    authorizer: &Authorizer,
    lookup: &dyn Lookup,
) -> Result<Value> {
    if !errors.is_empty() {
        return Err(Status::invalid(AUTHORIZATION, "", "", errors));
    }
    let spec = &body["spec"];
    let resource = &spec["resourceAttributes"];
    let path = &spec["nonResourceAttributes"];
    let attributes = match resource.is_object() {
        true => Attributes {
            version: text(resource, &["version"]),
            subresource: text(resource, &["subresource"]),
            namespace: text(resource, &["namespace"]),
            name: text(resource, &["name"]),
            ..Attributes::resource(
                user,
                text(resource, &["verb"]),
                text(resource, &["group"]),
                text(resource, &["resource"]),
            )
        },
        false => Attributes::path(user, text(path, &["verb"]), text(path, &["path"])),
    };
    let decision = authorizer.authorize(lookup, &attributes);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    let mut body = with_metadata(body);
    body["status"] = status;
    Ok(body)
}

fn subject(spec: &Value) -> User {
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text(spec, &["user"]).to_owned(),
        uid: text(spec, &["uid"]).to_owned(),
        groups: strings(&spec["groups"]),
        extra: extra.map(|(key, list)| (key.clone(), strings(list))).collect::<BTreeMap<_, _>>(),
    }
}

fn check_spec(spec: &Value) -> FieldErrors {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut errors = FieldErrors::default();
    match (resource.is_object(), path.is_object()) {
        (true, true) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            errors.push(invalid_path("spec.nonResourceAttributes", path, detail));
        }
        (false, false) => {
            let detail =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(FieldError::invalid("spec.resourceAttributes", &Value::Null, detail));
        }
        _ => {}
    }
    for key in ["fieldSelector", "labelSelector"] {
        check_selector(&resource[key], &format!("spec.resourceAttributes.{key}"), &mut errors);
    }
    errors
}

fn check_selector(given: &Value, at: &str, errors: &mut FieldErrors) {
    if !given.is_object() {
        return;
    }
    let raw = text(given, &["rawSelector"]);
    let some = given["requirements"].as_array().is_some_and(|list| !list.is_empty());
    match (raw.is_empty(), some) {
        (false, true) => errors.push(FieldError::invalid_str(
            format!("{at}.rawSelector"),
            raw,
            "may not specified at the same time as requirements",
        )),
        (true, false) => errors.push(FieldError::required(
            format!("{at}.requirements"),
            format!("when {at} is specified, requirements or rawSelector is required"),
        )),
        _ => {}
    }
    let requirements = given["requirements"].as_array().into_iter().flatten();
    for (index, requirement) in requirements.enumerate() {
        let at = format!("{at}.requirements[{index}]");
        if at.contains("labelSelector") {
            selector::validate_known(errors, requirement, &at);
            continue;
        }
        if text(requirement, &["key"]).is_empty() {
            errors.push(FieldError::required(format!("{at}.key"), "must be specified"));
        }
        selector::validate_count(errors, requirement, &at);
    }
}

fn check_subject(spec: &Value, errors: &mut FieldErrors) {
    if text(spec, &["user"]).is_empty() && strings(&spec["groups"]).is_empty() {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid_str("spec.user", "", detail));
    }
}

fn check_metadata(body: &Value, may: &[&str], detail: &str, errors: &mut FieldErrors) {
    let metadata = body["metadata"].as_object();
    let set = metadata.into_iter().flatten().any(|(key, value)| {
        let ignored = key == "managedFields" || may.contains(&key.as_str());
        let empty = value.is_null() || value == "" || *value == json!({}) || *value == json!([]);
        !ignored && !empty
    });
    if set {
        let shown = show_ordered(&body["metadata"], &META_ORDER);
        errors.push(FieldError::raw(FieldErrorKind::Invalid, "metadata", shown, detail));
    }
}

/// An error about path attributes, shown with the field names of the Go type.
fn invalid_path(field: &str, path: &Value, detail: &str) -> FieldError {
    let shown = json!({"Path": text(path, &["path"]), "Verb": text(path, &["verb"])});
    FieldError::raw(FieldErrorKind::Invalid, field, shown.to_string(), detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Signer;
    use crate::auth::fake::Fake;
    use crate::auth::token::DEFAULT_ISSUER;

    fn ask(user: &User, spec: Value) -> Result<Value> {
        let fake = Fake::bootstrapped();
        fake.role(
            "ns",
            "r",
            json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]),
        );
        fake.bind("ns", "r", "Role/r", "User/alice");
        let body = json!({"kind": "SelfSubjectAccessReview", "metadata": {}, "spec": spec});
        self_subject_access_review(user, body, &Authorizer::new(), &fake)
    }

    #[test]
    fn an_access_review_says_whether_and_why() {
        let alice = User::new("alice", &["system:authenticated"]);
        let pods = json!({"resourceAttributes":
            {"namespace": "ns", "verb": "list", "resource": "pods"}});
        let answer = ask(&alice, pods).unwrap();
        assert_eq!(
            answer["status"],
            json!({"allowed": true, "reason":
                "RBAC: allowed by RoleBinding \"r/ns\" of Role \"r\" to User \"alice\""})
        );
        let version = json!({"nonResourceAttributes": {"path": "/version", "verb": "get"}});
        assert_eq!(ask(&alice, version).unwrap()["status"]["allowed"], true);
        let all = json!({"resourceAttributes": {"verb": "list", "resource": "pods"}});
        assert_eq!(ask(&alice, all).unwrap()["status"], json!({"allowed": false}));
    }

    #[test]
    fn wrong_access_reviews_get_the_real_texts() {
        let root = User::admin("root");
        assert_eq!(
            ask(&root, json!({})).unwrap_err().message,
            ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: \
             exactly one of nonResourceAttributes or resourceAttributes must be specified"
        );
        let both = json!({
            "resourceAttributes": {"verb": "get"},
            "nonResourceAttributes": {"path": "/x", "verb": "get"},
        });
        assert_eq!(
            ask(&root, both).unwrap_err().message,
            ".authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: \
             {\"Path\":\"/x\",\"Verb\":\"get\"}: cannot be specified in combination with \
             resourceAttributes"
        );
    }

    #[test]
    fn a_local_review_stays_in_its_namespace() {
        let (fake, rbac) = (Fake::bootstrapped(), Authorizer::new());
        let review = |namespace: &str| {
            let spec = json!({"user": "a", "resourceAttributes":
                {"namespace": namespace, "verb": "get", "resource": "pods"}});
            local_subject_access_review("ns", json!({"spec": spec}), &rbac, &fake)
        };
        assert_eq!(review("ns").unwrap()["status"], json!({"allowed": false}));
        assert_eq!(
            review("other").unwrap_err().message,
            ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid \
             value: \"other\": must match metadata.namespace"
        );
    }

    #[test]
    fn a_rules_review_lists_the_rules_of_everybody_too() {
        let (fake, rbac) = (Fake::bootstrapped(), Authorizer::new());
        let alice = User::new("alice", &["system:authenticated"]);
        let review =
            |spec: Value| self_subject_rules_review(&alice, json!({"spec": spec}), &rbac, &fake);
        assert_eq!(review(json!({})).unwrap_err().message, "no namespace on request");
        let status = review(json!({"namespace": "ns"})).unwrap()["status"].take();
        assert_eq!(status["resourceRules"].as_array().unwrap().len(), 2);
        assert_eq!(status["incomplete"], false);
    }

    #[test]
    fn a_token_review_returns_the_user_or_the_error() {
        let tokens = [("good".to_owned(), User::new("root", &["system:masters"]))];
        let authenticator = Authenticator::new(tokens, Signer::generate(DEFAULT_ISSUER).unwrap());
        let fake = Fake::default();
        let review = |token: &str| {
            let body = json!({"spec": {"token": token}});
            token_review(body, &authenticator, &fake, Timestamp::UNIX_EPOCH)
        };
        let good = review("good").unwrap();
        assert_eq!(good["status"]["user"]["username"], "root");
        assert_eq!(good["status"]["audiences"], json!([DEFAULT_ISSUER]));
        assert_eq!(
            review("bad").unwrap()["status"],
            json!({"user": {}, "error": "invalid bearer token"})
        );
        assert_eq!(review("").unwrap_err().code, 400);
    }
}
