//! Kinds: group, version and name, with the plural and the scope under which they are served.

use std::any::TypeId;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::ClusterResourceScope;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::discovery::{ApiCapabilities, Scope};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{InvalidSegment, Url};

/// The types of objects that this crate works with: every `kube::Resource` that serde can handle.
///
/// Implemented for all `k8s-openapi` kinds, `#[derive(CustomResource)]` kinds,
/// `kube::core::PartialObjectMeta<K>` and `kube::core::DynamicObject`.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::Namespace;
/// use windlass::{Client, List, Object, Result};
///
/// /// Works with every kind that is known at compile time.
/// async fn names<K: Object<DynamicType = ()>>(client: &Client) -> Result<Vec<String>> {
///     let all = client.api::<K>().list().items().await?;
///     Ok(all.iter().filter_map(|object| object.meta().name.clone()).collect())
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = Client::new(server.client());
/// assert!(names::<Namespace>(&client).await?.contains(&"default".to_string()));
/// # Ok(())
/// # }
/// ```
pub trait Object:
    kube::Resource<DynamicType: Clone + fmt::Debug + Send + Sync, Scope: 'static>
    + Clone
    + fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: kube::Resource<DynamicType: Clone + fmt::Debug + Send + Sync, Scope: 'static>
        + Clone
        + fmt::Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// A kind that the API server serves. Cheap to clone.
///
/// Kinds are compared, ordered and hashed by group, version and kind. The plural and the scope say
/// how the kind is addressed, and do not make it another one: `Kind::new("", "v1", "Node",
/// "nodes")` equals `Kind::of::<Node>()`, although it is namespaced by default. Where the same
/// kind is given with different plurals or scopes, a cache uses those of the first one.
///
/// # Examples
///
/// ```
/// use windlass::Kind;
///
/// let drive = Kind::new("ships.example.com", "v1", "Drive", "drives");
/// assert_eq!(drive.api_version(), "ships.example.com/v1");
///
/// // The version is part of a kind.
/// let next = Kind::new("ships.example.com", "v2", "Drive", "drives");
/// assert_ne!(drive, next);
///
/// // A cluster-scoped kind has to be declared as such.
/// let port = Kind::new("ships.example.com", "v1", "Port", "ports").cluster_scoped();
/// assert!(!port.namespaced());
/// ```
#[derive(Clone)]
pub struct Kind(Arc<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    group: String,
    version: String,
    kind: String,
    plural: String,
    namespaced: bool,
}

// === impl Kind ===

impl Kind {
    /// Returns the kind of a Rust type.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// let kind = windlass::Kind::of::<Deployment>();
    /// assert_eq!(kind.to_string(), "Deployment.apps/v1");
    /// assert!(kind.namespaced());
    /// ```
    pub fn of<K: Object<DynamicType = ()>>() -> Self {
        Self::with::<K>(&())
    }

    /// Returns the kind of a Rust type whose group and name are known at run time only.
    ///
    /// A dynamic type is assumed to be namespaced; change that with
    /// [`cluster_scoped`](Self::cluster_scoped).
    pub(crate) fn with<K: Object>(dt: &K::DynamicType) -> Self {
        Self(Arc::new(Inner {
            group: K::group(dt).into_owned(),
            version: K::version(dt).into_owned(),
            kind: K::kind(dt).into_owned(),
            plural: K::plural(dt).into_owned(),
            namespaced: TypeId::of::<K::Scope>() != TypeId::of::<ClusterResourceScope>(),
        }))
    }

    /// Creates a namespaced kind from its parts.
    pub fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self(Arc::new(Inner {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            namespaced: true,
        }))
    }

    /// Returns this kind as a cluster-scoped one.
    pub fn cluster_scoped(self) -> Self {
        Self(Arc::new(Inner { namespaced: false, ..(*self.0).clone() }))
    }

    /// Returns the API group; empty for the core group.
    pub fn group(&self) -> &str {
        &self.0.group
    }

    /// Returns the version within the group.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// Returns the name of the kind, such as `Deployment`.
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// Returns the name in URLs, such as `deployments`.
    pub fn plural(&self) -> &str {
        &self.0.plural
    }

    /// Returns `true` if objects of this kind belong to a namespace.
    pub fn namespaced(&self) -> bool {
        self.0.namespaced
    }

    /// Returns `group/version`, or the version alone for the core group.
    pub fn api_version(&self) -> String {
        if self.0.group.is_empty() {
            self.0.version.clone()
        } else {
            format!("{}/{}", self.0.group, self.0.version)
        }
    }

    pub(crate) fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::gvk(&self.0.group, &self.0.version, &self.0.kind)
    }

    /// Returns the type information that kube's dynamic objects need.
    pub(crate) fn api_resource(&self) -> ApiResource {
        ApiResource::from_gvk_with_plural(&self.gvk(), &self.0.plural)
    }

    /// Returns `true` if two kinds differ at most in their version.
    pub(crate) fn same_group_kind(&self, other: &Kind) -> bool {
        self.0.group == other.0.group && self.0.kind == other.0.kind
    }

    fn identity(&self) -> (&str, &str, &str) {
        (&self.0.group, &self.0.version, &self.0.kind)
    }

    /// Returns the URL of the collection; the namespace is left out for a cluster-scoped kind.
    pub(crate) fn collection_url(&self, namespace: Option<&str>) -> Result<Url, InvalidSegment> {
        let namespace = namespace.filter(|_| self.0.namespaced);
        Url::collection(&self.0.group, &self.0.version, &self.0.plural, namespace)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.identity() == other.identity()
    }
}

impl Eq for Kind {}

impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<&Kind> for ApiResource {
    /// Returns the type information that kube's dynamic objects need.
    fn from(kind: &Kind) -> Self {
        kind.api_resource()
    }
}

impl From<&(ApiResource, ApiCapabilities)> for Kind {
    /// Returns the kind that a result of kube's discovery describes.
    fn from((resource, able): &(ApiResource, ApiCapabilities)) -> Self {
        let kind = Self::with::<DynamicObject>(resource);
        if able.scope == Scope::Cluster { kind.cluster_scoped() } else { kind }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.group.as_str() {
            "" => write!(f, "{}.{}", self.0.kind, self.0.version),
            group => write!(f, "{}.{}/{}", self.0.kind, group, self.0.version),
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
    use kube::core::PartialObjectMeta;

    use super::*;

    #[test]
    fn scope_follows_from_the_type() {
        assert!(Kind::of::<Pod>().namespaced());
        assert!(!Kind::of::<Namespace>().namespaced());
        assert_eq!(Kind::of::<PartialObjectMeta<Pod>>(), Kind::of::<Pod>());
    }

    #[test]
    fn kinds_are_the_same_whatever_their_plural_and_scope() {
        let (by_hand, typed) = (Kind::new("", "v1", "Node", "nodes"), Kind::of::<Node>());
        assert!(by_hand.namespaced() != typed.namespaced());
        assert_eq!(by_hand, typed);
        assert_eq!(by_hand.cmp(&typed), Ordering::Equal);
        let both: HashSet<Kind> = [by_hand, typed, Kind::new("", "v1", "Node", "x")].into();
        assert_eq!(both.len(), 1);
        assert_ne!(Kind::of::<Node>(), Kind::of::<Pod>());
        assert_ne!(Kind::new("a", "v1", "A", "as"), Kind::new("a", "v2", "A", "as"));
    }

    #[test]
    fn paths_name_the_namespace_only_where_the_kind_has_one() {
        let path = |kind: Kind, namespace| {
            kind.collection_url(namespace).expect("valid").as_str().to_owned()
        };
        assert_eq!(path(Kind::of::<Pod>(), Some("a")), "/api/v1/namespaces/a/pods");
        assert_eq!(path(Kind::of::<Pod>(), None), "/api/v1/pods");
        assert_eq!(path(Kind::of::<Namespace>(), Some("a")), "/api/v1/namespaces");
        let kind = Kind::new("a.example.com", "v1", "Foo", "foos");
        assert_eq!(path(kind, Some("x")), "/apis/a.example.com/v1/namespaces/x/foos");
    }
}
