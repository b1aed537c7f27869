//! Names the RBAC rule that is missing when the server forbids a request.

use crate::error::Error;
use crate::kind::Kind;

/// Adds the missing rule to the message of an error, if the error says that something is forbidden.
pub(super) fn with_rule(error: Error, kind: &Kind, verb: &str) -> Error {
    match error {
        Error::Api { action, mut status } if status.code == 403 => {
            let (group, plural) = (kind.group(), kind.plural());
            status.message.push_str(&format!(
                "; allow it with the rule {{apiGroups: [{group:?}], resources: [{plural:?}], verbs: \
                 [{verb:?}]}}"
            ));
            Error::Api { action, status }
        }
        other => other,
    }
}
