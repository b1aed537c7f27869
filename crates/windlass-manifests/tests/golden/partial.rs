//! Partial structs, kinds without a spec, and attributes for what few types need.

use std::collections::BTreeMap;

use kube::{Api, CustomResourceExt, Resource};
use serde_json::json;
use windlass::{api, k8s};
use windlass_apiserver::server::ApiServer;

/// A lamp.
#[api(group = "example.com", version = "v1", kind = "Lamp", partial, status = LampStatus)]
pub struct LampSpec {
    /// How bright it is.
    pub watts: i32,
    #[k8s(default = "white")]
    pub color: String,
    #[k8s(partial)]
    pub socket: Socket,
    #[k8s(list = map("name"), partial)]
    pub bulbs: Vec<Bulb>,
    pub timeout: Option<std::time::Duration>,
    #[serde(rename = "isOn")]
    pub on: bool,
}

#[k8s]
pub struct LampStatus {
    pub hours: Option<i64>,
}

#[k8s(partial)]
pub struct Socket {
    pub voltage: i32,
    pub kind: String,
}

#[k8s(partial)]
pub struct Bulb {
    pub name: String,
    pub power: i32,
}

#[test]
fn a_partial_struct_writes_only_what_is_set() {
    let spec = LampSpecPartial {
        on: Some(true),
        timeout: Some(std::time::Duration::from_secs(90)),
        socket: Some(SocketPartial { voltage: Some(230), ..Default::default() }),
        ..Default::default()
    };
    let lamp = LampPartial::new("desk", spec);
    let expected = json!({
        "apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "desk"},
        "spec": {"isOn": true, "timeout": "90s", "socket": {"voltage": 230}},
    });
    assert_eq!(serde_json::to_value(&lamp).unwrap(), expected);
    assert_eq!(LampPartial::plural(&()), Lamp::plural(&()));
}

#[tokio::test(start_paused = true)]
async fn two_appliers_own_the_fields_that_they_set() {
    let server = ApiServer::start();
    let definitions = Api::all(server.client());
    definitions.create(&Default::default(), &Lamp::crd()).await.unwrap();
    let lamps = Api::<LampPartial>::namespaced(server.client(), "default");
    let apply = |name: &str| kube::api::PatchParams::apply(name);
    let whole = json!({
        "apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "desk"},
        "spec": {"watts": 5, "isOn": false, "socket": {"voltage": 12, "kind": "E27"}, "bulbs": []},
    });
    lamps.patch("desk", &apply("author"), &kube::api::Patch::Apply(&whole)).await.unwrap();
    let bulb = BulbPartial { name: Some("a".into()), power: Some(3) };
    let spec = LampSpecPartial { bulbs: Some(vec![bulb]), ..Default::default() };
    let mine = LampPartial::new("desk", spec);
    let patch = kube::api::Patch::Apply(&mine);
    let answer = lamps.patch("desk", &apply("operator"), &patch).await.unwrap();
    let spec = answer.spec.unwrap();
    assert_eq!((spec.watts, spec.color.as_deref()), (Some(5), Some("white")));
    assert_eq!(spec.bulbs.unwrap()[0].power, Some(3));
}

/// Settings without a spec.
#[api(
    group = "example.com",
    version = "v1",
    kind = "Settings",
    plural = "settings",
    flat,
    partial,
    column("Mode", ".mode")
)]
pub struct SettingsFields {
    pub mode: String,
    pub values: Option<BTreeMap<String, String>>,
}

#[test]
fn the_fields_of_a_flat_kind_are_beside_its_metadata() {
    let crd = windlass::crd::to_value(&Settings::crd());
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["required"], json!(["mode"]));
    assert_eq!(schema["properties"]["mode"], json!({"type": "string"}));
    assert!(schema["properties"].get("spec").is_none());
    crate::accepted::accepts(&Settings::crd());
    let settings = Settings::new("main", SettingsFields { mode: "dark".into(), values: None });
    let value = serde_json::to_value(&settings).unwrap();
    let expected = json!({
        "apiVersion": "example.com/v1", "kind": "Settings", "metadata": {"name": "main"}, "mode": "dark",
    });
    assert_eq!(value, expected);
    let read: Settings = serde_json::from_value(value).unwrap();
    assert_eq!(read.fields.mode, "dark");
    let part = SettingsPartial::new("main", SettingsFieldsPartial::default());
    assert!(serde_json::to_value(&part).unwrap().get("mode").is_none());
}

/// Comment.
#[api(group = "example.com", version = "v1", kind = "Rare")]
#[k8s(schema = { oneOf: [{ required: ["a"] }, { required: ["b"] }] })]
pub struct RareSpec {
    /// A comment.
    #[k8s(format = none, doc = "A description,\n---\nwhatever the comment says.")]
    pub a: Option<i64>,
    #[k8s(items(nullable, doc = "A text."))]
    pub b: Option<Vec<Option<String>>>,
}

#[test]
fn rare_keywords_have_attributes() {
    let crd = windlass::crd::to_value(&Rare::crd());
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let expected = json!({
        "type": "object", "description": "Comment.",
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "properties": {
            "a": {"type": "integer", "description": "A description,\n---\nwhatever the comment says."},
            "b": {"type": "array", "items": {"type": "string", "nullable": true, "description": "A text."}},
        },
    });
    assert_eq!(*spec, expected);
    crate::accepted::accepts(&Rare::crd());
}
