//! Types of Kubernetes that definitions contain.

use std::sync::LazyLock;

use k8s_openapi::api::core::v1::{
    ConfigMapKeySelector, LocalObjectReference, ObjectReference, SecretKeySelector,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};
use windlass_manifests::schema::{self, Field, Object, SchemaOf};

/// A type of Kubernetes.
pub struct Known {
    pub name: &'static str,
    /// The module that has it.
    pub module: &'static str,
    schema: Map<String, Value>,
}

/// The keywords that the schemas of these types have; others are rules of a field.
pub const KEYWORDS: [&str; 4] = ["properties", "required", "type", "x-kubernetes-map-type"];

const META: &str = "k8s_openapi::apimachinery::pkg::apis::meta::v1";
const CORE: &str = "k8s_openapi::api::core::v1";

/// Types that are the same in all versions of Kubernetes.
static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    vec![
        known::<Condition>("Condition", META),
        known::<LabelSelector>("LabelSelector", META),
        known::<ObjectMeta>("ObjectMeta", META),
        known::<ConfigMapKeySelector>("ConfigMapKeySelector", CORE),
        known::<LocalObjectReference>("LocalObjectReference", CORE),
        known::<ObjectReference>("ObjectReference", CORE),
        known::<SecretKeySelector>("SecretKeySelector", CORE),
    ]
});

/// Returns the type whose schema is this one, whatever its documentation says.
pub fn find(schema: &Map<String, Value>) -> Option<&'static Known> {
    let names = |schema: &Map<String, Value>| -> Vec<String> {
        let properties = schema.get("properties").and_then(Value::as_object);
        properties.map(|map| map.keys().cloned().collect()).unwrap_or_default()
    };
    // Most objects have other fields, and are not compared further.
    let wanted = names(schema);
    let candidates: Vec<&Known> =
        KNOWN.iter().filter(|known| names(&known.schema) == wanted).collect();
    if candidates.is_empty() {
        return None;
    }
    let mut same = Map::new();
    for keyword in KEYWORDS {
        if let Some(value) = schema.get(keyword) {
            same.insert(keyword.to_owned(), value.clone());
        }
    }
    bare(&mut same);
    candidates.into_iter().find(|known| known.schema == same)
}

fn known<T: JsonSchema>(name: &'static str, module: &'static str) -> Known {
    let mut generator = SchemaGenerator::new(SchemaSettings::draft2020_12());
    let schema: SchemaOf = SchemaGenerator::subschema_for::<T>;
    let field = Field { name: "it", doc: "", required: false, flatten: false, schema, rules: &[] };
    let object = Object { doc: "", fields: &[field], rules: &[] };
    let schema = schema::object(&mut generator, &object).to_value();
    let mut schema = schema["properties"]["it"].as_object().cloned().unwrap_or_default();
    bare(&mut schema);
    Known { name, module, schema }
}

/// Removes documentation, and orders what has no order.
fn bare(schema: &mut Map<String, Value>) {
    schema.retain(|keyword, _| keyword != "description" && !keyword.starts_with("x-windlass-"));
    if let Some(Value::Array(names)) = schema.get_mut("required") {
        names.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(bare);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(Value::Object(child)) = schema.get_mut(keyword) {
            bare(child);
        }
    }
}
