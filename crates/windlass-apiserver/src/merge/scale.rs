//! The `scale` subresource is a view: the owner of `spec.replicas` of a Scale owns the replicas
//! field of its parent.

use serde_json::Value;

use super::managed::{Entry, ManagedFields, Operation};
use super::path::{PathElement, PathSet};

/// The API version of a Scale.
const SCALE_VERSION: &str = "autoscaling/v1";

/// Where the parent has its replicas, by API version.
#[derive(Clone, Copy, Debug)]
pub struct ScalePaths<'a> {
    /// The API version of the parent in this request.
    pub api_version: &'a str,
    /// The replicas path of each version that has one: `("apps/v1", "spec.replicas")`.
    pub paths: &'a [(&'a str, &'a str)],
}

// === impl ScalePaths ===

impl ScalePaths<'_> {
    fn path(&self, api_version: &str) -> Option<Vec<PathElement>> {
        let (_, path) = self.paths.iter().find(|(version, _)| *version == api_version)?;
        let names = path.trim_start_matches('.').split('.');
        Some(names.map(|name| PathElement::Field(name.to_owned())).collect())
    }
}

/// Returns the `managedFields` of a Scale, from those of its parent.
pub fn scale_to_subresource(parent: Option<&Value>, paths: &ScalePaths<'_>) -> Option<Value> {
    let parent = ManagedFields::decode(parent).unwrap_or_default();
    let mut scale = ManagedFields::default();
    for (id, entry) in parent.entries {
        if paths.path(&entry.api_version).is_some_and(|path| entry.set.has_path(&path)) {
            let entry = Entry::new(PathSet::of(&["spec.replicas"]), SCALE_VERSION, entry.time);
            scale.entries.insert(id, entry);
        }
    }
    scale.encode()
}

/// Returns the `managedFields` of the parent, from its stored ones and those of the written Scale.
pub fn scale_to_parent(
    parent: Option<&Value>,
    scale: Option<&Value>,
    paths: &ScalePaths<'_>,
) -> Option<Value> {
    let parent = ManagedFields::decode(parent).unwrap_or_default();
    let mut scale = ManagedFields::decode(scale).unwrap_or_default();
    let mut out = ManagedFields::default();
    for (id, mut entry) in parent.entries {
        let Some(path) = paths.path(&entry.api_version) else { continue };
        if entry.set.has_path(&path) && scale.entries.remove(&id).is_none() {
            let mut replicas = PathSet::default();
            replicas.insert(path);
            entry.subtract(&replicas);
        }
        if !entry.set.is_empty() {
            out.entries.insert(id, entry);
        }
    }
    let in_scale = PathSet::of(&["spec.replicas"]);
    for (mut id, entry) in scale.entries {
        let Some(path) = paths.path(paths.api_version) else { continue };
        if entry.set.intersection(&in_scale).is_empty() {
            continue;
        }
        let mut replicas = PathSet::default();
        replicas.insert(path);
        if id.operation == Operation::Update {
            paths.api_version.clone_into(&mut id.api_version);
        }
        // An entry that is new to the parent has no time: the parent's times are all it keeps.
        let entry = Entry::new(replicas, paths.api_version, None);
        let known = out.entries.entry(id);
        known.and_modify(|e| e.set.unite(entry.set.clone())).or_insert(entry);
    }
    out.encode()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATHS: ScalePaths<'_> =
        ScalePaths { api_version: "apps/v1", paths: &[("apps/v1", "spec.replicas")] };

    fn parent() -> Value {
        json!([{
            "manager": "one", "operation": "Apply", "apiVersion": "apps/v1", "time": "t",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}, "f:paused": {}}},
        }])
    }

    #[test]
    fn owners_of_replicas_show_in_the_scale() {
        let scale = scale_to_subresource(Some(&parent()), &PATHS).unwrap();
        assert_eq!(scale[0]["apiVersion"], "autoscaling/v1");
        assert_eq!(scale[0]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
        let back = scale_to_parent(Some(&parent()), Some(&scale), &PATHS).unwrap();
        assert_eq!(back, parent());
    }

    #[test]
    fn a_write_to_the_scale_takes_the_replicas_of_the_parent() {
        let scale = json!([{
            "manager": "hpa", "operation": "Update", "apiVersion": "autoscaling/v1",
            "time": "u", "fieldsType": "FieldsV1", "subresource": "scale",
            "fieldsV1": {"f:spec": {"f:replicas": {}}},
        }]);
        let back = scale_to_parent(Some(&parent()), Some(&scale), &PATHS).unwrap();
        assert_eq!(back[0]["fieldsV1"], json!({"f:spec": {"f:paused": {}}}));
        assert_eq!(back[1]["manager"], "hpa");
        assert_eq!(back[1]["apiVersion"], "apps/v1");
        assert_eq!(back[1]["subresource"], "scale");
        assert_eq!(back[1].get("time"), None);
    }
}
