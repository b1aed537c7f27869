//! Requests, verb by verb: the pipeline between routing and the store.
//!
//! [`Call`] is one request, after it was routed, authenticated and authorized. Reads answer from the
//! store; whatever changes it is a [`write::Write`], whose steps are listed in `write.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use crate::auth::User;
use crate::object;
use crate::registry::storage_of;
use crate::request::{Query, RequestInfo};
use crate::resource::Resource;
use crate::response::{AnswerShape, Body, Form};
use crate::server::Inner;
use crate::status::{Result, Status};
use crate::store::{Entry, Key, ResourceKey};
use crate::table::Include;

mod body;
mod computed;
mod create;
mod delete;
mod get;
mod kind;
mod list;
mod list_options;
mod metadata;
mod options;
mod patch;
mod stored;
mod subresource;
mod update;
mod warnings;
mod watch;
mod write;

pub(crate) use delete::DeleteOptions;
pub(crate) use kind::Rules;
pub(crate) use list_options::parse_int;
pub(crate) use options::{DryRun, FieldValidation, WriteOptions};
pub(crate) use subresource::{Subresource, success};
pub(crate) use write::{Intent, Write};

/// One request to a resource.
pub(crate) struct Call {
    pub server: Arc<Inner>,
    pub info: RequestInfo,
    pub query: Query,
    pub headers: HeaderMap,
    pub user: User,
    pub resource: Arc<Resource>,
    pub storage: ResourceKey,
    pub form: Form,
    pub body: Bytes,
    pub fault: crate::fault::Fault,
    /// Whether admission has let it pass already, under another name.
    pub admitted: bool,
    /// Whether it came over a connection, not from within the process.
    pub over_wire: bool,
    /// The place among the requests in flight, which a write keeps until it is completed.
    pub permit: Option<OwnedSemaphorePermit>,
    warnings: Mutex<warnings::Warnings>,
    /// The revision of its last write; 0 if there is none.
    written: AtomicU64,
}

/// An answer before it is encoded.
pub(crate) enum Answer {
    /// One object, with apiVersion and kind.
    Object(u16, Value),
    /// A success or other document that has no tabular form.
    Plain(u16, Value),
    /// An answer that is made already.
    Ready(Response<Body>),
}

// === impl Call ===

impl Call {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        server: Arc<Inner>,
        info: RequestInfo,
        query: Query,
        headers: HeaderMap,
        user: User,
        resource: Arc<Resource>,
        form: Form,
        body: Bytes,
    ) -> Self {
        let storage = storage_of(&resource);
        Self {
            server,
            info,
            query,
            headers,
            user,
            resource,
            storage,
            form,
            body,
            fault: Default::default(),
            admitted: false,
            over_wire: false,
            permit: None,
            warnings: Mutex::default(),
            written: AtomicU64::new(0),
        }
    }

    /// Returns the revision of the last write of this request.
    pub fn written(&self) -> Option<u64> {
        Some(self.written.load(Ordering::Relaxed)).filter(|revision| *revision > 0)
    }

    /// Handles the request.
    pub async fn run(self: &Arc<Self>) -> Result<Answer> {
        self.check_scope()?;
        let reads = matches!(self.info.verb.as_str(), "get" | "list" | "watch");
        let readable = self.info.verb != "patch" || self.patch_kind().is_ok();
        let warns = readable && (reads || !self.is_computed());
        if let Some(text) = self.rules().hooks().deprecation().filter(|_| warns) {
            self.warn(text);
        }
        if self.info.watch_path && self.info.verb != "watch" {
            return Err(Status::method_not_allowed());
        }
        // A list is refused for its form after it was read.
        if self.info.verb != "list" || self.is_computed() {
            self.check_form()?;
        }
        if let Some(version) = &self.resource.custom
            && let Some(text) = &version.deprecation
        {
            self.warn(text.clone());
        }
        if !self.info.subresource.is_empty() {
            return self.subresource().await;
        }
        // Each verb itself refuses what a custom resource does not accept while it is being
        // deleted.
        if !self.resource.is_custom() && !self.resource.has_verb(&self.info.verb) {
            return Err(self.verb_refused());
        }
        match self.info.verb.as_str() {
            "get" if self.is_computed() => self.get_computed(),
            "list" if self.is_computed() => self.list_computed(),
            "get" => self.get().await,
            "list" => self.list().await,
            "watch" => self.watch().await,
            "create" => self.create().await,
            "update" => self.update().await,
            "patch" => self.patch().await,
            "delete" => self.delete().await,
            "deletecollection" => self.delete_collection().await,
            _ => Err(self.verb_refused()),
        }
    }

    /// Metadata of a list has another name than that of an object.
    fn check_form(&self) -> Result<()> {
        let Some(list) = self.form.metadata_list else { return Ok(()) };
        let is_list = matches!(self.info.verb.as_str(), "list" | "deletecollection");
        if list == is_list || self.info.verb == "watch" {
            return Ok(());
        }
        let kind = if is_list { &self.resource.list_kind } else { &self.resource.gvk.kind };
        let shown = match (self.resource.is_custom(), is_list) {
            (true, true) => "*unstructured.UnstructuredList".to_owned(),
            (true, false) => "*unstructured.Unstructured".to_owned(),
            _ => format!("*{}.{kind}", body::package_of(&self.resource.gvk.group)),
        };
        let text = match is_list {
            true => "PartialObjectMetadata, but the requested object is a list",
            false => "PartialObjectMetadataList, but the requested object is not a list",
        };
        Err(Status::new(406, "NotAcceptable", format!("you requested {text} ({shown})")))
    }

    /// Returns the text for a verb that the resource does not have.
    pub fn verb_refused(&self) -> Status {
        if self.resource.is_custom() {
            let gr = self.resource.gr();
            let message =
                format!("{} is not supported on resources of kind \"{gr}\"", self.info.verb);
            return Status::new(405, "MethodNotAllowed", message)
                .with_details(crate::status::Details::of(&gr, ""));
        }
        Status::method_not_allowed()
    }

    /// Whether namespace and name in the path fit the resource and the verb.
    fn check_scope(&self) -> Result<()> {
        let (info, namespaced) = (&self.info, self.resource.namespaced);
        if !namespaced && !info.namespace.is_empty() && !info.names_namespace() {
            return Err(self.no_such_path());
        }
        let across = matches!(info.verb.as_str(), "list" | "watch");
        if self.resource.is_only_created() {
            // What can only be created has one path, and nothing below it.
            if !info.name.is_empty() || (namespaced && info.namespace.is_empty()) {
                return Err(Status::no_such_resource());
            }
        }
        if self.resource.is_custom() {
            if namespaced && info.namespace.is_empty() && !across {
                return Err(Status::no_such_path());
            }
            if matches!(info.verb.as_str(), "update" | "patch") && info.name.is_empty() {
                return Err(Status::bad_request("name must be provided"));
            }
        }
        if namespaced && info.namespace.is_empty() && !across {
            // Only lists and watches go over all namespaces.
            return Err(match info.name.is_empty() || !info.subresource.is_empty() {
                true if info.name.is_empty() => self.verb_refused_builtin(),
                _ => self.no_such_path(),
            });
        }
        if info.verb == "create" && !info.name.is_empty() && info.subresource.is_empty() {
            return Err(self.verb_refused_builtin());
        }
        if matches!(info.verb.as_str(), "update" | "patch") && info.name.is_empty() {
            return Err(self.verb_refused_builtin());
        }
        Ok(())
    }

    fn verb_refused_builtin(&self) -> Status {
        if self.resource.is_custom() { self.verb_refused() } else { Status::method_not_allowed() }
    }

    fn no_such_path(&self) -> Status {
        match self.resource.is_custom() {
            true => Status::no_such_path(),
            false => Status::no_such_resource(),
        }
    }

    /// Adds a `Warning` header to the answer.
    pub fn warn(&self, text: impl Into<String>) {
        self.warnings.lock().add(text.into());
    }

    /// Adds the warnings so far to the headers of the answer.
    pub fn write_warnings(&self, headers: &mut HeaderMap) {
        self.warnings.lock().write(headers);
    }

    /// Returns the rules of the resource's kind.
    pub fn rules(&self) -> Rules<'_> {
        Rules::of(&self.resource)
    }

    /// Returns the namespace that scopes the request, empty at cluster scope.
    pub fn namespace(&self) -> &str {
        if self.resource.namespaced { &self.info.namespace } else { "" }
    }

    /// Returns the key of the object the path names.
    pub fn key(&self) -> Key {
        Key::new(self.namespace(), &self.info.name)
    }

    /// Returns the stored object the path names.
    pub fn entry(&self) -> Result<Arc<Entry>> {
        let found = self.server.store.world().get(&self.storage, &self.key());
        found.ok_or_else(|| Status::not_found(&self.resource.gr(), &self.info.name))
    }

    /// Returns a stored entry as this resource's version shows it, with apiVersion and kind.
    pub async fn object_of(&self, entry: &Entry) -> Result<Value> {
        self.server.object_of(&self.resource, entry).await
    }

    /// Returns the answer in the form that was asked for.
    pub fn encode(&self, answer: Answer) -> Response<Body> {
        match answer {
            Answer::Ready(response) => response,
            Answer::Plain(code, value) => crate::response::value(code, self.form, &value),
            Answer::Object(code, value) => {
                let shape = self.form.shape;
                if shape == AnswerShape::Object && is_unstructured(&self.resource, &value) {
                    return crate::response::sorted(code, self.form, &value);
                }
                let shown = match shape {
                    AnswerShape::Object => value,
                    AnswerShape::Metadata => {
                        let mut partial = crate::table::partial_metadata(&value);
                        partial["apiVersion"] = self.form.meta_version().into();
                        partial
                    }
                    AnswerShape::Table => match self.table(&[value]) {
                        Ok(table) => table,
                        Err(status) => return crate::response::failure(&status, self.form),
                    },
                };
                crate::response::value(code, self.form, &shown)
            }
        }
    }

    /// Objects as a `Table`.
    pub fn table(&self, objects: &[Value]) -> Result<Value> {
        let include = Include::parse(self.query.get("includeObject"))?;
        let (now, version) = (self.server.clock.now(), self.form.meta_version());
        let mut table = match objects {
            [scale] if self.info.subresource == "scale" => {
                crate::table::scale_table(&self.resource, scale, include, now, version)
            }
            _ => crate::table::table(&self.resource, objects, include, now, version),
        };
        if let [object] = objects {
            let version = object::meta_str(object, "resourceVersion");
            table["metadata"] = json!({"resourceVersion": version});
        }
        Ok(table)
    }
}

/// Returns `true` if the real server has no struct for this answer: custom objects, but not their
/// scale.
fn is_unstructured(resource: &Resource, value: &Value) -> bool {
    resource.is_custom() && value["kind"] == *resource.gvk.kind
}
