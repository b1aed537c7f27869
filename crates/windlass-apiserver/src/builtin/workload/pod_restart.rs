//! How single containers are restarted and resized, and the claims of devices they use.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::builtin::rules::value::{has, items, text};
use crate::builtin::rules::{each_invalid, names};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;

/// Does the same as [`policy`], for an init container: without a policy its rules are not looked
/// at.
pub fn init_policy(errors: &mut FieldErrors, container: &Value, field: &str) {
    if has(container, "restartPolicy") {
        policy(errors, container, field);
    } else if !items(container, "restartPolicyRules").is_empty() {
        let why = "must specify restartPolicy when restart rules are used";
        errors.push(FieldError::required(format!("{field}.restartPolicy"), why));
    }
}

/// Problems of a container's own restart policy and its rules.
pub fn policy(errors: &mut FieldErrors, container: &Value, field: &str) {
    let rules = items(container, "restartPolicyRules");
    let policy = &container["restartPolicy"];
    let known = ["Always", "Never", "OnFailure"];
    match policy.as_str() {
        None if rules.is_empty() => return,
        None => errors.push(FieldError::required(
            format!("{field}.restartPolicy"),
            "must specify restartPolicy when restart rules are used",
        )),
        Some(text) if !known.contains(&text) => {
            let field = format!("{field}.restartPolicy");
            errors.push(FieldError::not_supported(field, policy, &known));
        }
        Some(_) => {}
    }
    let field = format!("{field}.restartPolicyRules");
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(&*field, rules.len(), RULES_MAX));
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = format!("{field}[{index}]");
        one_of(errors, rule, "action", &["Restart", "RestartAllContainers"], &at);
        let codes = format!("{at}.exitCodes");
        if !has(rule, "exitCodes") {
            errors.push(FieldError::required(codes, "must be specified"));
            continue;
        }
        one_of(errors, &rule["exitCodes"], "operator", &["In", "NotIn"], &codes);
        let count = items(&rule["exitCodes"], "values").len();
        if count > EXIT_CODES_MAX {
            errors.push(FieldError::too_many(format!("{codes}.values"), count, EXIT_CODES_MAX));
        }
    }
}

fn one_of(errors: &mut FieldErrors, object: &Value, key: &str, known: &[&str], field: &str) {
    let value = text(object, key);
    if !known.contains(&value) {
        errors.push(FieldError::not_supported(format!("{field}.{key}"), &value.into(), known));
    }
}

/// Problems of what says whether a new size needs a restart.
pub fn resize(errors: &mut FieldErrors, container: &Value, spec: &Value, field: &str) {
    let field = format!("{field}.resizePolicy");
    let mut seen = BTreeSet::new();
    for (index, policy) in items(container, "resizePolicy").iter().enumerate() {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if !seen.insert(resource) {
            errors.push(FieldError::duplicate(format!("{field}[{index}]"), &resource.into()));
        }
        for (value, known) in
            [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])]
        {
            if value.is_empty() {
                errors.push(FieldError::required(&*field, ""));
            } else if !known.contains(&value) {
                errors.push(FieldError::not_supported(&*field, &value.into(), &known));
            }
        }
        if spec["restartPolicy"] == "Never" && restart != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid_str(&*field, restart, why));
        }
    }
}

/// Problems of the claims a pod has.
pub fn claims(errors: &mut FieldErrors, spec: &Value, field: &str) {
    let mut seen = BTreeSet::new();
    for (index, claim) in items(spec, "resourceClaims").iter().enumerate() {
        let at = format!("{field}.resourceClaims[{index}]");
        let (name, place) = (text(claim, "name"), format!("{at}.name"));
        if name.is_empty() {
            errors.push(FieldError::required(place, ""));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(place, &name.into()));
        } else {
            each_invalid(errors, &place, name, names::dns_label(name));
        }
        let given = ["resourceClaimName", "resourceClaimTemplateName"];
        let why = match given.map(|key| has(claim, key)) {
            [true, true] => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            [false, false] => {
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            }
            _ => "",
        };
        if !why.is_empty() {
            let shown = format!(
                "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
                Value::from(name),
                claim["resourceClaimName"],
                claim["resourceClaimTemplateName"]
            );
            errors.push(FieldError::raw(FieldErrorKind::Invalid, &*at, shown, why));
        }
        for key in given {
            if let Some(name) = claim[key].as_str() {
                each_invalid(errors, &format!("{at}.{key}"), name, names::dns_subdomain(name));
            }
        }
    }
}

/// Problems of the claims a container uses.
pub fn used_claims(
    errors: &mut FieldErrors,
    container: &Value,
    there: &BTreeSet<&str>,
    field: &str,
) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (index, claim) in items(&container["resources"], "claims").iter().enumerate() {
        let at = format!("{field}.resources.claims[{index}]");
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let mut key = name.to_owned();
        if seen.contains(name) {
            errors.push(FieldError::duplicate(&*at, &name.into()));
        } else {
            if !request.is_empty() {
                let place = format!("{at}.request");
                each_invalid(errors, &place, request, names::dns_label(request));
                key = format!("{name}/{request}");
            }
            let part = format!("{name}/");
            if seen.contains(&key) {
                errors.push(FieldError::duplicate(&*at, &key.as_str().into()));
            } else if request.is_empty() {
                let parts = seen.range(part.clone()..);
                for _ in parts.take_while(|other| other.starts_with(&part)) {
                    if errors.is_full() {
                        break;
                    }
                    errors.push(FieldError::duplicate(&*at, &name.into()));
                }
            }
            seen.insert(key);
        }
        if !there.contains(name) && !errors.is_full() {
            let list: Vec<&str> = there.iter().copied().collect();
            let why = match list.is_empty() {
                true => " which is empty".to_owned(),
                false => format!(": {}", list.join(", ")),
            };
            let why = format!("must be one of the names in pod.spec.resourceClaims{why}");
            let shown = Value::from(name).to_string();
            errors.push(FieldError::raw(FieldErrorKind::NotFound, at, shown, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_have_one_source_and_are_there_when_used() {
        let mut errors = FieldErrors::default();
        let spec = json!({"resourceClaims": [{"name": "a", "resourceClaimName": "x"},
            {"name": "a"}]});
        claims(&mut errors, &spec, "spec");
        let container = json!({"resources": {"claims": [{"name": "a"}, {"name": "a"},
            {"name": "z"}]}});
        used_claims(&mut errors, &container, &BTreeSet::from(["a"]), "c");
        let texts: Vec<_> = errors.iter().map(FieldError::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.resourceClaims[1].name: Duplicate value: \"a\"",
                "spec.resourceClaims[1]: Invalid value: {\"Name\":\"a\",\
                 \"ResourceClaimName\":null,\"ResourceClaimTemplateName\":null}: must specify one \
                 of: `resourceClaimName`, `resourceClaimTemplateName`",
                "c.resources.claims[1]: Duplicate value: \"a\"",
                "c.resources.claims[2]: Not found: \"z\": must be one of the names in \
                 pod.spec.resourceClaims: a",
            ]
        );
    }

    #[test]
    fn restart_rules_need_a_policy_and_exit_codes() {
        let mut errors = FieldErrors::default();
        policy(&mut errors, &json!({"restartPolicyRules": [{"action": "X"}]}), "c");
        resize(
            &mut errors,
            &json!({"resizePolicy": [{"resourceName": "x", "restartPolicy": "RestartContainer"}]}),
            &json!({"restartPolicy": "Never"}),
            "c",
        );
        let texts: Vec<_> = errors.iter().map(FieldError::to_string).collect();
        assert_eq!(
            texts,
            [
                "c.restartPolicy: Required value: must specify restartPolicy when restart rules \
                 are used",
                "c.restartPolicyRules[0].action: Unsupported value: \"X\": supported values: \
                 \"Restart\", \"RestartAllContainers\"",
                "c.restartPolicyRules[0].exitCodes: Required value: must be specified",
                "c.resizePolicy: Unsupported value: \"x\": supported values: \"cpu\", \"memory\"",
                "c.resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when \
                 pod `restartPolicy` is 'Never'",
            ]
        );
    }
}
