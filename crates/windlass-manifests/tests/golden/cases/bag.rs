//! Values of any form, bytes and durations inside of lists and maps, and structs inside of structs.

use k8s_openapi::api::core::v1::{Container, ServiceSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::Duration;

use crate::cases::prelude::*;

/// Free keeps what it does not know.
#[k8s(preserve_unknown)]
pub struct Free {
    pub known: Option<String>,
}

/// Parts are shared.
#[k8s]
pub struct Parts {
    /// Left of it.
    pub left: Option<String>,
    #[k8s(min = 1)]
    pub right: i32,
}

/// Deep embeds Parts.
#[k8s(cel("self.right > 1"))]
pub struct Deep {
    #[serde(flatten)]
    pub parts: Parts,
    pub own: Option<bool>,
}

/// A kind by group, version and name.
#[k8s]
pub struct GroupVersionKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// BagSpec is wanted.
#[api(
    group = "raw.adv.example.com",
    version = "v1",
    kind = "Bag",
    doc = "Bag holds anything.",
    preserve_unknown
)]
pub struct BagSpec {
    #[serde(flatten)]
    pub deep: Deep,
    pub free: Option<Free>,
    pub frees: Option<BTreeMap<String, Free>>,
    pub any: Option<Value>,
    #[k8s(optional)]
    pub any_list: Vec<Value>,
    #[k8s(optional)]
    pub any_map: BTreeMap<String, Value>,
    pub raw: Option<RawExtension>,
    #[k8s(optional)]
    pub raw_list: Vec<RawExtension>,
    #[k8s(embedded_resource, preserve_unknown)]
    pub template: Option<RawExtension>,
    #[k8s(optional, items(embedded_resource, preserve_unknown))]
    pub templates: Vec<RawExtension>,
    #[k8s(optional, schemaless, preserve_unknown, type = "object")]
    pub values: BTreeMap<String, String>,
    #[k8s(optional)]
    pub blob: Vec<u8>,
    #[k8s(optional)]
    pub blobs: BTreeMap<String, Bytes>,
    #[k8s(optional)]
    pub blob_list: Vec<Bytes>,
    #[k8s(nullable)]
    pub null: Option<BTreeMap<String, String>>,
    #[k8s(nullable)]
    pub null_list: Option<Vec<String>>,
    #[k8s(nullable, required)]
    pub null_required: Option<Parts>,
    #[k8s(optional)]
    pub timeouts: Vec<Duration>,
    #[k8s(optional)]
    pub timeout_map: BTreeMap<String, Duration>,
    #[k8s(optional)]
    pub quantities: Vec<Quantity>,
    #[k8s(optional)]
    pub ports: Vec<IntOrString>,
    pub group: Option<GroupVersionKind>,
    #[k8s(optional)]
    pub owner_refs: Vec<OwnerReference>,
    #[k8s(optional)]
    pub labels: BTreeMap<String, String>,
    #[k8s(optional)]
    pub grid: BTreeMap<String, BTreeMap<String, Vec<Parts>>>,
    pub container: Option<Container>,
    #[k8s(optional)]
    pub volumes: Vec<Volume>,
    pub service: Option<ServiceSpec>,
    #[k8s(max_length = 3, pattern = "^a")]
    pub token: Option<String>,
}

golden!(apart from texts: a_bag, "raw", Bag);
