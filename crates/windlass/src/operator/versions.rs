//! Which conversion a definition declares.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_manifests::model::Api;
use windlass_manifests::rbac::{Grant, Reach, Rule};
use windlass_manifests::{Model, diff};

use crate::conversion::Conversions;
use crate::error::{Error, Result};

/// Declares the webhook of the operator in a definition whose versions it converts.
pub(super) fn declare(api: &mut Api, conversions: &Conversions, model: &Model) -> Result<()> {
    let names: BTreeSet<String> = names(api).map(str::to_owned).collect();
    let Some(versions) = conversions.of(api.group(), api.kind()) else {
        return match diff::unconverted(&api.definition).first() {
            None => Ok(()),
            Some(change) => Err(Error::Invalid(format!("{}: {change}", api.kind()))),
        };
    };
    versions.check()?;
    let kind = api.kind();
    if versions.names() != names {
        let join = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Error::Invalid(format!(
            "{kind} is defined in the versions {}, but converted between {}",
            join(names),
            join(versions.names())
        )));
    }
    if versions.stored() != api.version() {
        let (stored, hub) = (api.version(), versions.stored());
        let text = format!("{kind} is stored in {stored}, but its conversion starts with {hub}");
        return Err(Error::Invalid(text));
    }
    if names.len() > 1 {
        api.definition["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {
                    "namespace": model.namespace, "name": model.webhook_service(),
                    "path": "/convert", "port": 443,
                }},
                "conversionReviewVersions": ["v1"],
            },
        });
    }
    Ok(())
}

/// Fails if a conversion is declared for a kind that the operator does not define.
pub(super) fn check_defined(conversions: &Conversions, apis: &[Api]) -> Result<()> {
    for versions in conversions.all() {
        let (group, kind) = versions.group_kind();
        if !apis.iter().any(|api| (api.group(), api.kind()) == (group, kind)) {
            return Err(Error::Invalid(format!(
                "{kind} of {group} is converted but not defined, add its versions with `api`"
            )));
        }
    }
    Ok(())
}

fn names(api: &Api) -> impl Iterator<Item = &str> {
    let versions = api.definition["spec"]["versions"].as_array().into_iter().flatten();
    versions.filter_map(|version| version["name"].as_str().map(AsRef::as_ref))
}

/// What a storage migration may do.
pub(super) fn migration_grants(apis: &[Api]) -> Vec<Grant> {
    let group = "apiextensions.k8s.io";
    let mut grants = vec![
        Grant::new(
            Rule::new("apps", "deployments", ["get"])
                .resource("replicasets")
                .resource("statefulsets"),
            Reach::Home,
        ),
        Grant::new(Rule::new("", "pods", ["get", "list"]), Reach::Home),
        Grant::new(
            Rule::new("events.k8s.io", "events", ["create", "patch"]),
            Reach::Namespace("default".into()),
        ),
    ];
    for api in apis {
        let name = format!("{}.{}", api.plural(), api.group());
        let rules = [
            Rule::new(group, "customresourcedefinitions", ["get", "patch"]).name(&name),
            Rule::new(group, "customresourcedefinitions/status", ["patch"]).name(&name),
            Rule::new(api.group(), api.plural(), ["get", "list", "patch"]),
        ];
        grants.extend(rules.map(|rule| Grant::new(rule, Reach::Cluster)));
    }
    grants
}

/// Reads a review and returns the answer as text.
pub(super) fn answer(conversions: &Conversions, review: &str) -> Result<String> {
    let review: Value = serde_json::from_str(review)
        .map_err(|source| Error::Decode { what: "the ConversionReview".into(), source })?;
    Ok(conversions.review(review).to_string())
}
