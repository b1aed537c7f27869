//! From a request to its handler: identity, rights, routes.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Response, header};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::{Identity, Inner, Routed, health};
use crate::auth::{Attributes, PeerCertificate, User};
use crate::fault::Written;
use crate::handler::Call;
use crate::request::{Query, RequestInfo};
use crate::resource::Resource;
use crate::response::{AnswerShape, Body, Encoding, Form, LIST_MEDIA, MEDIA, Served, failure};
use crate::serve::OverWire;
use crate::status::{Result, Status};
use crate::store::Key;
use crate::work;

/// Objects from this size on are checked on a thread of their own.
const HEAVY_BYTES: usize = 64 << 10;
/// Tables from this number of objects on are listed there if the objects have to be read.
const HEAVY_OBJECTS: usize = 200;

impl Inner {
    /// Answers a request that its user may send.
    pub(super) async fn dispatch<B>(
        self: &Arc<Self>,
        request: Routed,
        user: User,
        body: B,
    ) -> Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<tower::BoxError>,
    {
        let Routed { parts, query, info, fault, permit } = request;
        if parts.uri.path().starts_with("//") {
            return Err(Status::no_such_path());
        }
        if !info.is_resource {
            // The schemas of many definitions take long to make.
            let heavy = info.path.starts_with("/openapi/");
            let own_thread = heavy && parts.extensions.get::<OverWire>().is_some();
            let server = self.clone();
            let answer = async move { server.document(&parts, &query, &info) };
            return match own_thread {
                true => on_own_thread(answer).await?,
                false => answer.await,
            };
        }
        let resource = self.route(&info)?;
        let accept = accept_of(&parts.headers);
        let lists = matches!(info.verb.as_str(), "list" | "watch");
        let media = if lists { LIST_MEDIA } else { MEDIA };
        let mut form = Form::negotiate(accept, media, served(&resource, &info))?;
        let failing = Form::of_failure(accept);
        form.pretty = query.flag("pretty") || (query.get("pretty").is_none() && is_human(&parts));
        let yaml = form.encoding == Encoding::Yaml;
        if yaml && form.shape == AnswerShape::Object && info.verb == "watch" {
            form.encoding = Encoding::Json;
        }
        let over_wire = parts.extensions.get::<OverWire>().is_some();
        let body = super::read_body(body).await?;
        let mut call =
            Call::new(self.clone(), info, query, parts.headers, user, resource, form, body);
        call.fault = fault;
        call.over_wire = over_wire;
        call.permit = permit;
        let heavy = self.is_heavy(&call);
        let call = Arc::new(call);
        let failing = Form { pretty: form.pretty, ..failing };
        let answer = async move {
            let mut response = match call.run().await {
                Ok(answer) => call.encode(answer),
                Err(status) => failure(&status, failing),
            };
            call.write_warnings(response.headers_mut());
            if let Some(revision) = call.written() {
                response.extensions_mut().insert(Written(revision));
            }
            response
        };
        match heavy {
            true => on_own_thread(answer).await,
            false => Ok(answer.await),
        }
    }

    /// Returns `true` if a request is worth a thread of its own: checking, merging or converting
    /// may take so long that others would wait.
    ///
    /// Requests from within the process never are: what they do happens in a fixed order.
    fn is_heavy(&self, call: &Call) -> bool {
        if !call.over_wire || matches!(call.info.verb.as_str(), "get" | "watch") {
            return false;
        }
        let world = self.store.world();
        if call.info.verb == "list" {
            // The stored bytes of objects in their main version are sent as they are.
            let bytes = call.form.shape == AnswerShape::Object
                && call.form.encoding == Encoding::Json
                && !call.form.pretty
                && self.is_main_version(&call.resource);
            let selects = !call.query.get("fieldSelector").unwrap_or_default().is_empty();
            let many = world.table(&call.storage).items.len() >= HEAVY_OBJECTS;
            return many && (selects || !bytes);
        }
        let stored = world.get(&call.storage, &Key::new(call.namespace(), &call.info.name));
        // The rules of custom resources and policies are programs.
        call.resource.is_custom()
            || call.body.len() >= HEAVY_BYTES
            || stored.is_some_and(|entry| entry.body.len() >= HEAVY_BYTES)
            || self.has_policies()
    }

    pub(super) fn identify(&self, parts: &Parts, info: &RequestInfo) -> Result<User> {
        let user = match parts.extensions.get::<Identity>() {
            Some(Identity(user)) => user.clone(),
            None => {
                let peer = parts.extensions.get::<PeerCertificate>();
                self.authenticator.authenticate(&parts.headers, peer, self, self.clock.now())?
            }
        };
        let attributes = attributes(&user, info);
        let other =
            self.impersonator.impersonate(&parts.headers, &attributes, &self.authorizer, self)?;
        Ok(other.unwrap_or(user))
    }

    pub(super) fn allow(&self, user: &User, info: &RequestInfo) -> Result<()> {
        if !self.authorize || user.is_master() {
            return Ok(());
        }
        self.authorizer.check(self, &attributes(user, info))
    }

    /// Returns `true` if a user has a right that is not the one to the request itself.
    pub fn may(&self, attributes: &Attributes<'_>) -> bool {
        !self.authorize
            || attributes.user.is_master()
            || self.authorizer.authorize(self, attributes).allowed
    }

    /// Checks that the user may create an object that an update or apply did not find.
    pub fn check_create_allowed(&self, call: &Call, name: &str) -> Result<()> {
        let info =
            RequestInfo { verb: "create".into(), name: name.to_owned(), ..call.info.clone() };
        self.allow(&call.user, &info)
    }

    /// Checks that a write of a role or binding grants no more than the writer has.
    pub fn check_escalation(&self, call: &Call, new: &Value, old: Option<&Value>) -> Result<()> {
        if !call.rules().hooks().grants_rights() || !self.authorize {
            return Ok(());
        }
        let write = crate::auth::escalation::Write {
            user: &call.user,
            resource: &call.resource.plural,
            namespace: call.namespace(),
            name: &call.info.name,
            new,
            old,
        };
        crate::auth::escalation::check(&self.authorizer, self, &write)
    }

    /// The resource a path names.
    fn route(&self, info: &RequestInfo) -> Result<Arc<Resource>> {
        let found = self.registry.find(&info.group, &info.version, &info.resource);
        if let Some(resource) = found {
            let known = info.subresource.is_empty()
                || resource.subresources.contains_key(&info.subresource)
                || resource.is_custom();
            let proxy = matches!(info.subresource.as_str(), "proxy");
            let deep = !info.rest.is_empty() && !proxy;
            if known && !deep {
                return Ok(resource);
            }
            return Err(Status::no_such_resource());
        }
        let builtin = match info.prefix.as_str() {
            "api" => true,
            _ => self.registry.is_builtin_group(&info.group),
        };
        Err(if builtin { Status::no_such_resource() } else { Status::no_such_path() })
    }

    /// Documents: discovery, schemas, version, health.
    fn document(&self, parts: &Parts, query: &Query, info: &RequestInfo) -> Result<Response<Body>> {
        let path = info.path.trim_end_matches('/');
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        match segments.as_slice() {
            ["healthz" | "livez" | "readyz", ..] => return health::answer(&segments, query),
            ["api" | "apis", ..] => return self.discover(parts, &segments),
            ["openapi", ..] => return self.schemas(parts, query, &segments),
            _ => {}
        }
        let value = match segments.as_slice() {
            ["version"] if parts.method != Method::GET => {
                return Err(Status::method_not_allowed());
            }
            ["version"] => crate::openapi::version(),
            [".well-known", "openid-configuration"] => {
                self.authenticator.signer().openid_configuration("https://kubernetes.default.svc")
            }
            ["openid", "v1", "jwks"] => self.authenticator.signer().jwks(),
            [""] => crate::discovery::root_paths(&self.registry.all()),
            ["metrics"] => {
                let text = format!(
                    "# TYPE apiserver_storage_revision gauge\napiserver_storage_revision {}\n",
                    self.store.revision()
                );
                return Ok(crate::response::bytes_of(
                    200,
                    "text/plain; version=0.0.4",
                    text.into(),
                ));
            }
            _ => return Err(Status::no_such_path()),
        };
        Ok(crate::response::value(200, Form::default(), &value))
    }
}

/// What a request is answered with.
fn served(resource: &Resource, info: &RequestInfo) -> Served {
    let posted = resource.subresources.get(&info.subresource).is_some_and(|s| s.is_only_created());
    if resource.is_custom() {
        Served::Custom
    } else if posted || resource.is_only_created() {
        Served::Review
    } else {
        Served::BuiltIn
    }
}

fn attributes<'a>(user: &'a User, info: &'a RequestInfo) -> Attributes<'a> {
    if !info.is_resource {
        return Attributes::path(user, &info.verb, &info.path);
    }
    Attributes {
        version: &info.version,
        subresource: &info.subresource,
        namespace: &info.namespace,
        name: &info.name,
        ..Attributes::resource(user, &info.verb, &info.group, &info.resource)
    }
}

/// Ends work on another thread when nobody waits for it any more: at its next await point, or where
/// it checks [`work::is_over`].
struct Abandon {
    token: CancellationToken,
    stop: work::Stop,
}

impl Drop for Abandon {
    fn drop(&mut self) {
        self.stop.stop();
        self.token.cancel();
    }
}

/// Runs a future on a thread where it may compute for long. It ends soon when nobody waits for it
/// any more.
async fn on_own_thread<T: Send + 'static>(
    answer: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    let (runtime, token, stop) =
        (Handle::current(), CancellationToken::new(), work::Stop::default());
    let _abandon = Abandon { token: token.clone(), stop: stop.clone() };
    let work = move || {
        let until_abandoned = async move {
            tokio::select! {
                biased;
                () = token.cancelled() => None,
                response = answer => Some(response),
            }
        };
        work::stoppable(stop, || runtime.block_on(until_abandoned))
    };
    let response = tokio::task::spawn_blocking(work).await.map_err(Status::internal)?;
    response.ok_or_else(|| Status::internal("the request was abandoned"))
}

/// The text of a header; empty if it is missing.
pub(super) fn text_of(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

pub(super) fn accept_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ACCEPT).and_then(|v| v.to_str().ok())
}

/// People read what these agents fetch.
fn is_human(parts: &Parts) -> bool {
    let agent = parts.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok());
    agent
        .is_some_and(|a| a.starts_with("curl") || a.starts_with("Wget") || a.starts_with("Mozilla"))
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_on_its_own_thread_ends_when_nobody_waits_for_it() {
        let (started, start) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let work = on_own_thread(async move {
            started.send(()).unwrap();
            while !work::is_over() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
        });
        let mut work = Box::pin(work);
        assert!(futures::poll!(work.as_mut()).is_pending());
        start.await.unwrap();
        drop(work);
        end.await.unwrap();
    }
}
