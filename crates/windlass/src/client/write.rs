//! The verbs that change an object.

use http::Method;
use serde_json::{Value, json};

use super::observer::OnAnswer;
use super::{Api, ApiRequest, Patch};
use crate::cache::Key;
use crate::error::{Error, Result};
use crate::kind::Object;

impl<K: Object> Api<K> {
    /// Creates an object and returns its stored state.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::Client;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// let mut map = ConfigMap::default();
    /// map.metadata.generate_name = Some("run-".into()); // the server completes the name
    /// map.metadata.namespace = Some("default".into());
    /// let made = client.api().create(&map).await?;
    /// assert!(made.metadata.name.expect("has one now").starts_with("run-"));
    ///
    /// map.metadata.namespace = None;
    /// let nowhere = client.api().create(&map).await.unwrap_err();
    /// assert!(nowhere.to_string().contains("is namespaced, and the object has no namespace"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(&self, object: &K) -> Result<K> {
        let namespace = object.meta().namespace.as_deref();
        let action = self.action("create", namespace, &name_of(object));
        self.check_namespace(&action, namespace)?;
        self.check_whole(&action)?;
        let url = self.collection(&action, namespace)?;
        let request = ApiRequest::new(Method::POST, url, action).body(self.encode(object)?);
        self.write(self.write_query(request), &name_of(object), None).await
    }

    /// Replaces an object and returns its stored state.
    ///
    /// Fails with a [conflict](Error::is_conflict) if the object has a resource version other than
    /// the stored one. Without a resource version it replaces any state.
    pub async fn update(&self, object: &K) -> Result<K> {
        self.replace(object, None).await
    }

    /// Replaces the status of an object.
    pub async fn update_status(&self, object: &K) -> Result<K> {
        self.replace(object, Some("status")).await
    }

    async fn replace(&self, object: &K, sub: Option<&str>) -> Result<K> {
        let key = Key::of(object);
        let request = self.request(Method::PUT, "update", &key, sub)?;
        self.check_whole(&request.action)?;
        let request = request.body(self.encode(object)?);
        let answered = self.observe(&request, &key, sub).await;
        self.write(self.write_query(request), key.name(), answered).await
    }

    /// Patches an object.
    pub async fn patch(&self, key: &Key, patch: &Patch) -> Result<K> {
        self.patch_sub(key, None, patch).await
    }

    /// Patches the status of an object.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Node;
    /// use serde_json::json;
    /// use windlass::client::Patch;
    /// use windlass::{Client, Key};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// let mut node = Node::default();
    /// node.metadata.name = Some("node-1".into());
    /// let nodes = client.api::<Node>();
    /// let mut node = nodes.create(&node).await?;
    /// let key = Key::of(&node);
    ///
    /// // Changes a part of the status; the spec is ignored.
    /// let patch = json!({"spec": {"unschedulable": true}, "status": {"phase": "Pending"}});
    /// let patched = nodes.patch_status(&key, &Patch::Merge(patch)).await?;
    /// assert_eq!(patched.status.expect("is there").phase.as_deref(), Some("Pending"));
    /// assert_eq!(patched.spec.and_then(|spec| spec.unschedulable), None);
    ///
    /// // Replaces all of it, which needs the resource version that was read last.
    /// node.status.get_or_insert_default().phase = Some("Running".into());
    /// assert!(nodes.update_status(&node).await.unwrap_err().is_conflict());
    /// node.metadata.resource_version = patched.metadata.resource_version;
    /// nodes.update_status(&node).await?;
    ///
    /// // Applies the fields that this client owns.
    /// let mut mine = Node::default();
    /// mine.metadata.name = Some("node-1".into());
    /// mine.status.get_or_insert_default().phase = Some("Terminated".into());
    /// let applied = nodes.apply_status(&mine).await?;
    /// assert_eq!(applied.status.expect("is there").phase.as_deref(), Some("Terminated"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn patch_status(&self, key: &Key, patch: &Patch) -> Result<K> {
        self.patch_sub(key, Some("status"), patch).await
    }

    async fn patch_sub(&self, key: &Key, sub: Option<&str>, patch: &Patch) -> Result<K> {
        let request = self.patch_request(key, sub, patch)?;
        let answered = self.observe(&request, key, sub).await;
        self.write(self.write_query(request), key.name(), answered).await
    }

    pub(super) fn patch_request(
        &self,
        key: &Key,
        sub: Option<&str>,
        patch: &Patch,
    ) -> Result<ApiRequest> {
        let verb = if matches!(patch, Patch::Apply { .. }) { "apply" } else { "patch" };
        let mut request = self.request(Method::PATCH, verb, key, sub)?;
        let (content_type, body) = match patch {
            Patch::Merge(body) => ("application/merge-patch+json", body),
            Patch::Json(body) => ("application/json-patch+json", body),
            Patch::Strategic(body) => ("application/strategic-merge-patch+json", body),
            Patch::Apply { object, force } => {
                if *force {
                    request = request.query("force", "true");
                }
                ("application/apply-patch+yaml", object)
            }
        };
        request.content_type = content_type;
        Ok(request.body(body.to_string().into_bytes()))
    }

    /// Applies an object with server-side apply, and takes over fields of other owners.
    pub async fn apply(&self, object: &K) -> Result<K> {
        let key = Key::of(object);
        let object = self.apply_body(object)?;
        self.patch(&key, &Patch::Apply { object, force: true }).await
    }

    /// Applies the status of an object with server-side apply.
    pub async fn apply_status(&self, object: &K) -> Result<K> {
        let key = Key::of(object);
        let object = self.apply_body(object)?;
        self.patch_status(&key, &Patch::Apply { object, force: true }).await
    }

    /// Returns what apply sends: the object without what only the server sets.
    pub(crate) fn apply_body(&self, object: &K) -> Result<Value> {
        let mut body = self.value(object)?;
        if let Some(meta) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            for server_side in ["managedFields", "resourceVersion", "generation", "uid"] {
                meta.remove(server_side);
            }
            meta.remove("creationTimestamp");
        }
        Ok(body)
    }

    /// Refuses to replace an object of which only the metadata is known.
    fn check_whole(&self, action: &str) -> Result<()> {
        if K::metadata_api() {
            let text = format!(
                "{action}: only the metadata is known, so patch or apply the object instead"
            );
            return Err(Error::Invalid(text));
        }
        Ok(())
    }

    /// Adds what the server has to know about every write.
    pub(super) fn write_query(&self, request: ApiRequest) -> ApiRequest {
        let options = &self.client.options;
        let mut request = request.query("fieldManager", &options.field_owner);
        if options.dry_run {
            request = request.query("dryRun", "All");
        }
        match options.field_validation {
            None => request,
            Some(validation) => request.query("fieldValidation", validation.as_str()),
        }
    }

    async fn write(
        &self,
        request: ApiRequest,
        name: &str,
        answered: Option<OnAnswer>,
    ) -> Result<K> {
        // A missing subresource does not mean that the kind is missing.
        let sub = request.url.path().ends_with("/status");
        let sent = if sub { self.client.send(request).await } else { self.send(request).await };
        let bytes = sent?;
        if !self.client.options.dry_run {
            self.wrote(&bytes).await;
            self.refresh_discovery();
        }
        if let Some(answered) = answered {
            answered(&bytes);
        }
        self.decode(&bytes, name)
    }

    /// Forgets the discovered kinds if a CustomResourceDefinition was written.
    pub(super) fn refresh_discovery(&self) {
        if self.kind.kind() == "CustomResourceDefinition" {
            self.client.shared.discovery.refresh();
        }
    }

    fn value(&self, object: &K) -> Result<Value> {
        let mut value = serde_json::to_value(object).map_err(|source| Error::Decode {
            what: format!("{} {}", self.kind, name_of(object)),
            source,
        })?;
        if let Some(map) = value.as_object_mut() {
            // Dynamic objects may lack their type, and metadata has another one.
            if K::metadata_api() {
                map.remove("apiVersion");
                map.remove("kind");
            }
            map.entry("apiVersion").or_insert_with(|| json!(self.kind.api_version()));
            map.entry("kind").or_insert_with(|| json!(self.kind.kind()));
        }
        Ok(value)
    }

    fn encode(&self, object: &K) -> Result<Vec<u8>> {
        self.value(object).map(|value| value.to_string().into_bytes())
    }
}

fn name_of<K: kube::Resource>(object: &K) -> String {
    let meta = object.meta();
    meta.name.clone().or_else(|| meta.generate_name.clone()).unwrap_or_default()
}
