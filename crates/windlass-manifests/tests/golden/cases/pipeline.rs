//! Lists with two keys inside of each other, maps of maps, quantities, durations, pods and claims.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PodTemplateSpec, ResourceRequirements,
};
use kube::core::Duration;

use crate::cases::prelude::*;

/// Gate opens a stage.
#[k8s(map = atomic)]
pub struct Gate {
    /// Kind of the gate.
    pub kind: String,
    /// Name of the gate.
    pub name: String,
    /// After how long it opens.
    pub after: Option<Duration>,
}

/// Arch is that of a processor.
#[k8s]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    Amd64,
    Arm64,
}

/// Stage is a part.
#[k8s]
pub struct Stage {
    /// Name of the stage.
    pub name: String,
    /// Arch it runs on.
    #[k8s(default = Arch::Amd64, required)]
    pub arch: Arch,
    /// Gates of it.
    #[k8s(list = map("kind", "name"))]
    pub gates: Option<Vec<Gate>>,
    /// Matrix of arguments.
    #[k8s(max_items = 10, items(min_items = 1))]
    pub matrix: Option<Vec<Vec<String>>>,
    /// Outputs by name and by key.
    pub outputs: Option<BTreeMap<String, BTreeMap<String, Quantity>>>,
    /// Retries by reason.
    #[k8s(map = atomic)]
    pub retries: Option<BTreeMap<String, i32>>,
    /// Surge of it.
    #[k8s(default = "25%")]
    pub surge: Option<IntOrString>,
    /// Deadline of it.
    #[k8s(default = "1h")]
    pub deadline: Duration,
}

/// PipelineSpec is wanted.
#[api(
    group = "pipeline.golden.example.com",
    version = "v1",
    kind = "Pipeline",
    doc = "Pipeline runs.",
    optional_spec
)]
#[derive(Default)]
pub struct PipelineSpec {
    /// Stages of it.
    #[k8s(list = map("name", "arch"))]
    pub stages: Vec<Stage>,
    /// Template of the workers.
    pub template: PodTemplateSpec,
    /// Resources of the controller.
    #[k8s(default = { requests: { cpu: "100m" } })]
    pub resources: Option<ResourceRequirements>,
    /// Scratch space.
    #[k8s(default = "1Gi")]
    pub scratch: Option<Quantity>,
    /// Port of the console.
    #[k8s(default = 8080)]
    pub port: Option<IntOrString>,
    /// Claim of the cache.
    pub claim: Option<PersistentVolumeClaimSpec>,
    /// Claims to make.
    pub claims: Option<Vec<PersistentVolumeClaim>>,
    /// Limits of all.
    pub limits: Option<BTreeMap<String, Quantity>>,
}

golden!(apart from texts: nested_keys_maps_and_pods, "pipeline", Pipeline);
