//! The options of connections, which are the objects that admission sees.

use serde_json::{Map, Value};

use crate::admission::kind_of;
use crate::builtin::Connection;
use crate::handler::Call;

/// Returns the options of a connection with their type.
pub(super) fn shown(call: &Call, mut options: Map<String, Value>) -> Value {
    let kind = kind_of(&call.resource, &call.info.subresource);
    options.insert("kind".into(), (*kind.kind).into());
    options.insert("apiVersion".into(), kind.api_version().into());
    Value::Object(options)
}

/// Returns the connection of a proxy.
pub(super) fn proxied(call: &Call) -> Connection {
    let path = proxy_path(call);
    let given = (!path.is_empty()).then(|| ("path".to_owned(), path.into()));
    Connection { options: given.into_iter().collect(), missing: "nothing answers behind it" }
}

/// The path behind a proxy, with the slash at its end if the request has one.
fn proxy_path(call: &Call) -> String {
    let mut path = match call.info.rest.as_slice() {
        [] => call.query.get("path").unwrap_or_default().to_owned(),
        rest => format!("/{}", rest.join("/")),
    };
    if call.info.path.ends_with('/') && !path.ends_with('/') {
        path.push('/');
    }
    path
}
