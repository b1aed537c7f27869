use proptest::prelude::*;
use serde_json::json;

use super::delta;
use super::stash::{ANNOTATION, BYTES_MAX};
use super::*;

mod v1 {
    #[crate::api(group = "example.com", version = "v1", kind = "Lamp", storage = false)]
    pub struct LampSpec {
        pub watts: i32,
        #[k8s(optional)]
        pub sockets: Vec<Socket>,
        #[k8s(optional)]
        pub tags: Vec<String>,
    }
    #[crate::k8s]
    pub struct Socket {
        pub name: String,
        pub volts: i32,
    }
}

mod v2 {
    #[crate::api(group = "example.com", version = "v2", kind = "Lamp", status = LampStatus)]
    pub struct LampSpec {
        pub power: Power,
        pub color: Option<Color>,
        #[k8s(optional)]
        pub sockets: Vec<Socket>,
        #[k8s(optional)]
        pub tags: Vec<String>,
    }
    #[crate::k8s]
    pub struct Power {
        pub watts: i32,
        pub limit: Option<i32>,
    }
    #[crate::k8s]
    pub enum Color {
        Red,
        Blue,
    }
    #[crate::k8s]
    pub struct Socket {
        pub name: String,
        pub volts: i32,
        pub fuse: Option<i32>,
    }
    #[crate::k8s]
    #[derive(Default)]
    pub struct LampStatus {
        pub on: Option<bool>,
    }
}

mod v3 {
    #[crate::api(group = "example.com", version = "v3", kind = "Lamp", storage = false)]
    pub struct LampSpec {
        pub power: String,
        pub shade: Option<String>,
    }
}

fn conversion() -> Conversion<v2::Lamp> {
    Conversion::<v2::Lamp>::new()
        .version::<v1::Lamp>(Fields::new().moved(".spec.watts", ".spec.power.watts"))
        .version_with(
            |new: v3::Lamp| {
                let power = v2::Power { watts: new.spec.power.len() as i32, limit: None };
                let spec = v2::LampSpec { power, color: None, sockets: vec![], tags: vec![] };
                Ok(v2::Lamp { metadata: new.metadata, spec, status: None })
            },
            |hub: v2::Lamp| match hub.spec.power.watts {
                13 => panic!("unlucky"),
                666 => Err(Error::Invalid("not in this version".into())),
                watts => {
                    let spec = v3::LampSpec { power: format!("{watts} W"), shade: None };
                    Ok(v3::Lamp { metadata: hub.metadata, spec })
                }
            },
        )
}

const V1: &str = "example.com/v1";
const V2: &str = "example.com/v2";
const V3: &str = "example.com/v3";

fn lamp(api_version: &str, spec: Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": "Lamp",
        "metadata": {"name": "a", "namespace": "default", "uid": "1", "labels": {"app": "b"}},
        "spec": spec,
    })
}

fn rich() -> Value {
    let mut lamp = lamp(
        V2,
        json!({
            "power": {"watts": 60, "limit": 80}, "color": "Red",
            "sockets": [{"name": "left", "volts": 230, "fuse": 16}, {"name": "right", "volts": 110}],
        }),
    );
    lamp["status"] = json!({"on": true});
    lamp
}

#[test]
fn what_a_version_cannot_express_survives_in_an_annotation() {
    let old = conversion().convert(rich(), V1).expect("converted");
    assert_eq!(
        old["spec"],
        json!({"watts": 60, "sockets": [
        {"name": "left", "volts": 230}, {"name": "right", "volts": 110}]})
    );
    assert_eq!(old.get("status"), None);
    let kept = old["metadata"]["annotations"][ANNOTATION].as_str().expect("kept");
    assert!(!kept.contains("230") && kept.contains("16"), "only the difference: {kept}");
    assert_eq!(conversion().convert(old, V2).expect("back"), rich());
}

#[test]
fn a_conversion_from_version_to_version_goes_over_the_hub_and_loses_nothing() {
    let old = conversion().convert(rich(), V1).expect("v1");
    let new = conversion().convert(old.clone(), V3).expect("v3");
    assert_eq!(new["spec"], json!({"power": "60 W"}));
    assert_eq!(conversion().convert(new.clone(), V1).expect("v1"), old);
    assert_eq!(conversion().convert(new, V2).expect("v2"), rich());
}

mod rollout {
    pub mod v1 {
        #[crate::api(group = "example.com", version = "v1", kind = "Rollout", storage = false)]
        pub struct RolloutSpec {
            pub strategy: Strategy,
        }
        #[crate::k8s]
        pub struct Strategy {
            pub r#type: String,
        }
    }
    pub mod v2 {
        #[crate::api(group = "example.com", version = "v2", kind = "Rollout")]
        pub struct RolloutSpec {
            pub strategy: Strategy,
        }
        #[crate::k8s]
        pub struct Strategy {
            pub r#type: String,
            pub rolling: Option<Rolling>,
            pub comment: Option<String>,
        }
        #[crate::k8s]
        pub struct Rolling {
            pub surge: i32,
        }
    }
}

#[test]
fn what_a_discriminator_selects_is_dropped_with_the_selection() {
    let conversion =
        Conversion::<rollout::v2::Rollout>::new().version::<rollout::v1::Rollout>(Fields::new());
    let strategy = json!({"type": "Rolling", "rolling": {"surge": 3}, "comment": "slow"});
    let new = json!({
        "apiVersion": V2, "kind": "Rollout", "metadata": {"name": "a"}, "spec": {"strategy": strategy},
    });
    let old = conversion.convert(new.clone(), V1).expect("converted");
    assert_eq!(old["spec"], json!({"strategy": {"type": "Rolling"}}));
    assert_eq!(conversion.convert(old.clone(), V2).expect("back"), new, "nobody changed it");
    let mut edited = old;
    edited["spec"]["strategy"]["type"] = json!("Recreate");
    let back = conversion.convert(edited.clone(), V2).expect("back");
    let wanted = json!({"type": "Recreate", "comment": "slow"});
    assert_eq!(back["spec"]["strategy"], wanted, "the other value is kept");
    edited["spec"]["strategy"]["type"] = json!("Rolling");
    assert_eq!(conversion.convert(edited, V2).expect("back"), new, "selected again");
    conversion.assert_round_trip();
}

#[test]
fn changes_of_a_client_of_the_old_version_win_over_what_is_kept() {
    let mut old = conversion().convert(rich(), V1).expect("converted");
    old["spec"]["watts"] = json!(40);
    old["spec"]["sockets"] = json!([
        {"name": "new", "volts": 12}, {"name": "left", "volts": 24},
    ]);
    let hub = conversion().convert(old, V2).expect("back");
    assert_eq!(
        hub["spec"],
        json!({
            "power": {"watts": 40, "limit": 80}, "color": "Red",
            "sockets": [{"name": "new", "volts": 12}, {"name": "left", "volts": 24, "fuse": 16}],
        }),
        "the fuse stays with its socket, and the removed socket stays removed"
    );
    // The text of v3 determines the watts; what the text alone gives is what counts.
    let mut new = conversion().convert(rich(), V3).expect("v3");
    new["spec"]["power"] = json!("100 W");
    let hub = conversion().convert(new, V2).expect("back");
    assert_eq!(hub["spec"]["power"], json!({"watts": 5, "limit": 80}));
}

#[test]
fn a_list_without_names_keeps_the_values_of_items_that_stay() {
    let was = json!({"list": [{"a": 1}, {"a": 2}]});
    let is = json!({"list": [{"a": 1, "b": 1}, {"a": 2, "b": 2}]});
    let entries = delta::between(&was, &is);
    let mut edited = json!({"list": [{"a": 9}, {"a": 2}]});
    delta::restore(&entries, &mut edited);
    assert_eq!(edited, json!({"list": [{"a": 9}, {"a": 2, "b": 2}]}));
}

#[test]
fn metadata_stays_except_for_labels_and_annotations() {
    let mut object = rich();
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object["metadata"]["unheard"] = json!({"of": 1});
    let old = conversion().convert(object.clone(), V3).expect("converted");
    for name in ["name", "namespace", "uid", "finalizers", "unheard", "labels"] {
        assert_eq!(old["metadata"][name], object["metadata"][name], "{name}");
    }
    let renames = Conversion::<v2::Lamp>::new().version_with(
        |_: v1::Lamp| Err(Error::Invalid("no".into())),
        |mut hub: v2::Lamp| {
            hub.metadata.name = Some("other".into());
            let spec = v1::LampSpec { watts: 1, sockets: vec![], tags: vec![] };
            Ok(v1::Lamp { metadata: hub.metadata, spec })
        },
    );
    let error = renames.convert(rich(), V1).expect_err("another name");
    assert!(error.to_string().ends_with("metadata other than labels and annotations"), "{error}");
}

#[test]
fn an_annotation_that_is_not_ours_is_dropped() {
    for text in
        ["", "{", "[]", r#"{"v2":1}"#, r#"{"v2":[{"path":["metadata"],"was":[],"is":[1]}]}"#]
    {
        let mut old = lamp(V1, json!({"watts": 1}));
        old["metadata"]["annotations"] = json!({ANNOTATION: text});
        let hub = conversion().convert(old, V2).expect("converted");
        assert_eq!(hub, lamp(V2, json!({"power": {"watts": 1}})), "{text}");
    }
}

#[test]
fn of_items_that_become_equal_each_gets_its_own_value_back() {
    let (was, is) = (json!({"spec": [1, 1, 1, 2]}), json!({"spec": [1, 1, 5, 2]}));
    let mut restored = was.clone();
    delta::restore(&delta::between(&was, &is), &mut restored);
    assert_eq!(restored, is);
}

#[test]
fn an_annotation_that_somebody_made_up_cannot_break_the_types_of_an_object() {
    let entry = |path: Value, is: Value| json!({"v2": [{"path": path, "was": [], "is": [is]}]});
    for (made_up, power) in [
        (entry(json!(["spec", "color"]), json!({"a": 1})), json!({"watts": 1})),
        (entry(json!(["spec", "sockets"]), json!([7])), json!({"watts": 1})),
        (entry(json!(["spec", "power", "limit"]), json!(["many"])), json!({"watts": 1})),
        (entry(json!(["status"]), json!("on")), json!({"watts": 1})),
        (entry(json!(["spec", "power", "limit"]), json!(7)), json!({"watts": 1, "limit": 7})),
    ] {
        let mut old = lamp(V1, json!({"watts": 1}));
        old["metadata"]["annotations"] = json!({ANNOTATION: made_up.to_string()});
        let hub = conversion().convert(old, V2).expect("converted");
        assert_eq!(hub, lamp(V2, json!({"power": power})), "{made_up}");
    }
}

#[test]
fn an_annotation_that_somebody_made_up_costs_little() {
    let items: Vec<Value> = (0..20_000).map(|at| json!({"name": at.to_string()})).collect();
    let missing = |at: usize| {
        let step = json!({"key": "name", "value": format!("none {at}"), "at": 0});
        json!({"path": ["spec", "sockets", step], "was": [], "is": [{"name": "new"}]})
    };
    let items_again = json!({"path": ["spec", "sockets"], "items": []});
    let entries: Vec<Value> =
        (0..3000).map(missing).chain(std::iter::repeat_n(items_again, 1000)).collect();
    let entries: Vec<delta::Entry> = serde_json::from_value(entries.into()).expect("entries");
    let mut target = json!({"spec": {"sockets": items}});
    delta::restore(&entries, &mut target);
    let now = target["spec"]["sockets"].as_array().expect("a list").len();
    assert!(now < 20_500, "{} items were added, so {} were looked at", now - 20_000, now * 20_000);
}

mod rack1 {
    #[crate::api(group = "example.com", version = "v1", kind = "Rack", storage = false)]
    pub struct RackSpec {
        #[k8s(optional)]
        pub shelves: Vec<Shelf>,
        #[k8s(optional)]
        pub doors: Vec<Door>,
    }
    #[crate::k8s]
    pub struct Shelf {
        pub label: String,
        pub high: i32,
        pub low: i32,
        #[k8s(optional)]
        pub boxes: Vec<Parcel>,
    }
    #[crate::k8s]
    pub struct Parcel {
        pub grams: i64,
    }
    #[crate::k8s]
    pub struct Door {
        pub lock: String,
    }
}

mod rack2 {
    #[crate::api(group = "example.com", version = "v2", kind = "Rack", status = RackStatus)]
    pub struct RackSpec {
        pub body: Option<Body>,
        #[k8s(optional)]
        pub doors: Vec<Door>,
    }
    #[crate::k8s]
    pub struct Body {
        #[k8s(optional)]
        pub shelves: Vec<Shelf>,
        pub color: Option<String>,
    }
    #[crate::k8s]
    pub struct Shelf {
        pub name: String,
        pub high: i32,
        pub low: i32,
        #[k8s(optional)]
        pub boxes: Vec<Parcel>,
    }
    #[crate::k8s]
    pub struct Parcel {
        pub weight: Weight,
    }
    #[crate::k8s]
    pub struct Weight {
        pub kilograms: i64,
    }
    #[crate::k8s]
    pub struct Door {
        pub key: Key,
    }
    #[crate::k8s]
    pub struct Key {
        pub lock: String,
        pub spare: Option<bool>,
    }
    #[crate::k8s]
    #[derive(Default)]
    pub struct RackStatus {
        pub full: Option<bool>,
    }
}

fn rack_fields() -> Fields {
    Fields::new()
        .moved(".spec.doors[*].lock", ".spec.doors[*].key.lock")
        .moved(".spec.shelves", ".spec.body.shelves")
        .moved(".spec.shelves[*].label", ".spec.body.shelves[*].name")
        .moved(".spec.shelves[*].high", ".spec.body.shelves[*].low")
        .moved(".spec.shelves[*].low", ".spec.body.shelves[*].high")
        .changed(
            ".spec.shelves[*].boxes[*].grams",
            ".spec.body.shelves[*].boxes[*].weight.kilograms",
            |grams: i64| Ok(grams / 1000),
            |kilograms: i64| Ok(kilograms.saturating_mul(1000)),
        )
}

#[test]
fn fields_of_list_items_are_renamed_moved_and_changed() {
    let conversion = Conversion::<rack2::Rack>::new().version::<rack1::Rack>(rack_fields());
    let old = json!({
        "apiVersion": V1, "kind": "Rack", "metadata": {"name": "a", "uid": "1"},
        "spec": {
            "shelves": [
                {"label": "top", "high": 3, "low": 2, "boxes": [{"grams": 2500}, {"grams": 4000}]},
                {"label": "bottom", "high": 1, "low": 0},
            ],
            "doors": [{"lock": "round"}],
        },
    });
    let new = conversion.convert(old.clone(), V2).expect("converted");
    let expected = json!({
        "body": {"shelves": [
            {"name": "top", "high": 2, "low": 3, "boxes": [
                {"weight": {"kilograms": 2}}, {"weight": {"kilograms": 4}}]},
            {"name": "bottom", "high": 0, "low": 1},
        ]},
        "doors": [{"key": {"lock": "round"}}],
    });
    assert_eq!(new["spec"], expected);
    assert_eq!(conversion.convert(new.clone(), V1).expect("converted"), old);
    // A client of the new version removes a shelf: the other one keeps what it cannot express.
    let mut changed = new;
    changed["spec"]["body"]["shelves"].as_array_mut().expect("a list").remove(1);
    let back = conversion.convert(changed, V1).expect("converted");
    assert_eq!(back["spec"]["shelves"], json!([old["spec"]["shelves"][0]]));
    conversion.assert_round_trip();
}

#[test]
fn a_wrong_path_into_a_list_is_explained() {
    let wrong = |fields: Fields| {
        let conversion = Conversion::<rack2::Rack>::new().version::<rack1::Rack>(fields);
        conversion.versions.check().expect_err("wrong").to_string()
    };
    let text = wrong(Fields::new().moved(".spec.shelves[*].label", ".spec.body.shelves[*].name"));
    assert!(text.contains("declare that .spec.shelves is moved there"), "{text}");
    let text = wrong(Fields::new().moved(".spec.doors[*].lock", ".spec.body.color"));
    assert!(text.contains("lead through another number of lists"), "{text}");
    let text = wrong(Fields::new().moved(".spec.doors[*]", ".spec.doors[*]"));
    assert!(text.contains("this version has no field .spec.doors[*]"), "{text}");
    let text = wrong(Fields::new().moved(".spec.shelves", ".spec.body.shelves"));
    assert!(text.contains(".spec.doors[*].key is required in one version"), "{text}");
}

#[test]
fn too_much_to_keep_is_an_error_that_says_what_to_do() {
    let mut object = rich();
    object["spec"]["power"]["note"] = json!("x".repeat(BYTES_MAX));
    let error = conversion().convert(object, V1).expect_err("too large");
    assert!(error.to_string().contains("limit the size of the fields"), "{error}");
}

fn review(to: &str, objects: Value) -> Value {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u1", "desiredAPIVersion": to, "objects": objects},
    });
    conversion().review(review)
}

#[test]
fn a_review_converts_all_objects_in_their_order() {
    let answer = review(
        V1,
        json!([rich(), lamp(V1, json!({"watts": 2})), lamp(V3, json!({"power": "abc"}))]),
    );
    assert_eq!(answer["apiVersion"], "apiextensions.k8s.io/v1");
    let response = &answer["response"];
    assert_eq!(
        (&response["uid"], &response["result"]["status"]),
        (&json!("u1"), &json!("Success"))
    );
    let watts: Vec<&Value> = response["convertedObjects"]
        .as_array()
        .expect("objects")
        .iter()
        .map(|object| &object["spec"]["watts"])
        .collect();
    assert_eq!(watts, [60, 2, 3]);
}

#[test]
fn one_object_that_fails_fails_the_review_and_is_named() {
    let failure = |to: &str, object: Value| {
        let answer = review(to, json!([rich(), object]));
        assert_eq!(answer["response"]["result"]["status"], "Failure");
        assert_eq!(answer["response"].get("convertedObjects"), None, "no partial result");
        answer["response"]["result"]["message"].as_str().expect("a message").to_owned()
    };
    let unlucky = lamp(V2, json!({"power": {"watts": 13}}));
    let text = failure(V3, unlucky);
    assert!(
        text.starts_with("cannot convert Lamp default/a of example.com/v2 to example.com/v3"),
        "{text}"
    );
    assert!(text.contains("unlucky"), "{text}");
    let text = failure(V3, lamp(V2, json!({"power": {"watts": 666}})));
    assert!(text.contains("not in this version"), "{text}");
    let text = failure(V3, lamp(V2, json!({"power": "many"})));
    assert!(text.contains("does not fit the Rust type"), "{text}");
    let text = failure("example.com/v9", lamp(V2, json!({})));
    assert!(text.contains("Lamp has no version \"example.com/v9\", only"), "{text}");
    let text = failure(V1, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}));
    assert!(text.contains("\"Pod\" is not Lamp"), "{text}");
    for body in [
        json!(null),
        json!([]),
        json!({"kind": "ConversionReview"}),
        json!({"request": {"objects": {}}}),
    ] {
        let answer = conversion().review(body);
        assert_eq!(answer["response"]["result"]["status"], "Failure");
    }
}

#[test]
fn a_wrong_declaration_is_explained() {
    let wrong = |fields: Fields| {
        let conversion = Conversion::<v2::Lamp>::new().version::<v1::Lamp>(fields);
        conversion.convert(rich(), V1).expect_err("wrong").to_string()
    };
    let text = wrong(Fields::new());
    assert!(text.contains(".spec.power is required in one version and not in the other"), "{text}");
    let text = wrong(Fields::new().moved(".spec.wats", ".spec.power.watts"));
    assert!(text.contains("this version has no field .spec.wats"), "{text}");
    let text = wrong(Fields::new().moved(".spec.tags", ".spec.power"));
    assert!(text.contains(".spec.tags is \"array\" and .spec.power is \"object\""), "{text}");
    let twice =
        conversion().version::<v1::Lamp>(Fields::new().moved(".spec.watts", ".spec.power.watts"));
    assert!(twice.convert(rich(), V1).expect_err("twice").to_string().contains("declared twice"));
    let stored = Conversion::<v1::Lamp>::new().version::<v2::Lamp>(Fields::new());
    assert!(
        stored
            .convert(rich(), V1)
            .expect_err("hub")
            .to_string()
            .contains("must be the version that is stored")
    );
}

#[test]
fn generated_objects_survive_every_conversion() {
    let conversion = Conversion::<v2::Lamp>::new()
        .version::<v1::Lamp>(Fields::new().moved(".spec.watts", ".spec.power.watts"))
        .version_with(
            |new: v3::Lamp| {
                let power = v2::Power { watts: new.spec.power.len() as i32, limit: None };
                let spec = v2::LampSpec { power, color: None, sockets: vec![], tags: vec![] };
                Ok(v2::Lamp { metadata: new.metadata, spec, status: None })
            },
            |hub: v2::Lamp| {
                let spec = v3::LampSpec { power: hub.spec.power.watts.to_string(), shade: None };
                Ok(v3::Lamp { metadata: hub.metadata, spec })
            },
        );
    conversion.assert_round_trip();
}

#[test]
#[should_panic(expected = "the conversion from example.com/v2 to example.com/v3 fails")]
fn the_property_test_finds_a_conversion_that_fails() {
    Conversion::<v2::Lamp>::new()
        .version_with(
            |_: v3::Lamp| Err(Error::Invalid("no".into())),
            |_: v2::Lamp| Err(Error::Invalid("no".into())),
        )
        .assert_round_trip();
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..4_i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]|name", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn a_difference_restores_every_value(was in json_value(), is in json_value()) {
        let (was, is) = (json!({"spec": was}), json!({"spec": is}));
        let entries = delta::between(&was, &is);
        let text = serde_json::to_string(&entries).expect("written");
        let read: Vec<delta::Entry> = serde_json::from_str(&text).expect("read");
        prop_assert_eq!(&read, &entries);
        let mut restored = was.clone();
        delta::restore(&read, &mut restored);
        prop_assert_eq!(restored, is, "{} -> {}", was, text);
    }

    #[test]
    fn a_difference_does_not_harm_another_value(
        was in json_value(), is in json_value(), other in json_value(),
    ) {
        let entries = delta::between(&json!({"spec": was}), &json!({"spec": is}));
        let mut other = json!({"spec": other, "metadata": {"name": "a"}});
        delta::restore(&entries, &mut other);
        prop_assert_eq!(&other["metadata"], &json!({"name": "a"}));
    }
}
