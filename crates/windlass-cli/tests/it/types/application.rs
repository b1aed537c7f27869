//! Types that `windlass generate types` made of CustomResourceDefinitions.

#![allow(missing_docs, rustdoc::all, clippy::all)]

use std::collections::BTreeMap;

use windlass::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass::k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use windlass::k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use windlass::{api, k8s};

/// Application is what is deployed, from where, and to where.
#[api(
    group = "deploy.example.com",
    version = "v1alpha1",
    kind = "Application",
    plural = "applications",
    short = "app",
    flat,
    column("Sync", ".status.sync.status", type = "string"),
    column("Running", ".operation.phase", type = "string"),
    label("app.kubernetes.io/part-of", "deploy"),
)]
pub struct ApplicationFields {
    /// What is going on, if somebody asked for it.
    pub operation: Option<ApplicationOperation>,
    /// What is wanted.
    pub spec: ApplicationSpec,
    pub status: Option<ApplicationStatus>,
}

#[k8s]
#[derive(Default)]
pub struct ApplicationOperation {
    pub info: Option<Vec<ApplicationOperationInfo>>,
    pub phase: Option<String>,
    pub retry: Option<ApplicationOperationRetry>,
}

#[k8s]
pub struct ApplicationOperationInfo {
    pub name: String,
    pub value: String,
}

#[k8s]
#[derive(Default)]
pub struct ApplicationOperationRetry {
    pub backoff: Option<ApplicationOperationRetryBackoff>,
    pub limit: Option<i64>,
}

#[k8s]
#[derive(Default)]
pub struct ApplicationOperationRetryBackoff {
    pub duration: Option<String>,
    pub factor: Option<i64>,
}

#[k8s]
pub struct ApplicationSpec {
    pub destination: ApplicationSpecDestination,
    pub ignore_differences: Option<Vec<ApplicationSpecIgnoreDifferences>>,
    pub project: String,
    /// Where the manifests come from.
    pub source: Option<ApplicationSpecSource>,
    pub sources: Option<Vec<ApplicationSpecSources>>,
    pub sync_policy: Option<ApplicationSpecSyncPolicy>,
}

#[k8s]
#[derive(Default)]
pub struct ApplicationSpecDestination {
    pub name: Option<String>,
    pub server: Option<String>,
}

#[k8s]
pub struct ApplicationSpecIgnoreDifferences {
    pub json_pointers: Option<Vec<String>>,
    pub kind: String,
}

#[k8s]
pub struct ApplicationSpecSource {
    pub helm: Option<ApplicationSpecSourceHelm>,
    pub kustomize: Option<ApplicationSpecSourceKustomize>,
    pub r#ref: Option<String>,
    #[serde(rename = "repoURL")]
    pub repo_url: String,
}

#[k8s]
#[derive(Default)]
pub struct ApplicationSpecSourceHelm {
    pub api_versions: Option<Vec<String>>,
    pub parameters: Option<Vec<ApplicationOperationInfo>>,
    pub values_object: Option<RawExtension>,
}

#[k8s]
#[derive(Default)]
pub struct ApplicationSpecSourceKustomize {
    pub common_labels: Option<BTreeMap<String, String>>,
    pub replicas: Option<Vec<ApplicationSpecSourceKustomizeReplicas>>,
}

#[k8s]
pub struct ApplicationSpecSourceKustomizeReplicas {
    pub count: IntOrString,
    pub name: String,
}

/// Where the manifests come from.
#[k8s]
pub struct ApplicationSpecSources {
    pub helm: Option<ApplicationSpecSourceHelm>,
    pub kustomize: Option<ApplicationSpecSourceKustomize>,
    pub r#ref: Option<String>,
    #[serde(rename = "repoURL")]
    pub repo_url: String,
}

#[k8s]
#[derive(Default)]
pub struct ApplicationSpecSyncPolicy {
    pub automated: Option<ApplicationSpecSyncPolicyAutomated>,
}

#[k8s]
#[derive(Default)]
pub struct ApplicationSpecSyncPolicyAutomated {
    pub prune: Option<bool>,
    pub self_heal: Option<bool>,
}

#[k8s]
#[derive(Default)]
pub struct ApplicationStatus {
    pub history: Option<Vec<ApplicationStatusHistory>>,
    pub sync: Option<ApplicationStatusSync>,
}

#[k8s]
pub struct ApplicationStatusHistory {
    pub deployed_at: Time,
    pub id: i64,
    /// Where the manifests come from.
    pub source: Option<ApplicationSpecSource>,
}

#[k8s]
pub struct ApplicationStatusSync {
    pub revision: Option<String>,
    pub status: String,
}
