//! How objects are changed and deleted.

use serde_json::{Value, json};

use crate::error::{Error, Result};

/// A change to an object.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
/// use windlass::client::Patch;
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
/// # let key = Key::of(&client.create(&config_map("a")).await?);
/// let patches = [
///     Patch::Merge(json!({"data": {"color": "blue", "size": "3"}})),
///     Patch::Merge(json!({"data": {"size": null}})),
///     Patch::Json(json!([
///         {"op": "test", "path": "/data/color", "value": "blue"}, // fails if it is another
///         {"op": "add", "path": "/data/shape", "value": "round"},
///     ])),
/// ];
/// for patch in &patches {
///     client.patch::<ConfigMap>(&key, patch).await?;
/// }
///
/// // Fields that others own are taken only by force; `Client::apply` always does.
/// let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"color": "red"}});
/// let other = client.field_owner("other");
/// let ask = Patch::Apply { object: object.clone(), force: false };
/// assert!(other.patch::<ConfigMap>(&key, &ask).await.unwrap_err().is_conflict());
/// let take = Patch::Apply { object, force: true };
/// let map = other.patch::<ConfigMap>(&key, &take).await?;
/// let data = map.data.expect("has data");
/// assert_eq!((data["color"].as_str(), data["shape"].as_str(), data.len()), ("red", "round", 2));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// RFC 7386: what is named is set, null removes.
    Merge(Value),
    /// RFC 6902: a list of operations.
    Json(Value),
    /// The Kubernetes merge that knows list keys; built-in kinds only.
    Strategic(Value),
    /// Server-side apply; `force` takes fields from other owners.
    Apply {
        /// The fields to own.
        object: Value,
        /// Whether to take fields from other owners.
        force: bool,
    },
}

/// How an object is deleted.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
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
/// let map = client.create(&map).await?;
/// let how = Deletion::only(&map).propagation("Foreground").grace_seconds(0);
/// let done = client.api::<ConfigMap>().delete(&Key::of(&map), &how).await?;
/// assert_eq!(done, Deleted::Pending, "dependents go first");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Only if the object still has this UID.
    pub uid: Option<String>,
    /// Only if the object still has this resource version.
    pub resource_version: Option<String>,
    /// Seconds the object is given to end; `None` leaves it to the kind.
    pub grace_seconds: Option<i64>,
    /// `Foreground`, `Background` or `Orphan`; `None` leaves it to the kind.
    pub propagation: Option<&'static str>,
}

/// What became of an object that was to be deleted.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::client::Deleted;
/// use windlass::{Client, Key, finalizer};
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
/// finalizer::add(&mut map, "example.com/cleanup");
/// let mut map = client.create(&map).await?;
/// let key = Key::of(&map);
/// assert_eq!(client.delete::<ConfigMap>(&key).await?, Deleted::Pending);
///
/// map = (*client.live().get::<ConfigMap>(&key).await?.expect("waits for its finalizer")).clone();
/// finalizer::remove(&mut map, "example.com/cleanup");
/// client.update(&map).await?;
/// assert_eq!(client.delete::<ConfigMap>(&key).await?, Deleted::NotFound);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone.
    Gone,
    /// It is marked and waits for its finalizers or its grace period.
    Pending,
    /// There was none.
    NotFound,
}

// === impl Deletion ===

impl Deletion {
    /// Only the object that was seen, not another of the same name.
    ///
    /// An object that was never stored has no UID: a deletion of it is refused.
    pub fn only<K: kube::Resource>(object: &K) -> Self {
        let uid = object.meta().uid.clone().unwrap_or_default();
        Self { uid: Some(uid), ..Self::default() }
    }

    /// With the dependents deleted first, after, or left alone.
    pub fn propagation(mut self, policy: &'static str) -> Self {
        self.propagation = Some(policy);
        self
    }

    /// With so many seconds to end.
    pub fn grace_seconds(mut self, seconds: i64) -> Self {
        self.grace_seconds = Some(seconds);
        self
    }

    pub(super) fn body(&self, action: &str, dry_run: bool) -> Result<Vec<u8>> {
        if self.uid.as_deref() == Some("") {
            let text = "an object that was never stored has no UID to delete by";
            return Err(Error::Invalid(format!("{action}: {text}")));
        }
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
        if let Some(policy) = self.propagation {
            body["propagationPolicy"] = json!(policy);
        }
        Ok(body.to_string().into_bytes())
    }
}
