//! Pods and the kinds that run them.
//!
//! Every kind keeps `metadata.generation` itself in its `prepare_*` functions, because kinds differ
//! in what counts as a change.

use super::Strategy;
use crate::resource::Gvk;

pub mod budget;
pub mod controller_revision;
pub mod cron_job;
pub mod cron_schedule;
pub mod daemon_set;
pub mod deployment;
pub mod disruption;
pub mod hpa;
pub mod hpa_rules;
pub mod job;
pub mod job_policy;
pub mod job_status;
pub mod pod;
mod pod_connection;
pub mod pod_container;
pub mod pod_deletion;
mod pod_eviction;
mod pod_log;
pub mod pod_parts;
pub mod pod_resources;
pub mod pod_restart;
pub mod pod_security;
pub mod pod_spec;
pub mod pod_update;
pub mod pod_volume;
pub mod pod_warnings;
pub mod priority_class;
pub mod qos;
pub mod replica_set;
pub mod replication_controller;
pub mod runtime_class;
pub mod scale;
pub mod shared;
pub mod spec_defaults;
pub mod stateful_set;
pub mod template;

/// Returns the strategy of a workload kind, if it is one.
pub(crate) fn strategy_of(gvk: &Gvk) -> Option<&'static dyn Strategy> {
    Some(match (&*gvk.group, &*gvk.version, &*gvk.kind) {
        ("", _, "Pod") => &pod::Pods,
        ("", _, "PodTemplate") => &template::PodTemplates,
        ("", _, "ReplicationController") => &replication_controller::ReplicationControllers,
        ("apps", _, "Deployment") => &deployment::Deployments,
        ("apps", _, "ReplicaSet") => &replica_set::ReplicaSets,
        ("apps", _, "StatefulSet") => &stateful_set::StatefulSets,
        ("apps", _, "DaemonSet") => &daemon_set::DaemonSets,
        ("apps", _, "ControllerRevision") => &controller_revision::ControllerRevisions,
        ("batch", _, "Job") => &job::Jobs,
        ("batch", _, "CronJob") => &cron_job::CronJobs,
        ("autoscaling", "v1", "HorizontalPodAutoscaler") => &hpa::AutoscalersV1,
        ("autoscaling", _, "HorizontalPodAutoscaler") => &hpa::Autoscalers,
        ("policy", _, "PodDisruptionBudget") => &budget::Budgets,
        ("scheduling.k8s.io", _, "PriorityClass") => &priority_class::PriorityClasses,
        ("node.k8s.io", _, "RuntimeClass") => &runtime_class::RuntimeClasses,
        _ => return None,
    })
}
