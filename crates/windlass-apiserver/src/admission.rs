//! Admission: what looks at a write beyond its own object, and may change or refuse it.
//!
//! The order is the real server's: built-in plugins that change the object, mutating policies and
//! webhooks (and a second round if they changed something), the kind's own validation, built-in
//! plugins that refuse, policies, validating webhooks, and quota last, when nothing else can refuse
//! any more.
//!
//! **Invariant:** mutating plugins are idempotent: a second round changes nothing by itself.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::auth::User;
use crate::handler::Call;
use crate::object;
use crate::resource::Resource;
use crate::server::Inner;
use crate::status::{Result, Status};

mod certificate;
mod client;
mod criteria;
mod ingress_class;
mod limit;
mod namespace;
mod node;
mod pod_security;
mod policy;
mod priority;
mod quota;
mod resources;
mod round;
mod runtime_class;
mod scope;
mod service_account;
mod shown;
mod storage;
mod toleration;
mod webhook;

pub(crate) use client::{Route, Routes, Stream};
pub use policy::ExpressionWarning;
use round::Round;
pub(crate) use shown::kind_of;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// CREATE.
    Create,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// CONNECT.
    Connect,
}

/// A write on its way, as admission sees it.
pub struct Review<'a> {
    /// What is done.
    pub operation: Operation,
    /// To which resource.
    pub resource: &'a Resource,
    /// To which subresource; empty for the main one.
    pub subresource: &'a str,
    /// The object's name; empty while it is to be generated.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The new object, with apiVersion and kind.
    pub object: Option<Value>,
    /// The stored object.
    pub old: Option<&'a Value>,
    /// Who writes.
    pub user: &'a User,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The options of the request.
    pub options: Value,
}

/// What admission keeps between requests.
#[derive(Default)]
pub(crate) struct State {
    /// Held from the check of quotas to the booking of what was used.
    quota: parking_lot::Mutex<()>,
    /// Whether pods are given service accounts.
    pub service_accounts: bool,
    mutating: webhook::Hooks,
    validating: webhook::Hooks,
    mutations: policy::Policies<policy::Mutation>,
    validations: policy::Policies<policy::Validation>,
    /// Where webhooks are.
    pub routes: Arc<Routes>,
}

// === impl State ===

impl State {
    pub fn new(service_accounts: bool) -> Self {
        Self { service_accounts, ..Self::default() }
    }

    /// Returns the same settings and routes, for a copy of the server.
    pub fn fork(&self) -> Self {
        Self { routes: Arc::new(self.routes.fork()), ..Self::new(self.service_accounts) }
    }
}

// === impl Operation ===

impl Operation {
    /// Returns the name that rules and webhooks use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

// === impl Review ===

impl Review<'_> {
    /// Returns `true` if it is a write of this resource itself, not of a part.
    fn writes(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_empty() && self.concerns(group, plural)
    }

    /// Returns `true` if it is a write of this resource or a part of it.
    fn concerns(&self, group: &str, plural: &str) -> bool {
        &*self.resource.gvk.group == group && &*self.resource.plural == plural
    }

    fn is_create(&self) -> bool {
        self.operation == Operation::Create
    }

    fn is_update(&self) -> bool {
        self.operation == Operation::Update
    }

    /// 403 about the object.
    fn forbidden(&self, why: impl fmt::Display) -> Status {
        Status::forbidden(&self.resource.gr(), self.shown_name(), why)
    }

    /// The name in refusals: names are not generated yet when mutating plugins run.
    fn shown_name(&self) -> &str {
        if !self.name.is_empty() {
            return &self.name;
        }
        let Some(object) = &self.object else { return "Unknown" };
        let names = [object::name(object), object::meta_str(object, "generateName")];
        names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
    }
}

impl Inner {
    /// Lets mutating admission change the object.
    pub(crate) async fn mutate(&self, review: &mut Review<'_>, call: &Call) -> Result<()> {
        if call.admitted {
            return Ok(());
        }
        self.mutate_builtin(review)?;
        if !self.has_mutators() {
            return Ok(());
        }
        let managed = review.object.as_ref().map(|o| o["metadata"]["managedFields"].clone());
        let (mut policies, mut hooks) = (Round::default(), Round::default());
        let changed = self.mutate_by_policies(review, call, &mut policies).await?;
        let changed = self.mutate_by_webhooks(review, call, &mut hooks).await? || changed;
        if changed {
            policies.again();
            hooks.again();
            self.mutate_builtin(review)?;
            self.mutate_by_policies(review, call, &mut policies).await?;
            self.mutate_by_webhooks(review, call, &mut hooks).await?;
        }
        keep_managed(review, managed, call);
        Ok(())
    }

    /// Returns `true` if there are policies, whose expressions are programs.
    pub(crate) fn has_policies(&self) -> bool {
        !self.admission.mutations.is_empty(self) || !self.admission.validations.is_empty(self)
    }

    /// Returns `true` if policies or webhooks may change anything at all.
    fn has_mutators(&self) -> bool {
        !self.admission.mutations.is_empty(self) || !self.admission.mutating.is_empty(self)
    }

    fn mutate_builtin(&self, review: &mut Review<'_>) -> Result<()> {
        self.namespace_lifecycle(review)?;
        if review.object.is_none() {
            return Ok(());
        }
        self.limit_defaults(review);
        if self.admission.service_accounts {
            self.give_service_account(review)?;
        }
        node::taint_new(review);
        self.give_priority(review)?;
        toleration::tolerate_for_a_while(review);
        self.default_storage_class(review);
        storage::protect(review);
        self.apply_runtime_class(review)?;
        self.default_ingress_class(review);
        Ok(())
    }

    /// Lets validating admission refuse the write.
    pub(crate) async fn validate(&self, review: &Review<'_>, call: &Call) -> Result<()> {
        if call.admitted {
            return Ok(());
        }
        self.check_limits(review)?;
        if self.admission.service_accounts {
            self.check_service_account(review)?;
        }
        self.check_pod_security(review, call)?;
        self.check_default_priority(review)?;
        self.check_claim_growth(review)?;
        self.check_overhead(review)?;
        self.check_certificates(review)?;
        self.check_policies(review, call).await?;
        self.validate_by_webhooks(review, call).await?;
        self.charge_quota(review)
    }
}

/// A text at a path of keys; empty if it is missing.
fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    path.iter().fold(value, |at, key| &at[*key]).as_str().unwrap_or_default()
}

/// Several problems as one text, each included once.
fn aggregate(problems: Vec<String>) -> Option<String> {
    let mut seen: Vec<String> = Vec::new();
    for problem in problems {
        if !seen.contains(&problem) {
            seen.push(problem);
        }
    }
    match seen.len() {
        0 => None,
        1 => seen.pop(),
        _ => Some(format!("[{}]", seen.join(", "))),
    }
}

/// Restores `managedFields` if a webhook broke it.
fn keep_managed(review: &mut Review<'_>, before: Option<Value>, call: &Call) {
    let (Some(object), Some(before)) = (&mut review.object, before) else { return };
    let now = object["metadata"].get("managedFields");
    if now.unwrap_or(&Value::Null) == &before {
        return;
    }
    let Err(why) = crate::merge::ManagedFields::decode(now) else { return };
    call.warn(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {why}"
    ));
    let metadata = object::meta_mut(object);
    match before {
        Value::Null => metadata.remove("managedFields"),
        before => metadata.insert("managedFields".into(), before),
    };
}
