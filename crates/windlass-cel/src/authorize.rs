//! The `authorizer` variable: checks against the authorizer of the server.

use std::fmt;
use std::sync::Arc;

use super::functions;
use super::library::no_overload;
use super::types::Type;
use super::value::{Res, Val, fault};

/// Decides what a user may do.
pub trait Authorizer: Send + Sync + fmt::Debug {
    /// Decides about a request of the user, or of a service account if one is given.
    fn decide(&self, request: &Request) -> Decision;
}

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The namespace and name of the service account that asks instead of the user.
    pub service_account: Option<(String, String)>,
    /// A path that is no resource.
    pub path: Option<String>,
    /// The verb.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The resource.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The field selector.
    pub field_selector: String,
    /// The label selector.
    pub label_selector: String,
}

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong while deciding.
    pub error: Option<String>,
}

/// A check that is being put together, or its outcome.
#[derive(Clone, Debug)]
pub struct Check<'a> {
    authorizer: &'a dyn Authorizer,
    request: Request,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Start,
    Path,
    Group,
    Resource,
    Decided(Decision),
}

// === impl Request ===

impl Request {
    /// How many bytes its texts have.
    fn size(&self) -> usize {
        let texts = [
            &self.verb,
            &self.group,
            &self.resource,
            &self.subresource,
            &self.namespace,
            &self.name,
            &self.field_selector,
            &self.label_selector,
        ];
        let path = self.path.as_ref().map_or(0, String::len);
        path + texts.into_iter().map(String::len).sum::<usize>()
    }
}

// === impl Check ===

impl<'a> Check<'a> {
    /// Returns the value of the variable `authorizer`.
    pub fn start(authorizer: &'a dyn Authorizer) -> Self {
        Self { authorizer, request: Request::default(), stage: Stage::Start }
    }

    /// Returns the type in expressions.
    pub fn ty(&self) -> Type {
        match self.stage {
            Stage::Start => functions::AUTHORIZER,
            Stage::Path => functions::PATH_CHECK,
            Stage::Group => functions::GROUP_CHECK,
            Stage::Resource => functions::RESOURCE_CHECK,
            Stage::Decided(_) => functions::DECISION,
        }
    }

    fn with(&self, stage: Stage, change: impl FnOnce(&mut Request)) -> Res<'a> {
        super::meter::made_text(self.request.size());
        let mut next = self.clone();
        next.stage = stage;
        change(&mut next.request);
        Ok(Val::Check(Arc::new(next)))
    }
}

/// Calls one of the functions of this library.
pub fn call<'a>(name: &str, args: &[Val<'a>]) -> Res<'a> {
    match args {
        [Val::Check(check), Val::Str(text)] => step(name, check, text, args),
        [Val::Check(check), Val::Str(namespace), Val::Str(account)]
            if name == "serviceAccount" && matches!(check.stage, Stage::Start) =>
        {
            let label = |text: &str| crate::library::format::dns_label(text).is_empty();
            let subdomain = |text: &str| crate::library::format::subdomain(text).is_empty();
            if !subdomain(account) {
                return fault("Invalid service account name");
            }
            if !label(namespace) {
                return fault("Invalid service account namespace");
            }
            let pair = (namespace.to_string(), account.to_string());
            check.with(Stage::Start, |request| request.service_account = Some(pair))
        }
        [Val::Check(check)] => {
            let Stage::Decided(decision) = &check.stage else { return no_overload(name, args) };
            Ok(match name {
                "allowed" => Val::Bool(decision.allowed),
                "reason" => Val::text(decision.reason.as_str()),
                "errored" => Val::Bool(decision.error.is_some()),
                "error" => Val::text(decision.error.as_deref().unwrap_or_default()),
                _ => return no_overload(name, args),
            })
        }
        _ => no_overload(name, args),
    }
}

fn step<'a>(name: &str, check: &Check<'a>, text: &str, args: &[Val<'a>]) -> Res<'a> {
    super::meter::made_text(text.len());
    let text = text.to_owned();
    match (name, &check.stage) {
        ("path", Stage::Start) if text.is_empty() => fault("path must not be empty"),
        ("path", Stage::Start) => check.with(Stage::Path, |request| request.path = Some(text)),
        ("group", Stage::Start) => check.with(Stage::Group, |request| request.group = text),
        ("resource", Stage::Group) if text.is_empty() => fault("resource must not be empty"),
        ("resource", Stage::Group) => {
            check.with(Stage::Resource, |request| request.resource = text)
        }
        ("subresource", Stage::Resource) => {
            check.with(Stage::Resource, |request| request.subresource = text)
        }
        ("namespace", Stage::Resource) => {
            check.with(Stage::Resource, |request| request.namespace = text)
        }
        ("name", Stage::Resource) => check.with(Stage::Resource, |request| request.name = text),
        ("fieldSelector", Stage::Resource) => {
            check.with(Stage::Resource, |request| request.field_selector = text)
        }
        ("labelSelector", Stage::Resource) => {
            check.with(Stage::Resource, |request| request.label_selector = text)
        }
        ("check", Stage::Path | Stage::Resource) => {
            let mut request = check.request.clone();
            request.verb = text;
            let decision = check.authorizer.decide(&request);
            check.with(Stage::Decided(decision), |_| {})
        }
        _ => no_overload(name, args),
    }
}
