//! The identity of an object within its kind.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::core::ApiResource;

/// Names an object of a kind: namespace, if it has one, and name. Cheap to clone.
///
/// Keys sort by namespace first, so all objects of a namespace are neighbours.
///
/// # Examples
///
/// ```
/// use windlass::cache::Key;
///
/// let key = Key::namespaced("shop", "cart");
/// assert_eq!(key.to_string(), "shop/cart");
/// assert_eq!(Key::cluster("node-1").namespace(), None);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    namespace: Option<Arc<str>>,
    name: Arc<str>,
}

// === impl Key ===

impl Key {
    /// Makes a key; an empty namespace counts as none.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        let namespace = namespace.filter(|ns| !ns.is_empty()).map(Arc::from);
        Self { namespace, name: Arc::from(name) }
    }

    /// Makes the key of an object in a namespace.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self::new(Some(namespace), name)
    }

    /// Makes the key of an object without namespace.
    pub fn cluster(name: &str) -> Self {
        Self::new(None, name)
    }

    /// Makes the key of an object, as its metadata say.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the reference the API uses, as in events.
    pub fn object_reference(&self, kind: &ApiResource) -> ObjectReference {
        ObjectReference {
            api_version: Some(kind.api_version.clone()),
            kind: Some(kind.kind.clone()),
            namespace: self.namespace().map(str::to_owned),
            name: Some(self.name().to_owned()),
            ..ObjectReference::default()
        }
    }

    pub(super) fn from_parts(namespace: Option<Arc<str>>, name: &str) -> Self {
        Self { namespace, name: Arc::from(name) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl From<&str> for Key {
    /// Reads `namespace/name`, or a bare name.
    fn from(text: &str) -> Self {
        match text.split_once('/') {
            Some((namespace, name)) => Self::namespaced(namespace, name),
            None => Self::cluster(text),
        }
    }
}
