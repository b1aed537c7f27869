//! The handle of an index.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A named look-up of objects of type `K` by values of type `V`.
///
/// Made once, used wherever objects are listed; the index comes into being with its first use.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::{Context, Controller, IndexBy, Key, Manager, Next};
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
/// let by_color: IndexBy<ConfigMap, String> = IndexBy::new("color", |map: &ConfigMap| {
///     map.data.iter().filter_map(|data| data.get("color").cloned()).collect()
/// });
/// let maps = Controller::<ConfigMap>::builder("maps")
///     .build(|_: Context<ConfigMap>| async { Ok(Next::Done) });
/// let handle = Manager::builder(server.client()).add(maps).spawn()?;
/// handle.ready().await;
/// let mut map = config_map("a");
/// map.data = Some([("color".into(), "blue".into())].into());
/// handle.client().create(&map).await?;
///
/// // In a reconcile `cx.list::<ConfigMap>().by(&by_color, &value)` says the same.
/// let blue = handle.client().list_by(&by_color, &"blue".to_string())?;
/// assert_eq!(Key::of(&*blue[0]), Key::of(&map));
/// assert!(handle.client().list_by(&by_color, &"red".to_string())?.is_empty());
/// # handle.stop().await
/// # }
/// ```
///
/// An index of pods finds no services:
///
/// ```compile_fail
/// # use k8s_openapi::api::core::v1::{Pod, Service};
/// # use windlass::{Context, IndexBy, Next, Result};
/// # async fn reconcile(cx: Context<Service>, by_node: IndexBy<Pod, String>) -> Result<Next> {
/// cx.list::<Service>().by(&by_node, &"node-1".to_string())?;
/// # Ok(Next::Done)
/// # }
/// ```
pub struct IndexBy<K, V> {
    pub(super) name: String,
    pub(super) values: Arc<Values<K, V>>,
    object: PhantomData<fn() -> K>,
}

pub(super) type Values<K, V> = dyn Fn(&K) -> Vec<V> + Send + Sync;

// === impl IndexBy ===

impl<K, V> IndexBy<K, V> {
    /// A look-up under `name` by what `values` computes; the function has to be pure.
    pub fn new(name: &str, values: impl Fn(&K) -> Vec<V> + Send + Sync + 'static) -> Self {
        Self { name: name.into(), values: Arc::new(values), object: PhantomData }
    }
}

impl<K, V> Clone for IndexBy<K, V> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), values: self.values.clone(), object: PhantomData }
    }
}

impl<K, V> fmt::Debug for IndexBy<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexBy").field("name", &self.name).finish_non_exhaustive()
    }
}
