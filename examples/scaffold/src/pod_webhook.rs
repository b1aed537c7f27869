//! The webhooks of Pod (v1).

use k8s_openapi::api::core::v1::Pod;
use windlass::Result;
use windlass::webhook::{Findings, Request, Webhook};

/// The webhooks: what the API server calls before it stores an object.
pub fn webhook() -> Webhook<Pod> {
    Webhook::new().validate(check)
}

/// Finds what is wrong with an object that is created or updated.
///
/// # Errors
///
/// An error denies the request, as findings do.
pub async fn check(request: Request<Pod>) -> Result<Findings> {
    let mut found = Findings::new();
    // An example: replace it with what the kind needs. What a schema can express needs no webhook:
    // declare it with `#[k8s(..)]` at the field.
    if request.name.len() > 63 {
        found.too_long("metadata.name", 63);
    }
    Ok(found)
}
