use std::collections::BTreeMap;
use windlass_macros::k8s;

#[k8s]
pub struct Types {
    pub float: f64,
    pub floats: Vec<f32>,
    pub tuple: (i32, String),
    pub wide: u128,
    pub bytes: BTreeMap<String, Vec<u8>>,
}

#[k8s(nullable)]
pub struct Nullable(pub String);

#[k8s(exactly_one_of(x, y))]
pub struct RequiredMember {
    pub x: String,
    pub y: Option<String>,
}

#[k8s(exactly_one_of(x.z, y))]
pub struct NestedMember {
    pub y: Option<String>,
}

#[k8s(exactly_one_of(x, yy))]
pub struct MissingMember {
    pub x: Option<String>,
    pub y: Option<String>,
}

#[k8s]
pub struct Pair(pub i32, pub i32);

#[k8s]
#[derive(JsonSchema)]
pub struct Twice {
    pub x: String,
}

fn main() {}
