//! The identity of an object within its kind.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use hashbrown::DefaultHashBuilder;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::core::ApiResource;

/// Names an object of a kind: namespace, if it has one, and name. Cheap to clone, to compare
/// and to hash: it is one shared text whose hash is known.
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
    /// Makes a key; an empty namespace counts as none.
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
        self.name.checked_sub(1).map(|slash| &self.text[..slash as usize])
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.text[self.name as usize..]
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

impl From<&str> for Key {
    /// Reads `namespace/name`, or a bare name.
    fn from(text: &str) -> Self {
        match text.split_once('/') {
            Some((namespace, name)) => Self::namespaced(namespace, name),
            None => Self::cluster(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart_by_namespace_and_name() {
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
    fn keys_sort_by_namespace_and_then_by_name() {
        let sorted = ["node", "pod", "a/x", "a/y", "a-b/a", "a-c/A", "b/a"].map(Key::from).to_vec();
        let mut keys = sorted.clone();
        keys.reverse();
        keys.sort();
        assert_eq!(keys, sorted);
    }
}
