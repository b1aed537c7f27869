//! What the published schemas of Kubernetes' own types lack: how lists merge, defaults, and rules.

use serde_json::{Map, Value, json};

use super::rule::PRESERVE;

const PREFIX: &str = "io.k8s.";

const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// The fields of metadata inside of an object. The others belong to the API server.
const METADATA: [&str; 5] = ["annotations", "finalizers", "labels", "name", "namespace"];

/// Types with a `name` that may be empty, by the rules of their first version.
const NAMED: [&str; 9] = [
    "api.core.v1.ConfigMapEnvSource",
    "api.core.v1.ConfigMapKeySelector",
    "api.core.v1.ConfigMapProjection",
    "api.core.v1.ConfigMapVolumeSource",
    "api.core.v1.LocalObjectReference",
    "api.core.v1.SecretEnvSource",
    "api.core.v1.SecretKeySelector",
    "api.core.v1.SecretProjection",
    "api.core.v1.ConfigMapNodeConfigSource",
];

/// Completes the definition of a type, and returns `true` if it is one of Kubernetes.
pub(super) fn apply(name: &str, definition: &mut Value) -> bool {
    let Some(name) = name.strip_prefix(PREFIX) else { return false };
    let Some(schema) = definition.as_object_mut() else { return true };
    merge(name, schema);
    // Inside of another object, metadata may be missing, as in the types of Go.
    not_required(schema, "metadata");
    match name {
        "apimachinery.pkg.api.resource.Quantity" => {
            schema.insert("pattern".into(), QUANTITY.into());
            schema.remove("description");
        }
        "apimachinery.pkg.util.intstr.IntOrString"
        | "apimachinery.pkg.apis.meta.v1.Time"
        | "apimachinery.pkg.apis.meta.v1.MicroTime" => {
            schema.remove("description");
        }
        // The defaults of these two fields refer to constants, which no definition carries.
        "api.core.v1.AzureDiskVolumeSource" => {
            no_default(schema, "cachingMode");
            no_default(schema, "kind");
            update(schema, "readOnly", json!({ "default": false }));
        }
        "api.core.v1.FileKeySelector" => update(schema, "optional", json!({ "default": false })),
        "api.core.v1.GRPCAction" => update(schema, "service", json!({ "default": "" })),
        "apimachinery.pkg.apis.meta.v1.ObjectMeta" => metadata(schema),
        "apimachinery.pkg.apis.meta.v1.Condition" => condition(schema),
        "apimachinery.pkg.runtime.RawExtension" => {
            *schema = object(json!({ "type": "object", PRESERVE: true }));
        }
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON" => {
            *schema = object(json!({ PRESERVE: true }));
        }
        _ if NAMED.contains(&name) => {
            not_required(schema, "name");
            schema.insert("x-kubernetes-map-type".into(), "atomic".into());
            update(schema, "name", json!({ "default": "" }));
        }
        _ => {}
    }
    true
}

fn merge(name: &str, schema: &mut Map<String, Value>) {
    if let Some(facts) = windlass_facts::merge(name, "") {
        write(facts, schema);
    }
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (field, value) in properties {
        let Some(value) = value.as_object_mut() else { continue };
        if let Some(facts) = windlass_facts::merge(name, field) {
            write(facts, value);
        }
        if let Some(default) = windlass_facts::default(name, field)
            && let Ok(default) = serde_json::from_str(default)
        {
            value.insert("default".into(), default);
        }
    }
}

fn write(facts: &windlass_facts::Merge, schema: &mut Map<String, Value>) {
    if !facts.list_type.is_empty() {
        schema.insert("x-kubernetes-list-type".into(), facts.list_type.into());
    }
    if !facts.list_map_keys.is_empty() {
        let keys: Vec<&str> = facts.list_map_keys.split(',').collect();
        schema.insert("x-kubernetes-list-map-keys".into(), json!(keys));
    }
    if !facts.map_type.is_empty() {
        schema.insert("x-kubernetes-map-type".into(), facts.map_type.into());
    }
}

fn metadata(schema: &mut Map<String, Value>) {
    schema.remove("description");
    schema.remove("required");
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, _| METADATA.contains(&name.as_str()));
        for value in properties.values_mut().filter_map(Value::as_object_mut) {
            value.remove("x-kubernetes-list-type");
            value.remove("description");
        }
    }
}

fn condition(schema: &mut Map<String, Value>) {
    update(schema, "message", json!({ "maxLength": 32_768 }));
    update(schema, "observedGeneration", json!({ "minimum": 0 }));
    let reason = json!({ "minLength": 1, "maxLength": 1024, "pattern": CONDITION_REASON });
    update(schema, "reason", reason);
    update(schema, "status", json!({ "enum": ["True", "False", "Unknown"] }));
    update(schema, "type", json!({ "maxLength": 316, "pattern": CONDITION_TYPE }));
}

/// Adds keywords to a field.
fn update(schema: &mut Map<String, Value>, field: &str, keywords: Value) {
    let slot = schema.get_mut("properties").and_then(|properties| properties.get_mut(field));
    if let (Some(Value::Object(slot)), Value::Object(keywords)) = (slot, keywords) {
        slot.extend(keywords);
    }
}

fn no_default(schema: &mut Map<String, Value>, field: &str) {
    let slot = schema.get_mut("properties").and_then(|properties| properties.get_mut(field));
    if let Some(Value::Object(slot)) = slot {
        slot.remove("default");
    }
}

fn not_required(schema: &mut Map<String, Value>, field: &str) {
    if let Some(Value::Array(names)) = schema.get_mut("required") {
        names.retain(|name| name != field);
        if names.is_empty() {
            schema.remove("required");
        }
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
