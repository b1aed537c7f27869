//! `/healthz`, `/livez` and `/readyz`: alone, by check, and with `?verbose`.
//!
//! The checks have the names that scripts know from Kubernetes. A server that answers at all has
//! passed them: everything they wait for is done before it starts.

use http::{HeaderValue, Response};

use crate::request::Query;
use crate::response::{Body, bytes_of};
use crate::status::{Result, Status};

/// The checks of all three paths, in the order of the verbose output.
const CHECKS: [&str; 31] = [
    "ping",
    "log",
    "etcd",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// The checks of `/readyz` that follow `etcd`.
const READY_CHECKS: [&str; 2] = ["etcd-readiness", "informer-sync"];

/// Answers a request for the health of the server or for one of its checks.
///
/// # Errors
/// 404 for a check that does not exist.
pub(super) fn answer(segments: &[&str], query: &Query) -> Result<Response<Body>> {
    let (path, check) = segments.split_first().unwrap_or((&"healthz", &[]));
    let checks = checks(path);
    let text = if !check.is_empty() {
        if !checks.contains(&check.join("/").as_str()) {
            return Err(Status::no_such_path());
        }
        "ok".to_owned()
    } else if query.get("verbose").is_some() {
        verbose(path, &checks, query.all("exclude"))
    } else {
        "ok".to_owned()
    };
    let mut response = bytes_of(200, "text/plain; charset=utf-8", text.into());
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    Ok(response)
}

fn checks(path: &str) -> Vec<&'static str> {
    let ready = path == "readyz";
    let mut checks = CHECKS.to_vec();
    if ready {
        checks.splice(3..3, READY_CHECKS);
        checks.push("shutdown");
    }
    checks
}

fn verbose(path: &str, checks: &[&str], excluded: &[String]) -> String {
    let mut out = String::new();
    for check in checks {
        let word = if excluded.iter().any(|e| e == check) { "excluded: ok" } else { "ok" };
        out.push_str(&format!("[+]{check} {word}\n"));
    }
    let mut unknown: Vec<String> = excluded
        .iter()
        .filter(|name| !checks.contains(&name.as_str()))
        .map(|name| crate::status::quote(name))
        .collect();
    if !unknown.is_empty() {
        unknown.sort();
        unknown.dedup();
        let unknown = unknown.join(",");
        out.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {unknown}\n"
        ));
    }
    format!("{out}{path} check passed\n")
}
