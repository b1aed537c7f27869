//! The identity of an object within its kind.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use hashbrown::DefaultHashBuilder;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::client::is_segment;
use crate::error::{Error, Result};
use crate::kind::Kind;

/// The namespace, if any, and the name of an object.
///
/// A key is one shared text with a precomputed hash: cloning, comparing and hashing are cheap. Keys
/// sort by namespace first, so that all objects of a namespace are neighbours.
///
/// The constructors accept any text, because keys are also made from what other people write. A key
/// whose namespace or name is empty, `.` or `..`, or contains `/` or `%`, equals no other key and
/// names no object: every request for it fails with [`Error::Invalid`] before anything is sent.
/// Parsing a key from text checks this at once.
///
/// # Examples
///
/// ```
/// use windlass::cache::Key;
///
/// let key = Key::namespaced("shop", "cart");
/// assert_eq!(key.to_string(), "shop/cart");
/// assert_eq!("shop/cart".parse::<Key>()?, key);
/// assert_eq!(Key::cluster("node-1").namespace(), None);
///
/// assert!("shop/cart/../secrets".parse::<Key>().is_err());
/// assert_ne!(Key::namespaced("shop/cart", "a"), Key::namespaced("shop", "cart/a"));
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Clone)]
pub struct Key {
    /// Namespace, slash and name, or the name alone.
    text: Arc<str>,
    /// Where the name begins; 0 without a namespace.
    name: u32,
    hash: u32,
}

/// The hash of keys differs from process to process, as nothing may depend on it.
static HASHER: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);

thread_local! {
    /// Where the text of a key is put together.
    static DRAFT: RefCell<String> = const { RefCell::new(String::new()) };
}

// === impl Key ===

impl Key {
    /// Creates a key. An empty namespace counts as none.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        let Some(namespace) = namespace.filter(|ns| !ns.is_empty()) else {
            return Self::from_text(name, 0);
        };
        DRAFT.with_borrow_mut(|draft| {
            draft.clear();
            draft.push_str(namespace);
            draft.push('/');
            draft.push_str(name);
            Self::from_text(draft, namespace.len() + 1)
        })
    }

    fn from_text(text: &str, name: usize) -> Self {
        let name = u32::try_from(name).expect("namespaces are shorter than 4 GB");
        let hash = HASHER.hash_one((text, name));
        Self { text: Arc::from(text), name, hash: (hash >> 32) as u32 }
    }

    /// Creates the key of an object in a namespace.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self::new(Some(namespace), name)
    }

    /// Creates the key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self::new(None, name)
    }

    /// Returns the key of an object, or of an [`Arc`] of one, from its metadata.
    ///
    /// `HasMeta` is implemented for every object, and for an [`Arc`] of one; its parameter is inferred.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::Key;
    ///
    /// let mut map = ConfigMap::default();
    /// map.metadata.name = Some("a".into());
    /// assert_eq!(Key::of(&map), Key::cluster("a"));
    /// assert_eq!(Key::of(&Arc::new(map)), Key::cluster("a"));
    /// ```
    pub fn of<M>(object: &impl HasMeta<M>) -> Self {
        let meta = object.metadata();
        Self::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
    }

    /// Returns the namespace, or `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.name.checked_sub(1).map(|slash| &self.text[..slash as usize])
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.text[self.name as usize..]
    }

    /// Returns the reference that the API uses in events.
    pub fn object_reference(&self, kind: &Kind) -> ObjectReference {
        ObjectReference {
            api_version: Some(kind.api_version()),
            kind: Some(kind.kind().to_owned()),
            namespace: self.namespace().map(str::to_owned),
            name: Some(self.name().to_owned()),
            ..ObjectReference::default()
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.text, &other.text)
            || (self.hash == other.hash && self.name == other.name && self.text == other.text)
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.hash);
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        // Namespaces of one length: they, the slash and the names compare as one text.
        if self.name == other.name {
            return self.text.cmp(&other.text);
        }
        (self.namespace(), self.name()).cmp(&(other.namespace(), other.name()))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl FromStr for Key {
    type Err = Error;

    /// Parses `namespace/name`, or the name of a cluster-scoped object.
    fn from_str(text: &str) -> Result<Self> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        if !is_segment(name) || namespace.is_some_and(|namespace| !is_segment(namespace)) {
            let shown: String = text.chars().take(100).collect();
            return Err(Error::Invalid(format!(
                "{shown:?} is not a key: write namespace/name, or name for a cluster-scoped object"
            )));
        }
        Ok(Self::new(namespace, name))
    }
}

/// Something with the metadata of an object: the object itself, or an [`Arc`] of it.
///
/// The parameter only keeps the two implementations apart and is always inferred.
#[doc(hidden)]
pub trait HasMeta<M> {
    fn metadata(&self) -> &ObjectMeta;
}

impl<K: Resource> HasMeta<()> for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }
}

impl<K: Resource> HasMeta<Arc<()>> for Arc<K> {
    fn metadata(&self) -> &ObjectMeta {
        (**self).meta()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_namespace_and_name() {
        let key = Key::namespaced("a", "b/c");
        assert_eq!((key.namespace(), key.name()), (Some("a"), "b/c"));
        assert_eq!(key, Key::namespaced("a", "b/c"));
        assert_ne!(key, Key::namespaced("a/b", "c"));
        assert_ne!(key, Key::cluster("a/b/c"));
        assert_eq!(Key::new(Some(""), "a"), Key::cluster("a"));
        assert_eq!(Key::namespaced("a", "").name(), "");
        let hash = |key: &Key| HASHER.hash_one(key);
        assert_eq!(hash(&key), hash(&Key::namespaced("a", "b/c")));
    }

    #[test]
    fn a_key_is_parsed_only_if_it_names_an_object() {
        for key in [Key::namespaced("a", "b"), Key::cluster("system:node")] {
            assert_eq!(key.to_string().parse::<Key>().unwrap(), key);
        }
        for wrong in ["", "/", "a/", "/a", "a/b/c", ".", "..", "a/..", "../a", "a%2fb", "a/b%"] {
            let error = wrong.parse::<Key>().unwrap_err();
            assert!(error.to_string().contains("is not a key"), "{wrong}: {error}");
        }
    }

    #[test]
    fn keys_sort_by_namespace_and_then_by_name() {
        let sorted = ["node", "pod", "a/x", "a/y", "a-b/a", "a-c/A", "b/a"];
        let sorted = sorted.map(|text| text.parse::<Key>().unwrap()).to_vec();
        let mut keys = sorted.clone();
        keys.reverse();
        keys.sort();
        assert_eq!(keys, sorted);
    }
}
