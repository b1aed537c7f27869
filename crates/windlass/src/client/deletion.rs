//! How objects are deleted.

use kube::api::PropagationPolicy;
use serde_json::{Value, json};

use crate::cache::Key;
use crate::error::{Error, Result};

/// Which object [`Api::delete`](super::Api::delete) deletes, and how.
///
/// Made from a [`Key`], or by [`only`](Self::only) from an object. By default the kind decides
/// about the grace period and the dependents.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::api::PropagationPolicy;
/// use windlass::client::{Deleted, Deletion};
/// use windlass::{Client, Key};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = Client::new(server.client());
/// # let mut map = ConfigMap::default();
/// # map.metadata.name = Some("a".into());
/// # map.metadata.namespace = Some("default".into());
/// let maps = client.api::<ConfigMap>();
/// let map = maps.create(&map).await?;
/// let how = Deletion::only(&map).propagation(PropagationPolicy::Foreground).grace_seconds(0);
/// assert_eq!(maps.delete(how).await?, Deleted::Pending, "its dependents are deleted first");
///
/// let key = Key::namespaced("default", "b");
/// assert_eq!(maps.delete(&key).await?, Deleted::NotFound);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is deleted until this is passed to `Api::delete`"]
pub struct Deletion {
    pub(super) key: Key,
    uid: Option<String>,
    resource_version: Option<String>,
    grace_seconds: Option<i64>,
    propagation: Option<PropagationPolicy>,
}

/// The result of deleting an object.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::client::Deleted;
/// use windlass::{Client, Key};
///
/// # fn config_map(name: &str) -> ConfigMap {
/// #     let mut map = ConfigMap::default();
/// #     map.metadata.name = Some(name.into());
/// #     map.metadata.namespace = Some("default".into());
/// #     map
/// # }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = Client::new(server.client());
/// let mut map = config_map("a");
/// map.metadata.finalizers = Some(vec!["example.com/cleanup".into()]);
/// let maps = client.api::<ConfigMap>();
/// let key = Key::of(&maps.create(&map).await?);
/// assert_eq!(maps.delete(&key).await?, Deleted::Pending);
///
/// let mut map = (*maps.get(&key).await?.expect("waits for its finalizer")).clone();
/// map.metadata.finalizers = None;
/// maps.update(&map).await?;
/// assert_eq!(maps.delete(&key).await?, Deleted::NotFound);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deleted {
    /// The object is gone.
    Gone,
    /// The object is being deleted, and waits for its finalizers or its grace period.
    Pending,
    /// There was no such object.
    NotFound,
}

// === impl Deletion ===

impl Deletion {
    /// Deletes only this object, and not another one that has the same name by now.
    ///
    /// The deletion of an object that was never stored, and so has no UID, is refused.
    pub fn only<K: kube::Resource>(object: &K) -> Self {
        let uid = object.meta().uid.clone().unwrap_or_default();
        Self { uid: Some(uid), ..Self::from(&Key::of(object)) }
    }

    /// Deletes the object only if it still has this resource version.
    pub fn resource_version(mut self, version: &str) -> Self {
        self.resource_version = Some(version.into());
        self
    }

    /// Deletes the dependents of the object first, or afterwards, or not at all.
    pub fn propagation(mut self, policy: PropagationPolicy) -> Self {
        self.propagation = Some(policy);
        self
    }

    /// Gives the object this many seconds to terminate.
    pub fn grace_seconds(mut self, seconds: i64) -> Self {
        self.grace_seconds = Some(seconds);
        self
    }

    /// Returns the `DeleteOptions` to send.
    pub(super) fn body(&self, action: &str, dry_run: bool) -> Result<Vec<u8>> {
        if self.uid.as_deref() == Some("") {
            let text = "an object that was never stored has no UID";
            return Err(Error::Invalid(format!("{action}: {text}")));
        }
        Ok(self.options(dry_run).to_string().into_bytes())
    }

    fn options(&self, dry_run: bool) -> Value {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if dry_run {
            body["dryRun"] = json!(["All"]);
        }
        if self.uid.is_some() || self.resource_version.is_some() {
            let mut conditions = json!({});
            if let Some(uid) = &self.uid {
                conditions["uid"] = json!(uid);
            }
            if let Some(version) = &self.resource_version {
                conditions["resourceVersion"] = json!(version);
            }
            body["preconditions"] = conditions;
        }
        if let Some(seconds) = self.grace_seconds {
            body["gracePeriodSeconds"] = json!(seconds);
        }
        if let Some(policy) = &self.propagation {
            body["propagationPolicy"] = json!(policy);
        }
        body
    }
}

impl From<&Key> for Deletion {
    fn from(key: &Key) -> Self {
        let key = key.clone();
        Self { key, uid: None, resource_version: None, grace_seconds: None, propagation: None }
    }
}

/// Returns the `DeleteOptions` to send for a collection.
pub(super) fn collection_body(dependents: Option<PropagationPolicy>, dry_run: bool) -> Vec<u8> {
    let how = Deletion { propagation: dependents, ..Deletion::from(&Key::cluster("")) };
    how.options(dry_run).to_string().into_bytes()
}
