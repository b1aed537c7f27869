//! The kind Memcached (cache.example.com/v1alpha1) and its controller.

pub mod conversion;
pub mod v1beta1;
pub mod webhook;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::{Context, Controller, Next, Result, api, k8s};

/// Memcached is a kind of this operator: this text is its description in `kubectl explain`.
#[api(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    status = MemcachedStatus,
    column("Message", ".spec.message"),
    column("Ready", ".status.conditions[?(@.type==\"Ready\")].status"),
    column("Age", ".metadata.creationTimestamp"),
)]
pub struct MemcachedSpec {
    /// An example of a field: replace it with what the kind needs.
    #[k8s(default = "hello", max_length = 256)]
    pub message: String,
}

/// What the operator reports.
#[k8s]
#[derive(Default)]
pub struct MemcachedStatus {
    /// The generation of the object that the conditions are about.
    pub observed_generation: Option<i64>,
    /// The message that was last reconciled: replace it, too.
    #[k8s(optional)]
    pub message: String,
    /// `Ready` is true after a reconcile that succeeded.
    #[k8s(optional, list = map("type"))]
    pub conditions: Vec<Condition>,
}

/// The controller: what leads to a reconcile, and what a reconcile may do.
pub fn controller() -> Controller<Memcached> {
    Controller::builder("memcached")
        .conditions()
        .build(reconcile)
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
    let text = &object.spec.message;
    cx.status(|status| status.message.clone_from(text)).await?;

    // Create what the object asks for, such as a Deployment, with `cx.apply(&deployment).await?`,
    // and declare it in `controller` with `.owns::<Deployment>()`: then the role allows it, and its
    // changes lead to a reconcile.
    Ok(Next::Done)
}
