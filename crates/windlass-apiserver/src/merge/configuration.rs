//! Merging what a policy wants into an object, without anybody owning it.

use serde_json::Value;

use super::typed::validate;
use super::walk::merge;
use crate::shape::{ListMerge, ShapeKind, ShapeRef};

/// Merges a configuration into a live object: its values win, the rest stays.
///
/// # Errors
/// If it does not fit the shape, or would replace something that is owned as a whole: that could
/// remove what its author did not mention.
pub fn merge_configuration(live: &Value, patch: &Value, shape: &ShapeRef) -> Result<Value, String> {
    validate(patch, shape)
        .map_err(|why| format!("failed to convert patch object to typed object: {why}"))?;
    let mut atomics = Vec::new();
    find_atomics(patch, shape, &mut String::new(), &mut atomics);
    if !atomics.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        ));
    }
    Ok(merge(live, patch, shape))
}

/// Recursion follows the value, whose depth the expression bounds.
fn find_atomics(value: &Value, shape: &ShapeRef, path: &mut String, found: &mut Vec<String>) {
    match (&shape.get().kind, value) {
        (ShapeKind::Object(object), Value::Object(map)) => {
            if object.atomic {
                found.push(path.clone());
            }
            for (key, value) in map {
                let Some(field) = object.fields.get(key) else { continue };
                below(path, &format!(".{key}"), |path| {
                    find_atomics(value, &field.shape, path, found);
                });
            }
        }
        (ShapeKind::List(list), Value::Array(items)) => {
            if list.merge == ListMerge::Atomic {
                found.push(path.clone());
            }
            for (at, item) in items.iter().enumerate() {
                below(path, &format!("[{at}]"), |path| find_atomics(item, &list.item, path, found));
            }
        }
        _ => {}
    }
}

fn below(path: &mut String, part: &str, look: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push_str(part);
    look(path);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::Gvk;
    use crate::schema::shape_of;

    #[test]
    fn items_merge_by_their_keys_and_atomic_lists_are_refused() {
        let shape = shape_of(&Gvk::new("", "v1", "Pod"));
        let live = json!({"spec": {"containers": [{"name": "a", "image": "x"}]}});
        let patch = json!({"spec": {"containers": [{"name": "a", "tty": true}, {"name": "b"}]}});
        assert_eq!(
            merge_configuration(&live, &patch, &shape).unwrap(),
            json!({"spec": {"containers": [
                {"name": "a", "image": "x", "tty": true}, {"name": "b"},
            ]}})
        );
        let patch = json!({"spec": {"containers": [{"name": "a", "args": ["x"]}]}});
        let refused = merge_configuration(&live, &patch, &shape).unwrap_err();
        assert!(refused.ends_with(": .spec.containers[0].args"), "{refused}");
        let patch = json!({"spec": {"wrong": 1}});
        assert!(merge_configuration(&live, &patch, &shape).is_err());
    }
}
