//! What a reconcile holds in its hands.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::core::{DynamicObject, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::apply::{self, Applied};
use crate::cache::{Cached, Key, Listing, Malformed, ObjectName, Reader};
use crate::client::{Client, Live, Patch};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::events::{EventType, Recorder};
use crate::finalizer::{self, Finalizing};
use crate::kind::{self, Kind};
use crate::owner;

/// One reconcile of one key: the object, the cache, the client, the events.
///
/// Cheap to clone.
///
/// # Cancel safety
///
/// Its methods may be dropped at an `.await`, as those of [`Client`].
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass::{Context, Controller, Error, Key, Manager, Next, Result};
///
/// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
///     let Some(map) = cx.object() else { return Ok(Next::Done) }; // gone is no error
///     let Some(from) = map.data.as_ref().and_then(|data| data.get("from")) else {
///         // Trying again does not help before somebody changes the object.
///         return Err(Error::terminal(format!("{} names no source", cx.key())));
///     };
///     let Some(source) = cx.get::<Secret>(from)? else {
///         cx.warn("NoSource", format!("there is no secret {from}"));
///         return Ok(Next::Done); // its creation leads here again
///     };
///     let mut copy = Secret { data: source.data.clone(), ..Secret::default() };
///     copy.metadata.name = Some(format!("{}-copy", cx.name()));
///     cx.apply(&copy).await?;
///     cx.event("Copied", format!("from {from}"));
///     Ok(Next::Done)
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
/// let controller = Controller::<ConfigMap>::builder("copies")
///     .owns::<Secret>()
///     .watches(|source: &Secret| {
///         let name = source.metadata.name.as_deref().unwrap_or_default();
///         vec![Key::namespaced("default", &format!("{name}-map"))]
///     })
///     .build(reconcile);
/// let handle = Manager::builder(server.client()).namespaces(["default"]).add(controller).spawn()?;
/// let client = handle.client();
/// # let mut map = config_map("gold-map");
/// # map.data = Some([("from".into(), "gold".into())].into());
/// # let mut gold = Secret::default();
/// # gold.metadata = config_map("gold").metadata;
/// client.create(&map).await?; // refers to `gold`
/// client.create(&gold).await?;
/// let copy = Key::namespaced("default", "gold-map-copy");
/// let second = std::time::Duration::from_secs(1);
/// windlass::wait::until("the copy", second / 10, 10 * second, || async {
///     Ok(client.live().get::<Secret>(&copy).await?.is_some())
/// })
/// .await?;
/// let copy = client.live().get::<Secret>(&copy).await?.expect("was made");
/// assert_eq!(windlass::owner::controller_of(&*copy).expect("is owned").name, "gold-map");
/// # handle.stop().await
/// # }
/// ```
pub struct Context<K: kind::Object>(Arc<Inner<K>>);

struct Inner<K> {
    shared: Arc<Shared>,
    reader: Reader<K>,
    key: Key,
    /// The object when somebody first asked for it; decoded when somebody looks at it.
    object: OnceLock<Option<Cached<K>>>,
    decoded: OnceLock<Arc<K>>,
    failures: u32,
}

/// What a reconcile unwinds with that looks at an object which does not decode: it must neither
/// go on nor believe that the object is gone.
pub(crate) struct Undecodable(pub(crate) Malformed);

/// What all reconciles of a controller share.
pub(crate) struct Shared {
    pub(crate) controller: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) applied: Applied,
    pub(crate) stopping: CancellationToken,
}

// === impl Context ===

impl<K: kind::Object> Context<K> {
    /// Makes a context, in the room of one `before` that nobody else holds.
    pub(crate) fn new(
        before: Option<Self>,
        shared: &Arc<Shared>,
        reader: &Reader<K>,
        key: Key,
        failures: u32,
    ) -> Self {
        if let Some(mut before) = before
            && let Some(inner) = Arc::get_mut(&mut before.0)
        {
            (inner.key, inner.failures) = (key, failures);
            return before;
        }
        let (shared, reader) = (shared.clone(), reader.clone());
        let (object, decoded) = (OnceLock::new(), OnceLock::new());
        Self(Arc::new(Inner { shared, reader, key, object, decoded, failures }))
    }

    /// Lets go of the object when the reconcile is over; `None` if somebody else holds the context.
    pub(crate) fn cleared(mut self) -> Option<Self> {
        let inner = Arc::get_mut(&mut self.0)?;
        (inner.object, inner.decoded) = (OnceLock::new(), OnceLock::new());
        Some(self)
    }

    /// The object without decoding it: looked up once, by the first who asks. Most who are told of
    /// a change ask at once, and who does not is not to wait for it.
    pub(crate) fn found(&self) -> Option<&Cached<K>> {
        self.0.object.get_or_init(|| self.0.reader.object(&self.0.key)).as_ref()
    }

    /// The key to reconcile.
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// The name of the object.
    pub fn name(&self) -> &str {
        self.0.key.name()
    }

    /// The namespace of the object, if its kind has them.
    pub fn namespace(&self) -> Option<&str> {
        self.0.key.namespace()
    }

    /// The object as the cache had it when this reconcile first asked for it; `None` if it is gone.
    ///
    /// It stays the same for the rest of the reconcile. A reconcile of an object that does not
    /// decode ends here: the error is recorded and not retried before the object changes.
    pub fn object(&self) -> Option<Arc<K>> {
        let object = self.found()?;
        if let Some(decoded) = self.0.decoded.get() {
            return Some(decoded.clone());
        }
        match object.get() {
            Ok(object) => Some(self.0.decoded.get_or_init(|| object).clone()),
            Err(malformed) => std::panic::resume_unwind(Box::new(Undecodable(malformed))),
        }
    }

    /// The kind that is reconciled.
    pub fn kind(&self) -> &Kind {
        &self.0.shared.kind
    }

    /// The client: cached reads, live writes, field owner set to the controller's name.
    pub fn client(&self) -> &Client {
        &self.0.shared.client
    }

    /// Reads that ask the server.
    pub fn live(&self) -> Live<'_> {
        self.0.shared.client.live()
    }

    /// How often this key failed in a row before.
    pub fn failures(&self) -> u32 {
        self.0.failures
    }

    /// Where timestamps for status fields come from.
    pub fn clock(&self) -> &Clock {
        &self.0.shared.clock
    }

    /// Completes when the manager begins to stop: long waits should end.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub async fn stopping(&self) {
        self.0.shared.stopping.cancelled().await;
    }

    /// Reads an object from the cache: by name in the same namespace, or by key anywhere.
    ///
    /// Shorthand for [`Cache::get`](crate::cache::Cache::get) of [`Client::cached`].
    ///
    /// # Errors
    ///
    /// Fails if the kind was not declared with `owns`, `watches` or `reads`, or if the object does
    /// not decode.
    pub fn get<'a, T>(&self, name: impl Into<ObjectName<'a>>) -> Result<Option<Arc<T>>>
    where
        T: kind::Object<DynamicType = ()>,
    {
        let cache = self.client().cached();
        match name.into() {
            ObjectName::Name(name) => cache.get(&Key::new(self.namespace(), name)),
            ObjectName::Key(key) => cache.get(key),
        }
    }

    /// Lists objects from the cache; starts with all in the same namespace.
    pub fn list<T: kind::Object<DynamicType = ()>>(&self) -> Listing<T> {
        self.beside(self.client().cached().list())
    }

    /// Reads objects of a kind known at run time from the cache; starts in the same namespace.
    pub fn dynamic(&self, kind: &Kind) -> Listing<DynamicObject> {
        self.beside(self.client().cached().dynamic(kind))
    }

    fn beside<T: kind::Object>(&self, listing: Listing<T>) -> Listing<T> {
        listing.beside(self.namespace(), self.found().map(|object| object.uid()))
    }

    /// Makes `object` so: server-side apply with this object as its controller.
    ///
    /// Sends nothing if the cache shows that nothing would change. An object in another namespace,
    /// or one applied while the reconciled object is gone, gets no owner reference.
    ///
    /// # Errors
    ///
    /// Fails if another controller owns the object, or if the server refuses.
    pub async fn apply<T: kind::Object<DynamicType = ()>>(&self, object: &T) -> Result<Arc<T>> {
        let mut wanted = object.clone();
        if wanted.meta().namespace.is_none() && Kind::of::<T>().namespaced() {
            wanted.meta_mut().namespace = self.namespace().map(str::to_string);
        }
        if let Some(me) = self.object()
            && owner::may_own(me.meta(), wanted.meta())
        {
            owner::set_controller_with(me.meta(), self.kind(), wanted.meta_mut())?;
        }
        apply::apply(self.client(), &self.0.shared.applied, &wanted).await
    }

    /// The same for an object of a kind known at run time; always sent.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply).
    pub async fn apply_kind(&self, kind: &Kind, object: &DynamicObject) -> Result<DynamicObject> {
        let mut wanted = object.clone();
        if wanted.metadata.namespace.is_none() && kind.namespaced() {
            wanted.metadata.namespace = self.namespace().map(str::to_string);
        }
        if let Some(me) = self.object()
            && owner::may_own(me.meta(), &wanted.metadata)
        {
            owner::set_controller_with(me.meta(), self.kind(), &mut wanted.metadata)?;
        }
        self.client().dynamic(kind).apply(&wanted).await
    }

    /// Changes the status; sends a patch only if something differs.
    ///
    /// Starts from the newest status this process knows, its own writes included. The patch names
    /// the UID, so a re-created object is never given the status of its predecessor.
    ///
    /// # Errors
    ///
    /// Fails if the status does not decode into `S`, or if the server refuses.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{Service, ServiceStatus};
    /// use windlass::{Client, Context, Controller, Key, Manager, Next, Result, condition};
    ///
    /// async fn reconcile(cx: Context<Service>) -> Result<Next> {
    ///     let Some(service) = cx.object() else { return Ok(Next::Done) };
    ///     let generation = service.metadata.generation.unwrap_or_default();
    ///     cx.status(|status: &mut ServiceStatus| {
    ///         let conditions = status.conditions.get_or_insert_default();
    ///         let (reason, message) = ("Checked", "all is well");
    ///         condition::set(conditions, cx.clock(), "Ready", true, reason, message, generation);
    ///     })
    ///     .await?;
    ///     Ok(Next::Done)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> windlass::Result<()> {
    /// # let server = windlass_apiserver::ApiServer::start();
    /// let controller = Controller::<Service>::builder("ready").build(reconcile);
    /// let manager = Manager::builder(server.client()).namespaces(["default"]).add(controller);
    /// let handle = manager.spawn()?;
    /// let client = handle.client();
    /// # let service: Service = serde_json::from_value(serde_json::json!({
    /// #     "metadata": {"name": "web", "namespace": "default"},
    /// #     "spec": {"ports": [{"port": 80}]},
    /// # }))?;
    /// client.create(&service).await?;
    /// let (key, second) = (Key::of(&service), std::time::Duration::from_secs(1));
    /// windlass::wait::until("the condition", second / 10, 10 * second, || async {
    ///     let service = client.live().get::<Service>(&key).await?.expect("is there");
    ///     let conditions = service.status.as_ref().and_then(|status| status.conditions.as_ref());
    ///     Ok(conditions.is_some_and(|conditions| condition::is_true(conditions, "Ready")))
    /// })
    /// .await?;
    /// # handle.stop().await
    /// # }
    /// ```
    pub async fn status<S>(&self, change: impl FnOnce(&mut S)) -> Result<bool>
    where
        S: Serialize + DeserializeOwned + Default,
    {
        let newest = self.client().cached().json(self.kind(), self.key())?;
        let Some(object) = newest else { return Ok(false) };
        let before = object.get("status").cloned().unwrap_or(Value::Null);
        let what = || format!("status of {} {}", self.kind(), self.key());
        let mut status: S = match &before {
            Value::Null => S::default(),
            value => serde_json::from_value(value.clone())
                .map_err(|source| Error::Decode { what: what(), source })?,
        };
        change(&mut status);
        let after = serde_json::to_value(&status)
            .map_err(|source| Error::Decode { what: what(), source })?;
        let Some(patch) = apply::merge_diff(&before, &after) else { return Ok(false) };
        let patch = json!({"metadata": {"uid": object["metadata"]["uid"]}, "status": patch});
        let api = self.client().dynamic(self.kind());
        api.patch_status(self.key(), &Patch::Merge(patch)).await?;
        Ok(true)
    }

    /// Runs `cleanup` before the object may go.
    ///
    /// While the object lives, sees to it that the finalizer is there and returns
    /// [`Finalizing::Active`]. Once the object is being deleted, runs `cleanup`, takes the
    /// finalizer away and returns [`Finalizing::Finalized`]; a cleanup that fails is tried again
    /// with growing delay.
    ///
    /// # Errors
    ///
    /// Fails if the cleanup fails or the server refuses.
    pub async fn finalize<F, Fut>(&self, finalizer: &str, cleanup: F) -> Result<Finalizing>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<()>>,
    {
        let Some(object) = self.found() else { return Ok(Finalizing::Finalized) };
        // Not as this reconcile saw it first: it may have written to the object since.
        let newest = self.client().cached().metadata(self.kind(), self.key())?;
        let Some(newest) = newest else { return Ok(Finalizing::Finalized) };
        if newest.uid.as_deref() != Some(object.uid()) {
            let status =
                Status::failure("created again since the reconcile looked at it", "Conflict");
            let action = format!("finalize {} {}", self.kind().kind(), self.key());
            return Err(Error::Api { action, status: Box::new(status.with_code(409)) });
        }
        let api = self.client().dynamic(self.kind());
        finalizer::run(&api, self.key(), &newest, finalizer, cleanup).await
    }

    /// Records an event about the object.
    pub fn event(&self, reason: &str, note: impl Into<String>) {
        self.publish(EventType::Normal, reason, note.into());
    }

    /// Records a warning about the object.
    pub fn warn(&self, reason: &str, note: impl Into<String>) {
        self.publish(EventType::Warning, reason, note.into());
    }

    fn publish(&self, event_type: EventType, reason: &str, note: String) {
        let kind = self.kind();
        let mut regarding = self.key().object_reference(&kind.api_resource());
        regarding.uid = self.found().map(|object| object.uid().to_string());
        self.0.shared.recorder.publish(event_type, regarding, reason, "Reconcile", note);
    }

    /// Publishes events about any object.
    pub fn recorder(&self) -> &Recorder {
        &self.0.shared.recorder
    }

    /// Waits until `ready` says yes, asking again every `period`; gives up after `timeout`.
    ///
    /// # Errors
    ///
    /// Fails after `timeout`, or with the first error of `ready`.
    ///
    /// The worker is taken for that time; [`Next::After`](super::Next::After) leaves it to others.
    /// [`wait::until`](crate::wait::until) does the same, for whatever is waited for, and has an
    /// example.
    pub async fn wait_until<F, Fut>(
        &self,
        period: Duration,
        timeout: Duration,
        ready: F,
    ) -> Result<()>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<bool>>,
    {
        crate::wait::until(&format!("{} {}", self.kind(), self.key()), period, timeout, ready).await
    }
}

impl<K: kind::Object> Clone for Context<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: kind::Object> fmt::Debug for Context<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("controller", &self.0.shared.controller)
            .field("key", &self.0.key)
            .finish_non_exhaustive()
    }
}
