//! Finalizers: work that has to be done before an object is deleted.

use std::future::Future;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::json;

use crate::cache::Key;
use crate::client::{Api, Patch};
use crate::error::{Result, ResultExt};

/// The state of an object with a finalizer, as [`Context::finalize`](crate::Context::finalize)
/// returns it.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::finalizer::Finalizing;
/// use windlass::{Context, Controller, Manager, Next, Result};
///
/// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
///     let cleanup = || async { Ok(()) }; // what has to be done before the object is deleted
///     if let Finalizing::Finalized = cx.finalize("example.com/cleanup", cleanup).await? {
///         return Ok(Next::Done);
///     }
///     Ok(Next::Done) // the work for an object that exists
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// let controller = Controller::<ConfigMap>::builder("maps").build(reconcile);
/// let manager = Manager::new(server.client()).namespaces(["default"]).add(controller);
/// let handle = manager.spawn()?;
/// # let mut map = ConfigMap::default();
/// # map.metadata.name = Some("a".into());
/// # map.metadata.namespace = Some("default".into());
/// let maps = handle.client().api::<ConfigMap>();
/// let key = windlass::Key::of(&maps.create(&map).await?);
/// let second = std::time::Duration::from_secs(1);
/// windlass::wait::until("the finalizer", second / 100, 10 * second, || async {
///     Ok(maps.get(&key).await?.is_some_and(|map| map.metadata.finalizers.is_some()))
/// })
/// .await?;
/// maps.delete(&key).await?;
/// windlass::wait::until("the deletion", second / 100, 10 * second, || async {
///     Ok(maps.get(&key).await?.is_none())
/// })
/// .await?;
/// # handle.stop().await
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finalizing {
    /// The object is not being deleted and has the finalizer.
    Active,
    /// The object is being deleted, the cleanup ran and the finalizer is removed; or the object
    /// does not exist.
    Finalized,
}

/// Adds a finalizer, or runs the cleanup and removes it, given the newest known metadata.
pub(crate) async fn run<F, Fut>(
    api: &Api<DynamicObject>,
    key: &Key,
    meta: &ObjectMeta,
    finalizer: &str,
    cleanup: F,
) -> Result<Finalizing>
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let present: Vec<&String> = meta.finalizers.iter().flatten().collect();
    let there = present.iter().any(|f| *f == finalizer);
    if meta.deletion_timestamp.is_none() {
        if !there {
            let mut all: Vec<&str> = present.iter().map(|f| f.as_str()).collect();
            all.push(finalizer);
            api.patch(key, &replace_all(meta, &all)).await?;
        }
        return Ok(Finalizing::Active);
    }
    if there {
        cleanup().await?;
        let rest: Vec<&str> =
            present.iter().map(|f| f.as_str()).filter(|f| *f != finalizer).collect();
        api.patch(key, &replace_all(meta, &rest)).await.ignore_not_found()?;
    }
    Ok(Finalizing::Finalized)
}

/// Sets the whole list, but only on the version it was read from, so that no finalizer is lost.
fn replace_all(meta: &ObjectMeta, finalizers: &[&str]) -> Patch {
    Patch::Merge(json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "finalizers": finalizers,
    }}))
}
