//! The `caBundle`s of webhook configurations and definitions.
//!
//! **Invariant:** CAs of others stay in a bundle, and only entries that name our service are changed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass_manifests::Model;

use super::issue::{self, Certificate};
use super::keeper::Names;
use crate::cache::Key;
use crate::client::{Client, Patch};
use crate::error::Result;
use crate::kind::Kind;

/// An object that names webhooks.
#[derive(Debug, Clone)]
pub(in crate::webhook) struct Target {
    pub(in crate::webhook) kind: Kind,
    pub(in crate::webhook) name: String,
}

/// Which entries and CAs are ours.
pub(super) struct Own<'a> {
    pub(super) names: &'a Names,
    pub(super) owner: &'a str,
}

// === impl Target ===

impl Target {
    /// The webhook configurations of an operator, and its definitions with conversion webhooks.
    pub(super) fn all(model: &Model) -> Vec<Self> {
        let configurations = model.webhook_configurations();
        let configurations = configurations.iter().map(|object| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            Self::configuration(&text(&object["kind"]), &text(&object["metadata"]["name"]))
        });
        let converted = model.apis.iter().filter(|api| api.converts_by_webhook());
        let definitions =
            converted.map(|api| Self::definition(&format!("{}.{}", api.plural(), api.group())));
        configurations.chain(definitions).collect()
    }

    /// A webhook configuration, a policy or the binding of one.
    pub(in crate::webhook) fn configuration(kind: &str, name: &str) -> Self {
        let lower = kind.to_lowercase();
        let plural = match lower.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{lower}s"),
        };
        let kind = Kind::new("admissionregistration.k8s.io", "v1", kind, &plural).cluster_scoped();
        Self { kind, name: name.to_owned() }
    }

    pub(in crate::webhook) fn definition(name: &str) -> Self {
        let (kind, plural) = ("CustomResourceDefinition", "customresourcedefinitions");
        let kind = Kind::new("apiextensions.k8s.io", "v1", kind, plural).cluster_scoped();
        Self { kind, name: name.to_owned() }
    }
}

// === impl Own ===

impl Own<'_> {
    /// Adds CAs to all entries of an object, and removes our other ones if `settled`. An object that
    /// does not exist needs none.
    pub(super) async fn publish(
        &self,
        client: &Client,
        target: &Target,
        authorities: &[Certificate],
        settled: bool,
    ) -> Result<()> {
        let api = client.api_of::<DynamicObject>(&target.kind);
        let key = Key::cluster(&target.name);
        let Some(object) = api.get(&key).await? else { return Ok(()) };
        let mut operations = Vec::new();
        for (path, config) in entries(&object.data) {
            if !self.is_ours(config) {
                continue;
            }
            let old = config["caBundle"].as_str().unwrap_or_default();
            let new = self.bundle(old, authorities, settled);
            if new != old {
                let path = format!("{path}/caBundle");
                operations.push(json!({"op": "add", "path": path, "value": new}));
            }
        }
        if operations.is_empty() {
            return Ok(());
        }
        // The paths are those of this version of the object.
        let version = &object.metadata.resource_version;
        let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
        operations.insert(0, test);
        api.patch(&key, &Patch::Json(Value::Array(operations))).await?;
        tracing::info!(
            kind = target.kind.kind(),
            name = target.name,
            "published the CA of webhooks"
        );
        Ok(())
    }

    fn is_ours(&self, config: &Value) -> bool {
        let service = &config["service"];
        service["name"] == self.names.service && service["namespace"] == self.names.namespace()
    }

    /// The bundle that replaces another one, both in base64.
    fn bundle(&self, old: &str, authorities: &[Certificate], settled: bool) -> String {
        let pem = STANDARD.decode(old).unwrap_or_default();
        let mut all = issue::read(&String::from_utf8_lossy(&pem));
        all.retain(|ca| ca.organization != self.owner || !settled || authorities.contains(ca));
        for ca in authorities {
            if !all.contains(ca) {
                all.push(ca.clone());
            }
        }
        STANDARD.encode(all.iter().map(Certificate::pem).collect::<String>())
    }
}

/// The client configurations of an object, and their paths.
pub(super) fn entries(object: &Value) -> Vec<(String, &Value)> {
    let webhooks = object["webhooks"].as_array().into_iter().flatten().enumerate();
    let webhooks = webhooks
        .map(|(at, webhook)| (format!("/webhooks/{at}/clientConfig"), &webhook["clientConfig"]));
    let path = "/spec/conversion/webhook/clientConfig";
    let conversion = object.pointer(path).map(|config| (path.to_owned(), config));
    webhooks.chain(conversion).collect()
}
