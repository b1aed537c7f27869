//! Mistakes of which the API server is not the first to know.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::{Value, json};
use windlass_apiserver::server::ApiServer;

/// A definition that is accepted.
pub fn definition() -> Value {
    json!({
        "metadata": {"name": "lamps.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Lamp", "listKind": "LampList", "plural": "lamps", "singular": "lamp"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "a": {"type": "string"},
                        "n": {"type": "integer"},
                        "list": {"type": "array", "items": {"type": "object", "required": ["k"], "properties": {
                            "k": {"type": "string"}, "o": {"type": "string"}, "deep": {"type": "object"},
                        }}},
                        "texts": {"type": "array", "items": {"type": "string"}},
                    }},
                    "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
                }}},
            }],
        },
    })
}

const V: &str = "/spec/versions/0";
const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";

/// Puts a value at a path, whose parents exist.
pub fn put(definition: &mut Value, path: &str, value: Value) {
    let (parent, key) = path.rsplit_once('/').unwrap();
    definition.pointer_mut(parent).unwrap()[key] = value;
}

/// Mistakes: where the value is put, and the value.
fn mistakes() -> Vec<(String, Value)> {
    let at = |parent: &str, path: &str, value: Value| (format!("{parent}{path}"), value);
    let field = |path: &str, value: Value| at(SPEC, &format!("/properties/{path}"), value);
    let rule = |rule: Value| at(SPEC, "/x-kubernetes-validations", json!([rule]));
    vec![
        at("/spec/names", "/plural", json!("1lamps")),
        at("/spec/names", "/singular", json!("Lamp")),
        at("/spec/names", "/shortNames", json!(["l_p"])),
        at("/spec/names", "/categories", json!(["All"])),
        at("/metadata", "/labels", json!({"a b": "c"})),
        at("/metadata", "/labels", json!({"a": "not a value"})),
        at("/metadata", "/annotations", json!({"/x": "c"})),
        at(V, "/storage", json!(false)),
        at(V, "/deprecationWarning", json!("old")),
        at(
            V,
            "/additionalPrinterColumns",
            json!([{"name": "", "type": "string", "jsonPath": ".spec.a"}]),
        ),
        at(
            V,
            "/additionalPrinterColumns",
            json!([{"name": "A", "type": "text", "jsonPath": ".spec.a"}]),
        ),
        at(V, "/selectableFields", json!([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}])),
        at(V, "/selectableFields", json!([{"jsonPath": ".spec.list"}])),
        at(V, "/selectableFields", json!([{"jsonPath": ".spec.missing"}])),
        at(
            V,
            "/subresources",
            json!({"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}}),
        ),
        field("a/type", json!("text")),
        field("a/pattern", json!("(")),
        field("a/uniqueItems", json!(true)),
        field("a/default", json!(5)),
        field("n/default", json!("5")),
        field("n/default", json!(1.5)),
        field("a/x-kubernetes-embedded-resource", json!(true)),
        field("a/x-kubernetes-preserve-unknown-fields", json!(false)),
        field("a/x-kubernetes-map-type", json!("atomic")),
        field("a/x-kubernetes-list-type", json!("set")),
        field("list/x-kubernetes-list-type", json!("set")),
        field("list/x-kubernetes-list-type", json!("bag")),
        field("texts/x-kubernetes-list-map-keys", json!(["k"])),
        at(SPEC, "/properties/list", json!({"type": "array"})),
        at(SPEC, "/properties/deep", json!({"type": "object", "properties": {"x": {}}})),
        at(SPEC, "/additionalProperties", json!({"type": "string"})),
        at(SPEC, "/oneOf", json!([{"type": "object"}])),
        at(SPEC, "/anyOf", json!([{"properties": {"a": {"default": "x"}}}])),
        at(SPEC, "/not", json!({"properties": {"a": {"nullable": true}}})),
        at(SPEC, "/allOf", json!([{"properties": {"a": {"pattern": "("}}}])),
        rule(json!({"rule": ""})),
        rule(json!({"rule": "self.missing > 1"})),
        rule(json!({"rule": "self.a"})),
        rule(json!({"rule": "self.a ==\n'x'"})),
        rule(json!({"rule": "true", "message": " "})),
        rule(json!({"rule": "true", "message": "a\nb"})),
        rule(json!({"rule": "true", "messageExpression": "1"})),
        rule(json!({"rule": "true", "messageExpression": " "})),
        rule(json!({"rule": "true", "fieldPath": ".missing"})),
        rule(json!({"rule": "true", "fieldPath": ".list[0]"})),
        rule(json!({"rule": "true", "fieldPath": "a"})),
        rule(json!({"rule": "true", "optionalOldSelf": true})),
        rule(
            json!({"rule": "self.list.all(x, self.list.all(y, self.list.all(z, x.k == y.k && y.k == z.k)))"}),
        ),
    ]
}

fn lists() -> Vec<(String, Value)> {
    let keys = |keys: Value| {
        let items = definition().pointer(&format!("{SPEC}/properties/list/items")).unwrap().clone();
        let list = json!({
            "type": "array", "items": items,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
        });
        (format!("{SPEC}/properties/list"), list)
    };
    vec![
        keys(json!(["k", "k"])),
        keys(json!(["missing"])),
        keys(json!(["o"])),
        keys(json!(["deep"])),
        keys(json!([])),
    ]
}

/// Mistakes that the API server accepts, and that do not work.
fn useless() -> Vec<(String, Value)> {
    let at = |parent: &str, path: &str, value: Value| (format!("{parent}{path}"), value);
    let column = |path: &str| json!([{"name": "A", "type": "string", "jsonPath": path}]);
    let scale = json!({"specReplicasPath": ".spec.list[0]", "statusReplicasPath": ".status.n"});
    vec![
        at(V, "/additionalPrinterColumns", column(".spec[")),
        at(V, "/additionalPrinterColumns", column(".spec.missing")),
        at(V, "/subresources", json!({"scale": scale})),
        at(SPEC, "/properties/n/x-kubernetes-int-or-string", json!(true)),
        at(SPEC, "/properties/n/minLength", json!(1)),
        at(SPEC, "/properties/n/enum", json!(["a"])),
        at(SPEC, "/properties/n", json!({"type": "integer", "minimum": 5, "maximum": 4})),
        at(
            SPEC,
            "/properties/n",
            json!({"type": "integer", "minimum": 5, "exclusiveMinimum": true, "maximum": 5}),
        ),
        at(SPEC, "/required", json!(["missing"])),
        at(SPEC, "/oneOf", json!([{"properties": {"missing": {"minLength": 1}}}])),
    ]
}

#[test]
fn what_the_api_server_accepts_although_it_cannot_work_is_found() {
    for (path, value) in useless() {
        let mut definition = definition();
        put(&mut definition, &path, value.clone());
        let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
        assert!(windlass::crd::check_crd(&definition).is_err(), "{path} = {value}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_refuses_is_found_before() {
    let server = ApiServer::start();
    let definitions = Api::<CustomResourceDefinition>::all(server.client());
    let mut silent = Vec::new();
    for (path, value) in mistakes().into_iter().chain(lists()) {
        let mut definition = definition();
        put(&mut definition, &path, value.clone());
        let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
        let refused = definitions.create(&Default::default(), &definition).await;
        let place = path.trim_start_matches(SPEC).trim_start_matches(V);
        if refused.is_ok() {
            silent.push(format!("the server accepts {place} = {value}"));
            definitions.delete("lamps.example.com", &Default::default()).await.unwrap();
        }
        if windlass::crd::check_crd(&definition).is_ok() {
            silent.push(format!("the check accepts {place} = {value}"));
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    let good: CustomResourceDefinition = serde_json::from_value(definition()).unwrap();
    windlass::crd::check_crd(&good).unwrap();
    definitions.create(&Default::default(), &good).await.unwrap();
}
