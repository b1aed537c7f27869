//! Tests of definitions.

use serde_json::{Value, json};

use super::*;

fn definition(schema: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn made(mut object: Value) -> Value {
    strategy().defaults(&mut object);
    strategy().prepare_create(&mut object);
    object
}

fn errors(object: Value) -> Vec<String> {
    strategy().validate(&made(object)).iter().map(ToString::to_string).collect()
}

fn with_field(field: Value) -> Value {
    definition(json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": {"x": field}}}}))
}

const X: &str = "spec.validation.openAPIV3Schema.properties[spec].properties[x]";

#[test]
fn a_plain_definition_gets_its_names_and_status() {
    let object = made(with_field(json!({"type": "string", "enum": []})));
    assert_eq!(object["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(object["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(object["status"]["storedVersions"], json!(["v1"]));
    assert!(strategy().validate(&object).is_empty());
    let x = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/x";
    assert_eq!(object.pointer(x), Some(&json!({"type": "string"})));
}

#[test]
fn schemas_that_are_not_structural_are_refused() {
    for (field, expected) in [
        (json!({"type": "array"}), format!("{X}.items: Required value: must be specified")),
        (
            json!({}),
            format!("{X}.type: Required value: must not be empty for specified object fields"),
        ),
        (
            json!({"type": "string", "pattern": "(open"}),
            format!(
                "{X}.pattern: Invalid value: \"(open\": must be a valid regular expression, but \
                 isn't: error parsing regexp: missing closing ): `(open`"
            ),
        ),
        (
            json!({"type": "string", "default": 5}),
            format!(
                "{X}.default: Invalid value: \"integer\":  in body must be of type string: \"integer\""
            ),
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
            format!(
                "{X}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime \
                 complexity becomes quadratic"
            ),
        ),
    ] {
        assert_eq!(errors(with_field(field)), [expected]);
    }
}

#[test]
fn names_and_versions_are_checked() {
    let mut object = with_field(json!({"type": "string"}));
    object["spec"]["versions"][0]["storage"] = false.into();
    object["spec"]["scope"] = "Global".into();
    let errors = errors(object);
    assert_eq!(
        errors[0],
        "spec.scope: Unsupported value: \"Global\": supported values: \"Cluster\", \"Namespaced\""
    );
    assert!(errors[1].ends_with("must have exactly one version marked as storage version"));
    assert_eq!(
        errors[2],
        "status.storedVersions: Invalid value: null: must have at least one stored version"
    );
}

#[test]
fn a_webhook_needs_a_url_or_a_service() {
    let mut object = with_field(json!({"type": "string"}));
    object["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"url": "http://a.example"}, "conversionReviewVersions": ["v9"]}});
    assert_eq!(
        errors(object),
        [
            "spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only \
             allowed URL scheme; desired format: https://host[/path]",
            "spec.conversion.conversionReviewVersions: Invalid value: [\"v9\"]: must include at \
             least one of v1, v1beta1",
        ]
    );
}

#[test]
fn a_large_schema_is_checked_in_time_linear_in_its_size() {
    let mut field = json!({"type": "string", "pattern": "^(a{1,50}){1,20}$"});
    for _ in 0..40 {
        field = json!({"type": "object", "properties": {"f": field}, "default": {}});
    }
    let fields: serde_json::Map<String, Value> =
        (0..50).map(|i| (format!("f{i}"), field.clone())).collect();
    let object = definition(json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": fields}}}));
    assert!(errors(object).is_empty());
}
