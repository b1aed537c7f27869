//! Nested maps of structs, rules with paths, defaults of structs and lists, a list with two keys.

use k8s_openapi::api::core::v1::{EnvVar, ObjectReference};
use kube::core::Duration;

use crate::cases::prelude::*;

/// Phase is a stage of a step.
#[k8s]
pub enum Phase {
    Pending,
    Running,
    Done,
}

/// Percent is a share.
#[k8s(min = 0, max = 100)]
pub struct Percent(pub i32);

/// Name is short.
#[k8s(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
pub struct Name(pub String);

/// Matrix has rows.
#[k8s(max_items = 10)]
pub struct Matrix(pub Vec<Vec<Percent>>);

/// Retry says how often.
#[k8s]
pub struct Retry {
    /// Limit of attempts.
    #[k8s(default = 3, min = 0, exclusive_max = 11)]
    pub limit: i32,
    /// Backoff between attempts.
    #[k8s(default = "30s")]
    pub backoff: Option<Duration>,
}

/// Artifact is kept.
#[k8s(map = atomic)]
pub struct Artifact {
    pub path: String,
    #[k8s(nullable)]
    pub mode: Option<i32>,
}

/// Step is one step.
#[k8s(
    cel(
        "!has(self.retry) || self.kind != 'Once'",
        message = "a step that runs once has no retries",
        reason = FieldValueForbidden,
        path = ".retry"
    ),
    at_most_one_of(script, image)
)]
pub struct Step {
    pub name: Name,
    #[k8s(enum = ["Once", "Loop"], default = "Once")]
    pub kind: String,
    pub script: Option<String>,
    pub image: Option<String>,
    pub retry: Option<Retry>,
    /// Inputs by name, then by key.
    pub inputs: Option<BTreeMap<String, BTreeMap<String, Artifact>>>,
    #[k8s(optional, items(max_length = 20), max_items = 5, list = set)]
    pub needs: Vec<Name>,
    pub env: Option<Vec<EnvVar>>,
}

/// WorkflowSpec is wanted.
#[api(
    group = "workflow.adv.example.com",
    version = "v1",
    kind = "Workflow",
    doc = "Workflow runs steps.",
    scope = Cluster,
    short = ["wf", "flow"],
    categories = ["all", "ci"],
    singular = "flow",
    status = WorkflowStatus,
    column("Phase", ".status.phase", description = "Where it is."),
    column("Progress", ".status.progress", format = "int32", priority = 1),
    column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#),
    column("Age", ".metadata.creationTimestamp"),
    selectable = [".status.phase"],
    label("app.kubernetes.io/part-of", "ci"),
    annotation("example.com/owner", "team-a")
)]
#[k8s(cel(
    "self.steps.all(s, !has(s.needs) || s.needs.all(n, self.steps.exists(t, t.name == n)))",
    message_expression = "'unknown step beside ' + self.steps[0].name"
))]
pub struct WorkflowSpec {
    #[k8s(list = map("name", "kind"), min_items = 1, max_items = 20)]
    pub steps: Vec<Step>,
    /// Phases that may be skipped.
    #[k8s(default = ["Pending", "Done"], min_items = 1)]
    pub skippable: Option<Vec<Phase>>,
    #[k8s(default = { limit: 2, backoff: "1m" })]
    pub defaults: Option<Retry>,
    pub weights: Option<BTreeMap<String, Percent>>,
    pub matrix: Option<Matrix>,
    pub windows: Option<BTreeMap<String, Vec<Time>>>,
    #[k8s(max_properties = 4, doc = "ResourceList is a set of (resource name, quantity) pairs.")]
    pub limits: Option<BTreeMap<String, Quantity>>,
    pub owner: Option<ObjectReference>,
    #[k8s(optional, list = atomic)]
    pub targets: Vec<Artifact>,
}

/// WorkflowStatus is seen.
#[k8s]
pub struct WorkflowStatus {
    #[k8s(optional, list = map("type"))]
    pub conditions: Vec<Condition>,
    pub phase: Option<Phase>,
    pub progress: Option<Percent>,
    pub started_at: Option<MicroTime>,
    pub observed_generation: Option<i64>,
}

golden!(apart from texts: a_workflow, "workflow", Workflow);
