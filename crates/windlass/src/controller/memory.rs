//! What a controller remembers about each object from one reconcile to the next.
//!
//! **Invariant:** values exist only for objects that exist. They are dropped when a reconcile finds
//! no object, or another one of the same name, and when the deletion of an object is handled: a
//! predicate that ignores deletions leaves nothing behind.

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::Context;
use crate::cache::Key;
use crate::kind::Object;

/// The values of all objects of a controller.
#[derive(Debug, Default)]
pub(crate) struct KeyMemory {
    /// Whether anything was ever remembered, which most controllers do not.
    used: AtomicBool,
    objects: Mutex<HashMap<Key, Remembered>>,
}

/// The values of one object, each of another type.
#[derive(Debug)]
struct Remembered {
    uid: Box<str>,
    values: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

// === impl Context ===

impl<K: Object> Context<K> {
    /// Returns what the controller remembers about the reconciled object as a `T`, which is
    /// `T::default()` at first.
    ///
    /// Every object has one value of each type, until it is deleted: an object that is created anew
    /// under the same name starts with the default. Nothing is remembered over a restart, so what
    /// must not be lost belongs into the status. A value that changes is a `Mutex`, an atomic or the
    /// like.
    ///
    /// # Examples
    ///
    /// A controller that reports a service only once, although it runs every minute:
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use std::time::Duration;
    /// use k8s_openapi::api::core::v1::Service;
    /// use windlass::{Context, Controller, Next, Result};
    ///
    /// #[derive(Default)]
    /// struct Reported(AtomicBool);
    ///
    /// async fn reconcile(cx: Context<Service>) -> Result<Next> {
    ///     if cx.object().is_none() {
    ///         return Ok(Next::Done); // what was remembered is gone as well
    ///     }
    ///     if !cx.memory::<Reported>().0.swap(true, Ordering::Relaxed) {
    ///         cx.event("Found", "from now on it is checked every minute");
    ///     }
    ///     Ok(Next::After(Duration::from_secs(60)))
    /// }
    /// # let _ = Controller::<Service>::builder("services").build(reconcile);
    /// ```
    pub fn memory<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        // A deleted object has no memory: its reconcile gets a value that nobody keeps.
        let Some(object) = self.found() else { return Arc::default() };
        self.key_memory().get(self.key(), object.uid())
    }
}

// === impl KeyMemory ===

impl KeyMemory {
    /// Returns the value of an object, and keeps it.
    fn get<T: Default + Send + Sync + 'static>(&self, key: &Key, uid: &str) -> Arc<T> {
        if let Some(known) = self.known(key, uid) {
            return known;
        }
        // Not under the lock: it is code of the author.
        let fresh = Arc::new(T::default());
        self.used.store(true, Ordering::Relaxed);
        let mut objects = self.objects.lock();
        let remembered = objects.entry(key.clone()).or_insert_with(|| Remembered::new(uid));
        let replaced =
            (*remembered.uid != *uid).then(|| std::mem::replace(remembered, Remembered::new(uid)));
        let value = remembered.values.entry(TypeId::of::<T>()).or_insert(fresh).clone();
        drop(objects);
        drop(replaced);
        value.downcast().expect("a value is kept under its own type")
    }

    fn known<T: Send + Sync + 'static>(&self, key: &Key, uid: &str) -> Option<Arc<T>> {
        let objects = self.objects.lock();
        let remembered = objects.get(key).filter(|remembered| *remembered.uid == *uid)?;
        remembered.values.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }

    /// Returns `true` if anything was ever remembered.
    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Drops the values of the object with this UID, which was deleted.
    pub(super) fn forget(&self, key: &Key, uid: &str) {
        self.forget_if(key, |known| known == uid);
    }

    /// Drops the values of every other object than the one that exists under this key.
    pub(super) fn keep_only(&self, key: &Key, uid: Option<&str>) {
        self.forget_if(key, |known| Some(known) != uid);
    }

    fn forget_if(&self, key: &Key, forget: impl FnOnce(&str) -> bool) {
        if !self.is_used() {
            return;
        }
        let mut objects = self.objects.lock();
        let known = objects.get(key).is_some_and(|known| forget(&known.uid));
        let forgotten = if known { objects.remove(key) } else { None };
        drop(objects);
        // Not under the lock: the author's types may have a destructor.
        drop(forgotten);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.objects.lock().len()
    }
}

// === impl Remembered ===

impl Remembered {
    fn new(uid: &str) -> Self {
        Self { uid: uid.into(), values: HashMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn a_value_is_kept_for_its_object_and_type_alone() {
        let (memory, a, b) = (KeyMemory::default(), Key::cluster("a"), Key::cluster("b"));
        memory.get::<AtomicU32>(&a, "1").store(7, Ordering::Relaxed);
        assert_eq!(memory.get::<AtomicU32>(&a, "1").load(Ordering::Relaxed), 7);
        assert_eq!(memory.get::<AtomicU32>(&b, "2").load(Ordering::Relaxed), 0);
        assert_eq!(*memory.get::<u64>(&a, "1"), 0, "another type");
        memory.keep_only(&a, Some("1"));
        memory.forget(&a, "0");
        assert_eq!(memory.get::<AtomicU32>(&a, "1").load(Ordering::Relaxed), 7, "it still exists");
    }

    #[test]
    fn a_value_is_dropped_with_its_object() {
        let (memory, key) = (KeyMemory::default(), Key::cluster("a"));
        let value = memory.get::<AtomicU32>(&key, "1");
        memory.keep_only(&key, None);
        assert_eq!((memory.len(), Arc::strong_count(&value)), (0, 1));
        value.store(7, Ordering::Relaxed);
        let known = memory.get::<AtomicU32>(&key, "1");
        let anew = memory.get::<AtomicU32>(&key, "2");
        assert_eq!(anew.load(Ordering::Relaxed), 0, "another object of the same name");
        assert_eq!(Arc::strong_count(&known), 1, "the values of the first one are dropped");
    }
}
