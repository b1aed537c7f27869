//! The kind CronRoute (fleet.example.com/v1).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::{api, k8s};

/// CronRoute is a kind of this operator: this text is its description in `kubectl explain`.
#[api(
    group = "fleet.example.com",
    version = "v1",
    kind = "CronRoute",
    status = CronRouteStatus,
    column("Message", ".spec.message"),
    column("Ready", ".status.conditions[?(@.type==\"Ready\")].status"),
    column("Age", ".metadata.creationTimestamp"),
)]
pub struct CronRouteSpec {
    /// An example of a field: replace it with what the kind needs.
    #[k8s(default = "hello", max_length = 256)]
    pub message: String,
}

/// What the operator reports.
#[k8s]
#[derive(Default)]
pub struct CronRouteStatus {
    /// The generation of the object that the conditions are about.
    pub observed_generation: Option<i64>,
    /// The message that was last reconciled: replace it, too.
    #[k8s(optional)]
    pub message: String,
    /// `Ready` is true after a reconcile that succeeded.
    #[k8s(optional, list = map("type"))]
    pub conditions: Vec<Condition>,
}
