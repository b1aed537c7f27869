//! The controller deployment of Deployment (apps/v1).

use k8s_openapi::api::apps::v1::Deployment;
use windlass::{Context, Controller, Next, Result};

/// The controller: what leads to a reconcile, and what a reconcile may do.
pub fn controller() -> Controller<Deployment> {
    Controller::builder("deployment").build(reconcile)
}

/// Brings the cluster to what one Deployment asks for.
///
/// # Errors
///
/// Fails if the API server refuses a request; then the object is reconciled again, later each time.
pub async fn reconcile(cx: Context<Deployment>) -> Result<Next> {
    let Some(object) = cx.object() else {
        return Ok(Next::Done); // it was deleted
    };
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Done);
    }

    // Create what the object asks for, such as a Deployment, with `cx.apply(&deployment).await?`,
    // and declare it in `controller` with `.owns::<Deployment>()`: then the role allows it, and its
    // changes lead to a reconcile.
    Ok(Next::Done)
}
