//! The items of other crates that may appear in public signatures, each with the reason.
//!
//! A change of such a crate can break users of ours, so each one is a decision.

use std::collections::BTreeSet;

/// Each item with why users of the crate meet it.
pub const REASONS: &[(&str, &str)] = &[
    ("futures::stream::Stream", "what `Builder::source` polls; std has no stable stream"),
    ("jiff::SignedDuration", "how far a test moves the clock, backwards as well"),
    ("jiff::Timestamp", "the time type of k8s-openapi"),
    (
        "k8s_openapi::api::admissionregistration::v1::MutatingWebhook",
        "the entry of a webhook configuration, as the API names its settings",
    ),
    ("k8s_openapi::api::authentication::v1::UserInfo", "the user of an admission request"),
    ("k8s_openapi::api::core::v1::ObjectReference", "what an event is about, as the API names it"),
    ("k8s_openapi::api::core::v1::PodTemplateSpec", "`Context::stamp` annotates it"),
    (
        "k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition",
        "the type of conditions in the status of custom kinds",
    ),
    (
        "k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference",
        "the owners in the metadata of an object",
    ),
    ("k8s_openapi::apimachinery::pkg::apis::meta::v1::Time", "timestamps in a status"),
    ("kube::Client", "the connection that the author configures; the crate does not wrap it"),
    ("kube::CustomResourceExt", "the definition of a derived kind, for `Operator::api`"),
    ("kube::Error", "`?` on the results of kube"),
    ("kube::Resource", "the trait of all object types, k8s-openapi's and derived ones"),
    ("kube::api::PropagationPolicy", "the three ways to delete dependents, as kube names them"),
    ("kube::config::InferConfigError", "`?` on the configuration of a client in `main`"),
    ("kube::config::KubeconfigError", "`?` on the configuration of a client in `main`"),
    ("kube::core::ApiResource", "what kube's dynamic objects need to know of a kind"),
    ("kube::core::Selector", "label selectors, with kube's parser and conversions"),
    ("kube::core::Status", "the answer of the API server that an error carries"),
    ("kube::core::object::HasStatus", "ties the status type to its kind"),
    ("kube::discovery::ApiCapabilities", "a result of kube's discovery as a `Kind`"),
    ("prometheus_client::registry::Registry", "where operators register metrics of their own"),
    (
        "schemars::JsonSchema",
        "the types of a kind, against which expressions of policies are checked",
    ),
    ("serde::Serialize", "objects are JSON"),
    ("serde::de::DeserializeOwned", "objects are JSON"),
    ("serde_json::Error", "the cause of an object that does not decode"),
    ("serde_json::Value", "patches, objects without a Rust type, the diagnostics"),
    ("tokio::time::Instant", "since when a watch is stale, in the time that tests pause"),
    ("tracing::Subscriber", "`log::json` is a layer for any subscriber"),
    ("tracing_subscriber::Layer", "`log::json` is a layer for any subscriber"),
    ("tracing_subscriber::fmt::MakeWriter", "where `log::json` writes"),
    ("tracing_subscriber::registry::LookupSpan", "`log::json` reads the fields of spans"),
    ("windlass_manifests::Model", "the installation of an operator, re-exported as `manifests`"),
    ("windlass_manifests::model::Policy", "the manifest of a policy, from `manifests`"),
    ("windlass_manifests::model::Webhook", "the manifest of a raw webhook, from `manifests`"),
    ("windlass_manifests::rbac::Grant", "rights of an operator, re-exported as `manifests`"),
];

/// Fails for items without a reason, and for reasons of items that appear no more.
pub fn check<'a>(found: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let found: BTreeSet<&str> = found.collect();
    let known: BTreeSet<&str> = REASONS.iter().map(|(item, _)| *item).collect();
    let file = "xtask/src/api/foreign.rs";
    if let Some(item) = found.difference(&known).next() {
        return Err(format!(
            "{item} of another crate is in a public signature without a reason: hide it, or add \
             it to {file} with why users have to meet it"
        ));
    }
    match known.difference(&found).next() {
        Some(item) => Err(format!("{item} is in no public signature: remove it from {file}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_without_a_reason_and_a_reason_without_an_item_are_errors() {
        let all = || REASONS.iter().map(|(item, _)| *item);
        assert_eq!(check(all()), Ok(()));
        let error = check(all().chain(["http::StatusCode"])).expect_err("nobody gave a reason");
        assert!(error.starts_with("http::StatusCode of another crate"), "{error}");
        let error = check(all().skip(1)).expect_err("appears no more");
        assert!(error.contains("is in no public signature"), "{error}");
    }
}
