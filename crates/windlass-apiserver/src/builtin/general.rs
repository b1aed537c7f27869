//! All built-in kinds that run no pods.
//!
//! One file per family of kinds; `tools` reads and writes values, `names` holds the rules
//! for names, addresses and numbers that they share.
//!
//! **Invariant:** defaults are idempotent: a defaulted object does not change when defaulted again.

use super::Strategy;
use crate::resource::Gvk;

mod addresses;
mod admission;
mod api_service;
pub mod binding;
pub mod certificate;
mod claim;
mod component_status;
mod config;
mod csi;
mod device;
mod device_attributes;
mod device_requests;
mod diff;
mod endpoints;
pub mod event;
mod expressions;
mod flow;
mod ingress;
mod lease;
mod names;
mod namespace;
mod netpol;
mod node;
mod pem;
mod priority_level;
mod quantity;
mod quota;
mod rbac;
pub mod service;
mod service_account;
mod service_ports;
mod service_traffic;
mod storage;
mod tools;
mod volume;
mod webhook;

/// Returns the strategy of any other built-in kind, if it is one.
pub(crate) fn strategy_of(gvk: &Gvk) -> Option<&'static dyn Strategy> {
    Some(match (&*gvk.group, &*gvk.kind) {
        ("", "Binding") => &binding::Binding,
        ("", "ComponentStatus") => &component_status::ComponentStatus,
        ("", "ConfigMap") => &config::ConfigMap,
        ("", "Secret") => &config::Secret,
        ("", "Service") => &service::Service,
        ("", "ServiceAccount") => &service_account::ServiceAccount,
        ("", "Namespace") => &namespace::Namespace,
        ("", "Endpoints") => &endpoints::Endpoints,
        ("discovery.k8s.io", "EndpointSlice") => &endpoints::EndpointSlice,
        ("", "Event") => &event::CoreEvent,
        ("events.k8s.io", "Event") => &event::NewEvent,
        ("", "LimitRange") => &quota::LimitRange,
        ("", "ResourceQuota") => &quota::ResourceQuota,
        ("", "Node") => &node::Node,
        ("", "PersistentVolume") => &volume::Volume,
        ("", "PersistentVolumeClaim") => &claim::Claim,
        ("networking.k8s.io", "Ingress") => &ingress::Ingress,
        ("networking.k8s.io", "IngressClass") => &ingress::IngressClass,
        ("networking.k8s.io", "IPAddress") => &addresses::IpAddress,
        ("networking.k8s.io", "ServiceCIDR") => &addresses::ServiceCidr,
        ("networking.k8s.io", "NetworkPolicy") => &netpol::NetworkPolicy,
        ("rbac.authorization.k8s.io", "Role") => &rbac::Role { cluster: false },
        ("rbac.authorization.k8s.io", "ClusterRole") => &rbac::Role { cluster: true },
        ("rbac.authorization.k8s.io", "RoleBinding") => &rbac::Binding { cluster: false },
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => &rbac::Binding { cluster: true },
        ("storage.k8s.io", "StorageClass") => &storage::StorageClass,
        ("storage.k8s.io", "CSIDriver") => &csi::CsiDriver,
        ("storage.k8s.io", "CSINode") => &csi::CsiNode,
        ("storage.k8s.io", "CSIStorageCapacity") => &csi::CsiStorageCapacity,
        ("storage.k8s.io", "VolumeAttachment") => &storage::VolumeAttachment,
        ("storage.k8s.io", "VolumeAttributesClass") => &storage::VolumeAttributesClass,
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => {
            &webhook::Configuration { mutating: true }
        }
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            &webhook::Configuration { mutating: false }
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => {
            &admission::Policy { mutating: true }
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            &admission::Policy { mutating: false }
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => {
            &admission::Binding { mutating: true }
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            &admission::Binding { mutating: false }
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => &certificate::SigningRequest,
        ("coordination.k8s.io", "Lease") => &lease::Lease,
        ("resource.k8s.io", "DeviceClass") => &device::DeviceClass,
        ("resource.k8s.io", "ResourceClaim") => &device::Claim,
        ("resource.k8s.io", "ResourceClaimTemplate") => &device::ClaimTemplate,
        ("resource.k8s.io", "ResourceSlice") => &device::Slice,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => &flow::FlowSchema,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            &priority_level::PriorityLevel
        }
        ("apiregistration.k8s.io", "APIService") => &api_service::ApiService,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
