//! Enums and types of `std` and of other crates, in shapes that controller-gen does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};
use windlass::{api, k8s};

use crate::accepted::accepts;

/// Returns the schema of the spec, after the API server accepted the definition.
fn spec<K: CustomResourceExt>() -> Value {
    windlass::crd::check::<K>().unwrap_or_else(|problems| panic!("{problems}"));
    accepts(&K::crd());
    let crd = windlass::crd::to_value(&K::crd());
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        .clone()
}

/// Where backups go.
#[k8s]
#[derive(PartialEq)]
pub enum Mixed {
    /// Nowhere.
    Nowhere,
    Disk {
        path: String,
        size: Option<u32>,
    },
    Bucket(String),
}

#[k8s]
#[serde(tag = "type")]
#[derive(PartialEq)]
pub enum Internal {
    Off,
    Http { port: u16, host: String },
    Tcp { port: u16 },
}

#[k8s]
#[serde(tag = "kind", content = "value")]
#[derive(PartialEq)]
pub enum Adjacent {
    Nothing,
    Text { text: String },
    Size { size: i32 },
}

#[k8s]
#[serde(untagged)]
#[derive(PartialEq)]
pub enum Scalar {
    Number(i32),
    Text(String),
}

#[api(group = "unions.example.com", version = "v1", kind = "Shapes")]
pub struct ShapesSpec {
    pub mixed: Mixed,
    pub internal: Internal,
    pub adjacent: Adjacent,
    pub scalar: Scalar,
}

#[test]
fn a_mixed_enum_is_an_object_with_one_field() {
    let expected = json!({
        "description": "Where backups go.",
        "type": "object",
        "properties": {
            "nowhere": { "type": "object" },
            "disk": {
                "type": "object",
                "properties": {
                    "path": { "type": "string" },
                    "size": { "type": "integer", "format": "int32", "minimum": 0, "maximum": 2_147_483_647 },
                },
                "required": ["path"],
            },
            "bucket": { "type": "string" },
        },
        "x-kubernetes-validations": [{
            "rule": "(has(self.nowhere)?1:0)+(has(self.disk)?1:0)+(has(self.bucket)?1:0) == 1",
            "message": "exactly one of the fields in [nowhere disk bucket] must be set",
        }],
    });
    assert_eq!(spec::<Shapes>()["mixed"], expected);
}

#[test]
fn an_internally_tagged_enum_is_an_object_whose_fields_follow_from_the_tag() {
    let expected = json!({
        "type": "object",
        "properties": {
            "type": { "type": "string", "enum": ["Off", "Http", "Tcp"] },
            "port": { "type": "integer", "minimum": 0, "maximum": 65535 },
            "host": { "type": "string" },
        },
        "required": ["type"],
        "x-kubernetes-validations": [
            { "rule": "has(self.host) || !(self.type == 'Http')", "message": "host must be set if type is Http" },
            {
                "rule": "has(self.port) || !(self.type in ['Http', 'Tcp'])",
                "message": "port must be set if type is Http or Tcp",
            },
            { "rule": "!has(self.host) || self.type == 'Http'", "message": "host may only be set if type is Http" },
            {
                "rule": "!has(self.port) || self.type in ['Http', 'Tcp']",
                "message": "port may only be set if type is Http or Tcp",
            },
        ],
    });
    assert_eq!(spec::<Shapes>()["internal"], expected);
}

#[test]
fn an_adjacently_tagged_enum_has_a_tag_and_a_content() {
    let adjacent = &spec::<Shapes>()["adjacent"];
    assert_eq!(adjacent["required"], json!(["kind"]));
    let content = &adjacent["properties"]["value"]["properties"];
    assert_eq!(content["text"], json!({ "type": "string" }));
    assert_eq!(content["size"], json!({ "type": "integer", "format": "int32" }));
    let rule = &adjacent["x-kubernetes-validations"][0]["rule"];
    assert_eq!(rule, "has(self.value) || !(self.kind in ['Text', 'Size'])");
}

#[test]
fn an_untagged_enum_of_number_and_text_is_an_int_or_string() {
    assert_eq!(spec::<Shapes>()["scalar"]["x-kubernetes-int-or-string"], true);
}

#[test]
fn enums_are_read_and_written_as_their_schemas_say() {
    let json = json!({
        "mixed": { "nowhere": {} },
        "internal": { "type": "Tcp", "port": 80 },
        "adjacent": { "kind": "Size", "value": { "size": 3 } },
        "scalar": "x",
    });
    let spec: ShapesSpec = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(spec.mixed, Mixed::Nowhere);
    assert_eq!(spec.internal, Internal::Tcp { port: 80 });
    assert_eq!(spec.adjacent, Adjacent::Size { size: 3 });
    assert_eq!(spec.scalar, Scalar::Text("x".into()));
    assert_eq!(serde_json::to_value(&spec).unwrap(), json);
}

#[k8s]
#[serde(tag = "type")]
pub enum Clash {
    A { value: String },
    B { value: i32 },
}

#[k8s]
#[serde(untagged)]
pub enum Vague {
    Text(String),
    Fields { a: String },
}

#[api(group = "unions.example.com", version = "v1", kind = "Impossible")]
pub struct ImpossibleSpec {
    pub clash: Clash,
    pub vague: Vague,
}

#[test]
fn an_enum_that_no_schema_can_describe_is_refused_with_a_reason() {
    let problems = windlass::crd::check::<Impossible>().unwrap_err();
    let found: Vec<String> = problems
        .problems
        .iter()
        .map(|problem| format!("{}: {}", problem.path, problem.message))
        .collect();
    let expected = [
        "v1 .spec.clash: field value has different types in the variants of an enum",
        "v1 .spec.vague: the variants of an enum have different types (string, object), tag it with #[serde(tag = \"type\")]",
    ];
    assert_eq!(found, expected);
}

#[api(group = "unions.example.com", version = "v1", kind = "Standard")]
pub struct StandardSpec {
    pub set: BTreeSet<String>,
    pub numbered: BTreeMap<u32, String>,
    pub timeout: Duration,
    pub value: Value,
    pub letter: char,
    pub boxed: Box<Option<i64>>,
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

#[test]
fn types_of_std_have_usable_schemas() {
    let fields = spec::<Standard>();
    assert_eq!(fields["set"]["x-kubernetes-list-type"], "set");
    assert_eq!(fields["set"].get("uniqueItems"), None);
    let numbered = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    assert_eq!(fields["numbered"], numbered);
    assert_eq!(fields["timeout"], json!({ "type": "string" }));
    assert_eq!(fields["value"], json!({ "x-kubernetes-preserve-unknown-fields": true }));
    assert_eq!(fields["letter"], json!({ "type": "string", "minLength": 1, "maxLength": 1 }));
    assert_eq!(fields["boxed"], json!({ "type": "integer", "format": "int64" }));
    let crd = windlass::crd::to_value(&Standard::crd());
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["x-kubernetes-preserve-unknown-fields"], true);
}

mod plain {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    /// A type of `kube` that holds a type of ours.
    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "unions.example.com", version = "v1", kind = "Derived", namespaced)]
    pub struct DerivedSpec {
        pub mixed: super::Mixed,
    }
}

#[test]
fn a_derived_kind_is_checked_and_accepted_too() {
    let fields = spec::<plain::Derived>();
    assert_eq!(fields["mixed"]["properties"]["bucket"], json!({ "type": "string" }));
}

#[test]
fn a_kind_is_a_resource_of_kube() {
    use kube::Resource;
    let shapes = Shapes::new(
        "one",
        ShapesSpec {
            mixed: Mixed::Bucket("b".into()),
            internal: Internal::Off,
            adjacent: Adjacent::Nothing,
            scalar: Scalar::Number(1),
        },
    );
    assert_eq!(shapes.meta().name.as_deref(), Some("one"));
    assert_eq!(Shapes::crd_name(), "shapes.unions.example.com");
    let json = serde_json::to_value(&shapes).unwrap();
    assert_eq!(json["apiVersion"], "unions.example.com/v1");
    assert_eq!(json["kind"], "Shapes");
    let back: Shapes = serde_json::from_value(json).unwrap();
    assert_eq!(back.spec.mixed, Mixed::Bucket("b".into()));
}

/// Limits of an autoscaler.
#[k8s(cel("self.min <= self.max", message = "min is above max"))]
pub struct Limits {
    pub min: i32,
    pub max: i32,
}

#[k8s]
#[serde(tag = "type")]
#[derive(PartialEq)]
pub enum Scaling {
    Auto(Limits),
    #[serde(rename_all = "camelCase")]
    Fixed {
        #[k8s(default = 3)]
        replicas: i32,
    },
    Off,
}

impl PartialEq for Limits {
    fn eq(&self, other: &Self) -> bool {
        self.min == other.min && self.max == other.max
    }
}

#[k8s]
#[serde(tag = "kind", content = "value")]
pub enum Setting {
    Number(i32),
    Text(String),
    Nothing,
}

#[api(group = "unions.example.com", version = "v1", kind = "Nested")]
pub struct NestedSpec {
    #[k8s(max_items = 4)]
    pub scalings: Vec<Scaling>,
    #[k8s(max_properties = 4)]
    pub settings: BTreeMap<String, Setting>,
    #[k8s(max_properties = 4)]
    pub adjacent: Option<BTreeMap<String, Adjacent>>,
    pub count: u32,
    #[k8s(format = "int64")]
    pub wide: u32,
}

/// Returns why the API server refuses an object of the kind with this spec.
async fn refusal(server: &windlass_apiserver::server::ApiServer, spec: Value) -> Option<String> {
    let objects = kube::Api::<kube::core::DynamicObject>::namespaced_with(
        server.client(),
        "default",
        &Nested::api_resource(),
    );
    let object = json!({
        "apiVersion": "unions.example.com/v1", "kind": "Nested",
        "metadata": { "generateName": "x-" }, "spec": spec,
    });
    let object = serde_json::from_value(object).unwrap();
    objects.create(&Default::default(), &object).await.err().map(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn the_api_server_accepts_what_the_enums_can_read_and_nothing_else() {
    windlass::crd::check::<Nested>().unwrap_or_else(|problems| panic!("{problems}"));
    let server = windlass_apiserver::server::ApiServer::start();
    let definitions: kube::Api<CustomResourceDefinition> = kube::Api::all(server.client());
    definitions.create(&Default::default(), &Nested::crd()).await.unwrap();
    let spec = |scalings: Value, settings: Value, adjacent: Value| {
        json!({
            "scalings": scalings, "settings": settings, "adjacent": adjacent, "count": 7, "wide": 4_000_000_000_u32,
        })
    };
    let good = [
        spec(
            json!([{ "type": "Auto", "min": 1, "max": 2 }, { "type": "Off" }]),
            json!({}),
            json!({}),
        ),
        spec(
            json!([{ "type": "Fixed" }, { "type": "Fixed", "replicas": 2 }]),
            json!({}),
            json!({}),
        ),
        spec(
            json!([]),
            json!({ "a": { "kind": "Number", "value": 3 }, "b": { "kind": "Nothing" } }),
            json!({}),
        ),
        spec(json!([]), json!({ "a": { "kind": "Text", "value": "3" } }), json!({})),
        spec(
            json!([]),
            json!({}),
            json!({ "a": { "kind": "Size", "value": { "size": 3 } }, "b": { "kind": "Nothing" } }),
        ),
    ];
    for spec in good {
        let read = serde_json::from_value::<NestedSpec>(spec.clone());
        assert!(read.is_ok(), "{spec}: {read:?}");
        assert_eq!(refusal(&server, spec.clone()).await, None, "{spec}");
    }
    let bad = [
        (
            spec(json!([{ "type": "Auto", "min": 3, "max": 2 }]), json!({}), json!({})),
            "min is above max",
        ),
        (
            spec(json!([{ "type": "Off", "replicas": 2 }]), json!({}), json!({})),
            "replicas may only be set if type is Fixed",
        ),
        (
            spec(json!([{ "type": "Auto", "min": 3 }]), json!({}), json!({})),
            "max must be set if type is Auto",
        ),
        (
            spec(json!([]), json!({ "a": { "kind": "Number", "value": "3" } }), json!({})),
            "value is of type integer if kind is Number",
        ),
        (
            spec(json!([]), json!({ "a": { "kind": "Text" } }), json!({})),
            "value must be set if kind is Number or Text",
        ),
        (
            spec(
                json!([]),
                json!({}),
                json!({ "a": { "kind": "Size", "value": { "text": "x" } } }),
            ),
            "value.size must be set if kind is Size",
        ),
        (
            spec(
                json!([]),
                json!({}),
                json!({ "a": { "kind": "Size", "value": { "size": 1, "text": "x" } } }),
            ),
            "value.text may only be set if kind is Text",
        ),
    ];
    for (spec, why) in bad {
        let refused = refusal(&server, spec.clone()).await;
        assert!(refused.as_ref().is_some_and(|text| text.contains(why)), "{spec}: {refused:?}");
    }
}

#[test]
fn a_default_of_one_variant_is_not_filled_in_for_the_others() {
    let fields = spec::<Nested>();
    let replicas = &fields["scalings"]["items"]["properties"]["replicas"];
    assert_eq!(*replicas, json!({ "type": "integer", "format": "int32" }));
    let read: Scaling = serde_json::from_value(json!({ "type": "Fixed" })).unwrap();
    assert_eq!(read, Scaling::Fixed { replicas: 3 });
}

#[test]
fn the_bounds_of_an_integer_fit_its_format() {
    let fields = spec::<Nested>();
    assert_eq!(
        fields["count"],
        json!({ "type": "integer", "format": "int32", "minimum": 0, "maximum": 2_147_483_647 })
    );
    assert_eq!(
        fields["wide"],
        json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": 4_294_967_295_u32 })
    );
}

#[k8s]
pub struct Optional {
    pub a: Option<String>,
}

#[api(group = "unions.example.com", version = "v1", kind = "Counted")]
pub struct CountedSpec {
    #[k8s(min_properties = 1)]
    pub part: Optional,
}

#[test]
fn the_number_of_fields_is_bounded_on_the_struct_and_not_on_a_field() {
    let problems = windlass::crd::check::<Counted>().unwrap_err();
    let expected = "v1 .spec.part: `min_properties` applies to maps, but this is a struct, put it on the type or use `at_least_one_of`";
    let found = &problems.problems[0];
    assert_eq!(format!("{}: {}", found.path, found.message), expected);
}
