//! The spec of an object that has none, as the API server makes it.

use kube::CustomResourceExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Returns the default of the spec of a kind, with the defaults of its fields filled in.
///
/// # Panics
///
/// Panics if the default does not fit the type, which the check of the definition reports too.
pub fn default_spec<K: CustomResourceExt, S: DeserializeOwned>(default: &str) -> S {
    let crd = super::to_value(&K::crd());
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut spec: Value = serde_json::from_str(default).unwrap_or_default();
    fill(schema, &mut spec);
    match serde_json::from_value(spec) {
        Ok(spec) => spec,
        Err(error) => panic!("`spec_default` of {} does not fit: {error}", K::crd_name()),
    }
}

/// Fills in the defaults of fields that are missing, from the outside to the inside.
fn fill(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, of) in schema["properties"].as_object().into_iter().flatten() {
                if let (None, Some(default)) = (fields.get(name), of.get("default")) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields {
                let of = schema["properties"].get(name);
                fill(of.unwrap_or(&schema["additionalProperties"]), field);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(&schema["items"], item)),
        _ => {}
    }
}
