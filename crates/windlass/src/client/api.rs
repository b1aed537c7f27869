//! All verbs on one kind.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::answer::{Named, Page};
use super::loops::Look;
use super::request::escape;
use super::write::Patch;
use super::{Call, Client, FieldValidation, List};
use crate::cache::Key;
use crate::error::{Error, Result, ResultExt};
use crate::kind::{Kind, Object};

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// Objects per page of a live list.
const PAGE: usize = 500;
/// Pages without an object in a row that are believed.
const EMPTY_PAGES_MAX: usize = 100;

/// Reads and writes objects of one kind.
///
/// Errors and cancel safety are those of [`Client`].
///
/// # Examples
///
/// ```
/// use kube::core::DynamicObject;
/// use serde_json::json;
/// use windlass::client::{Api, Deletion, Patch};
/// use windlass::{Client, Key, Kind};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = Client::new(server.client());
/// // A kind that is known at run time only.
/// let kind = client.kind_of("", "v1", "ConfigMap").await?;
/// let maps: Api<DynamicObject> = client.dynamic(&kind);
/// let map = DynamicObject::new("a", &Kind::api_resource(maps.kind())).within("default");
/// let made = maps.create(&map).await?;
/// let key = Key::of(&made);
/// maps.patch(&key, &Patch::Json(json!([{"op": "add", "path": "/data", "value": {"k": "v"}}]))).await?;
///
/// // Only this very object, not another of the same name.
/// maps.delete(&key, &Deletion::only(&made)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Api<K: Object> {
    pub(super) client: Client,
    pub(super) kind: Kind,
    dt: K::DynamicType,
    object: PhantomData<fn() -> K>,
}

// === impl Api ===

impl<K: Object> Api<K> {
    pub(super) fn new(client: Client, kind: Kind, dt: K::DynamicType) -> Self {
        Self { client, kind, dt, object: PhantomData }
    }

    /// The kind.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The type information of kube.
    pub fn dynamic_type(&self) -> &K::DynamicType {
        &self.dt
    }

    /// Reads one object; asks the server.
    ///
    /// An object that is not there is `None`; a kind that the server does not serve is an error.
    ///
    /// ```
    /// use kube::core::DynamicObject;
    /// use windlass::client::Api;
    /// use windlass::{Client, Key, Kind};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// # let client = Client::new(server.client());
    /// let drives: Api<DynamicObject> =
    ///     client.dynamic(&Kind::new("ships.example.com", "v1", "Drive", "drives"));
    /// let error = drives.get(&Key::namespaced("fleet", "warp")).await.unwrap_err();
    /// assert!(error.is_no_kind());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, key: &Key) -> Result<Option<Arc<K>>> {
        let mut call = self.call(Method::GET, "get", key, None)?;
        if K::metadata_api() {
            call.accept = METADATA;
        }
        let Some(bytes) = self.found(self.send(call).await)? else { return Ok(None) };
        self.decode(&bytes, &key.to_string()).map(|object| Some(Arc::new(object)))
    }

    /// Lists the objects that match; asks the server.
    pub async fn list(&self, list: &List) -> Result<Vec<Arc<K>>> {
        let what = || format!("list of {}", self.kind);
        let mut found = Vec::new();
        let mut next: Option<String> = None;
        let (mut paged, mut empty) = (true, 0);
        loop {
            let call = self.page(list, found.len(), next.as_deref(), paged);
            let bytes = match self.send(call).await {
                // The rest of the pages expired meanwhile: once more, in one piece.
                Err(error) if next.is_some() && error.status().is_some_and(|s| s.code == 410) => {
                    found.clear();
                    (next, paged) = (None, false);
                    continue;
                }
                answer => answer?,
            };
            let page: Page<'_> = serde_json::from_slice(&bytes)
                .map_err(|source| Error::Decode { what: what(), source })?;
            empty = if page.items.is_empty() { empty + 1 } else { 0 };
            found.extend(page.items.into_iter().filter_map(|item| self.item(item.get())));
            if let Some(limit) = list.limit.filter(|limit| found.len() >= *limit) {
                found.truncate(limit);
                return Ok(found);
            }
            let before = next.take();
            next = page.metadata.next.filter(|token| !token.is_empty());
            if next.is_none() {
                return Ok(found);
            }
            if next == before || empty == EMPTY_PAGES_MAX {
                let source = serde::de::Error::custom("the pages do not come to an end");
                return Err(Error::Decode { what: what(), source });
            }
        }
    }

    fn page(&self, list: &List, have: usize, next: Option<&str>, paged: bool) -> Call {
        let limit = list.limit.map_or(PAGE, |limit| limit.saturating_sub(have).min(PAGE));
        let mut call = self.select("list", Method::GET, list);
        if paged {
            call = call.query("limit", limit.to_string());
        }
        if let Some(token) = next {
            call = call.query("continue", token);
        }
        if K::metadata_api() {
            call.accept = METADATA_LIST;
        }
        call
    }

    /// Reads one object of a list; one that does not fit is named, counted and left out.
    fn item(&self, json: &str) -> Option<Arc<K>> {
        match serde_json::from_str(json) {
            Ok(object) => Some(Arc::new(object)),
            Err(error) => {
                self.client.metrics().undecodable(&self.kind);
                let (object, error) = (Named::of(json), crate::cache::discreet(&error));
                tracing::warn!(kind = %self.kind, %object, error, "object does not decode, skipped");
                None
            }
        }
    }

    /// Sends a request about the kind or one of its objects; a kind that is not there is told
    /// apart from an object that is not.
    pub(super) async fn send(&self, call: Call) -> Result<Bytes> {
        let answer = self.client.call(call).await;
        if answer.as_ref().is_err_and(names_nothing) {
            self.client.shared.discovery.forget(self.kind.group(), self.kind.version());
            return Err(Error::NoKind { kind: self.kind.to_string() });
        }
        answer
    }

    /// Turns "no such object" into `None`; "no such kind" stays an error.
    pub(super) fn found(&self, answer: Result<Bytes>) -> Result<Option<Bytes>> {
        match answer {
            Err(error) if error.is_no_kind() => Err(error),
            answer => answer.ignore_not_found(),
        }
    }

    pub(super) fn select(&self, verb: &str, method: Method, list: &List) -> Call {
        let path = self.kind.path(list.namespace.as_deref());
        let mut call = Call::new(method, path, format!("{verb} {}", self.kind.plural()));
        if !list.labels.selects_all() {
            call = call.query("labelSelector", list.labels.to_string());
        }
        if let Some(fields) = &list.fields {
            call = call.query("fieldSelector", fields.clone());
        }
        call
    }

    /// Creates an object and returns it as stored.
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
    /// assert!(nowhere.to_string().contains("lives in namespaces, and none is named"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(&self, object: &K) -> Result<K> {
        let namespace = object.meta().namespace.as_deref();
        let action = self.action("create", namespace, &name_of(object));
        self.check_namespace(&action, namespace)?;
        self.check_whole(&action)?;
        let mut call = Call::new(Method::POST, self.kind.path(namespace), action);
        call.body = self.encode(object)?;
        self.write(self.write_query(call), &name_of(object), None).await
    }

    /// Replaces an object.
    ///
    /// Fails with a [conflict](Error::is_conflict) if the object says a resource version that is not
    /// the stored one; one that says none replaces whatever is there.
    pub async fn update(&self, object: &K) -> Result<K> {
        self.replace(object, None).await
    }

    /// Replaces the status of an object.
    pub async fn update_status(&self, object: &K) -> Result<K> {
        self.replace(object, Some("status")).await
    }

    async fn replace(&self, object: &K, sub: Option<&str>) -> Result<K> {
        let key = Key::of(object);
        let call = self.call(Method::PUT, "update", &key, sub)?;
        self.check_whole(&call.action)?;
        let call = call.body(self.encode(object)?);
        let look = self.look(&call, &key, sub);
        self.write(self.write_query(call), key.name(), look).await
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
    /// // A part of the status; the spec is out of reach.
    /// let patch = json!({"spec": {"unschedulable": true}, "status": {"phase": "Pending"}});
    /// let patched = nodes.patch_status(&key, &Patch::Merge(patch)).await?;
    /// assert_eq!(patched.status.expect("is there").phase.as_deref(), Some("Pending"));
    /// assert_eq!(patched.spec.and_then(|spec| spec.unschedulable), None);
    ///
    /// // The whole of it, which needs the version that was read last.
    /// node.status.get_or_insert_default().phase = Some("Running".into());
    /// assert!(nodes.update_status(&node).await.unwrap_err().is_conflict());
    /// node.metadata.resource_version = patched.metadata.resource_version;
    /// nodes.update_status(&node).await?;
    ///
    /// // The fields that this client owns.
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
        let call = self.patch_call(key, sub, patch)?;
        let look = self.look(&call, key, sub);
        self.write(self.write_query(call), key.name(), look).await
    }

    pub(super) fn patch_call(&self, key: &Key, sub: Option<&str>, patch: &Patch) -> Result<Call> {
        let verb = if matches!(patch, Patch::Apply { .. }) { "apply" } else { "patch" };
        let mut call = self.call(Method::PATCH, verb, key, sub)?;
        let (content_type, body) = match patch {
            Patch::Merge(body) => ("application/merge-patch+json", body),
            Patch::Json(body) => ("application/json-patch+json", body),
            Patch::Strategic(body) => ("application/strategic-merge-patch+json", body),
            Patch::Apply { object, force } => {
                if *force {
                    call = call.query("force", "true");
                }
                ("application/apply-patch+yaml", object)
            }
        };
        call.content_type = content_type;
        Ok(call.body(body.to_string().into_bytes()))
    }

    /// Server-side apply, taking fields from other owners.
    pub async fn apply(&self, object: &K) -> Result<K> {
        let key = Key::of(object);
        let object = self.apply_body(object)?;
        self.patch(&key, &Patch::Apply { object, force: true }).await
    }

    /// Server-side apply of the status.
    pub async fn apply_status(&self, object: &K) -> Result<K> {
        let key = Key::of(object);
        let object = self.apply_body(object)?;
        self.patch_status(&key, &Patch::Apply { object, force: true }).await
    }

    /// What apply sends: the object without what only the server may say.
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

    /// A request about one object, whose key has to say which.
    pub(super) fn call(
        &self,
        method: Method,
        verb: &str,
        key: &Key,
        sub: Option<&str>,
    ) -> Result<Call> {
        let verb = sub.map_or_else(|| verb.to_string(), |sub| format!("{verb} {sub} of"));
        let action = self.action(&verb, key.namespace(), key.name());
        self.check_namespace(&action, key.namespace())?;
        if key.name().is_empty() {
            // The path would be that of all objects.
            return Err(Error::Invalid(format!("{action}: the object has no name")));
        }
        if matches!(key.name(), "." | "..") || key.name().contains(['/', '%']) {
            let text = format!("{action}: a name is not . or .. and holds neither / nor %");
            return Err(Error::Invalid(text));
        }
        let mut path = self.kind.path(key.namespace());
        path.push('/');
        escape(key.name(), &mut path);
        if let Some(sub) = sub {
            path.push('/');
            path.push_str(sub);
        }
        Ok(Call::new(method, path, action))
    }

    fn check_namespace(&self, action: &str, namespace: Option<&str>) -> Result<()> {
        let named = namespace.is_some_and(|namespace| !namespace.is_empty());
        if self.kind.namespaced() && !named {
            return Err(Error::Invalid(format!(
                "{action}: {} lives in namespaces, and none is named (if it does not, make the \
                 kind with cluster_scoped)",
                self.kind
            )));
        }
        Ok(())
    }

    /// Refuses to write a whole object of which only the metadata is known.
    fn check_whole(&self, action: &str) -> Result<()> {
        if K::metadata_api() {
            let text =
                format!("{action}: only its metadata is known, so patch or apply it instead");
            return Err(Error::Invalid(text));
        }
        Ok(())
    }

    fn action(&self, verb: &str, namespace: Option<&str>, name: &str) -> String {
        format!("{verb} {} {}", self.kind.kind(), Key::new(namespace, name))
    }

    pub(super) fn write_query(&self, call: Call) -> Call {
        let options = &self.client.options;
        let mut call = call.query("fieldManager", options.field_owner.to_string());
        if options.dry_run {
            call = call.query("dryRun", "All");
        }
        match options.field_validation {
            None => call,
            Some(FieldValidation::Ignore) => call.query("fieldValidation", "Ignore"),
            Some(FieldValidation::Warn) => call.query("fieldValidation", "Warn"),
            Some(FieldValidation::Strict) => call.query("fieldValidation", "Strict"),
        }
    }

    async fn write(&self, call: Call, name: &str, look: Option<Box<Look>>) -> Result<K> {
        // A subresource that is not there is no kind that is not there.
        let sub = call.path.rsplit('/').next() == Some("status");
        let bytes = if sub { self.client.call(call).await? } else { self.send(call).await? };
        if !self.client.options.dry_run {
            self.wrote(&bytes).await;
            self.learn();
        }
        if let Some(look) = look {
            look.answered(&bytes);
        }
        self.decode(&bytes, name)
    }

    /// A definition that was written changes what the server serves.
    pub(super) fn learn(&self) {
        if self.kind.kind() == "CustomResourceDefinition" {
            self.client.shared.discovery.refresh();
        }
    }

    fn decode(&self, bytes: &Bytes, name: &str) -> Result<K> {
        serde_json::from_slice(bytes).map_err(|source| {
            // What is wrong is told without the text that is wrong: it may be a secret.
            let source = serde::de::Error::custom(crate::cache::discreet(&source));
            Error::Decode { what: format!("{} {name}", self.kind), source }
        })
    }

    fn value(&self, object: &K) -> Result<Value> {
        let mut value = serde_json::to_value(object).map_err(|source| Error::Decode {
            what: format!("{} {}", self.kind, name_of(object)),
            source,
        })?;
        if let Some(map) = value.as_object_mut() {
            // Dynamic objects may come without their type, metadata with another.
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

/// Tells whether a failure says that the path is unknown, rather than the object.
fn names_nothing(error: &Error) -> bool {
    let Some(status) = error.status().filter(|status| status.code == 404) else { return false };
    let named = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    let object = named || status.message.contains(" not found");
    !object || status.message.trim() == "404 page not found"
}

fn name_of<K: kube::Resource>(object: &K) -> String {
    let meta = object.meta();
    meta.name.clone().or_else(|| meta.generate_name.clone()).unwrap_or_default()
}
