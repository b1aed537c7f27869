//! Objects of any kind: applied, read and deleted by what their manifests say.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, Preconditions, PropagationPolicy,
};
use kube::discovery::{self, Scope};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::text::{explain, plain};

/// The field manager of everything that the command applies.
pub const FIELD_MANAGER: &str = "windlass";

/// The namespace of objects that name none.
const NAMESPACE: &str = "default";

/// The objects of a cluster.
pub struct Objects {
    client: kube::Client,
    /// The resources that were asked for, by API version and kind.
    resources: BTreeMap<(String, String), (ApiResource, Scope)>,
    /// Whether definitions that a process on this machine converts stay so.
    keeps_local_conversion: bool,
}

/// What an apply did; the words are those of kubectl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Created,
    Configured,
    Unchanged,
}

// === impl Objects ===

impl Objects {
    /// The objects that a client reaches.
    pub fn new(client: kube::Client) -> Self {
        Self { client, resources: BTreeMap::new(), keeps_local_conversion: false }
    }

    /// Lets definitions that an operator on this machine converts be converted by it still, when
    /// they are applied again.
    pub fn keep_local_conversion(mut self, keep: bool) -> Self {
        self.keeps_local_conversion = keep;
        self
    }

    /// Applies an object on the server, and takes over fields that others have set.
    pub async fn apply(&mut self, object: &Value) -> Result<Outcome, Failure> {
        let name = name(object)?;
        let api = self.api(object).await?;
        let failed = |error: kube::Error| {
            Failure::other(format!("{} was not applied: {}", reference(object), explain(&error)))
        };
        let before = api.get_opt(name).await.map_err(failed)?;
        let mut wanted = Cow::Borrowed(object);
        // A conversion webhook has a URL or a service, and an apply would leave the URL of others.
        if before.as_ref().is_some_and(|installed| has_conversion_url(&installed.data))
            && object["spec"]["conversion"]["strategy"] == "Webhook"
        {
            let installed = before.as_ref().map(|installed| &installed.data["spec"]["conversion"]);
            if self.keeps_local_conversion {
                wanted.to_mut()["spec"]["conversion"] = installed.cloned().unwrap_or_default();
            } else {
                let mut config = object["spec"]["conversion"]["webhook"]["clientConfig"].clone();
                (config["url"], config["caBundle"]) = (Value::Null, Value::Null);
                let patch = json!({"spec": {"conversion": {"webhook": {"clientConfig": config}}}});
                let params = PatchParams::default();
                api.patch(name, &params, &Patch::Merge(patch)).await.map_err(failed)?;
            }
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let after = api.patch(name, &params, &Patch::Apply(&wanted)).await.map_err(failed)?;
        Ok(match before {
            None => Outcome::Created,
            Some(old) if old.metadata.resource_version == after.metadata.resource_version => {
                Outcome::Unchanged
            }
            Some(_) => Outcome::Configured,
        })
    }

    /// The object as the cluster has it; `None` if it is not there.
    pub async fn get(&mut self, object: &Value) -> Result<Option<Value>, Failure> {
        let name = name(object)?;
        let Some(api) = self.api_if_served(object).await? else { return Ok(None) };
        let found = api.get_opt(name).await.map_err(|error| {
            Failure::other(format!("{} cannot be read: {}", reference(object), explain(&error)))
        })?;
        found.map(|found| to_value(&found)).transpose()
    }

    /// Deletes an object. Returns `false` if it was not there.
    ///
    /// If the object has a UID, only that very object is deleted.
    pub async fn delete(&mut self, object: &Value) -> Result<bool, Failure> {
        let name = name(object)?;
        let Some(api) = self.api_if_served(object).await? else { return Ok(false) };
        let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
        let params = DeleteParams {
            preconditions: uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match api.delete(name, &params).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(Failure::other(format!(
                "{} was not deleted: {}",
                reference(object),
                explain(&error)
            ))),
        }
    }

    /// All objects of a definition, in all namespaces; empty if its kind is not served.
    pub async fn of_definition(&self, definition: &Value) -> Result<Vec<Value>, Failure> {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
        let served = || versions.iter().filter(|version| version["served"] == true);
        // The stored version needs no conversion, so it can be read while no webhook answers.
        let stored = served().find(|version| version["storage"] == true);
        let version = text(&stored.or(served().next()).unwrap_or(&Value::Null)["name"]);
        let group = text(&spec["group"]);
        let resource = ApiResource {
            api_version: format!("{group}/{version}"),
            kind: text(&spec["names"]["kind"]),
            plural: text(&spec["names"]["plural"]),
            group,
            version,
        };
        self.list(&resource, None, "").await
    }

    /// The pods of a selector.
    pub async fn pods(&self, namespace: &str, selector: &str) -> Result<Vec<Value>, Failure> {
        self.list(&builtin("", "v1", "Pod", "pods"), Some(namespace), selector).await
    }

    /// All objects of a resource; empty if it is not served.
    pub async fn list(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>, Failure> {
        let client = self.client.clone();
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        };
        let mut params = ListParams::default().limit(500);
        if !selector.is_empty() {
            params = params.labels(selector);
        }
        let mut all = Vec::new();
        loop {
            let page = match api.list(&params).await {
                Ok(page) => page,
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(all),
                Err(error) => {
                    let what = &resource.plural;
                    let why = explain(&error);
                    return Err(Failure::other(format!("{what} cannot be listed: {why}")));
                }
            };
            for mut item in page.items {
                item.types = Some(kube::core::TypeMeta {
                    api_version: resource.api_version.clone(),
                    kind: resource.kind.clone(),
                });
                all.push(to_value(&item)?);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    async fn api(&mut self, object: &Value) -> Result<Api<DynamicObject>, Failure> {
        self.api_if_served(object).await?.ok_or_else(|| {
            let (version, kind) = type_of(object);
            Failure::other(format!(
                "{} was not applied: the cluster has no kind {} in {}",
                reference(object),
                plain(kind),
                plain(version)
            ))
        })
    }

    /// The API of an object; `None` if the cluster does not serve its kind.
    pub async fn api_if_served(
        &mut self,
        object: &Value,
    ) -> Result<Option<Api<DynamicObject>>, Failure> {
        let (version, kind) = type_of(object);
        let known = (version.to_owned(), kind.to_owned());
        if !self.resources.contains_key(&known) {
            let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
            let gvk = GroupVersionKind::gvk(group, version, kind);
            match discovery::pinned_kind(&self.client, &gvk).await {
                Ok((resource, capabilities)) => {
                    self.resources.insert(known.clone(), (resource, capabilities.scope));
                }
                Err(kube::Error::Discovery(_)) => return Ok(None),
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
                Err(error) => return Err(Failure::other(explain(&error))),
            }
        }
        let Some((resource, scope)) = self.resources.get(&known) else { return Ok(None) };
        let client = self.client.clone();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(NAMESPACE);
        Ok(Some(match scope {
            Scope::Namespaced => Api::namespaced_with(client, namespace, resource),
            Scope::Cluster => Api::all_with(client, resource),
        }))
    }
}

// === impl Outcome ===

impl Outcome {
    /// The word of kubectl.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

/// A built-in resource.
pub fn builtin(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// Returns how kubectl names an object: `deployment.apps/web`.
pub fn reference(object: &Value) -> String {
    let (version, kind) = type_of(object);
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let kind = kind.to_lowercase();
    plain(&match version.rsplit_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    })
}

/// The API version and the kind.
fn type_of(object: &Value) -> (&str, &str) {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    (text("apiVersion"), text("kind"))
}

fn name(object: &Value) -> Result<&str, Failure> {
    let metadata = &object["metadata"];
    // Both become parts of a path.
    let segment = |text: &&str| !text.is_empty() && !text.contains(['/', '%', '?', '#', '\\']);
    let in_path = metadata["namespace"].as_str().is_none_or(|namespace| segment(&namespace));
    let name = metadata["name"].as_str().filter(segment).filter(|_| in_path);
    name.ok_or_else(|| {
        Failure::other(format!("{} has no valid name or namespace", reference(object)))
    })
}

fn to_value(object: &DynamicObject) -> Result<Value, Failure> {
    serde_json::to_value(object).map_err(|error| Failure::of(&error))
}

/// Returns `true` if a definition is converted by a process that its URL names.
fn has_conversion_url(definition: &Value) -> bool {
    definition["spec"]["conversion"]["webhook"]["clientConfig"]["url"].is_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_named_as_kubectl_names_them() {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "memcacheds.cache.example.com"},
        });
        let shown = "customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com";
        assert_eq!(reference(&crd), shown);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
        assert_eq!(reference(&namespace), "namespace/a");
    }

    #[test]
    fn a_name_that_is_no_path_segment_is_refused() {
        for metadata in [
            json!({}),
            json!({"name": ""}),
            json!({"name": "a/b"}),
            json!({"name": "a?b"}),
            json!({"name": "a", "namespace": "../x"}),
        ] {
            let error = name(&json!({"kind": "Pod", "metadata": metadata})).unwrap_err();
            assert!(error.to_string().contains("no valid name"), "{error}");
        }
    }
}
