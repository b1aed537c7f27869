//! AppService: a Deployment by name and number of replicas, kept by a controller that is written on
//! the low level.
//!
//! [`AppService`] is the custom resource and [`operator`] the program. The control loop is in
//! [`controller`]: informers, listers, indexes, event handlers, a rate-limited work queue and
//! workers, joined by hand. An operator should use [`windlass::Controller`], which does all of it;
//! this crate shows what that is, and how to use the parts alone.

pub mod controller;

use windlass::manifests::rbac::{Grant, Rule};
use windlass::{Operator, api, k8s};

const GROUP: &str = "appcontroller.k8s.io";

/// A Deployment, by name and number of replicas.
#[api(
    group = "appcontroller.k8s.io",
    version = "v1alpha1",
    kind = "AppService",
    status = AppServiceStatus,
    annotation("api-approved.kubernetes.io", "unapproved, for a tutorial"),
    column("Deployment", ".spec.deploymentName"),
    column("Replicas", ".spec.replicas"),
    column("Available", ".status.availableReplicas"),
    column("Age", ".metadata.creationTimestamp"),
    cel("size(self.metadata.name) <= 63", message = "the name is a label of the pods: at most 63 characters")
)]
pub struct AppServiceSpec {
    /// The name of the Deployment.
    #[k8s(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    pub deployment_name: String,
    /// How many pods the Deployment has.
    #[k8s(min = 0, max = 100, default = 1)]
    pub replicas: i32,
}

/// What the controller reports.
#[k8s(optional)]
#[derive(Default, PartialEq, Eq)]
pub struct AppServiceStatus {
    /// How many pods are available.
    pub available_replicas: Option<i32>,
}

/// The operator: run by `main`, installed by its manifests.
///
/// The rights are listed by hand: a `Controller` declares what it does, this control loop does not.
pub fn operator() -> Operator {
    let spec = AppServiceSpec { deployment_name: "web".into(), replicas: 3 };
    Operator::new("appservice-controller")
        .version(env!("CARGO_PKG_VERSION"))
        .api::<AppService>()
        .sample(&AppService::new("appservice-sample", spec))
        .allow(Rule::new(GROUP, "appservices", ["watch"]))
        .allow(Rule::new(GROUP, "appservices/status", ["update"]))
        .allow(Rule::new("apps", "deployments", ["watch", "create", "update", "delete"]))
        .allow(Rule::new("events.k8s.io", "events", ["create"]))
        // For API servers without streaming lists, for those that check owner references, and for
        // events that repeat.
        .allow(rare(Rule::new(GROUP, "appservices", ["list"])))
        .allow(rare(Rule::new("apps", "deployments", ["list"])))
        .allow(rare(Rule::new(GROUP, "appservices/finalizers", ["update"])))
        .allow(rare(Rule::new("events.k8s.io", "events", ["patch"])))
        .runnable("appservice", controller::run)
}

/// A right that not every run needs.
fn rare(rule: Rule) -> Grant {
    Grant::from(rule).rare()
}
