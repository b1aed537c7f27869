//! Finalizers: work that has to be done before an object may go.

use std::future::Future;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::DynamicObject;
use serde_json::json;

use crate::cache::Key;
use crate::client::{Api, Patch};
use crate::error::{Result, ResultExt};

/// Where an object with a finalizer stands.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::finalizer::Finalizing;
/// use windlass::{Context, Controller, Manager, Next, Result};
///
/// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
///     let cleanup = || async { Ok(()) }; // what has to be done before the object may go
///     match cx.finalize("example.com/cleanup", cleanup).await? {
///         Finalizing::Finalized => Ok(Next::Done),
///         Finalizing::Active => Ok(Next::Done), // the work of a living object
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// let controller = Controller::<ConfigMap>::builder("maps").build(reconcile);
/// let manager = Manager::builder(server.client()).namespaces(["default"]).add(controller);
/// let handle = manager.spawn()?;
/// # let mut map = ConfigMap::default();
/// # map.metadata.name = Some("a".into());
/// # map.metadata.namespace = Some("default".into());
/// handle.client().create(&map).await?;
/// let key = windlass::Key::of(&map);
/// let (client, second) = (handle.client(), std::time::Duration::from_secs(1));
/// windlass::wait::until("the finalizer", second / 100, 10 * second, || async {
///     let map = client.live().get::<ConfigMap>(&key).await?;
///     Ok(map.is_some_and(|map| windlass::finalizer::has(&*map, "example.com/cleanup")))
/// })
/// .await?;
/// client.delete::<ConfigMap>(&key).await?;
/// windlass::wait::until("the end", second / 100, 10 * second, || async {
///     Ok(client.live().get::<ConfigMap>(&key).await?.is_none())
/// })
/// .await?;
/// # handle.stop().await
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finalizing {
    /// The object lives and the finalizer is on it.
    Active,
    /// The object is being deleted, the cleanup ran and the finalizer is off.
    Finalized,
}

/// Tells whether an object has a finalizer.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::finalizer;
/// let mut map = ConfigMap::default();
/// assert!(finalizer::add(&mut map, "example.com/cleanup"));
/// assert!(finalizer::has(&map, "example.com/cleanup"));
/// assert!(finalizer::remove(&mut map, "example.com/cleanup"));
/// ```
pub fn has<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|f| f == finalizer)
}

/// Adds a finalizer to an object in memory; tells whether it was missing.
pub fn add<K: Resource>(object: &mut K, finalizer: &str) -> bool {
    let missing = !has(object, finalizer);
    if missing {
        object.meta_mut().finalizers.get_or_insert_default().push(finalizer.into());
    }
    missing
}

/// Removes a finalizer from an object in memory; tells whether it was there.
pub fn remove<K: Resource>(object: &mut K, finalizer: &str) -> bool {
    let there = has(object, finalizer);
    if let Some(all) = object.meta_mut().finalizers.as_mut() {
        all.retain(|f| f != finalizer);
    }
    there
}

/// Drives one finalizer of one object, given its newest known metadata.
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
            api.patch(key, &exactly(meta, &all)).await?;
        }
        return Ok(Finalizing::Active);
    }
    if there {
        cleanup().await?;
        let rest: Vec<&str> =
            present.iter().map(|f| f.as_str()).filter(|f| *f != finalizer).collect();
        api.patch(key, &exactly(meta, &rest)).await.ignore_not_found()?;
    }
    Ok(Finalizing::Finalized)
}

/// Sets the whole list, only on the version it was read from: nobody's finalizer is lost.
fn exactly(meta: &ObjectMeta, finalizers: &[&str]) -> Patch {
    Patch::Merge(json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "finalizers": finalizers,
    }}))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn adding_and_removing_tell_whether_anything_changed() {
        let mut object = ConfigMap::default();
        assert!(add(&mut object, "a/b"));
        assert!(!add(&mut object, "a/b"));
        assert!(remove(&mut object, "a/b"));
        assert!(!remove(&mut object, "a/b"));
    }
}
