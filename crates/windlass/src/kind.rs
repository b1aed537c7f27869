//! What a kind is: its group, version, name, plural and scope, known at compile or at run time.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::ClusterResourceScope;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::discovery::Scope;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What every object type of this crate has to be: any `kube::Resource` that serde can handle.
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
///     let all = client.live().list::<K>(&List::all()).await?;
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

/// A kind the API server serves; cheap to clone.
///
/// # Examples
///
/// ```
/// use kube::core::DynamicObject;
/// use windlass::Kind;
///
/// let drive = Kind::new("ships.example.com", "v1", "Drive", "drives");
/// assert_eq!(drive.api_version(), "ships.example.com/v1");
/// assert_eq!(drive.path(Some("fleet")), "/apis/ships.example.com/v1/namespaces/fleet/drives");
/// assert_eq!(Kind::with::<DynamicObject>(&drive.api_resource()), drive);
///
/// // The version is part of a kind.
/// let next = Kind::new("ships.example.com", "v2", "Drive", "drives");
/// assert!(drive != next && drive.same_group_kind(&next));
///
/// // One without namespaces has to say so.
/// let port = Kind::new("ships.example.com", "v1", "Port", "ports").cluster_scoped();
/// assert_eq!(port.path(Some("fleet")), "/apis/ships.example.com/v1/ports");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(Arc<Inner>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Inner {
    group: String,
    version: String,
    kind: String,
    plural: String,
    namespaced: bool,
}

// === impl Kind ===

impl Kind {
    /// The kind of a Rust type.
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

    /// The kind of a Rust type whose group and name are known at run time.
    ///
    /// A dynamic type is taken as namespaced; say otherwise with
    /// [`cluster_scoped`](Self::cluster_scoped).
    pub fn with<K: Object>(dt: &K::DynamicType) -> Self {
        Self(Arc::new(Inner {
            group: K::group(dt).into_owned(),
            version: K::version(dt).into_owned(),
            kind: K::kind(dt).into_owned(),
            plural: K::plural(dt).into_owned(),
            namespaced: TypeId::of::<K::Scope>() != TypeId::of::<ClusterResourceScope>(),
        }))
    }

    /// A kind by its parts; namespaced.
    pub fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self(Arc::new(Inner {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            namespaced: true,
        }))
    }

    /// The same kind, without namespaces.
    pub fn cluster_scoped(self) -> Self {
        Self(Arc::new(Inner { namespaced: false, ..(*self.0).clone() }))
    }

    /// A kind as discovery describes it.
    pub fn discovered(resource: &ApiResource, scope: &Scope) -> Self {
        let kind = Self::with::<DynamicObject>(resource);
        if *scope == Scope::Cluster { kind.cluster_scoped() } else { kind }
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        &self.0.group
    }

    /// The version within the group.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// The name of the kind, such as `Deployment`.
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// The name in paths, such as `deployments`.
    pub fn plural(&self) -> &str {
        &self.0.plural
    }

    /// Whether objects of this kind live in namespaces.
    pub fn namespaced(&self) -> bool {
        self.0.namespaced
    }

    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> String {
        if self.0.group.is_empty() {
            self.0.version.clone()
        } else {
            format!("{}/{}", self.0.group, self.0.version)
        }
    }

    /// The same as a triple of kube.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::gvk(&self.0.group, &self.0.version, &self.0.kind)
    }

    /// The same as kube's type information of dynamic objects.
    pub fn api_resource(&self) -> ApiResource {
        ApiResource::from_gvk_with_plural(&self.gvk(), &self.0.plural)
    }

    /// Whether two kinds are the same in whatever version.
    pub fn same_group_kind(&self, other: &Kind) -> bool {
        self.0.group == other.0.group && self.0.kind == other.0.kind
    }

    /// The path of the collection, within `namespace` if one is given and the kind has them.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.0.group.is_empty() { "api" } else { "apis" };
        match namespace {
            Some(namespace) if self.0.namespaced => {
                format!("/{root}/{}/namespaces/{namespace}/{}", self.api_version(), self.0.plural)
            }
            _ => format!("/{root}/{}/{}", self.api_version(), self.0.plural),
        }
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
    use k8s_openapi::api::core::v1::{Namespace, Pod};
    use kube::core::PartialObjectMeta;

    use super::*;

    #[test]
    fn scope_follows_from_the_type() {
        assert!(Kind::of::<Pod>().namespaced());
        assert!(!Kind::of::<Namespace>().namespaced());
        assert_eq!(Kind::of::<PartialObjectMeta<Pod>>(), Kind::of::<Pod>());
    }

    #[test]
    fn paths_name_the_namespace_only_where_the_kind_has_one() {
        assert_eq!(Kind::of::<Pod>().path(Some("a")), "/api/v1/namespaces/a/pods");
        assert_eq!(Kind::of::<Pod>().path(None), "/api/v1/pods");
        assert_eq!(Kind::of::<Namespace>().path(Some("a")), "/api/v1/namespaces");
        let kind = Kind::new("a.example.com", "v1", "Foo", "foos");
        assert_eq!(kind.path(Some("x")), "/apis/a.example.com/v1/namespaces/x/foos");
    }
}
