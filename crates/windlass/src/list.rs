//! Lists of objects, from the cache or from the server.

use std::fmt;
use std::marker::PhantomData;

use kube::core::{Expression, Selector};

use crate::cache::{Cache, IndexLookup, OwnerFilter};
use crate::error::Result;
use crate::kind::{Kind, Object};
use crate::selector::{self, InvalidSelector};

/// A selection of objects of one kind, which is read when [`items`](Self::items) is called.
///
/// `S` is where the objects come from: a list of the [`Cache`], made by
/// [`Context::list`](crate::Context::list) or [`Cache::list`], costs no request; a list of the
/// [`Client`](crate::Client), made by [`Api::list`](crate::client::Api::list), asks the server.
/// Both start with all objects of the kind, except that of a [`Context`](crate::Context), which
/// starts with those in the namespace of the reconciled object.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass::{Client, Context, Controller, List, Manager, Next, Result};
///
/// /// The secrets of the namespace, those that the config map owns, and the first red one.
/// fn read(cx: &Context<ConfigMap>) -> Result<[Vec<String>; 3]> {
///     let all: List<Secret> = cx.list();
///     let red = all.clone().labels([("color", "red")]).limit(1);
///     Ok([all.names()?, all.owned().names()?, red.names()?])
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
/// # let map = client.api().create(&config_map("a")).await?;
/// # for name in ["blue", "mine", "red"] {
/// #     let mut secret = Secret { metadata: config_map(name).metadata, ..Secret::default() };
/// #     secret.metadata.labels = Some([("color".into(), name.into())].into());
/// #     if name == "mine" {
/// #         windlass::owner::set_controller(&map, &mut secret)?;
/// #     }
/// #     client.api().create(&secret).await?;
/// # }
/// let (sender, mut found) = tokio::sync::mpsc::channel(1);
/// let controller = Controller::<ConfigMap>::builder("maps").owns::<Secret>().build(
///     move |cx: Context<ConfigMap>| {
///         let sender = sender.clone();
///         async move {
///             let _ = sender.send(read(&cx)?).await;
///             Ok(Next::Done)
///         }
///     },
/// );
/// let handle = Manager::new(server.client()).namespaces(["default"]).add(controller).spawn()?;
/// let [all, owned, red] = found.recv().await.expect("a reconcile");
/// assert_eq!((all.len(), owned, red), (3, vec!["mine".into()], vec!["red".into()]));
///
/// // The same from the server, without a cache.
/// let red: List<Secret, Client> = client.api().list().namespace("default").labels([("color", "red")]);
/// assert_eq!(red.items().await?.len(), 1);
/// # drop(found);
/// # handle.stop().await
/// # }
/// ```
#[must_use = "a list reads nothing until `items` is called"]
pub struct List<K: Object, S = Cache> {
    pub(crate) source: S,
    pub(crate) kind: Kind,
    pub(crate) query: Query,
    /// The UID of the reconciled object.
    pub(crate) me: Option<String>,
    pub(crate) owner: OwnerFilter,
    pub(crate) index: Option<IndexLookup>,
    object: PhantomData<fn() -> K>,
}

/// What a list of the cache and one of the server can both select by.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Selector,
    /// For the server only.
    pub(crate) fields: Selector,
    pub(crate) limit: Option<usize>,
    /// What is wrong with a selector.
    pub(crate) invalid: Option<InvalidSelector>,
}

// === impl List ===

impl<K: Object, S> List<K, S> {
    pub(crate) fn new(source: S, kind: Kind) -> Self {
        Self {
            source,
            kind,
            query: Query::default(),
            me: None,
            owner: OwnerFilter::Any,
            index: None,
            object: PhantomData,
        }
    }

    /// Selects objects in one namespace. As in the API, an empty name means all namespaces.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.query.namespace = Some(namespace.to_owned()).filter(|name| !name.is_empty());
        self
    }

    /// Selects objects with all of these labels.
    ///
    /// In the cache this looks at every object of the namespace; an [index](Self::by) does not.
    pub fn labels<N, V>(mut self, labels: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<String>,
        V: Into<String>,
    {
        let labels = labels.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.query.labels.extend(labels.collect::<Selector>());
        self
    }

    /// Selects objects whose labels match: an `Expression` or a `Selector` of kube, or the
    /// `LabelSelector` of another object, such as a Deployment.
    ///
    /// It is checked as client-go does: an invalid selector is the error of [`items`](Self::items), and
    /// nothing is sent.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    /// use kube::core::Expression;
    /// use serde_json::json;
    /// use windlass::Client;
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
    /// for (name, app) in [("a", "cart"), ("b", "cart"), ("c", "till")] {
    ///     let mut map = config_map(name);
    ///     map.metadata.labels = Some([("app".into(), app.into())].into());
    ///     client.api().create(&map).await?;
    /// }
    /// let maps = client.api::<ConfigMap>().list().namespace("default");
    /// let labelled = maps.clone().matching(Expression::Exists("app".into()));
    /// assert_eq!(labelled.items().await?.len(), 3);
    ///
    /// // The selector of a Deployment.
    /// let selector: LabelSelector = serde_json::from_value(json!({
    ///     "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["cart"]}],
    /// }))?;
    /// assert_eq!(labelled.matching(selector).items().await?.len(), 1);
    ///
    /// let wrong: LabelSelector = serde_json::from_value(json!({
    ///     "matchExpressions": [{"key": "app", "operator": "Like"}],
    /// }))?;
    /// let error = maps.matching(wrong).items().await.unwrap_err();
    /// assert!(error.to_string().starts_with("list configmaps: label selector: "), "{error}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn matching<T>(mut self, selector: T) -> Self
    where
        T: TryInto<Selector, Error: fmt::Display> + 'static,
    {
        match selector::labels_of(selector) {
            Ok(selector) => {
                self.query.labels.extend(selector);
            }
            Err(invalid) => self.query.invalid = Some(invalid),
        }
        self
    }

    /// Returns at most so many objects. As in the API, 0 means no limit.
    pub fn limit(mut self, limit: usize) -> Self {
        self.query.limit = Some(limit).filter(|limit| *limit > 0);
        self
    }
}

impl<K: Object, S: Clone> Clone for List<K, S> {
    fn clone(&self) -> Self {
        Self {
            source: self.source.clone(),
            kind: self.kind.clone(),
            query: self.query.clone(),
            me: self.me.clone(),
            owner: self.owner.clone(),
            index: self.index.clone(),
            object: PhantomData,
        }
    }
}

impl<K: Object, S> fmt::Debug for List<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List")
            .field("kind", &self.kind)
            .field("query", &self.query)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

// === impl Query ===

impl Query {
    /// Returns what the labels of an object have to satisfy. Fails if a selector is not valid.
    pub(crate) fn expressions(&self) -> Result<Vec<Expression>> {
        if let Some(invalid) = &self.invalid {
            return Err(invalid.clone().into());
        }
        Ok(selector::expressions(&self.labels)?)
    }

    /// Returns the texts of the label selector and of the field selector; an empty one selects all.
    pub(crate) fn texts(&self) -> Result<(String, String), InvalidSelector> {
        if let Some(invalid) = &self.invalid {
            return Err(invalid.clone());
        }
        Ok((selector::label_text(&self.labels)?, selector::field_text(&self.fields)?))
    }
}
