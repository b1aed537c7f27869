//! Reads by kind, answered from the caches.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::informer::Core;
use super::registry::{Cache, not_synced, scoped};
use super::{Entry, Key};
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};
use crate::list::List;

// === impl Cache ===

impl Cache {
    /// Returns an object from the cache; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the kind is not cached or not synced yet, or if the object does not decode into
    /// `K`.
    pub fn get<K: Object<DynamicType = ()>>(&self, key: &Key) -> Result<Option<Arc<K>>> {
        self.get_of(&Kind::of::<K>(), key)
    }

    /// Returns an object of a kind that is known at run time only, as any type, such as
    /// `DynamicObject` or `PartialObjectMeta<DynamicObject>`.
    ///
    /// # Errors
    ///
    /// Fails as [`get`](Self::get) does.
    ///
    /// ```
    /// use kube::core::DynamicObject;
    /// use windlass::cache::{Cache, Scope};
    /// use windlass::{Key, Kind};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let cache = Cache::new(server.client());
    /// let namespaces = Kind::new("", "v1", "Namespace", "namespaces").cluster_scoped();
    /// let informer = cache.informer_of::<DynamicObject>(&namespaces, &Scope::default());
    /// cache.synced(&namespaces, std::time::Duration::from_secs(30)).await?;
    /// let default = Key::cluster("default");
    /// assert!(cache.get_of::<DynamicObject>(&namespaces, &default)?.is_some());
    /// assert!(cache.list_of::<DynamicObject>(&namespaces).keys()?.contains(&default));
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_of<K: Object>(&self, kind: &Kind, key: &Key) -> Result<Option<Arc<K>>> {
        let core = self.readable::<K>(kind)?;
        let key = &scoped(kind, key);
        core.within(kind, key.namespace())?;
        let Some(object) = core.store.reader::<K>().object(key) else { return Ok(None) };
        object.get().map(Some).map_err(|malformed| {
            let what = format!("{kind} {key}");
            let source = serde::de::Error::custom(malformed.message);
            Error::Decode { what, source }
        })
    }

    /// Returns a list of all cached objects of a kind, to be narrowed and then read.
    pub fn list<K: Object<DynamicType = ()>>(&self) -> List<K> {
        self.list_of(&Kind::of::<K>())
    }

    /// Returns a list of all cached objects of a kind that is known at run time only, as any type.
    pub fn list_of<K: Object>(&self, kind: &Kind) -> List<K> {
        List::new(self.clone(), kind.clone())
    }

    /// Returns an object as JSON, with fields that no Rust type knows; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the kind is not cached, or cached as metadata only.
    pub fn json(&self, kind: &Kind, key: &Key) -> Result<Option<Value>> {
        read(&*self.readable::<DynamicObject>(kind)?, kind, key)
    }

    /// Returns a whole object without decoding it, own writes included.
    pub(crate) fn whole_entry(&self, kind: &Kind, key: &Key) -> Result<Option<Arc<Entry>>> {
        let core = self.readable::<DynamicObject>(kind)?;
        let key = &scoped(kind, key);
        core.within(kind, key.namespace())?;
        Ok(core.store.entry(key))
    }

    /// Returns the metadata of an object, own writes included.
    pub(crate) fn metadata(&self, kind: &Kind, key: &Key) -> Result<Option<ObjectMeta>> {
        #[derive(Deserialize)]
        struct Head {
            metadata: ObjectMeta,
        }
        let head: Option<Head> = read(&*self.known(kind)?, kind, key)?;
        Ok(head.map(|head| head.metadata))
    }

    /// Returns the core of a kind whose objects are there, as far as they ever were.
    pub(super) fn known(&self, kind: &Kind) -> Result<Arc<Core>> {
        let core = self.opened(kind)?;
        match core.states.has_synced() {
            true => Ok(core),
            false => Err(not_synced(kind, &core.states.get())),
        }
    }

    /// Returns the core of a kind that can be read as `K`.
    pub(super) fn readable<K: Object>(&self, kind: &Kind) -> Result<Arc<Core>> {
        let core = self.known(kind)?;
        if K::metadata_api() || core.states.is_full() {
            return Ok(core);
        }
        let text = match core.states.wants_full() {
            false => format!("{kind} is cached as metadata only: read it as PartialObjectMeta"),
            true => format!("{kind} is not cached as whole objects yet: try again"),
        };
        Err(Error::Invalid(text))
    }
}

// === impl Core ===

impl Core {
    /// Fails for a namespace that is not cached.
    pub(super) fn within(&self, kind: &Kind, namespace: Option<&str>) -> Result<()> {
        let Some(namespace) = namespace else { return Ok(()) };
        if self.chosen {
            return self.chosen(kind, namespace);
        }
        if self.namespaces.is_empty() {
            return Ok(());
        }
        if self.namespaces.contains(namespace) {
            return Ok(());
        }
        let known: Vec<&str> = self.namespaces.iter().map(String::as_str).collect();
        Err(Error::Invalid(format!(
            "{kind} is cached in {} only: read it in {namespace} with Client::api",
            known.join(", ")
        )))
    }

    /// Fails for a namespace that is not chosen now, or not read yet.
    fn chosen(&self, kind: &Kind, namespace: &str) -> Result<()> {
        if self.states.holds(namespace) {
            return Ok(());
        }
        if self.states.has(namespace) {
            let state = format!("namespace {namespace} was chosen just now");
            return Err(Error::NotSynced { kind: kind.to_string(), state });
        }
        Err(Error::Invalid(format!(
            "{kind} is cached in chosen namespaces only, and {namespace} is not chosen: read it with \
             Client::api"
        )))
    }
}

fn read<T: DeserializeOwned>(core: &Core, kind: &Kind, key: &Key) -> Result<Option<T>> {
    let key = &scoped(kind, key);
    core.within(kind, key.namespace())?;
    let Some(entry) = core.store.entry(key) else { return Ok(None) };
    let value = serde_json::from_slice(&entry.json());
    value.map(Some).map_err(|source| Error::Decode { what: format!("{kind} {key}"), source })
}
