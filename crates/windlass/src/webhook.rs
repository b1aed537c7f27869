//! Admission webhooks: defaulting and validation, typed, and a raw form for everything else.
//!
//! A [`Webhook`] declares what happens to the objects of one kind: [`default`](Webhook::default)
//! completes them, [`validate`](Webhook::validate) accepts or denies them. One declaration serves
//! all versions of the kind, because the API server converts objects to the version that is
//! declared. The manifests of the operator follow from it, and the certificates are managed by the
//! operator unless others provide them; see [`Certificates`].
//!
//! A [`Policy`] needs no server: its rules are expressions that the API server evaluates.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use windlass::webhook::{Findings, Request, Webhook};
//! use windlass::{Operator, Result};
//!
//! async fn complete(request: Request<ConfigMap>) -> Result<ConfigMap> {
//!     let mut map = request.object;
//!     map.data.get_or_insert_default().entry("color".into()).or_insert_with(|| "blue".into());
//!     Ok(map)
//! }
//!
//! async fn check(request: Request<ConfigMap>) -> Result<Findings> {
//!     let mut found = Findings::new();
//!     if let Some(old) = &request.old && old.data != request.object.data {
//!         found.forbidden("data", "may not be changed");
//!     }
//!     Ok(found)
//! }
//!
//! let webhook = Webhook::new().default(complete).validate(check).settings(|entry| {
//!     entry.timeout_seconds = Some(5);
//! });
//! let operator = Operator::new("map-operator").webhook(webhook);
//! let configurations = operator.model().unwrap().webhook_configurations();
//! assert_eq!(configurations[0]["webhooks"][0]["name"], "default.configmap.core");
//! assert_eq!(configurations[1]["webhooks"][0]["timeoutSeconds"], 5);
//! ```
//!
//! # Coming from controller-runtime
//!
//! | controller-runtime | windlass |
//! |---|---|
//! | `NewWebhookManagedBy(mgr).For(&T{})` | [`Webhook::<T>::new`](Webhook::new), [`Operator::webhook`](crate::Operator::webhook) |
//! | `WithDefaulter`, `CustomDefaulter` | [`Webhook::default`] |
//! | `WithValidator`, `CustomValidator` | [`Webhook::validate`], [`Webhook::on_delete`] |
//! | `admission.RequestFromContext` | [`Request`] |
//! | `admission.Warnings`, `field.ErrorList` | [`Findings`] |
//! | `admission.Handler` | [`Webhook::raw`] |
//! | `+kubebuilder:webhook:…` | [`Webhook::settings`] |
//! | ValidatingAdmissionPolicy, MutatingAdmissionPolicy, written by hand | [`Policy`] |
//! | `webhook.Server`, `CertDir` | [`Manager::webhook_server`](crate::Manager::webhook_server), [`Certificates`] |
//!
//! **Invariant:** what the type of a handler does not know about an object is never lost: the patch is
//! the difference between what the handler was given and what it returned.

mod certificates;
mod findings;
mod handlers;
mod http;
mod local;
mod patch;
#[cfg(feature = "operator")]
mod policy;
mod request;
mod review;

use std::marker::PhantomData;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhook;
use kube::core::DynamicObject;
use serde_json::Value;
use serde_json::value::RawValue;
use windlass_manifests::model;

use crate::error::Result;
use crate::kind::{Kind, Object};

pub use certificates::Certificates;
pub(crate) use certificates::{Serving, check_served};
pub use findings::Findings;
pub(crate) use handlers::Seed;
pub use handlers::Webhooks;
#[cfg(feature = "operator")]
pub(crate) use local::policies as local_policies;
#[cfg(feature = "operator")]
pub(crate) use policy::Declared;
#[cfg(feature = "operator")]
pub use policy::Policy;
pub use request::{Operation, Request};
pub(crate) use review::Answer;

/// One call of a webhook: the request of an `AdmissionReview`, and what handlers work with.
pub(crate) struct Call {
    /// The request without its objects, until [`whole`](Self::whole) reads them.
    pub(crate) request: Value,
    pub(crate) objects: Objects,
    pub(crate) seed: Seed,
}

/// The objects of a request as they were sent: typed handlers read them without a detour.
#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) object: Option<Box<RawValue>>,
    pub(crate) old: Option<Box<RawValue>>,
}

/// The author's code behind a path.
pub(crate) type Handler = Arc<dyn Fn(Call) -> BoxFuture<'static, Result<Answer>> + Send + Sync>;

/// Defaulting and validation of the objects of one kind.
///
/// # Examples
///
/// A webhook of a built-in kind is not called in the namespaces of the system and of the operator
/// itself, so that a webhook that is down can be repaired:
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use windlass::webhook::{Findings, Request, Webhook};
///
/// async fn check(request: Request<Pod>) -> windlass::Result<Findings> {
///     let mut found = Findings::new();
///     let containers = request.object.spec.iter().flat_map(|spec| &spec.containers);
///     for (at, container) in containers.enumerate() {
///         let image = container.image.as_deref().unwrap_or_default();
///         if !image.starts_with("registry.example.com/") {
///             let path = format!("spec.containers[{at}].image");
///             found.invalid(&path, image, "must come from registry.example.com");
///         }
///     }
///     Ok(found)
/// }
/// let webhook = Webhook::new().validate(check);
/// # let _ = webhook;
/// ```
#[must_use = "a webhook does nothing until an operator or a manager serves it"]
pub struct Webhook<K> {
    served: Vec<Served>,
    settings: Vec<Box<Setting>>,
    kind: PhantomData<fn() -> K>,
}

/// Changes the entry of a webhook in its configuration.
type Setting = dyn Fn(&mut MutatingWebhook) + Send;

/// An entry of a configuration and the code behind it.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) entry: model::Webhook,
    pub(crate) handler: Handler,
}

// === impl Call ===

impl Call {
    /// Moves the objects into the request.
    fn whole(mut self) -> Result<Self> {
        let Objects { object, old } = std::mem::take(&mut self.objects);
        for (field, text) in [("object", object), ("oldObject", old)] {
            if let (Some(text), Value::Object(fields)) = (text, &mut self.request) {
                fields.insert(field.into(), serde_json::from_str(text.get())?);
            }
        }
        Ok(self)
    }
}

// === impl Webhook ===

impl<K: Object<DynamicType = ()>> Webhook<K> {
    /// Starts a declaration that does nothing.
    #[expect(clippy::new_without_default, reason = "`default` sets the defaulting function")]
    pub fn new() -> Self {
        Self { served: Vec::new(), settings: Vec::new(), kind: PhantomData }
    }

    /// Completes objects before they are validated and stored.
    ///
    /// The function returns the object as it should be. It is called for creations and updates,
    /// possibly more than once for one request, and also for its own results; so it has to be
    /// idempotent. An error denies the request: the status of an API error as it is, and any other
    /// error as 403 Forbidden.
    pub fn default<F, Fut>(mut self, complete: F) -> Self
    where
        F: Fn(Request<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<K>> + Send + 'static,
    {
        let complete = Arc::new(complete);
        let handler: Handler = Arc::new(move |call| {
            let complete = complete.clone();
            async move {
                match Request::<K>::decode(call)? {
                    Some((request, sent)) if request.operation != Operation::Delete => {
                        let before = review::encode(&request.object)?;
                        let after = review::encode(&complete(request).await?)?;
                        Answer::patched(sent.get(), &before, &after)
                    }
                    _ => Ok(Answer::allowed()),
                }
            }
            .boxed()
        });
        self.served.push(Served { entry: entry::<K>(true), handler });
        self
    }

    /// Accepts or denies creations and updates.
    ///
    /// The request is denied if the function returns field errors, worded as those of the API server
    /// itself, or an error: the status of an API error as it is, and any other error as 403
    /// Forbidden. Warnings are shown to the user in either case.
    pub fn validate<F, Fut>(mut self, check: F) -> Self
    where
        F: Fn(Request<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Findings>> + Send + 'static,
    {
        let check = Arc::new(check);
        let handler: Handler = Arc::new(move |call| {
            let check = check.clone();
            async move {
                let Some((request, _)) = Request::<K>::decode(call)? else {
                    return Ok(Answer::allowed());
                };
                let name = request.name.clone();
                let findings = check(request).await?;
                Ok(findings.answer(&Kind::of::<K>(), &name))
            }
            .boxed()
        });
        self.served.push(Served { entry: entry::<K>(false), handler });
        self
    }

    /// Validates deletions too, with the same function; the request has the object that is deleted.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::webhook::{Findings, Operation, Request, Webhook};
    ///
    /// let webhook = Webhook::<ConfigMap>::new()
    ///     .validate(|request: Request<ConfigMap>| async move {
    ///         let mut found = Findings::new();
    ///         if request.operation == Operation::Delete && request.object.immutable == Some(true) {
    ///             found.forbidden("immutable", "keeps the object from being deleted");
    ///         }
    ///         Ok(found)
    ///     })
    ///     .on_delete();
    /// # let _ = webhook;
    /// ```
    pub fn on_delete(mut self) -> Self {
        let validating = self.served.iter_mut().filter(|served| !served.entry.mutating);
        for rule in validating.flat_map(|served| served.entry.entry.rules.iter_mut().flatten()) {
            rule.operations.get_or_insert_default().push("DELETE".into());
        }
        self
    }
}

impl<K> Webhook<K> {
    /// Serves the function that was declared last under another path than that of controller-runtime.
    /// Without a function before it, it does nothing.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use windlass::webhook::{Findings, Webhook, Webhooks};
    ///
    /// let webhook = Webhook::<Pod>::new()
    ///     .default(|request| async { Ok(request.object) })
    ///     .path("/pods/complete")
    ///     .validate(|_| async { Ok(Findings::new()) });
    /// let webhooks = Webhooks::new().add(webhook);
    /// assert_eq!(webhooks.paths().collect::<Vec<_>>(), ["/pods/complete", "/validate--v1-pod"]);
    /// ```
    pub fn path(mut self, path: &str) -> Self {
        if let Some(served) = self.served.last_mut() {
            served.entry.path = path.to_owned();
        }
        self
    }

    /// Changes the entries in the webhook configurations: selectors, match conditions, failure
    /// policy, side effects, timeout, reinvocation, rules.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use windlass::webhook::{Findings, Webhook};
    ///
    /// let webhook = Webhook::<Pod>::new()
    ///     .validate(|_| async { Ok(Findings::new()) })
    ///     .settings(|entry| {
    ///         entry.failure_policy = Some("Ignore".into());
    ///         let labels = [("scan".to_string(), "yes".to_string())];
    ///         entry.object_selector.get_or_insert_default().match_labels = Some(labels.into());
    ///     });
    /// # let _ = webhook;
    /// ```
    pub fn settings(mut self, change: impl Fn(&mut MutatingWebhook) + Send + 'static) -> Self {
        self.settings.push(Box::new(change));
        self
    }

    /// Returns the entries with all settings applied.
    pub(crate) fn into_served(self) -> Vec<Served> {
        let mut all = self.served;
        for served in &mut all {
            self.settings.iter().for_each(|change| change(&mut served.entry.entry));
        }
        all
    }
}

impl Webhook<DynamicObject> {
    /// Serves a webhook that no type describes, such as one for several kinds, for `pods/exec` or for
    /// `deployments/scale`.
    ///
    /// The function takes the `request` of an `AdmissionReview` and returns its `response`; the `uid`
    /// is added.
    ///
    /// ```
    /// use serde_json::{Value, json};
    /// use windlass::manifests::model;
    /// use windlass::webhook::Webhook;
    ///
    /// async fn guard(request: Value) -> windlass::Result<Value> {
    ///     let allowed = request["userInfo"]["username"] == "admin";
    ///     Ok(json!({"allowed": allowed, "status": {"code": 403, "message": "only for admins"}}))
    /// }
    ///
    /// let mut entry = model::Webhook::new(false, "exec.guard.example.com", "/validate-exec");
    /// entry.rule("", "v1", "pods/exec", &["CONNECT"]);
    /// let webhook = Webhook::raw(entry, guard);
    /// # let _ = webhook;
    /// ```
    pub fn raw<F, Fut>(entry: model::Webhook, respond: F) -> Self
    where
        F: Fn(Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value>> + Send + 'static,
    {
        let respond = Arc::new(respond);
        let handler: Handler = Arc::new(move |call| {
            let respond = respond.clone();
            async move { respond(call.whole()?.request).await.map(Answer::Raw) }.boxed()
        });
        Self { served: vec![Served { entry, handler }], settings: Vec::new(), kind: PhantomData }
    }
}

/// The entry for creations and updates of a kind, under the path that controller-runtime uses.
fn entry<K: Object<DynamicType = ()>>(mutating: bool) -> model::Webhook {
    let kind = Kind::of::<K>();
    let (verb, name) = if mutating { ("mutate", "default") } else { ("validate", "validate") };
    let lower = kind.kind().to_lowercase();
    let group = kind.group().replace('.', "-");
    let path = format!("/{verb}-{group}-{}-{lower}", kind.version());
    let domain = if kind.group().is_empty() { "core" } else { kind.group() };
    let mut entry = model::Webhook::new(mutating, &format!("{name}.{lower}.{domain}"), &path);
    entry.rule(kind.group(), kind.version(), kind.plural(), &["CREATE", "UPDATE"]);
    let scope = if kind.namespaced() { "Namespaced" } else { "Cluster" };
    entry.entry.rules.iter_mut().flatten().for_each(|rule| rule.scope = Some(scope.into()));
    entry.everywhere = !is_builtin(kind.group());
    entry
}

/// Returns `true` for the groups of Kubernetes itself.
fn is_builtin(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

impl<K> std::fmt::Debug for Webhook<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let paths = self.served.iter().map(|served| &served.entry.path);
        f.debug_struct("Webhook").field("paths", &paths.collect::<Vec<_>>()).finish()
    }
}

#[cfg(test)]
mod tests;
