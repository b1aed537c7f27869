//! A selection of cached objects.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;

use super::informer::Core;
use super::store::State;
use super::{Cache, Entry, Index, IndexId, Key, index, select};
use crate::client::List;
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};

/// Cached objects of one kind, narrowed step by step.
///
/// All objects of one call belong to the same moment.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass::cache::Listing;
/// use windlass::{Context, Controller, Manager, Next, Result, owner};
///
/// /// The secrets of the namespace, those of the config map, those of nobody, and one of them.
/// fn look(cx: &Context<ConfigMap>) -> Result<(usize, Vec<String>, usize, Vec<String>)> {
///     let all: Listing<Secret> = cx.list::<Secret>();
///     let (mine, free) = (all.clone().owned().names()?, all.clone().orphaned().count()?);
///     if let Some(only) = all.clone().owned().only()? {
///         assert!(owner::is_controlled_by(&*only, &*cx.object().expect("lives")));
///     }
///     Ok((all.count()?, mine, free, all.label("color", "red").limit(1).names()?))
/// }
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
/// # let client = windlass::Client::new(server.client());
/// # let map = client.create(&config_map("a")).await?;
/// # for name in ["free", "mine", "red"] {
/// #     let mut secret = Secret { metadata: config_map(name).metadata, ..Secret::default() };
/// #     secret.metadata.labels = Some([("color".into(), name.into())].into());
/// #     if name == "mine" {
/// #         owner::set_controller(&map, &mut secret)?;
/// #     }
/// #     client.create(&secret).await?;
/// # }
/// let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
/// let controller = Controller::<ConfigMap>::builder("maps").owns::<Secret>().build(
///     move |cx: Context<ConfigMap>| {
///         let sender = sender.clone();
///         async move {
///             let _ = sender.send(look(&cx)?).await;
///             Ok(Next::Done)
///         }
///     },
/// );
/// let handle = Manager::builder(server.client()).namespaces(["default"]).add(controller).spawn()?;
/// let found = receiver.recv().await.expect("a reconcile");
/// assert_eq!(found, (3, vec!["mine".into()], 2, vec!["red".into()]));
/// # drop(receiver);
/// # handle.stop().await
/// # }
/// ```
#[must_use = "a listing does nothing until one of items, names, keys, count is called"]
pub struct Listing<T: Object> {
    cache: Cache,
    kind: Kind,
    list: List,
    /// The UID of the reconciled object.
    me: Option<String>,
    owner: Owner,
    index: Option<Arc<Lookup>>,
    object: PhantomData<fn() -> T>,
}

/// Finds the entries that an index files under a value.
type Lookup = dyn Fn(&State) -> Result<Vec<Arc<Entry>>> + Send + Sync;

#[derive(Debug, Clone)]
enum Owner {
    Any,
    /// Controlled by the object with this UID; the empty one means no controller.
    Is(String),
    /// Controlled by an object that does not exist.
    Missing,
}

/// Names an object: by name, in the namespace of the reconciled object, or by key. Nobody has to
/// name the type.
#[derive(Debug, Clone, Copy)]
pub enum ObjectName<'a> {
    /// The name, in the namespace at hand.
    Name(&'a str),
    /// Namespace and name.
    Key(&'a Key),
}

impl<'a> From<&'a str> for ObjectName<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name)
    }
}

impl<'a> From<&'a String> for ObjectName<'a> {
    fn from(name: &'a String) -> Self {
        Self::Name(name)
    }
}

impl<'a> From<&'a Key> for ObjectName<'a> {
    fn from(key: &'a Key) -> Self {
        Self::Key(key)
    }
}

// === impl Listing ===

impl<T: Object> Listing<T> {
    pub(super) fn new(cache: Cache, kind: Kind) -> Self {
        let (list, owner) = (List::default(), Owner::Any);
        Self { cache, kind, list, me: None, owner, index: None, object: PhantomData }
    }

    /// Starts in the namespace of a reconciled object, with its UID for [`owned`](Self::owned).
    pub(crate) fn beside(mut self, namespace: Option<&str>, uid: Option<&str>) -> Self {
        let namespace = namespace.filter(|_| self.kind.namespaced());
        self.list.namespace = namespace.map(str::to_string);
        self.me = uid.map(str::to_string);
        self
    }

    /// Looks in all namespaces.
    pub fn all_namespaces(mut self) -> Self {
        self.list.namespace = None;
        self
    }

    /// Looks in one namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.list.namespace = Some(namespace.to_string()).filter(|name| !name.is_empty());
        self
    }

    /// Selects objects with these labels.
    pub fn labels(mut self, labels: &BTreeMap<String, String>) -> Self {
        self.list = self.list.labels(labels);
        self
    }

    /// Selects objects with this label.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.list = self.list.label(name, value);
        self
    }

    /// Selects objects whose labels a selector matches.
    pub fn matching(mut self, selector: Selector) -> Self {
        self.list = self.list.matching(selector);
        self
    }

    /// Selects objects whose labels match the selector of another object, such as a Deployment.
    ///
    /// # Errors
    ///
    /// Fails on an operator that does not exist.
    pub fn selector(mut self, selector: &LabelSelector) -> Result<Self> {
        self.list = self.list.selector(selector)?;
        Ok(self)
    }

    /// Selects objects that the reconciled object controls; found by an index, not by a scan.
    ///
    /// Outside of a reconcile this selects nothing: use [`owned_by`](Self::owned_by).
    pub fn owned(mut self) -> Self {
        self.owner = self.me.clone().map_or(Owner::Missing, Owner::Is);
        self
    }

    /// Selects objects that the object with this UID controls; found by an index, not by a scan.
    pub fn owned_by(mut self, uid: &str) -> Self {
        self.owner = Owner::Is(uid.into());
        self
    }

    /// Selects objects that no controller owns; found by an index, not by a scan.
    pub fn orphaned(self) -> Self {
        self.owned_by("")
    }

    /// Selects objects that an index files under a value.
    ///
    /// The index has to be declared; otherwise the list fails.
    pub fn by<V>(mut self, index: &Index<T, V>, value: impl Into<V>) -> Self
    where
        V: Ord + Clone + Send + Sync + 'static,
    {
        let (index, value) = (index.clone(), value.into());
        self.index = Some(Arc::new(move |state: &State| index.find(state, &value)));
        self
    }

    /// Returns at most so many objects.
    pub fn limit(mut self, limit: usize) -> Self {
        self.list = self.list.limit(limit);
        self
    }

    /// Returns one object by its key, whatever else was selected; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the kind is not cached or not synced yet, or if the object does not decode.
    pub fn get(&self, key: &Key) -> Result<Option<Arc<T>>> {
        self.cache.get_of(&self.kind, key)
    }

    /// Returns the objects, by key.
    ///
    /// # Errors
    ///
    /// Fails if the kind is not cached, as it is not declared with `owns`, `watches` or `reads`, or
    /// if it is not synced yet. An object that does not decode is left out, logged and counted.
    pub fn items(&self) -> Result<Vec<Arc<T>>> {
        let core = self.cache.readable::<T>(&self.kind)?;
        let entries = self.entries(&core)?;
        Ok(core.store.reader::<T>().decode(entries, self.list.limit))
    }

    /// Returns the keys, in order, without decoding the objects.
    ///
    /// # Errors
    ///
    /// As [`items`](Self::items).
    pub fn keys(&self) -> Result<Vec<Key>> {
        let core = match &self.index {
            // An index of whole objects does not know those of which only metadata are cached.
            Some(_) => self.cache.readable::<T>(&self.kind)?,
            None => self.cache.known(&self.kind)?,
        };
        let entries = self.entries(&core)?.into_iter().take(self.list.limit.unwrap_or(usize::MAX));
        Ok(entries.map(|entry| entry.key().clone()).collect())
    }

    /// Returns the names, in order of the keys.
    ///
    /// # Errors
    ///
    /// As [`items`](Self::items).
    pub fn names(&self) -> Result<Vec<String>> {
        Ok(self.keys()?.iter().map(|key| key.name().to_string()).collect())
    }

    /// Returns the number of objects.
    ///
    /// # Errors
    ///
    /// As [`items`](Self::items).
    pub fn count(&self) -> Result<usize> {
        self.keys().map(|keys| keys.len())
    }

    /// Returns the only object, or `None` if nothing was found.
    ///
    /// # Errors
    ///
    /// Fails if there are several, or as [`items`](Self::items).
    pub fn only(&self) -> Result<Option<Arc<T>>> {
        let mut items = self.items()?;
        if items.len() > 1 {
            let text = format!("{} objects of {}, one expected", items.len(), self.kind);
            return Err(Error::Invalid(text));
        }
        Ok(items.pop())
    }

    /// Returns the entries that were selected, by key, as of one moment.
    fn entries(&self, core: &Core) -> Result<Vec<Arc<Entry>>> {
        let namespace = self.list.namespace.as_deref().filter(|_| self.kind.namespaced());
        core.within(&self.kind, namespace)?;
        let labels = select::expressions(&self.list.labels);
        let within = |key: &Key| namespace.is_none() || key.namespace() == namespace;
        let selected = |entry: &Arc<Entry>| {
            self.owner.controls(entry) && select::matches_all(&labels, entry.label_set())
        };
        let state = core.store.state();
        let found = match (&self.index, &self.owner) {
            (_, Owner::Missing) => return Ok(Vec::new()),
            (Some(lookup), _) => lookup(&state)?,
            (None, Owner::Is(uid)) => {
                let uid: Arc<str> = Arc::from(uid.as_str());
                index::find(&state, &IndexId::owners(), &uid).unwrap_or_default()
            }
            (None, Owner::Any) => {
                let first = match namespace {
                    Some(namespace) => Bound::Included(Key::namespaced(namespace, "")),
                    None => Bound::Unbounded,
                };
                let objects = state.objects.range((first, Bound::Unbounded));
                let inside = objects.take_while(|(key, _)| within(key)).map(|(_, entry)| entry);
                return Ok(inside.filter(|entry| selected(entry)).cloned().collect());
            }
        };
        Ok(found.into_iter().filter(|e| within(e.key()) && selected(e)).collect())
    }
}

impl<T: Object> Clone for Listing<T> {
    fn clone(&self) -> Self {
        Self {
            cache: self.cache.clone(),
            kind: self.kind.clone(),
            list: self.list.clone(),
            me: self.me.clone(),
            owner: self.owner.clone(),
            index: self.index.clone(),
            object: PhantomData,
        }
    }
}

impl<T: Object> fmt::Debug for Listing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing")
            .field("kind", &self.kind)
            .field("list", &self.list)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

// === impl Owner ===

impl Owner {
    fn controls(&self, entry: &Entry) -> bool {
        let mut controllers = entry.owners().iter().filter(|owner| owner.controller);
        match self {
            Self::Any => true,
            Self::Is(uid) if uid.is_empty() => controllers.next().is_none(),
            Self::Is(uid) => controllers.any(|owner| *owner.uid == **uid),
            Self::Missing => false,
        }
    }
}
