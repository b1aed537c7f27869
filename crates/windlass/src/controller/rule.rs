//! Names the RBAC rule that is missing when the server forbids a request.

use crate::error::Error;

/// How the rule is introduced.
const ALLOW: &str = "; allow it with the rule ";

/// Adds the missing rule to the message of an error, if it is one of the server's authorizer.
///
/// Quotas, policies and admission plugins forbid requests, too. No rule would allow those, so the
/// rule is taken from the sentence that only the authorizer writes.
pub(super) fn with_rule(error: Error) -> Error {
    match error {
        Error::Api { action, mut status } if status.code == 403 => {
            if let Some(rule) = rule(&status.message).filter(|_| !status.message.contains(ALLOW)) {
                status.message.push_str(&format!("{ALLOW}{rule}"));
            }
            Error::Api { action, status }
        }
        other => other,
    }
}

/// Returns the rule that allows what the authorizer refused with `message`.
fn rule(message: &str) -> Option<String> {
    let (_, refused) = message.split_once(" is forbidden: User ")?;
    // The name of a user may contain anything, also such a sentence: the last one is the server's.
    let (_, refused) = refused.rsplit_once(" cannot ")?;
    let (verb, rest) = refused.split_once(" resource \"")?;
    let (resource, rest) = rest.split_once("\" in API group \"")?;
    let (group, _) = rest.split_once('"')?;
    let word = |text: &str, more: &[char]| {
        text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || more.contains(&c))
    };
    let valid = word(verb, &[]) && word(resource, &['-', '.', '/']) && word(group, &['-', '.']);
    (valid && !verb.is_empty() && !resource.is_empty()).then(|| {
        format!("{{apiGroups: [{group:?}], resources: [{resource:?}], verbs: [{verb:?}]}}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_follows_from_the_sentence_of_the_authorizer() {
        let message = "deployments.apps \"web\" is forbidden: User \"op\" cannot patch resource \
                       \"deployments/status\" in API group \"apps\" in the namespace \"default\"";
        let wanted =
            r#"{apiGroups: ["apps"], resources: ["deployments/status"], verbs: ["patch"]}"#;
        assert_eq!(rule(message).as_deref(), Some(wanted));
        let message = "nodes \"a\" is forbidden: User \"x cannot get resource \"y\" in API group \
                       \"z\"\" cannot delete resource \"nodes\" in API group \"\" at the cluster \
                       scope";
        let wanted = r#"{apiGroups: [""], resources: ["nodes"], verbs: ["delete"]}"#;
        assert_eq!(rule(message).as_deref(), Some(wanted));
    }

    #[test]
    fn what_no_rule_would_allow_names_none() {
        for message in [
            "",
            "secrets \"a\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=1, \
             limited: secrets=1",
            "secrets \"a\" is forbidden: unable to create new content in namespace a because it is \
             being terminated",
            "secrets \"a\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers \
             to a resource you can't set finalizers on: , <nil>",
            "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: \
             you cannot do this",
            "pods \"a\" is forbidden: admission webhook \"w\" denied the request: it cannot get \
             resource \"secrets\" in API group \"\"",
            "a is forbidden: User \"x\" cannot get resource \"a b\" in API group \"\"",
            "a is forbidden: User \"x\" cannot get\n resource \"a\" in API group \"\"",
        ] {
            assert_eq!(rule(message), None, "{message}");
        }
    }
}
