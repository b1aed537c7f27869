use std::collections::{BTreeMap, HashMap};
use windlass_macros::{api, k8s};

#[k8s]
pub struct Rules {
    #[k8s(required, optional)]
    pub both: String,
    #[k8s(min = 1, exclusive_min = 0)]
    pub bounds: i32,
    #[k8s(nullable)]
    pub null_string: String,
    #[k8s(items(nullable))]
    pub null_items: Vec<String>,
    #[k8s(enum = ["a", "b", "a"])]
    pub same_value: String,
    #[k8s(list = map("a", "a"))]
    pub same_key: Vec<String>,
    pub optional_keys: BTreeMap<Option<String>, String>,
    pub list_keys: Vec<HashMap<Vec<String>, String>>,
    #[k8s(schema = { pattern: "a" })]
    pub own_keyword: String,
    #[k8s(schema = { oneOf: {} })]
    pub no_list: String,
    #[k8s(format = "")]
    pub no_format: String,
    /// A field without a mistake.
    pub fine: Inner,
}

#[k8s]
pub struct Inner {
    #[serde(rename = "x")]
    pub a: String,
    pub x: String,
}

#[k8s(partial)]
pub enum NoFields {
    A,
}

#[k8s]
pub enum Empty {}

#[k8s]
pub enum Same {
    A,
    #[serde(rename = "A")]
    B,
}

#[k8s(exactly_one_of(a, a))]
pub struct TwiceMember {
    pub a: Option<String>,
}

#[k8s(exactly_one_of(a, b))]
pub struct DefaultMember {
    #[k8s(default = "x")]
    pub a: String,
    pub b: Option<String>,
}

#[api(group = "example.com", version = "v1", kind = "Labels", label("a", "1"), label("a", "2"))]
pub struct LabelsSpec {
    pub a: String,
}

#[api(group = "example.com", version = "v1", kind = "Flat", flat, column("A", ".spec.a"))]
pub struct FlatFields {
    pub a: String,
}

#[api(group = "example.com", version = "v1", kind = "NoSpec", flat, optional_spec)]
pub struct NoSpecFields {
    pub a: String,
}

#[k8s]
pub struct Lonely {
    #[k8s(partial)]
    pub lonely: Inner,
}

fn main() {}
