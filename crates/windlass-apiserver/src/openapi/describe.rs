//! Descriptions of the built-in types, from `k8s-openapi`.
//!
//! **Invariant:** a group version is generated once, when its document is first asked for; kinds
//! that the chosen version of `k8s-openapi` lacks have no descriptions.

use std::collections::HashSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
use schemars::SchemaGenerator;
use serde_json::Value;

struct State {
    generator: SchemaGenerator,
    loaded: HashSet<(String, String)>,
}

/// The texts of one or more group versions.
pub(super) struct Descriptions(std::sync::MutexGuard<'static, State>);

/// Makes the descriptions of a group version.
pub(super) fn load(group: &str, version: &str) -> Descriptions {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    let state = STATE.get_or_init(|| {
        Mutex::new(State { generator: SchemaGenerator::default(), loaded: HashSet::new() })
    });
    // A panic while generating leaves whole definitions only: the state stays good.
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if state.loaded.insert((group.to_owned(), version.to_owned())) {
        generate(&mut state.generator, group, version);
    }
    Descriptions(state)
}

// === impl Descriptions ===

impl Descriptions {
    /// Returns the text of a definition.
    pub fn of_type(&self, definition: &str) -> Option<&str> {
        self.find(definition)?.get("description")?.as_str()
    }

    /// Returns the text of a field.
    pub fn of_field(&self, definition: &str, field: &str) -> Option<&str> {
        self.find(definition)?.get("properties")?.get(field)?.get("description")?.as_str()
    }

    fn find(&self, definition: &str) -> Option<&Value> {
        self.0.generator.definitions().get(definition)
    }
}

macro_rules! kinds {
    ($generator:ident: $($kind:ty),* $(,)?) => {{
        $(let _ = $generator.subschema_for::<$kind>();)*
    }};
}

fn generate(g: &mut SchemaGenerator, group: &str, version: &str) {
    kinds!(g: meta::DeleteOptions, meta::Status, meta::APIResourceList, meta::ListMeta,
        meta::ObjectMeta, api::autoscaling::v1::Scale);
    match (group, version) {
        ("", "v1") => core(g),
        ("apps", "v1") => kinds!(g: api::apps::v1::ControllerRevision, api::apps::v1::DaemonSet,
            api::apps::v1::Deployment, api::apps::v1::ReplicaSet, api::apps::v1::StatefulSet),
        ("autoscaling", "v1") => kinds!(g: api::autoscaling::v1::HorizontalPodAutoscaler),
        ("autoscaling", "v2") => kinds!(g: api::autoscaling::v2::HorizontalPodAutoscaler),
        ("batch", "v1") => kinds!(g: api::batch::v1::CronJob, api::batch::v1::Job),
        ("policy", "v1") => {
            kinds!(g: api::policy::v1::PodDisruptionBudget, api::policy::v1::Eviction);
        }
        ("rbac.authorization.k8s.io", "v1") => kinds!(g: api::rbac::v1::ClusterRole,
            api::rbac::v1::ClusterRoleBinding, api::rbac::v1::Role, api::rbac::v1::RoleBinding),
        ("apiextensions.k8s.io", "v1") => {
            kinds!(g: apiextensions::v1::CustomResourceDefinition);
        }
        ("apiregistration.k8s.io", "v1") => kinds!(g: apiregistration::v1::APIService),
        _ => extra(g, group, version),
    }
}

fn core(g: &mut SchemaGenerator) {
    use api::core::v1::*;
    kinds!(g: Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node,
        PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController,
        ResourceQuota, Secret, Service, ServiceAccount, api::policy::v1::Eviction,
        api::authentication::v1::TokenRequest);
}

fn extra(g: &mut SchemaGenerator, group: &str, version: &str) {
    match (group, version) {
        ("admissionregistration.k8s.io", "v1") => {
            use api::admissionregistration::v1::*;
            kinds!(g: MutatingWebhookConfiguration, ValidatingAdmissionPolicy,
                ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration);
            k8s_openapi::k8s_if_ge_1_36! {
                kinds!(g: MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding);
            }
        }
        ("authentication.k8s.io", "v1") => {
            kinds!(g: api::authentication::v1::SelfSubjectReview,
                api::authentication::v1::TokenReview, api::authentication::v1::TokenRequest);
        }
        ("authorization.k8s.io", "v1") => {
            use api::authorization::v1::*;
            kinds!(g: LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview,
                SubjectAccessReview);
        }
        ("certificates.k8s.io", "v1") => {
            kinds!(g: api::certificates::v1::CertificateSigningRequest);
        }
        ("coordination.k8s.io", "v1") => kinds!(g: api::coordination::v1::Lease),
        ("discovery.k8s.io", "v1") => kinds!(g: api::discovery::v1::EndpointSlice),
        ("events.k8s.io", "v1") => kinds!(g: api::events::v1::Event),
        ("flowcontrol.apiserver.k8s.io", "v1") => {
            use api::flowcontrol::v1::*;
            kinds!(g: FlowSchema, PriorityLevelConfiguration);
        }
        ("networking.k8s.io", "v1") => {
            use api::networking::v1::*;
            kinds!(g: IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR);
        }
        ("node.k8s.io", "v1") => kinds!(g: api::node::v1::RuntimeClass),
        ("resource.k8s.io", "v1") => {
            k8s_openapi::k8s_if_ge_1_34! {
                use api::resource::v1::*;
                kinds!(g: DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice);
            }
        }
        ("scheduling.k8s.io", "v1") => kinds!(g: api::scheduling::v1::PriorityClass),
        ("storage.k8s.io", "v1") => {
            use api::storage::v1::*;
            kinds!(g: CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment);
            k8s_openapi::k8s_if_ge_1_34! {
                kinds!(g: VolumeAttributesClass);
            }
        }
        _ => {}
    }
}
