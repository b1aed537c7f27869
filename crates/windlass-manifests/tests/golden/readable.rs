//! What the API server stores, the type can read, and what the type can read, the server stores.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::{NonZeroI32, NonZeroU8, NonZeroU32};
use std::time::Duration;

use kube::CustomResourceExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::schema::Bytes;
use windlass::{api, k8s};

use crate::judge::Judge;

/// The schema of the spec of a kind.
fn fields<K: CustomResourceExt>() -> Value {
    let crd = windlass::crd::to_value(&K::crd());
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

/// The problems that the check finds.
fn problems<K: CustomResourceExt>() -> Vec<String> {
    let problems = windlass::crd::check::<K>().unwrap_err().problems;
    problems.iter().map(|one| format!("{}: {}", one.path, one.message)).collect()
}

/// A type of another crate.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Foreign {
    #[schemars(range(min = 1024))]
    pub port: u16,
    #[schemars(range(max = 100))]
    pub percent: u8,
    #[schemars(range(min = 3, max = 4_000_000_000_u32))]
    pub count: u32,
}

#[api(group = "readable.example.com", version = "v1", kind = "Numbers")]
pub struct NumbersSpec {
    pub foreign: Option<Foreign>,
    pub small: Option<NonZeroU8>,
    pub wide: Option<NonZeroU32>,
    pub signed: Option<NonZeroI32>,
    #[k8s(max = 4_000_000_000)]
    pub large: Option<u32>,
    #[k8s(max = 2_147_483_647, format = "int64")]
    pub exact: Option<u32>,
    #[k8s(max = 4_000_000_000, format = "int64")]
    pub both: Option<u32>,
}

#[tokio::test(start_paused = true)]
async fn bounds_of_integers_are_the_stricter_ones() {
    let judge = Judge::of::<Numbers>().await;
    for spec in [
        json!({ "foreign": { "port": 1024, "percent": 100, "count": 4_000_000_000_u32 } }),
        json!({ "small": 1, "wide": 1, "signed": -1, "large": 4_000_000_000_u32 }),
        json!({ "signed": 1, "exact": 2_147_483_647, "both": 4_000_000_000_u32 }),
    ] {
        judge.accepts::<NumbersSpec>(spec).await;
    }
    for (spec, why) in [
        (json!({ "foreign": { "port": 1023, "percent": 1, "count": 3 } }), "equal to 1024"),
        (json!({ "foreign": { "port": 1024, "percent": 101, "count": 3 } }), "equal to 100"),
        (json!({ "foreign": { "port": 1024, "percent": 1, "count": 2 } }), "equal to 3"),
        (json!({ "small": 0 }), "equal to 1"),
        (json!({ "small": 256 }), "equal to 255"),
        (json!({ "wide": 0 }), "equal to 1"),
        (json!({ "signed": 0 }), "signed"),
        (json!({ "large": 4_000_000_001_u32 }), "equal to 4000000000"),
        (json!({ "exact": 2_147_483_648_u32 }), "equal to"),
        (json!({ "both": 4_000_000_001_u32 }), "equal to 4000000000"),
    ] {
        judge.refuses(spec, why).await;
    }
}

/// How long to wait.
#[k8s]
#[derive(PartialEq)]
pub struct Timeout(pub Duration);

/// A key.
#[k8s]
#[derive(PartialEq)]
pub struct Blob(pub Vec<u8>);

#[k8s]
pub struct MaybeTimeout(pub Option<Duration>);

/// A name that is checked while it is read.
#[k8s(max_length = 63, pattern = "^[a-z]+$")]
#[derive(PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "String")]
pub struct Name(String);

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let valid = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
        if valid { Ok(Self(text)) } else { Err(format!("{text} is not a name")) }
    }
}

/// A range, written as `1-5`.
#[k8s(pattern = "^[0-9]{1,9}-[0-9]{1,9}$")]
#[serde(try_from = "String", into = "String")]
pub struct Range {
    first: u32,
    last: u32,
}

impl TryFrom<String> for Range {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (first, last) = text.split_once('-').ok_or("no dash")?;
        let number = |text: &str| text.parse().map_err(|_| format!("{text} is not a number"));
        Ok(Self { first: number(first)?, last: number(last)? })
    }
}

impl From<Range> for String {
    fn from(range: Range) -> Self {
        format!("{}-{}", range.first, range.last)
    }
}

mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{value:x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(serde::de::Error::custom)
    }
}

#[api(group = "readable.example.com", version = "v1", kind = "Converted")]
pub struct ConvertedSpec {
    pub timeout: Timeout,
    pub maybe: Option<MaybeTimeout>,
    pub blob: Blob,
    pub name: Name,
    pub range: Range,
    #[serde(with = "hexadecimal")]
    #[k8s(type = "string", pattern = "^[0-9a-f]{1,16}$")]
    pub mask: u64,
    #[k8s(max_items = 4)]
    pub delays: Vec<kube::core::Duration>,
    pub keys: BTreeMap<String, Bytes>,
}

#[tokio::test(start_paused = true)]
async fn types_that_serde_converts_have_the_schema_of_what_is_written() {
    let judge = Judge::of::<Converted>().await;
    let good = json!({
        "timeout": "90s", "maybe": "5s", "blob": "a2V5", "name": "abc", "range": "1-5", "mask": "ff",
        "delays": ["1s", "2s"], "keys": { "a": "a2V5" },
    });
    judge.accepts::<ConvertedSpec>(good.clone()).await;
    for (field, value) in [
        ("timeout", json!({ "secs": 1, "nanos": 0 })),
        ("blob", json!(12)),
        ("name", json!("Abc")),
        ("range", json!({ "first": 1, "last": 5 })),
        ("mask", json!(255)),
        ("delays", json!([{ "secs": 1, "nanos": 0 }])),
    ] {
        let mut spec = good.clone();
        spec[field] = value;
        judge.refuses(spec, field).await;
    }
}

#[k8s]
#[serde(tag = "type")]
#[derive(PartialEq)]
pub enum Cased {
    #[serde(rename_all = "snake_case")]
    Snake {
        first_name: String,
    },
    #[serde(rename_all = "SCREAMING-KEBAB-CASE")]
    Kebab {
        last_name: String,
    },
    Camel {
        nick_name: String,
    },
}

#[api(group = "readable.example.com", version = "v1", kind = "Casing")]
pub struct CasingSpec {
    pub cased: Cased,
}

#[tokio::test(start_paused = true)]
async fn a_variant_names_its_fields_by_its_own_rule() {
    let judge = Judge::of::<Casing>().await;
    for cased in [
        json!({ "type": "Snake", "first_name": "a" }),
        json!({ "type": "Kebab", "LAST-NAME": "a" }),
        json!({ "type": "Camel", "nickName": "a" }),
    ] {
        judge.accepts::<CasingSpec>(json!({ "cased": cased })).await;
    }
}

/// Where backups go.
#[k8s]
pub enum Target {
    Disk { path: String },
    Bucket(String),
}

#[k8s(cel("self.low <= self.high", message = "low is above high"))]
pub struct Window {
    pub low: i32,
    pub high: i32,
    #[k8s(default = 5)]
    pub step: i32,
}

#[k8s(schema = { oneOf: [{ required: ["red"] }, { required: ["green"] }] }, max_properties = 1)]
pub struct Colors {
    pub red: Option<i32>,
    pub green: Option<i32>,
}

#[k8s(schema = { oneOf: [{ required: ["up"] }, { required: ["down"] }] })]
pub struct Way {
    pub up: Option<i32>,
    pub down: Option<i32>,
}

#[api(group = "readable.example.com", version = "v1", kind = "Flattened")]
pub struct FlattenedSpec {
    pub name: String,
    #[serde(flatten)]
    pub target: Option<Target>,
    #[serde(flatten)]
    pub window: Option<Window>,
    #[serde(flatten)]
    pub colors: Colors,
    #[serde(flatten)]
    pub way: Option<Way>,
}

#[tokio::test(start_paused = true)]
async fn an_optional_flattened_type_may_be_missing_as_a_whole() {
    let judge = Judge::of::<Flattened>().await;
    let spec = |more: Value| {
        let mut spec = json!({ "name": "a", "red": 1 });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    for more in [
        json!({}),
        json!({ "disk": { "path": "/" } }),
        json!({ "bucket": "b", "low": 1, "high": 2, "step": 1 }),
        json!({ "up": 1 }),
    ] {
        judge.accepts::<FlattenedSpec>(spec(more)).await;
    }
    for (more, why) in [
        (json!({ "disk": { "path": "/" }, "bucket": "b" }), "exactly one of the fields"),
        (json!({ "low": 1 }), "the fields [low high] must be set if one of [high low step] is set"),
        (json!({ "low": 3, "high": 2 }), "low is above high"),
        (json!({ "green": 2 }), "at most 1 of the fields in [green red]"),
        (json!({ "up": 1, "down": 2 }), "must validate"),
    ] {
        judge.refuses(spec(more), why).await;
    }
    judge.refuses(json!({ "name": "a" }), "must validate one and only one").await;
}

#[k8s]
pub struct Inner {
    pub name: Option<i32>,
}

#[k8s]
pub enum Level {
    Low,
    Mid,
    High,
}

#[api(group = "readable.example.com", version = "v1", kind = "Twice")]
pub struct TwiceSpec {
    #[serde(flatten)]
    pub inner: Inner,
    pub name: Option<String>,
}

#[api(group = "readable.example.com", version = "v1", kind = "Lost")]
pub struct LostSpec {
    #[k8s(enum = ["Low", "Lowest"])]
    pub level: Level,
    #[k8s(enum = ["Low", "Mid"])]
    pub fine: Level,
    #[serde(flatten)]
    pub text: Level,
}

/// A type that says in its schema that no value is possible.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Nothing {}

impl JsonSchema for Nothing {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Nothing".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "not": { "$comment": "all" } })
    }
}

#[api(group = "readable.example.com", version = "v1", kind = "Never")]
pub struct NeverSpec {
    pub never: Nothing,
}

#[test]
fn what_no_object_can_satisfy_is_found() {
    let twice =
        "v1 .spec: two fields have the name `name`, one of them in a flattened type, rename one";
    assert_eq!(problems::<Twice>(), [twice]);
    let found = problems::<Lost>();
    let flattened = "v1 .spec: a flattened field has fields of its own, use a struct, an enum with fields or a map";
    assert_eq!(found, [flattened]);
    let never = "v1 .spec.never: no value is allowed here, `not` excludes all of them";
    assert_eq!(problems::<Never>(), [never]);
}

#[api(group = "readable.example.com", version = "v1", kind = "Unknown")]
pub struct UnknownSpec {
    #[k8s(enum = ["Low", "Lowest"])]
    pub level: Level,
    #[k8s(enum = ["Low", "Mid"])]
    pub fine: Level,
}

#[test]
fn a_value_that_the_type_does_not_have_is_named() {
    let text = "v1 .spec.level: `enum` lists \"Lowest\", but the values of the type are \"Low\", \"Mid\", \"High\"";
    assert_eq!(problems::<Unknown>(), [text]);
}

#[k8s]
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub enum Zone {
    East,
    West,
}

#[api(group = "readable.example.com", version = "v1", kind = "Keyed")]
pub struct KeyedSpec {
    #[k8s(max_properties = 16, optional)]
    pub numbers: BTreeMap<u32, String>,
    #[k8s(max_properties = 16, optional)]
    pub signed: BTreeMap<i64, String>,
    #[k8s(max_properties = 16, optional)]
    pub names: BTreeMap<Name, i32>,
    #[k8s(max_properties = 16, values(max_length = 3), optional)]
    pub zones: BTreeMap<Zone, String>,
    pub address: Option<IpAddr>,
    #[serde(flatten)]
    pub regions: BTreeMap<Region, i32>,
}

#[k8s]
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    North,
    South,
}

#[tokio::test(start_paused = true)]
async fn keys_of_maps_have_the_form_of_their_type() {
    let judge = Judge::of::<Keyed>().await;
    for spec in [
        json!({ "numbers": { "0": "a", "17": "b" }, "signed": { "-3": "c", "0": "d" } }),
        json!({ "names": { "abc": 1 }, "zones": { "East": "a" }, "North": 3 }),
        json!({ "address": "10.0.0.1" }),
        json!({ "address": "::1" }),
    ] {
        judge.accepts::<KeyedSpec>(spec).await;
    }
    for (spec, why) in [
        (json!({ "numbers": { "abc": "a" } }), "each key must match ^(0|[1-9][0-9]*)$"),
        (json!({ "numbers": { "-1": "a" } }), "each key must match"),
        (json!({ "numbers": { "007": "a" } }), "each key must match"),
        (json!({ "signed": { "x": "a" } }), "each key must match"),
        (json!({ "names": { "Abc": 1 } }), "each key must match ^[a-z]+$"),
        (json!({ "zones": { "North": "a" } }), "each key must be East or West"),
        (json!({ "zones": { "East": "abcd" } }), "more than 3"),
        (json!({ "North": "x" }), "North"),
        (json!({ "address": "host" }), "address"),
    ] {
        judge.refuses(spec, why).await;
    }
}

#[api(group = "readable.example.com", version = "v1", kind = "Dear")]
pub struct DearSpec {
    pub lists: Vec<BTreeMap<u32, String>>,
}

#[test]
fn a_rule_of_keys_that_nothing_bounds_is_left_out() {
    let schema = &fields::<Dear>()["properties"]["lists"]["items"];
    let expected = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    assert_eq!(*schema, expected);
    windlass::crd::check::<Dear>().unwrap();
}

#[api(group = "readable.example.com", version = "v1", kind = "Conditional")]
pub struct ConditionalSpec {
    #[cfg(any())]
    pub never: Missing,
    #[cfg(not(any()))]
    #[k8s(default = 3)]
    pub always: i32,
    pub choice: Option<Choice>,
    pub plain: Option<Plain>,
}

#[k8s]
pub enum Choice {
    #[cfg(any())]
    Never(Missing),
    Always,
    #[cfg(not(any()))]
    Sometimes,
}

#[k8s]
pub enum Plain {
    #[cfg(any())]
    Never,
    Always,
}

#[tokio::test(start_paused = true)]
async fn what_is_not_compiled_is_not_in_the_schema() {
    let fields = fields::<Conditional>();
    let names = |fields: &Value| fields.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&fields["properties"]), ["always", "choice", "plain"]);
    // The form of an enum does not depend on what is compiled.
    let choice = &fields["properties"]["choice"]["properties"];
    assert_eq!(names(choice), ["always", "sometimes"]);
    assert_eq!(fields["properties"]["plain"]["enum"], json!(["Always"]));
    let judge = Judge::of::<Conditional>().await;
    let spec = json!({ "always": 3, "choice": { "sometimes": {} }, "plain": "Always" });
    judge.accepts::<ConditionalSpec>(spec).await;
}
