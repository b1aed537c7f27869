//! JSON patch (RFC 6902) and JSON merge patch (RFC 7386), with the habits of the Go library that
//! the real server uses: `replace` may add a map key, `add` without a value adds null, negative
//! indices count from the end.

use serde_json::{Map, Value};
use windlass_text::json_patch::{Refused, Steps};

use crate::status::{Details, Result, Status};

/// The most operations a JSON patch may have.
pub const JSON_PATCH_OPS_MAX: usize = 10_000;

/// Applies a JSON patch to a document.
///
/// A patch that is not a list of objects is a 400, too many operations are a 413, and an operation
/// that fails is a 422 that does not say which.
pub fn json_patch(mut document: Value, patch: &Value) -> Result<Value> {
    let ops = match patch {
        Value::Null => return Ok(document),
        Value::Array(ops) => ops,
        other => return Err(undecodable(other, "[]handlers.jsonPatchOp")),
    };
    if let Some(bad) = ops.iter().find(|op| !op.is_object() && !op.is_null()) {
        return Err(undecodable(bad, "handlers.jsonPatchOp"));
    }
    if ops.len() > JSON_PATCH_OPS_MAX {
        return Err(Status::too_large(format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is \
             {JSON_PATCH_OPS_MAX}, got {}",
            ops.len()
        )));
    }
    let mut steps = Steps::new();
    for op in ops {
        steps.apply(&mut document, op).map_err(|why| match why {
            Refused::DoesNotApply => rejected(),
            Refused::TooMuchWork => Status::too_large(format!("Request entity too large: {why}")),
        })?;
    }
    Ok(document)
}

/// Applies a JSON merge patch: null removes a key, maps merge, everything else replaces.
///
/// A patch that is not a map is a 400.
pub fn merge_patch(document: &mut Value, patch: &Value) -> Result<()> {
    match patch {
        Value::Object(patch) => {
            merge_into(document, patch);
            Ok(())
        }
        Value::Null => Err(Status::bad_request("Invalid JSON Patch")),
        other => Err(undecodable(other, "map[string]interface {}")),
    }
}

/// The answer to a patch that is JSON of the wrong type.
fn undecodable(value: &Value, go_type: &str) -> Status {
    let what = json_type(value);
    Status::bad_request(format!(
        "error decoding patch: json: cannot unmarshal {what} into Go value of type {go_type}"
    ))
}

/// What Go's decoder calls a value.
pub(super) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The answer to a patch that cannot be carried out; it does not say why.
pub(super) fn rejected() -> Status {
    let message = "the server rejected our request due to an error in our request";
    Status::new(422, "Invalid", message).with_details(Details::default())
}

fn merge_into(document: &mut Value, patch: &Map<String, Value>) {
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Value::Object(map) = document else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                map.remove(key);
            }
            Value::Object(below) => {
                merge_into(map.entry(key.as_str()).or_insert(Value::Null), below);
            }
            other => {
                map.insert(key.clone(), other.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::merge::tests::any_json;

    fn patched(document: Value, ops: Value) -> Option<Value> {
        json_patch(document, &ops).ok()
    }

    #[test]
    fn every_operation_does_what_the_real_server_does() {
        let table = [
            (json!([{"op":"add","path":"/a/-","value":3}]), Some(json!({"a":[1,2,3]}))),
            (json!([{"op":"add","path":"/a/0","value":0}]), Some(json!({"a":[0,1,2]}))),
            (json!([{"op":"add","path":"/a/2","value":3}]), Some(json!({"a":[1,2,3]}))),
            (json!([{"op":"add","path":"/a/3","value":3}]), None),
            (json!([{"op":"remove","path":"/a/-1"}]), Some(json!({"a":[1]}))),
            (json!([{"op":"remove","path":"/none"}]), None),
            (json!([{"op":"replace","path":"/b","value":1}]), Some(json!({"a":[1,2],"b":1}))),
            (json!([{"op":"replace","path":"/a/9","value":1}]), None),
            (json!([{"op":"move","from":"/a/1","path":"/a/0"}]), Some(json!({"a":[2,1]}))),
            (json!([{"op":"copy","from":"/a/0","path":"/c"}]), Some(json!({"a":[1,2],"c":1}))),
            (json!([{"op":"test","path":"/a/0","value":1}]), Some(json!({"a":[1,2]}))),
            (json!([{"op":"test","path":"/a/0","value":2}]), None),
            (json!([{"op":"add","path":"/x~1y","value":1}]), Some(json!({"a":[1,2],"x/y":1}))),
            (json!([{"op":"add","path":"/none/deep","value":1}]), None),
            (json!([{"op":"add","path":"a","value":1}]), None),
            (json!([{"op":"add","value":1}]), None),
            (json!([{"op":"twist","path":"/a"}]), None),
            (json!([null]), None),
            (json!(null), Some(json!({"a":[1,2]}))),
        ];
        for (ops, want) in table {
            assert_eq!(patched(json!({"a":[1,2]}), ops.clone()), want, "{ops}");
        }
    }

    #[test]
    fn a_malformed_patch_is_distinguished_from_a_failing_one() {
        assert_eq!(json_patch(json!({}), &json!({"op":"add"})).unwrap_err().code, 400);
        let failing = json!([{"op":"remove","path":"/x"}]);
        assert_eq!(json_patch(json!({}), &failing).unwrap_err().code, 422);
        let many = Value::Array(vec![json!({"op":"x"}); JSON_PATCH_OPS_MAX + 1]);
        assert_eq!(json_patch(json!({}), &many).unwrap_err().code, 413);
    }

    #[test]
    fn copies_of_copies_do_not_grow_without_bound() {
        let ops = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 100];
        let error = json_patch(json!({"a": [1]}), &Value::Array(ops)).unwrap_err();
        assert_eq!(error.code, 422);
    }

    #[test]
    fn moves_do_not_nest_without_bound() {
        let mut ops = vec![json!({"op": "add", "path": "/a", "value": {}})];
        for _ in 0..crate::decode::DEPTH_MAX {
            ops.push(json!({"op": "add", "path": "/b", "value": {}}));
            ops.push(json!({"op": "move", "from": "/a", "path": "/b/a"}));
            ops.push(json!({"op": "move", "from": "/b", "path": "/a"}));
        }
        assert_eq!(json_patch(json!({}), &Value::Array(ops)).unwrap_err().code, 422);
    }

    #[test]
    fn a_merge_patch_of_null_is_refused() {
        assert_eq!(merge_patch(&mut json!({}), &Value::Null).unwrap_err().code, 400);
    }

    proptest! {
        #[test]
        fn a_merge_patch_is_idempotent(document in any_json(), patch in any_json()) {
            let mut once = document;
            if merge_patch(&mut once, &patch).is_ok() {
                let mut twice = once.clone();
                merge_patch(&mut twice, &patch).unwrap();
                prop_assert_eq!(once, twice);
            }
        }

        #[test]
        fn a_merge_patch_leaves_what_it_does_not_name(value in any_json()) {
            let mut document = json!({"kept": value.clone()});
            merge_patch(&mut document, &json!({"other": 1})).unwrap();
            prop_assert_eq!(&document["kept"], &value);
        }

        #[test]
        fn a_json_patch_never_panics(document in any_json(), a in "[/a0-]{0,4}", op in 0..6usize) {
            let op = ["add", "remove", "replace", "move", "copy", "test"][op];
            let _ = json_patch(document, &json!([{"op": op, "path": a, "from": a, "value": 1}]));
        }
    }
}
