//! Types that `windlass generate types` made of CustomResourceDefinitions.

#![allow(missing_docs, rustdoc::all, clippy::all)]

use std::collections::BTreeMap;

use windlass::k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use windlass::k8s_openapi::serde_json::Value;
use windlass::manifests::schema::Bytes;
use windlass::{api, k8s};

#[api(
    group = "odd.example.com",
    version = "v1",
    kind = "Oddity",
    plural = "oddities",
    singular = "odd",
    flat,
)]
#[derive(Default)]
pub struct OddityFields {
    /// TODO is not left out
    /// ---
    /// and neither is this \ "quoted"  text
    #[k8s(doc = "TODO is not left out\n---\nand neither is this \\ \"quoted\" \u{202e} text")]
    pub spec: Option<OdditySpec>,
}

#[k8s(min_properties = 1)]
pub struct OdditySpec {
    #[k8s(default = "x", nullable)]
    #[serde(rename = "$ref")]
    pub r#ref: Option<String>,
    #[k8s(default = true)]
    #[serde(rename = "2fa")]
    pub field_2fa: bool,
    #[serde(rename = "FooBar")]
    pub foo_bar: Option<String>,
    pub anything: Option<Value>,
    #[serde(rename = "fooBar")]
    pub foo_bar2: Option<String>,
    #[serde(rename = "foo_bar")]
    pub foo_bar3: Option<String>,
    pub r#gen: Option<bool>,
    #[k8s(map = granular)]
    pub granular: Option<OdditySpecGranular>,
    #[k8s(default = 3)]
    #[serde(rename = "größe")]
    pub gre: i64,
    #[k8s(default = 2, enum = [1, 2, 3])]
    pub level: i32,
    #[k8s(
        schema = { "allOf": [{ "pattern": "^a" }, { "pattern": "z$" }], "not": { "enum": ["az"] } },
    )]
    pub logic: Option<String>,
    #[k8s(max_items = 3, items(max_items = 2, list = atomic, items(format = none, min = 0)))]
    pub matrix: Option<Vec<Vec<i64>>>,
    #[k8s(nullable, enum = ["x", null])]
    pub maybe: Option<String>,
    #[k8s(default = "now", required, min_length = 1)]
    pub must: String,
    pub nothing: Option<OdditySpecNothing>,
    pub payloads: Option<BTreeMap<String, Bytes>>,
    #[k8s(schemaless, int_or_string)]
    pub port: Option<IntOrString>,
    #[serde(rename = "quote\"d\nname")]
    pub quote_d_name: Option<String>,
    #[k8s(allow_float, exclusive_min = 0, max = 1.5, multiple_of = 0.5)]
    pub ratio: Option<f64>,
    #[k8s(allow_float, items(format = "double"))]
    pub ratios: Option<Vec<f64>>,
    pub rest: Option<String>,
    pub self_: Option<String>,
    #[k8s(
        format = "uri",
        title = "A title",
        example = { "a": [1, null, true, -2.5] },
        docs(url = "https://example.com/a?b", description = "More"),
    )]
    pub shown: Option<String>,
    #[k8s(max_properties = 4)]
    pub table: Option<BTreeMap<String, Vec<BTreeMap<String, i32>>>>,
    #[k8s(items(nullable))]
    pub texts: Option<Vec<Option<String>>>,
    pub r#type: Option<String>,
    #[k8s(default = OdditySpecWord::Value)]
    pub word: OdditySpecWord,
    /// The fields that the definition does not describe.
    #[serde(flatten)]
    pub rest2: BTreeMap<String, Value>,
}

#[k8s]
#[derive(Default)]
pub struct OdditySpecGranular {
    pub a: Option<String>,
}

#[k8s]
#[derive(Default)]
pub struct OdditySpecNothing {}

#[k8s]
#[derive(Copy, PartialEq, Eq)]
pub enum OdditySpecWord {
    #[serde(rename = "a-b")]
    AB,
    #[serde(rename = "a_b")]
    AB2,
    A,
    #[serde(rename = "a")]
    A2,
    #[serde(rename = "*")]
    Value,
    #[serde(rename = "**")]
    Value2,
}
