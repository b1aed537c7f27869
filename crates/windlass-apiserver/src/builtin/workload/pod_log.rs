//! The log of a pod: there is no container that could have written one.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::handler::{Answer, Call, Subresource, parse_int};
use crate::status::{FieldError, Result, Status};

/// GET of `pods/NAME/log`.
pub(super) struct Log;

impl Subresource for Log {
    fn answer<'a>(&self, call: &'a Arc<Call>) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async { read(call) })
    }
}

fn read(call: &Call) -> Result<Answer> {
    let pod = call.entry()?.object();
    check_options(call)?;
    let wanted = call.query.get("container").unwrap_or_default();
    let containers = container_names(&pod);
    let main = pod["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if wanted.is_empty() && main.len() > 1 {
        return Err(Status::bad_request(format!(
            "a container name must be specified for pod {}, choose one of: [{}]",
            call.info.name,
            containers.join(" ")
        )));
    }
    if !wanted.is_empty() && !containers.iter().any(|c| c == wanted) {
        return Err(Status::bad_request(format!(
            "container {wanted} is not valid for pod {}",
            call.info.name
        )));
    }
    if pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
        return Ok(Answer::Ready(crate::response::bytes_of(
            204,
            "text/plain",
            bytes::Bytes::new(),
        )));
    }
    let container = match main {
        [only] if wanted.is_empty() => only["name"].as_str().unwrap_or_default(),
        _ => wanted,
    };
    let why = format!(
        "container {container:?} of pod {:?} is simulated: it does not run and writes no log",
        call.info.name
    );
    if call.query.flag("follow") {
        // Clients that follow a log take a failure for a passing one and ask again and again.
        let line = bytes::Bytes::from(format!("{why}\n"));
        return Ok(Answer::Ready(crate::response::bytes_of(200, "text/plain", line)));
    }
    Err(Status::bad_request(why))
}

fn check_options(call: &Call) -> Result<()> {
    let mut errors = Vec::new();
    for (field, least) in [("tailLines", 0), ("limitBytes", 1), ("sinceSeconds", 1)] {
        let Some(number) = parse_int(call.query.get(field))? else {
            continue;
        };
        if number < least {
            let why = match least {
                0 => "must be greater than or equal to 0",
                _ => "must be greater than 0",
            };
            errors.push(FieldError::invalid(field, &json!(number), why));
        }
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid("", "PodLogOptions", &call.info.name, &errors)),
    }
}

/// Returns the names of all containers of a pod, in the order in which they start.
fn container_names(pod: &Value) -> Vec<String> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = lists.iter().flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    all.filter_map(|c| c["name"].as_str().map(str::to_owned)).collect()
}
