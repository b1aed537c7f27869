//! A selection of cached objects.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;

use crate::cache::{Entry, IndexValue, Key};
use crate::client::List;
use crate::cluster::{Caches, IndexBy};
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};

/// Objects of one kind from the cache, narrowed step by step.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass::controller::Listing;
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
/// let (tell, mut told) = tokio::sync::mpsc::channel(1);
/// let controller = Controller::<ConfigMap>::builder("maps").owns::<Secret>().build(
///     move |cx: Context<ConfigMap>| {
///         let tell = tell.clone();
///         async move {
///             let _ = tell.send(look(&cx)?).await;
///             Ok(Next::Done)
///         }
///     },
/// );
/// let handle = Manager::builder(server.client()).namespaces(["default"]).add(controller).spawn()?;
/// let found = told.recv().await.expect("a reconcile");
/// assert_eq!(found, (3, vec!["mine".into()], 2, vec!["red".into()]));
/// # drop(told);
/// # handle.stop().await
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a listing does nothing until one of items, names, keys, count is called"]
pub struct Listing<T: Object> {
    caches: Caches,
    kind: Kind,
    list: List,
    me: Option<String>,
    owner: Owner,
    object: PhantomData<fn() -> T>,
}

#[derive(Debug, Clone)]
enum Owner {
    Any,
    Is(String),
    Missing,
}

// === impl Listing ===

impl<T: Object> Listing<T> {
    pub(crate) fn new(
        caches: Caches,
        kind: Kind,
        namespace: Option<String>,
        me: Option<String>,
    ) -> Self {
        let list = List { namespace, ..List::default() };
        Self { caches, kind, list, me, owner: Owner::Any, object: PhantomData }
    }

    /// Looks in all namespaces.
    pub fn all_namespaces(mut self) -> Self {
        self.list.namespace = None;
        self
    }

    /// Looks in one namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.list.namespace = Some(namespace.into());
        self
    }

    /// Only objects with these labels.
    pub fn labels(mut self, labels: &BTreeMap<String, String>) -> Self {
        self.list = self.list.labels(labels);
        self
    }

    /// Only objects with this label.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.list = self.list.label(name, value);
        self
    }

    /// Only objects a selector matches.
    pub fn matching(mut self, selector: Selector) -> Self {
        self.list = self.list.matching(selector);
        self
    }

    /// Only objects the selector of another object matches.
    ///
    /// # Errors
    ///
    /// Fails on an operator that does not exist.
    pub fn selector(mut self, selector: &LabelSelector) -> Result<Self> {
        self.list = self.list.selector(selector)?;
        Ok(self)
    }

    /// Only objects the reconciled object controls; found by an index, not by a scan.
    pub fn owned(mut self) -> Self {
        self.owner = self.me.clone().map_or(Owner::Missing, Owner::Is);
        self
    }

    /// Only objects the object with this UID controls; found by an index, not by a scan.
    pub fn owned_by(mut self, uid: &str) -> Self {
        self.owner = Owner::Is(uid.into());
        self
    }

    /// Only objects that nobody controls; found by an index, not by a scan.
    pub fn orphaned(self) -> Self {
        self.owned_by("")
    }

    /// The objects filed under a value of an index that also meet what else was asked for; by key.
    ///
    /// # Errors
    ///
    /// As [`items`](Self::items).
    pub fn by<V: IndexValue>(&self, index: &IndexBy<T, V>, value: &V) -> Result<Vec<Arc<T>>> {
        let namespace = self.list.namespace.as_deref();
        self.caches.within(&self.kind, namespace)?;
        let found = self.caches.index(&self.kind, index)?.get(value).into_iter();
        let within = |key: &Key| namespace.is_none() || key.namespace() == namespace;
        let mine = |entry: &Entry| match &self.owner {
            Owner::Any => true,
            Owner::Is(uid) if uid.is_empty() => !entry.owners().iter().any(|o| o.controller),
            Owner::Is(uid) => entry.owners().iter().any(|o| *o.uid == **uid && o.controller),
            Owner::Missing => false,
        };
        let found = found.filter(|o| within(o.key()) && self.list.matches_entry(o.entry()));
        let found = found.filter(|o| mine(o.entry())).filter_map(|object| object.get().ok());
        Ok(found.take(self.list.limit.unwrap_or(usize::MAX)).collect())
    }

    /// At most so many.
    pub fn limit(mut self, limit: usize) -> Self {
        self.list = self.list.limit(limit);
        self
    }

    /// The objects, by key.
    ///
    /// # Errors
    ///
    /// Fails if the kind was not declared with `owns`, `watches` or `reads`. An object that does
    /// not decode is left out, named in the log and counted.
    pub fn items(&self) -> Result<Vec<Arc<T>>> {
        match &self.owner {
            Owner::Any => self.caches.list(&self.kind, &self.list),
            Owner::Is(uid) => self.caches.owned(&self.kind, uid, &self.list),
            Owner::Missing => Ok(Vec::new()),
        }
    }

    /// The keys, in order, without decoding the objects.
    ///
    /// # Errors
    ///
    /// As [`items`](Self::items).
    pub fn keys(&self) -> Result<Vec<Key>> {
        match &self.owner {
            Owner::Any => self.caches.keys(&self.kind, None, &self.list),
            Owner::Is(uid) => self.caches.keys(&self.kind, Some(uid), &self.list),
            Owner::Missing => Ok(Vec::new()),
        }
    }

    /// The names, in order.
    ///
    /// # Errors
    ///
    /// As [`items`](Self::items).
    pub fn names(&self) -> Result<Vec<String>> {
        Ok(self.keys()?.iter().map(|key| key.name().to_string()).collect())
    }

    /// How many there are.
    ///
    /// # Errors
    ///
    /// As [`items`](Self::items).
    pub fn count(&self) -> Result<usize> {
        self.keys().map(|keys| keys.len())
    }

    /// The only one.
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
}
