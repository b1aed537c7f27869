//! Connections into a pod: exec, attach and port-forward.

use serde_json::{Map, Value};

use crate::builtin::Connection;
use crate::request::Query;

/// The flags of exec and attach.
const FLAGS: [&str; 4] = ["stdin", "stdout", "stderr", "tty"];

/// Returns what a connection asks for; `None` for a proxy, which other kinds have as well.
pub(super) fn of(subresource: &str, query: &Query) -> Option<Connection> {
    let (options, missing) = match subresource {
        "exec" => (exec(query), "nothing can be executed in it"),
        "attach" => (attach(query), "there is nothing to attach to"),
        "portforward" => (ports(query), "no port of it is open"),
        _ => return None,
    };
    Some(Connection { options, missing })
}

fn exec(query: &Query) -> Map<String, Value> {
    let mut options = attach(query);
    let command = query.all("command");
    if !command.is_empty() {
        options.insert("command".into(), command.into());
    }
    options
}

fn attach(query: &Query) -> Map<String, Value> {
    let flags = FLAGS.iter().filter(|flag| query.flag(flag));
    let mut options: Map<_, _> = flags.map(|flag| ((*flag).to_owned(), true.into())).collect();
    let container = query.get("container").filter(|name| !name.is_empty());
    options.extend(container.map(|name| ("container".into(), name.into())));
    options
}

fn ports(query: &Query) -> Map<String, Value> {
    let ports = query.all("ports");
    let ports: Vec<i32> = ports.iter().filter_map(|port| port.parse().ok()).collect();
    let given = (!ports.is_empty()).then(|| ("ports".to_owned(), ports.into()));
    given.into_iter().collect()
}
