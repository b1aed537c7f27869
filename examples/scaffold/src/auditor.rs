//! The controller auditor of Memcached (cache.example.com/v1alpha1).

use crate::memcached::Memcached;
use windlass::{Context, Controller, Next, Result};

/// The controller: what leads to a reconcile, and what a reconcile may do.
pub fn controller() -> Controller<Memcached> {
    Controller::builder("auditor").build(reconcile)
}

/// Brings the cluster to what one Memcached asks for.
///
/// # Errors
///
/// Fails if the API server refuses a request; then the object is reconciled again, later each time.
pub async fn reconcile(cx: Context<Memcached>) -> Result<Next> {
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
