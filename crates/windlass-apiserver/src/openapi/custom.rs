//! The parts of OpenAPI documents that come from definitions of custom resources.

use serde_json::{Map, Value, json};

use super::Dialect;
use crate::resource::{Gvk, Resource};

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an \
    object. Servers should convert recognized schemas to the latest internal value, and may \
    reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/\
    sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. \
    Servers may infer this from the endpoint the client submits requests to. Cannot be updated. \
    In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/\
    api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/\
    contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str = "Standard list metadata. More info: https://git.k8s.io/community/\
    contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// Returns the name of a custom kind's definition: `com.example.v1.Boat` for `boats.example.com`.
pub fn definition_name(gvk: &Gvk, kind: &str) -> String {
    let mut parts: Vec<_> = gvk.group.split('.').collect();
    parts.reverse();
    format!("{}.{}.{kind}", parts.join("."), gvk.version)
}

/// Returns the schema that a custom resource's definition has for its version.
pub fn schema_of(resource: &Resource) -> Option<Value> {
    let custom = resource.custom.as_ref()?;
    let versions = custom.definition.pointer("/spec/versions")?.as_array()?;
    let version = versions.iter().find(|v| v["name"] == *resource.gvk.version)?;
    version.pointer("/schema/openAPIV3Schema").cloned()
}

/// Returns the definitions of a custom kind and of its list, from its structural schema.
pub fn definitions(
    resource: &Resource,
    schema: Option<&Value>,
    dialect: Dialect,
) -> [(String, Value); 2] {
    let gvk = &resource.gvk;
    let name = definition_name(gvk, &gvk.kind);
    let list_name = definition_name(gvk, &resource.list_kind);
    [(name.clone(), object(gvk, schema, dialect)), (list_name, list(resource, &name, dialect))]
}

fn gvk_extension(gvk: &Gvk, kind: &str) -> Value {
    json!([{"group": &*gvk.group, "kind": kind, "version": &*gvk.version}])
}

fn meta(dialect: Dialect, kind: &str, description: &str) -> Value {
    let mut extra = Map::new();
    extra.insert("description".into(), description.into());
    dialect.reference(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"), extra)
}

fn object(gvk: &Gvk, schema: Option<&Value>, dialect: Dialect) -> Value {
    let open = |schema: &&Value| schema["x-kubernetes-preserve-unknown-fields"] == true;
    let listed = schema.filter(|schema| dialect != Dialect::V2 || !open(schema));
    let Some(mut schema) = listed.cloned() else {
        // Clients of the second version take listed fields for all there are, so an object that
        // may have any others lists none.
        let extension = gvk_extension(gvk, &gvk.kind);
        return json!({"type": "object", "x-kubernetes-group-version-kind": extension});
    };
    if dialect == Dialect::V2 {
        simplify(&mut schema, 0);
    }
    let Value::Object(map) = &mut schema else { return schema };
    let properties = map.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties
            .insert("apiVersion".into(), json!({"description": API_VERSION, "type": "string"}));
        properties.insert("kind".into(), json!({"description": KIND, "type": "string"}));
        properties.insert("metadata".into(), meta(dialect, "ObjectMeta", METADATA));
    }
    map.insert("x-kubernetes-group-version-kind".into(), gvk_extension(gvk, &gvk.kind));
    schema
}

fn list(resource: &Resource, item: &str, dialect: Dialect) -> Value {
    let gvk = &resource.gvk;
    let items = format!(
        "List of {}. More info: https://git.k8s.io/community/contributors/devel/\
         sig-architecture/api-conventions.md",
        resource.plural
    );
    json!({
        "description": format!("{} is a list of {}", resource.list_kind, gvk.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": API_VERSION, "type": "string"},
            "items": {"description": items, "type": "array",
                "items": dialect.reference(item, Map::new())},
            "kind": {"description": KIND, "type": "string"},
            "metadata": meta(dialect, "ListMeta", LIST_METADATA),
        },
        "x-kubernetes-group-version-kind": gvk_extension(gvk, &resource.list_kind),
    })
}

/// Takes away what the second version of OpenAPI cannot say.
fn simplify(schema: &mut Value, depth: usize) {
    let Value::Object(map) = schema else { return };
    if depth > crate::decode::DEPTH_MAX {
        map.clear();
        return;
    }
    for key in ["oneOf", "anyOf", "allOf", "not", "nullable", "default", "example"] {
        map.remove(key);
    }
    // Two types at once, or fields beyond the known ones, are anything to clients.
    if map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        map.remove("type");
    }
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        for key in ["items", "properties", "additionalProperties"] {
            map.remove(key);
        }
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(|property| simplify(property, depth + 1));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(key) {
            simplify(inner, depth + 1);
        }
    }
}
