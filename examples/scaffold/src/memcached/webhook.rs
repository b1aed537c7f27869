//! The webhooks of Memcached (cache.example.com/v1alpha1).

use super::Memcached;
use windlass::Result;
use windlass::webhook::{Findings, Request, Webhook};

/// The webhooks: what the API server calls before it stores an object.
pub fn webhook() -> Webhook<Memcached> {
    Webhook::new().default(complete).validate(check)
}

/// Fills in what an object leaves open. It may be called more than once for a request.
///
/// # Errors
///
/// An error denies the request.
pub async fn complete(request: Request<Memcached>) -> Result<Memcached> {
    let mut object = request.object;
    // An example: replace it with what the kind needs. A constant needs no webhook: declare it with
    // `#[k8s(default = ..)]` at the field.
    let labels = object.metadata.labels.get_or_insert_default();
    labels
        .entry("app.kubernetes.io/managed-by".into())
        .or_insert("scaffold".into());
    Ok(object)
}

/// Finds what is wrong with an object that is created or updated.
///
/// # Errors
///
/// An error denies the request, as findings do.
pub async fn check(request: Request<Memcached>) -> Result<Findings> {
    let mut found = Findings::new();
    // An example: replace it with what the kind needs. What a schema can express needs no webhook:
    // declare it with `#[k8s(..)]` at the field.
    if request.name.len() > 63 {
        found.too_long("metadata.name", 63);
    }
    Ok(found)
}
