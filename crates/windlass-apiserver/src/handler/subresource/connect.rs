//! The options of exec, attach, port-forward and proxies, which are the objects that admission
//! sees.

use serde_json::{Map, Value};

use crate::admission::kind_of;
use crate::handler::Call;

/// The flags of exec and attach.
const FLAGS: [&str; 4] = ["stdin", "stdout", "stderr", "tty"];

/// Returns the options of a CONNECT request as an object, read from the query.
pub(super) fn options(call: &Call) -> Value {
    let kind = kind_of(&call.resource, &call.info.subresource);
    let mut options = Map::new();
    options.insert("kind".into(), (*kind.kind).into());
    options.insert("apiVersion".into(), kind.api_version().into());
    match call.info.subresource.as_str() {
        "exec" | "attach" => {
            for flag in FLAGS.iter().filter(|flag| call.query.flag(flag)) {
                options.insert((*flag).into(), true.into());
            }
            let container = call.query.get("container").filter(|name| !name.is_empty());
            options.extend(container.map(|name| ("container".into(), name.into())));
            let command = call.query.all("command");
            if call.info.subresource == "exec" && !command.is_empty() {
                options.insert("command".into(), command.into());
            }
        }
        "portforward" => {
            let ports = call.query.all("ports");
            let ports: Vec<i32> = ports.iter().filter_map(|port| port.parse().ok()).collect();
            if !ports.is_empty() {
                options.insert("ports".into(), ports.into());
            }
        }
        _ => {
            let path = proxy_path(call);
            if !path.is_empty() {
                options.insert("path".into(), path.into());
            }
        }
    }
    Value::Object(options)
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
