//! What expressions about a request can use.

use std::fmt;

use serde_json::{Value, json};
use windlass_cel as cel;
use windlass_cel::admission::Scope;

use super::Review;
use super::shown::{Shown, kind_of};
use crate::auth::{Attributes, User};
use crate::lookup::Lookup;
use crate::resource::{Gvk, Resource};
use crate::server::Inner;

/// Answers the questions of `authorizer`.
struct Asker<'a> {
    server: &'a Inner,
    user: &'a User,
}

static NOTHING: Value = Value::Null;

impl Inner {
    /// The values of the variables of expressions about a request.
    pub(super) fn scope<'a>(
        &'a self,
        review: &'a Review<'_>,
        shown: &'a Shown,
        params: Option<&'a Value>,
    ) -> Scope<'a> {
        let own = review.concerns("", "namespaces");
        let namespace = match review.namespace.as_str() {
            "" => None,
            _ if own => None,
            name => self.get("", "namespaces", "", name),
        };
        let object = |object: &'a Option<Value>| object.as_ref().unwrap_or(&NOTHING);
        Scope::new(object(&shown.object), object(&shown.old), request(review, shown))
            .namespace(namespace.unwrap_or_default())
            .params(params)
            .authorizer(Asker { server: self, user: review.user })
    }
}

/// The variable `request`.
fn request(review: &Review<'_>, shown: &Shown) -> Value {
    let kind =
        |gvk: &Gvk| json!({"group": &*gvk.group, "version": &*gvk.version, "kind": &*gvk.kind});
    let resource = |resource: &Resource| {
        let gvk = &resource.gvk;
        json!({"group": &*gvk.group, "version": &*gvk.version, "resource": &*resource.plural})
    };
    json!({
        "kind": kind(&shown.kind), "resource": resource(&shown.resource),
        "subResource": review.subresource, "requestSubResource": review.subresource,
        "requestKind": kind(&kind_of(review.resource, review.subresource)),
        "requestResource": resource(review.resource),
        "name": review.name, "namespace": review.namespace,
        "operation": review.operation.as_str(), "userInfo": review.user.to_json(),
        "dryRun": review.dry_run, "options": review.options,
    })
}

// === impl Asker ===

impl fmt::Debug for Asker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asker").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl cel::Authorizer for Asker<'_> {
    fn decide(&self, request: &cel::Request) -> cel::Decision {
        let account = request.service_account.as_ref();
        let account = account.map(|(namespace, name)| User::service_account(namespace, name));
        let user = account.as_ref().unwrap_or(self.user);
        let attributes = match &request.path {
            Some(path) => Attributes::path(user, &request.verb, path),
            None => Attributes {
                subresource: &request.subresource,
                namespace: &request.namespace,
                name: &request.name,
                ..Attributes::resource(user, &request.verb, &request.group, &request.resource)
            },
        };
        if user.is_master() {
            return cel::Decision { allowed: true, ..cel::Decision::default() };
        }
        let decided = self.server.authorizer.authorize(self.server, &attributes);
        cel::Decision { allowed: decided.allowed, reason: decided.reason, error: None }
    }
}
