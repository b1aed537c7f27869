//! What a request asks for, beyond its name: preconditions, and fields that it removes on purpose.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::diff::join;

/// What a write asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// A uid or a version restricts it to the object that was read.
    pub guarded: bool,
    /// It is a server-side apply.
    pub applies: bool,
    /// The paths that the request names in order to remove them.
    pub removes: BTreeSet<String>,
}

// === impl Sent ===

impl Sent {
    /// Reads the body of a write.
    pub(crate) fn read(verb: &str, content_type: &str, body: &[u8]) -> Self {
        let applies = content_type.starts_with("application/apply-patch");
        let Ok(body) = serde_json::from_slice::<Value>(body) else {
            return Self { applies, ..Self::default() };
        };
        let mut removes = BTreeSet::new();
        if verb == "patch" && !applies {
            match &body {
                Value::Array(operations) => {
                    let removed = operations.iter().filter(|operation| operation["op"] == "remove");
                    removes.extend(removed.filter_map(|o| Some(of_pointer(o["path"].as_str()?))));
                }
                _ => nulls(&body, String::new(), &mut removes),
            }
        }
        Self { guarded: guarded(verb, &body), applies, removes }
    }

    /// Returns `true` if the request names a path, or one above it, in order to remove it.
    pub(crate) fn removes(&self, path: &str) -> bool {
        self.removes.iter().any(|removed| {
            let rest = path.strip_prefix(removed.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }
}

/// Returns `true` if the body names the version or the uid that it expects.
fn guarded(verb: &str, body: &Value) -> bool {
    let set = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let (meta, wanted) = (&body["metadata"], &body["preconditions"]);
    if verb == "update" {
        return set(&meta["resourceVersion"]); // a uid does not protect from a lost update
    }
    [&meta["resourceVersion"], &meta["uid"], &wanted["uid"], &wanted["resourceVersion"]]
        .into_iter()
        .any(set)
}

/// The paths of the nulls of a merge patch.
fn nulls(patch: &Value, path: String, found: &mut BTreeSet<String>) {
    match patch {
        Value::Null => drop(found.insert(path)),
        Value::Object(fields) => {
            for (name, field) in fields {
                nulls(field, join(&path, name), found);
            }
        }
        _ => {}
    }
}

/// The path of a JSON pointer.
fn of_pointer(pointer: &str) -> String {
    let parts = pointer.split('/').skip(1);
    parts.fold(String::new(), |path, part| match part.parse::<usize>() {
        Ok(index) => format!("{path}[{index}]"),
        Err(_) => join(&path, &part.replace("~1", "/").replace("~0", "~")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_removed_on_purpose_are_known() {
        let merge = "application/merge-patch+json";
        let sent =
            Sent::read("patch", merge, br#"{"metadata":{"annotations":{"a/b":null}},"x":1}"#);
        assert!(sent.removes("metadata.annotations[\"a/b\"]") && !sent.removes("x"));
        let operations = br#"[{"op": "remove", "path": "/metadata/annotations/a~1b"}]"#;
        let sent = Sent::read("patch", "application/json-patch+json", operations);
        assert!(sent.removes("metadata.annotations[\"a/b\"]"));
        let sent = Sent::read("update", "application/json", br#"{"metadata":{"labels":null}}"#);
        assert!(!sent.removes("metadata.labels.a") && !sent.guarded);
        let whole = Sent::read("patch", merge, br#"{"metadata":{"labels":null}}"#);
        assert!(whole.removes("metadata.labels.a") && !whole.removes("metadata.labelsx"));
    }

    #[test]
    fn a_version_guards_an_update_and_a_uid_a_deletion() {
        let json = "application/json";
        assert!(Sent::read("update", json, br#"{"metadata":{"resourceVersion":"1"}}"#).guarded);
        assert!(!Sent::read("update", json, br#"{"metadata":{"uid":"1"}}"#).guarded);
        assert!(Sent::read("delete", json, br#"{"preconditions":{"uid":"1"}}"#).guarded);
        assert!(!Sent::read("delete", json, b"").guarded);
    }
}
