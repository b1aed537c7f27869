//! Types that `windlass generate types` made of CustomResourceDefinitions.

#![allow(missing_docs, rustdoc::all, clippy::all)]

use std::collections::BTreeMap;

use windlass::k8s_openapi::api::core::v1::ConfigMapKeySelector;
use windlass::k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use windlass::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use windlass::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass::k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use windlass::{api, k8s};

/// What is wanted.
#[api(
    group = "metrics.example.com",
    version = "v1",
    kind = "Monitor",
    plural = "monitors",
    short = "mon",
    categories = "metrics",
    doc = "Monitor runs a server that collects metrics.",
    status = MonitorStatus,
    column("Version", ".spec.version", type = "string"),
    column("Desired", ".spec.replicas", type = "integer", format = "int32"),
    scale(spec = ".spec.shards", status = ".status.shards", selector = ".status.selector"),
)]
#[k8s(cel("!has(self.replicas) || self.replicas < 10", message = "at most nine replicas"))]
pub struct MonitorSpec {
    #[k8s(list = map("name"))]
    pub containers: Option<Vec<MonitorContainers>>,
    pub init_containers: Option<Vec<MonitorContainers>>,
    #[k8s(default = 1, min = 0)]
    pub replicas: i32,
    #[k8s(pattern = "^(0|(([0-9]+)y)?(([0-9]+)d)?)$")]
    pub retention: Option<String>,
    #[k8s(list = map("name"))]
    pub scrape_classes: Option<Vec<MonitorScrapeClasses>>,
    /// Which targets are scraped.
    pub selector: Option<LabelSelector>,
    pub shards: Option<i32>,
    pub storage: Option<MonitorStorage>,
    #[k8s(schema = { "oneOf": [{ "required": ["endpoint"] }, { "required": ["service"] }] })]
    pub tracing: Option<MonitorTracing>,
    #[k8s(default = "v3")]
    pub version: String,
}

/// A container.
#[k8s]
pub struct MonitorContainers {
    #[k8s(list = atomic)]
    pub args: Option<Vec<String>>,
    #[k8s(list = map("name"))]
    pub env: Option<Vec<MonitorContainersEnv>>,
    pub image: Option<String>,
    pub liveness_probe: Option<MonitorContainersLivenessProbe>,
    pub name: String,
    #[k8s(list = map("containerPort", "protocol"))]
    pub ports: Option<Vec<MonitorContainersPorts>>,
    pub resources: Option<MonitorContainersResources>,
}

#[k8s]
pub struct MonitorContainersEnv {
    pub name: String,
    pub value: Option<String>,
    pub value_from: Option<MonitorContainersEnvValueFrom>,
}

#[k8s]
#[derive(Default)]
pub struct MonitorContainersEnvValueFrom {
    #[k8s(map = atomic)]
    pub field_ref: Option<MonitorContainersEnvValueFromFieldRef>,
    #[k8s(doc = "")]
    pub secret_key_ref: Option<ConfigMapKeySelector>,
}

#[k8s]
pub struct MonitorContainersEnvValueFromFieldRef {
    pub api_version: Option<String>,
    pub field_path: String,
}

#[k8s]
#[derive(Default)]
pub struct MonitorContainersLivenessProbe {
    pub http_get: Option<MonitorContainersLivenessProbeHttpGet>,
    pub period_seconds: Option<i32>,
}

#[k8s]
pub struct MonitorContainersLivenessProbeHttpGet {
    pub path: Option<String>,
    pub port: IntOrString,
}

#[k8s]
pub struct MonitorContainersPorts {
    pub container_port: i32,
    #[k8s(default = "TCP")]
    pub protocol: String,
}

#[k8s]
#[derive(Default)]
pub struct MonitorContainersResources {
    pub limits: Option<BTreeMap<String, Quantity>>,
}

#[k8s]
pub struct MonitorScrapeClasses {
    pub default: Option<bool>,
    #[k8s(min_length = 1)]
    pub name: String,
    #[k8s(min_items = 1)]
    pub relabelings: Option<Vec<MonitorScrapeClassesRelabelings>>,
}

#[k8s]
pub struct MonitorScrapeClassesRelabelings {
    #[k8s(default = MonitorScrapeClassesRelabelingsAction::Replace)]
    pub action: MonitorScrapeClassesRelabelingsAction,
    pub modulus: Option<i64>,
    #[k8s(items(pattern = "^[a-zA-Z_][a-zA-Z0-9_]*$"))]
    pub source_labels: Option<Vec<String>>,
}

#[k8s]
#[derive(Copy, PartialEq, Eq)]
pub enum MonitorScrapeClassesRelabelingsAction {
    #[serde(rename = "replace")]
    Replace,
    #[serde(rename = "Replace")]
    Replace2,
    #[serde(rename = "keep")]
    Keep,
    #[serde(rename = "Keep")]
    Keep2,
    #[serde(rename = "labelmap")]
    Labelmap,
}

#[k8s]
#[derive(Default)]
pub struct MonitorStorage {
    pub disable_mount_sub_path: Option<bool>,
    pub empty_dir: Option<MonitorStorageEmptyDir>,
    /// A claim.
    #[k8s(embedded_resource)]
    pub volume_claim_template: Option<MonitorStorageVolumeClaimTemplate>,
}

#[k8s]
#[derive(Default)]
pub struct MonitorStorageEmptyDir {
    pub medium: Option<String>,
    pub size_limit: Option<Quantity>,
}

#[k8s]
#[derive(Default)]
pub struct MonitorStorageVolumeClaimTemplate {
    pub api_version: Option<String>,
    pub kind: Option<String>,
    pub metadata: Option<ObjectMeta>,
    pub spec: Option<MonitorStorageVolumeClaimTemplateSpec>,
}

#[k8s]
#[derive(Default)]
pub struct MonitorStorageVolumeClaimTemplateSpec {
    pub storage_class_name: Option<String>,
}

#[k8s]
#[derive(Default)]
pub struct MonitorTracing {
    pub endpoint: Option<String>,
    pub service: Option<String>,
}

#[k8s]
#[derive(Default)]
pub struct MonitorStatus {
    #[k8s(list = map("type"), items(doc = ""))]
    pub conditions: Option<Vec<Condition>>,
    pub selector: Option<String>,
    pub shards: Option<i32>,
}
