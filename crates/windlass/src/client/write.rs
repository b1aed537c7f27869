//! The requests that change an object or one of its subresources.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::answer::Head;
use super::observer::OnAnswer;
use super::{Api, ApiRequest, Patch};
use crate::apply::merge_diff;
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
        let request = match &self.sub {
            Some(_) => self.request(Method::POST, "create", &Key::of(object))?,
            None => {
                let namespace = object.meta().namespace.as_deref();
                let action = self.action("create", namespace, &name_of(object));
                self.check_namespace(&action, namespace)?;
                let url = self.collection(&action, namespace)?;
                ApiRequest::new(Method::POST, url, action)
            }
        };
        self.check_whole(&request.action)?;
        let request = request.body(self.encode(object)?);
        let bytes = self.write(request, &Key::of(object), None).await?;
        let head: Head = serde_json::from_slice(&bytes).unwrap_or_default();
        // What is created below an object, such as an eviction, need not be a state of anything.
        if self.sub.is_some() && head.kind == "Status" {
            return Ok(object.clone());
        }
        self.decode(&bytes, &name_of(object))
    }

    /// Replaces an object and returns its stored state.
    ///
    /// Fails with a [conflict](Error::is_conflict) if the object has a resource version other than
    /// the stored one. Without a resource version it replaces any state.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Client, Key};
    ///
    /// # fn config_map(name: &str) -> ConfigMap {
    /// #     let mut map = ConfigMap::default();
    /// #     map.metadata.name = Some(name.into());
    /// #     map.metadata.namespace = Some("default".into());
    /// #     map
    /// # }
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// # client.api().create(&config_map("a")).await?;
    /// let (maps, key) = (client.api::<ConfigMap>(), Key::namespaced("default", "a"));
    /// loop {
    ///     let Some(found) = maps.get(&key).await? else { break };
    ///     let mut map = (*found).clone();
    ///     map.data.get_or_insert_default().insert("color".into(), "blue".into());
    ///     match maps.update(&map).await {
    ///         // Somebody else changed it: read it again.
    ///         Err(error) if error.is_conflict() => continue,
    ///         answer => drop(answer?),
    ///     }
    ///     break;
    /// }
    /// # let map = maps.get(&key).await?.expect("is there");
    /// # assert_eq!(map.data.as_ref().expect("has data")["color"], "blue");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn update(&self, object: &K) -> Result<K> {
        let key = Key::of(object);
        let request = self.request(Method::PUT, "update", &key)?;
        self.check_whole(&request.action)?;
        let request = request.body(self.encode(object)?);
        let answered = self.observe(&request, &key).await;
        let bytes = self.write(request, &key, answered).await?;
        self.decode(&bytes, key.name())
    }

    /// Patches an object and returns its stored state.
    pub async fn patch(&self, key: &Key, patch: &Patch) -> Result<K> {
        let request = self.patch_request(key, patch)?;
        let answered = self.observe(&request, key).await;
        let bytes = self.write(request, key, answered).await?;
        self.decode(&bytes, key.name())
    }

    /// Changes an object as it was read, by a merge patch with the fields that `change` changes and
    /// nothing else. Returns the stored state; `None` if nothing is to be changed, and no request is
    /// sent.
    ///
    /// The patch names the UID and the version of the object, so an object that somebody else
    /// changed meanwhile is a [conflict](Error::is_conflict), which a reconcile may simply return.
    /// A list is replaced as a whole, and its items lose fields that `K` does not have.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Client, Key};
    ///
    /// # fn config_map(name: &str) -> ConfigMap {
    /// #     let mut map = ConfigMap::default();
    /// #     map.metadata.name = Some(name.into());
    /// #     map.metadata.namespace = Some("default".into());
    /// #     map
    /// # }
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// # let old = client.api().create(&config_map("a")).await?;
    /// let maps = client.api::<ConfigMap>();
    /// let paint = |map: &mut ConfigMap| {
    ///     map.data.get_or_insert_default().insert("color".into(), "blue".into());
    /// };
    /// let blue = maps.change(&old, paint).await?.expect("it had no color");
    /// assert!(maps.change(&blue, paint).await?.is_none(), "nothing to do");
    ///
    /// let size = |map: &mut ConfigMap| map.immutable = Some(true);
    /// assert!(maps.change(&old, size).await.unwrap_err().is_conflict(), "it is not the newest");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the server refuses, or if somebody else changed the object.
    pub async fn change(&self, object: &K, change: impl FnOnce(&mut K)) -> Result<Option<K>> {
        let mut wanted = object.clone();
        change(&mut wanted);
        let (before, after) = (serde_json::to_value(object)?, serde_json::to_value(&wanted)?);
        let Some(mut patch) = merge_diff(&before, &after) else { return Ok(None) };
        for name in ["uid", "resourceVersion"] {
            patch["metadata"][name] = before["metadata"][name].clone();
        }
        self.patch(&Key::of(object), &Patch::Merge(patch)).await.map(Some)
    }

    fn patch_request(&self, key: &Key, patch: &Patch) -> Result<ApiRequest> {
        let verb = if matches!(patch, Patch::Apply { .. }) { "apply" } else { "patch" };
        let mut request = self.request(Method::PATCH, verb, key)?;
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

    /// Applies an object with server-side apply: its fields are set, and belong to the field owner
    /// of the client from then on.
    ///
    /// Fields of other owners are taken over, unless the client is
    /// [unforced](super::Client::unforced).
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::Client;
    ///
    /// # fn config_map(name: &str) -> ConfigMap {
    /// #     let mut map = ConfigMap::default();
    /// #     map.metadata.name = Some(name.into());
    /// #     map.metadata.namespace = Some("default".into());
    /// #     map
    /// # }
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// let mut map = config_map("a");
    /// map.data = Some([("color".into(), "blue".into()), ("size".into(), "3".into())].into());
    /// let painter = client.field_owner("painter").api::<ConfigMap>();
    /// painter.apply(&map).await?; // creates it
    ///
    /// // Fields that an owner no longer applies are removed; fields of other owners stay.
    /// let mut other = config_map("a");
    /// other.data = Some([("shape".into(), "round".into())].into());
    /// client.field_owner("shaper").api().apply(&other).await?;
    /// map.data.as_mut().expect("was set").remove("size");
    /// let stored = painter.apply(&map).await?.data.expect("has data");
    /// assert_eq!(stored.keys().collect::<Vec<_>>(), ["color", "shape"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn apply(&self, object: &K) -> Result<K> {
        let key = Key::of(object);
        let (object, force) = (self.apply_body(object)?, self.client.options.force);
        self.patch(&key, &Patch::Apply { object, force }).await
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
    fn write_query(&self, request: ApiRequest) -> ApiRequest {
        let options = &self.client.options;
        let mut request = request.query("fieldManager", &options.field_owner);
        if options.dry_run {
            request = request.query("dryRun", "All");
        }
        if options.strict {
            request = request.query("fieldValidation", "Strict");
        }
        request
    }

    /// Sends a write and passes its result to the caches.
    async fn write(
        &self,
        request: ApiRequest,
        key: &Key,
        answered: Option<OnAnswer>,
    ) -> Result<Bytes> {
        let bytes = self.send(self.write_query(request)).await?;
        if !self.client.options.dry_run {
            match self.sub.as_deref() {
                None | Some("status") => self.wrote(&bytes).await,
                // The answer is not the object, or not its last state.
                Some(_) => self.refresh_after_subresource(key).await,
            }
            self.refresh_discovery();
        }
        if let Some(answered) = answered {
            answered(&bytes);
        }
        Ok(bytes)
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
