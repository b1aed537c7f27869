//! Types of Kubernetes as fields, alone and in lists with keys.

use k8s_openapi::api::core::v1::{
    Affinity, ConfigMapKeySelector, EnvFromSource, EnvVar, HostAlias, LocalObjectReference,
    ObjectReference, Probe, SecurityContext, ServicePort, Toleration, TopologySpreadConstraint,
    TypedLocalObjectReference,
};

use crate::cases::prelude::*;

/// GroupKind of an object.
#[k8s]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

/// LedgerSpec is wanted.
#[api(
    group = "ledger.golden.example.com",
    version = "v1",
    kind = "Ledger",
    doc = "Ledger keeps.",
    status = LedgerStatus,
    optional_spec
)]
#[derive(Default)]
pub struct LedgerSpec {
    /// Ref to an object.
    #[k8s(map = atomic)]
    pub r#ref: ObjectReference,
    /// Typed reference.
    pub typed: Option<TypedLocalObjectReference>,
    /// Pull secrets.
    #[k8s(list = map("name"))]
    pub pull_secrets: Option<Vec<LocalObjectReference>>,
    /// Key with the password.
    pub key: Option<ConfigMapKeySelector>,
    /// Env of it.
    #[k8s(list = map("name"))]
    pub env: Option<Vec<EnvVar>>,
    /// EnvFrom of it.
    pub env_from: Option<Vec<EnvFromSource>>,
    /// Tolerations of it.
    #[k8s(list = atomic)]
    pub tolerations: Option<Vec<Toleration>>,
    /// Affinity of it.
    pub affinity: Option<Affinity>,
    /// Spread of it.
    #[k8s(list = map("topologyKey", "whenUnsatisfiable"))]
    pub spread: Option<Vec<TopologySpreadConstraint>>,
    /// Selector of it.
    pub selector: Option<LabelSelector>,
    /// Since when.
    pub since: Option<Time>,
    /// Precise time.
    pub precise: Option<MicroTime>,
    /// Probe of it.
    pub probe: Option<Probe>,
    /// Security of it.
    pub security: Option<SecurityContext>,
    /// Ports of it.
    #[k8s(list = map("port", "protocol"))]
    pub ports: Option<Vec<ServicePort>>,
    /// Pull policy.
    #[k8s(enum = ["Always", "Never"])]
    pub pull: Option<String>,
    /// Any JSON.
    pub any: Option<Value>,
    /// Raw object.
    pub raw: Option<RawExtension>,
    /// Manifests to apply.
    #[k8s(embedded_resource, preserve_unknown)]
    pub manifest: Option<RawExtension>,
    /// Schemaless of anything.
    #[k8s(schemaless, preserve_unknown)]
    pub anything: Option<Value>,
    /// Meta of children.
    pub meta: Option<ObjectMeta>,
    /// GroupKind of it.
    pub group_kind: Option<GroupKind>,
}

/// LedgerStatus is seen.
#[k8s]
pub struct LedgerStatus {
    /// Total of it.
    pub total: Option<i64>,
    /// Last transitions.
    pub last: Option<Vec<HostAlias>>,
}

golden!(apart from texts: types_of_kubernetes_as_fields, "ledger", Ledger);
