use std::collections::BTreeMap;
use windlass_macros::{api, k8s};

#[k8s]
#[serde(transparent)]
pub struct Transparent {
    pub a: String,
}

#[k8s]
#[serde(tag = "type")]
pub struct TaggedStruct {
    pub a: String,
}

#[k8s]
#[serde(try_from = "String")]
pub struct OnlyRead {
    pub a: String,
}

#[k8s]
#[serde(into = "String")]
pub struct OnlyWritten {
    pub a: String,
}

#[k8s]
#[serde(from = "String", into = "u32")]
pub struct TwoTypes {
    pub a: String,
}

#[k8s]
#[serde(from = "String", into = "String")]
pub struct RuleInside {
    #[k8s(min = 3)]
    pub a: i32,
}

#[k8s(partial)]
#[serde(from = "String", into = "String")]
pub struct ConvertedPartial {
    pub a: i32,
}

#[k8s]
#[serde(from = "Vec<u8>", into = "Vec<u8>")]
pub struct ConvertedBytes {
    pub a: i32,
}

#[k8s]
pub enum OpenVariant {
    A { a: String },
    #[serde(untagged)]
    Other(String),
}

#[k8s]
pub enum FunctionOnVariant {
    A { a: String },
    #[serde(with = "text")]
    Other(u32),
}

#[k8s]
pub struct Functions {
    #[serde(with = "humantime_serde")]
    pub with: std::time::Duration,
    #[serde(deserialize_with = "text")]
    pub one_way: u32,
    #[serde(rename(serialize = "a", deserialize = "b"))]
    pub two_names: String,
    #[serde(rename(deserialize = "c"))]
    pub one_name: String,
}

#[k8s]
pub struct FunctionInside(#[serde(with = "text")] pub u32);

#[api(group = "example.com", version = "v1", kind = "Generic")]
pub struct GenericSpec<T> {
    pub a: T,
}

#[k8s]
pub struct Formats {
    #[k8s(format = "emial")]
    pub misspelt: String,
    #[k8s(format = "date-tme")]
    pub misspelt_too: Option<String>,
    #[k8s(map = atomic)]
    pub map_on_text: String,
    #[k8s(list = set, list = atomic)]
    pub two_lists: Vec<String>,
    pub float_keys: BTreeMap<f64, String>,
    #[k8s(format = "my-own")]
    pub fine: String,
}

fn main() {}
