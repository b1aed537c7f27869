//! All verbs on one kind.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::answer::{Head, Named, Page};
use super::write::{Deleted, Deletion, Patch};
use super::{Call, Client, FieldValidation, List};
use crate::cache::Key;
use crate::error::{Error, Result, ResultExt};
use crate::kind::{Kind, Object};

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// Objects per page of a live list.
const PAGE: usize = 500;

/// Reads and writes objects of one kind.
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
    client: Client,
    kind: Kind,
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

    /// One object, from the cache unless the client is live; `None` if there is none.
    pub async fn get(&self, key: &Key) -> Result<Option<Arc<K>>> {
        if !self.client.options.live && !self.client.shared.caches.is_empty() {
            return self.client.shared.caches.get::<K>(&self.kind, key);
        }
        let mut call = self.call(Method::GET, "get", Some(key), None);
        if K::metadata_api() {
            call.accept = METADATA;
        }
        let Some(bytes) = self.found(self.send(call).await)? else { return Ok(None) };
        self.decode(&bytes, &key.to_string()).map(|object| Some(Arc::new(object)))
    }

    /// The objects that match, from the cache unless the client is live.
    pub async fn list(&self, list: &List) -> Result<Vec<Arc<K>>> {
        if !self.client.options.live && !self.client.shared.caches.is_empty() {
            return self.client.shared.caches.list::<K>(&self.kind, list);
        }
        let mut found = Vec::new();
        let mut next: Option<String> = None;
        let mut paged = true;
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
            let what = || format!("list of {}", self.kind);
            let page: Page<'_> = serde_json::from_slice(&bytes)
                .map_err(|source| Error::Decode { what: what(), source })?;
            found.extend(page.items.into_iter().filter_map(|item| self.item(item.get())));
            if let Some(limit) = list.limit.filter(|limit| found.len() >= *limit) {
                found.truncate(limit);
                return Ok(found);
            }
            next = page.metadata.next.filter(|token| !token.is_empty());
            if next.is_none() {
                return Ok(found);
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
    async fn send(&self, call: Call) -> Result<Bytes> {
        let answer = self.client.call(call).await;
        if answer.as_ref().is_err_and(names_nothing) {
            self.client.shared.discovery.forget(self.kind.group(), self.kind.version());
            return Err(Error::NoKind { kind: self.kind.to_string() });
        }
        answer
    }

    /// Turns "no such object" into `None`; "no such kind" stays an error.
    fn found(&self, answer: Result<Bytes>) -> Result<Option<Bytes>> {
        match answer {
            Err(error) if error.is_no_kind() => Err(error),
            answer => answer.ignore_not_found(),
        }
    }

    fn select(&self, verb: &str, method: Method, list: &List) -> Call {
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
    pub async fn create(&self, object: &K) -> Result<K> {
        let meta = object.meta();
        let mut call = Call::new(
            Method::POST,
            self.kind.path(meta.namespace.as_deref()),
            self.action("create", meta.namespace.as_deref(), &name_of(object)),
        );
        call.body = self.encode(object)?;
        self.write(self.write_query(call), &name_of(object)).await
    }

    /// Replaces an object.
    pub async fn update(&self, object: &K) -> Result<K> {
        self.replace(object, None).await
    }

    /// Replaces the status of an object.
    pub async fn update_status(&self, object: &K) -> Result<K> {
        self.replace(object, Some("status")).await
    }

    async fn replace(&self, object: &K, sub: Option<&str>) -> Result<K> {
        let key = self.key_of(object)?;
        let call = self.call(Method::PUT, "update", Some(&key), sub).body(self.encode(object)?);
        self.write(self.write_query(call), key.name()).await
    }

    /// Patches an object.
    pub async fn patch(&self, key: &Key, patch: &Patch) -> Result<K> {
        self.patch_sub(key, None, patch).await
    }

    /// Patches the status of an object.
    pub async fn patch_status(&self, key: &Key, patch: &Patch) -> Result<K> {
        self.patch_sub(key, Some("status"), patch).await
    }

    async fn patch_sub(&self, key: &Key, sub: Option<&str>, patch: &Patch) -> Result<K> {
        let call = self.patch_call(key, sub, patch);
        self.write(self.write_query(call), key.name()).await
    }

    fn patch_call(&self, key: &Key, sub: Option<&str>, patch: &Patch) -> Call {
        let verb = if matches!(patch, Patch::Apply { .. }) { "apply" } else { "patch" };
        let mut call = self.call(Method::PATCH, verb, Some(key), sub);
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
        call.body(body.to_string().into_bytes())
    }

    /// Server-side apply, taking fields from other owners.
    pub async fn apply(&self, object: &K) -> Result<K> {
        let key = self.key_of(object)?;
        let object = self.apply_body(object)?;
        self.patch(&key, &Patch::Apply { object, force: true }).await
    }

    /// Server-side apply of the status.
    pub async fn apply_status(&self, object: &K) -> Result<K> {
        let key = self.key_of(object)?;
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

    /// Deletes an object; one that is gone already is no error.
    pub async fn delete(&self, key: &Key, how: &Deletion) -> Result<Deleted> {
        let call = self.call(Method::DELETE, "delete", Some(key), None).body(how.body());
        let call = if self.client.options.dry_run { call.query("dryRun", "All") } else { call };
        let Some(bytes) = self.found(self.send(call).await)? else {
            return Ok(Deleted::NotFound);
        };
        let head: Head = serde_json::from_slice(&bytes).unwrap_or_default();
        if self.client.options.dry_run {
            return Ok(if head.pending() { Deleted::Pending } else { Deleted::Gone });
        }
        if head.kind != "Status" && head.pending() {
            self.client.shared.caches.wrote(&self.kind, &bytes);
            return Ok(Deleted::Pending);
        }
        let uid = if head.kind == "Status" { head.details.uid } else { head.metadata.uid };
        self.client.shared.caches.deleted(&self.kind, key, &uid);
        self.learn();
        Ok(Deleted::Gone)
    }

    /// Deletes all objects that match.
    pub async fn delete_collection(&self, list: &List, how: &Deletion) -> Result<()> {
        let call = self.select("delete all", Method::DELETE, list).body(how.body());
        let call = if self.client.options.dry_run { call.query("dryRun", "All") } else { call };
        let bytes = self.send(call).await?;
        if self.client.options.dry_run || !self.cached() {
            return Ok(());
        }
        // The answer shows the objects as they were. Which of them are gone and which only wait
        // for their grace period or a finalizer, another look tells.
        let page: Page<'_> = serde_json::from_slice(&bytes).unwrap_or_default();
        let uid = |json: &str| {
            serde_json::from_str(json).map(|head: Head| head.metadata.uid).unwrap_or_default()
        };
        let Ok(left) = self.client.call(self.select("list", Method::GET, list)).await else {
            tracing::warn!(kind = %self.kind, "own deletion of several objects not seen yet");
            return Ok(());
        };
        let left: Page<'_> = serde_json::from_slice(&left).unwrap_or_default();
        let mut waiting = BTreeSet::new();
        for item in left.items {
            waiting.insert(uid(item.get()));
            self.client.shared.caches.wrote(&self.kind, item.get().as_bytes());
        }
        for item in page.items {
            let gone = uid(item.get());
            if !waiting.contains(&gone) {
                let key = Named::of(item.get());
                self.client.shared.caches.deleted(&self.kind, &key, &gone);
            }
        }
        Ok(())
    }

    /// Shows the cache what a write left: the object, or that it went with its last finalizer.
    fn wrote(&self, bytes: &Bytes) {
        let caches = &self.client.shared.caches;
        if !self.cached() {
            return;
        }
        let head: Head = serde_json::from_slice(bytes).unwrap_or_default();
        match head.finalized() {
            true => {
                let key = Named::of(&String::from_utf8_lossy(bytes));
                caches.deleted(&self.kind, &key, &head.metadata.uid);
            }
            false => caches.wrote(&self.kind, bytes),
        }
    }

    /// Tells whether this kind is cached, so that own writes have to be shown there.
    fn cached(&self) -> bool {
        self.client.shared.caches.holds(&self.kind)
    }

    /// Shows the cache what became of an object that a write changed without telling it.
    ///
    /// Never fails: the write is done, and what cannot be seen now the watch will bring.
    async fn look_again(&self, key: &Key, uid: &str) {
        let call = self.call(Method::GET, "get", Some(key), None);
        match self.client.call(call).await {
            Ok(bytes) => self.client.shared.caches.wrote(&self.kind, &bytes),
            Err(error) if error.is_not_found() => {
                self.client.shared.caches.deleted(&self.kind, key, uid);
            }
            Err(error) => {
                let error = error.chain();
                tracing::warn!(kind = %self.kind, object = %key, error, "own write not seen yet");
            }
        }
    }

    /// The same after a write to a subresource.
    async fn wrote_through(&self, key: &Key) {
        if !self.client.options.dry_run && self.cached() {
            let uid = self.client.shared.caches.uid(&self.kind, key).unwrap_or_default();
            self.look_again(key, &uid).await;
        }
    }

    /// The wanted and the present number of replicas.
    pub async fn scale(&self, key: &Key) -> Result<(i32, i32)> {
        let scale = self.subresource(Method::GET, key, "scale", None).await?;
        let number = |path: &str| scale.pointer(path).and_then(Value::as_i64).unwrap_or(0);
        let clamp = |n: i64| i32::try_from(n).unwrap_or(i32::MAX);
        Ok((clamp(number("/spec/replicas")), clamp(number("/status/replicas"))))
    }

    /// Sets the wanted number of replicas.
    pub async fn set_scale(&self, key: &Key, replicas: i32) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let call = self.write_query(self.patch_call(key, Some("scale"), &patch));
        self.client.call(call).await?;
        self.wrote_through(key).await;
        Ok(())
    }

    /// Asks for the eviction of a pod; disruption budgets may refuse with 429.
    pub async fn evict(&self, key: &Key, how: &Deletion) -> Result<()> {
        let options: Value = serde_json::from_slice(&how.body())?;
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": key.name(), "namespace": key.namespace()},
            "deleteOptions": options,
        });
        self.subresource(Method::POST, key, "eviction", Some(&body)).await.map(drop)
    }

    /// Any subresource with any method; the answer as it is.
    pub async fn subresource(
        &self,
        method: Method,
        key: &Key,
        name: &str,
        body: Option<&Value>,
    ) -> Result<Value> {
        let write = method != Method::GET;
        let mut call = self.call(method, name, Some(key), Some(name));
        if let Some(body) = body {
            call.body = body.to_string().into_bytes();
        }
        let call = if write { self.write_query(call) } else { call };
        let bytes = self.client.call(call).await?;
        if write {
            self.wrote_through(key).await;
        }
        serde_json::from_slice(&bytes)
            .map_err(|source| Error::Decode { what: format!("{name} of {key}"), source })
    }

    fn call(&self, method: Method, verb: &str, key: Option<&Key>, sub: Option<&str>) -> Call {
        let mut path = self.kind.path(key.and_then(Key::namespace));
        if let Some(key) = key {
            path.push('/');
            path.push_str(key.name());
        }
        if let Some(sub) = sub {
            path.push('/');
            path.push_str(sub);
        }
        let verb = sub.map_or_else(|| verb.to_string(), |sub| format!("{verb} {sub} of"));
        let key = key.map_or_else(String::new, ToString::to_string);
        Call::new(method, path, format!("{verb} {} {key}", self.kind.kind()))
    }

    fn action(&self, verb: &str, namespace: Option<&str>, name: &str) -> String {
        format!("{verb} {} {}", self.kind.kind(), Key::new(namespace, name))
    }

    fn write_query(&self, call: Call) -> Call {
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

    async fn write(&self, call: Call, name: &str) -> Result<K> {
        // A subresource that is not there is no kind that is not there.
        let sub = call.path.rsplit('/').next() == Some("status");
        let bytes = if sub { self.client.call(call).await? } else { self.send(call).await? };
        if !self.client.options.dry_run {
            self.wrote(&bytes);
            self.learn();
        }
        self.decode(&bytes, name)
    }

    /// A definition that was written changes what the server serves.
    fn learn(&self) {
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
            // Dynamic and metadata-only objects may come without their type.
            map.entry("apiVersion").or_insert_with(|| json!(self.kind.api_version()));
            map.entry("kind").or_insert_with(|| json!(self.kind.kind()));
        }
        Ok(value)
    }

    fn encode(&self, object: &K) -> Result<Vec<u8>> {
        self.value(object).map(|value| value.to_string().into_bytes())
    }

    fn key_of(&self, object: &K) -> Result<Key> {
        let key = Key::of(object);
        if key.name().is_empty() {
            return Err(Error::Invalid(format!("{} has no name", self.kind)));
        }
        Ok(key)
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
