//! What a reconcile works with: the object, the caches, the client.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::core::DynamicObject;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use super::Next;
use super::cause::{Cause, Causes};
use super::children::Memory;
use super::memory::KeyMemory;
use super::reference::References;
use super::report::{Notes, ReportedParts};
use super::switches::{Pause, Switches};
use crate::apply::Applied;
use crate::cache::{Cached, Key, Malformed};
use crate::client::Client;
use crate::clock::Clock;
use crate::condition::ConditionBuilder;
use crate::error::Result;
use crate::events::{EventType, Recorder};
use crate::finalizer::{self, Finalizing};
use crate::kind::{self, Kind};
use crate::list::List;

/// One reconcile of one key: its object, the caches, the client and the events.
///
/// Cheap to clone.
///
/// # Cancel safety
///
/// The futures of its methods may be dropped at any `.await`, as those of [`Client`].
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass::{Context, Controller, Error, Key, Manager, Next, Result, Watch};
///
/// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
///     let Some(map) = cx.object() else { return Ok(Next::Done) }; // deleted: not an error
///     let Some(from) = map.data.as_ref().and_then(|data| data.get("from")) else {
///         // A retry does not help before somebody changes the object.
///         return Err(Error::terminal(format!("{} names no source", cx.key())));
///     };
///     let Some(source) = cx.get::<Secret>(from)? else {
///         cx.warn("NoSource", format!("there is no secret {from}"));
///         return Ok(Next::Done); // its creation leads to another reconcile
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
///     .watch(Watch::map(|source: &Secret| {
///         let name = source.metadata.name.as_deref().unwrap_or_default();
///         vec![Key::namespaced("default", &format!("{name}-map"))]
///     }))
///     .build(reconcile);
/// let handle = Manager::new(server.client()).namespaces(["default"]).add(controller).spawn()?;
/// let client = handle.client();
/// # let mut map = config_map("gold-map");
/// # map.data = Some([("from".into(), "gold".into())].into());
/// # let mut gold = Secret::default();
/// # gold.metadata = config_map("gold").metadata;
/// client.api().create(&map).await?; // refers to `gold`
/// client.api().create(&gold).await?;
/// let (secrets, copy) = (client.api::<Secret>(), Key::namespaced("default", "gold-map-copy"));
/// let second = std::time::Duration::from_secs(1);
/// windlass::wait::until("the copy", second / 10, 10 * second, || async {
///     Ok(secrets.get(&copy).await?.is_some())
/// })
/// .await?;
/// let copy = secrets.get(&copy).await?.expect("was created");
/// assert_eq!(windlass::owner::controller_of(&*copy).expect("is owned").name, "gold-map");
/// # handle.stop().await
/// # }
/// ```
pub struct Context<K: kind::Object>(Arc<Inner<K>>);

struct Inner<K> {
    shared: Arc<Shared>,
    key: Key,
    /// The object in the cache when the reconcile began; known to decode.
    object: Option<Cached<K>>,
    /// The decoded object, once it was needed.
    decoded: OnceLock<Arc<K>>,
    failures: u32,
    causes: Causes,
    /// What is switched for this object, which is rare.
    day_two: Option<Box<DayTwo>>,
    /// How many objects and lists were read from the cache.
    reads: AtomicU32,
    notes: Mutex<Notes>,
}

/// What annotations of the object ask for.
struct DayTwo {
    switches: Switches,
    /// The pause, with the client that respects it.
    paused: Option<(Pause, Client)>,
}

/// The parts that all reconciles of a controller share.
pub(crate) struct Shared {
    pub(crate) controller: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) applied: Applied,
    pub(crate) children: Memory,
    pub(crate) memory: Arc<KeyMemory>,
    pub(crate) references: Option<Arc<References>>,
    pub(crate) parts: ReportedParts,
    /// The prefix of the annotations that switch something for one object.
    pub(crate) switch_prefix: Arc<str>,
    pub(crate) stopping: CancellationToken,
}

// === impl Context ===

impl<K: kind::Object> Context<K> {
    /// Makes a context, reusing the memory of one `before` that nobody else holds.
    ///
    /// # Errors
    ///
    /// Fails if the object does not decode into `K`.
    pub(super) fn new(
        before: Option<Self>,
        shared: &Arc<Shared>,
        object: Option<Cached<K>>,
        key: Key,
        failures: u32,
        causes: Causes,
    ) -> Result<Self, Malformed> {
        let day_two = object.as_ref().and_then(|object| DayTwo::of(object, shared));
        let decoded = OnceLock::new();
        if let Some(fresh) = object.as_ref().map(Cached::verify).transpose()?.flatten() {
            drop(decoded.set(fresh));
        }
        if let Some(mut before) = before
            && let Some(inner) = Arc::get_mut(&mut before.0)
        {
            (inner.key, inner.failures) = (key, failures);
            (inner.object, inner.decoded) = (object, decoded);
            (inner.causes, *inner.reads.get_mut()) = (causes, 0);
            inner.day_two = day_two;
            *inner.notes.get_mut() = Notes::default();
            return Ok(before);
        }
        let (shared, notes, reads) = (shared.clone(), Mutex::default(), AtomicU32::new(0));
        let inner = Inner { shared, key, object, decoded, failures, causes, day_two, reads, notes };
        Ok(Self(Arc::new(inner)))
    }

    /// Drops the object when the reconcile is over, and returns its causes; `None` if somebody else
    /// holds the context.
    pub(super) fn cleared(mut self) -> (Option<Self>, Causes, u32) {
        let Some(inner) = Arc::get_mut(&mut self.0) else {
            let reads = self.0.reads.load(Ordering::Relaxed);
            return (None, self.0.causes.clone(), reads);
        };
        (inner.object, inner.decoded) = (None, OnceLock::new());
        let (causes, reads) = (std::mem::take(&mut inner.causes), *inner.reads.get_mut());
        (Some(self), causes, reads)
    }

    /// Counts a read of the cache.
    pub(super) fn count_read(&self) {
        self.0.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// The last applies of the controller.
    pub(super) fn applied(&self) -> &Applied {
        &self.0.shared.applied
    }

    /// What the controller remembers of the children it has applied.
    pub(super) fn children_memory(&self) -> &Memory {
        &self.0.shared.children
    }

    /// What the controller remembers about each object.
    pub(super) fn key_memory(&self) -> &KeyMemory {
        &self.0.shared.memory
    }

    /// The references of the controller, if it has declared any.
    pub(super) fn references(&self) -> Option<&References> {
        self.0.shared.references.as_deref()
    }

    /// The named parts that each object had last.
    pub(super) fn reported_parts(&self) -> &ReportedParts {
        &self.0.shared.parts
    }

    /// What annotations switch for this object.
    pub(super) fn switches(&self) -> Option<&Switches> {
        self.0.day_two.as_deref().map(|day_two| &day_two.switches)
    }

    /// The pause of this object.
    pub(super) fn pause(&self) -> Option<&Pause> {
        self.0.day_two.as_deref()?.paused.as_ref().map(|(pause, _)| pause)
    }

    /// What the reconcile has to say besides its result. Not to be held across an await.
    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.notes.lock()
    }

    /// Reconciles again after this time at the latest, although the author asks for nothing.
    pub(super) fn wake_after(&self, after: Duration) {
        let mut notes = self.0.notes.lock();
        notes.wake = Some(notes.wake.map_or(after, |known| known.min(after)));
    }

    /// Returns what comes next, and never `Next::At`: what the author asks for, or earlier if
    /// something waits.
    pub(super) fn next(&self, asked: Next) -> Next {
        let asked = match asked {
            // A time that has passed must not keep a worker busy: it is retried with growing delay.
            Next::At(time) => {
                let left = time.duration_since(self.clock().now());
                Next::After(left.try_into().unwrap_or_default())
            }
            asked => asked,
        };
        match (asked, self.0.notes.lock().wake) {
            (Next::After(asked), Some(wake)) => Next::After(asked.min(wake)),
            (_, Some(wake)) => Next::After(wake),
            (asked, None) => asked,
        }
    }

    /// The object without decoding it.
    pub(crate) fn found(&self) -> Option<&Cached<K>> {
        self.0.object.as_ref()
    }

    /// Returns the key to reconcile.
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// Returns the name of the object.
    pub fn name(&self) -> &str {
        self.0.key.name()
    }

    /// Returns the namespace of the object; `None` for a cluster-scoped kind.
    pub fn namespace(&self) -> Option<&str> {
        self.0.key.namespace()
    }

    /// Returns the object as the cache had it when this reconcile began; `None` if it does not
    /// exist.
    ///
    /// It stays the same for the rest of the reconcile. An object that does not decode into `K` is
    /// never reconciled: the error is logged, counted and recorded as an event, and the object is
    /// looked at again when it changes.
    pub fn object(&self) -> Option<Arc<K>> {
        let object = self.found()?;
        let decoded = self.0.decoded.get_or_init(|| {
            object.get().expect("this version of the object was decoded before the reconcile began")
        });
        Some(decoded.clone())
    }

    /// Returns the kind that is reconciled.
    pub fn kind(&self) -> &Kind {
        &self.0.shared.kind
    }

    /// Returns the client: requests to the server, with the controller's name as field owner, and
    /// reads of everything in the cache.
    pub fn client(&self) -> &Client {
        match self.0.day_two.as_deref() {
            Some(DayTwo { paused: Some((_, client)), .. }) => client,
            _ => &self.0.shared.client,
        }
    }

    /// Returns how many reconciles of this key in a row have failed before.
    pub fn failures(&self) -> u32 {
        self.0.failures
    }

    /// Returns what led to this reconcile: at most eight objects and errors, and one cause of each
    /// other sort.
    ///
    /// The log span of a reconcile has them as well, and the diagnostics page those of the last 256
    /// reconciles. [`Cause`] has an example.
    pub fn causes(&self) -> Vec<Cause> {
        self.0.causes.list(true)
    }

    /// Returns the clock, for timestamps in a status.
    pub fn clock(&self) -> &Clock {
        &self.0.shared.clock
    }

    /// Waits until the manager begins to stop: a reconcile that waits for long should end then.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any time.
    pub async fn stopping(&self) {
        self.0.shared.stopping.cancelled().await;
    }

    /// Returns an object from the cache, by its name in the namespace of the reconciled object.
    ///
    /// An object elsewhere is read by its key, with [`Client::cached`] and
    /// [`Cache::get`](crate::cache::Cache::get).
    ///
    /// # Errors
    ///
    /// Fails if the kind was not declared with `owns`, `watch` or `reads`, or if the object does
    /// not decode.
    pub fn get<T: kind::Object<DynamicType = ()>>(&self, name: &str) -> Result<Option<Arc<T>>> {
        self.count_read();
        self.client().cached().get(&Key::new(self.namespace(), name))
    }

    /// Returns a list of objects in the cache, which starts with those in the namespace of the
    /// reconciled object.
    ///
    /// Lists of all namespaces, and of kinds known at run time, are made by
    /// [`Cache::list`](crate::cache::Cache::list) and
    /// [`Cache::list_of`](crate::cache::Cache::list_of) of [`Client::cached`].
    pub fn list<T: kind::Object<DynamicType = ()>>(&self) -> List<T> {
        self.count_read();
        let uid = self.found().map(|object| object.uid());
        self.client().cached().list().beside(self.namespace(), uid)
    }

    /// Returns `true` if the server serves a kind that the controller watches as
    /// [optional](super::Watch::optional), so that its objects can be read and written.
    pub fn serves(&self, kind: &Kind) -> bool {
        self.client().cached().serves(kind)
    }

    /// Starts a condition of the reconciled object, such as `Ready`: whether it holds, or `None` if
    /// that is unknown. Its clock and generation are set.
    ///
    /// [`status_as`](Self::status_as) has an example.
    pub fn condition(
        &self,
        type_: impl Into<String>,
        status: impl Into<Option<bool>>,
    ) -> ConditionBuilder {
        let generation = self.found().map(|object| object.generation()).filter(|known| *known > 0);
        ConditionBuilder::new(type_, status, self.clock()).generation(generation)
    }

    /// Runs `cleanup` before the object is deleted.
    ///
    /// Adds the finalizer to an object that is not being deleted, and returns
    /// [`Finalizing::Active`]. Once the object is being deleted, runs `cleanup`, removes the
    /// finalizer and returns [`Finalizing::Finalized`]. If the cleanup fails, the finalizer stays,
    /// and the error leads to a retry.
    ///
    /// Unlike that of a [`Reconciler`](super::Reconciler), the error of `cleanup` is not generic:
    /// the type of a closure such as `|| async { Ok(()) }` could not be inferred. `?` converts many
    /// errors, and [`Error::other`](crate::Error::other) one of any type:
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Context, Error, Next, Result};
    ///
    /// # #[derive(Debug, thiserror::Error)]
    /// # #[error("the bucket is not empty")]
    /// # struct NotEmpty;
    /// # async fn delete_bucket(name: &str) -> std::result::Result<(), NotEmpty> { Ok(()) }
    /// async fn reconcile(cx: Context<ConfigMap>) -> Result<Next> {
    ///     let cleanup = || async { delete_bucket(cx.name()).await.map_err(Error::other) };
    ///     cx.finalize("example.com/bucket", cleanup).await?;
    ///     Ok(Next::Done)
    /// }
    /// ```
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
        // Not the object this reconcile began with: it may have written to it since.
        let newest = self.client().cached().metadata(self.kind(), self.key())?;
        let Some(newest) = newest else { return Ok(Finalizing::Finalized) };
        if newest.uid.as_deref() != Some(object.uid()) {
            return Err(self.recreated("finalize"));
        }
        let api = self.client().api_of::<DynamicObject>(self.kind());
        finalizer::run(&api, self.key(), &newest, finalizer, cleanup).await
    }

    /// Records a normal event about the object.
    pub fn event(&self, reason: &str, note: impl Into<String>) {
        self.publish(EventType::Normal, reason, note.into());
    }

    /// Records a warning event about the object.
    pub fn warn(&self, reason: &str, note: impl Into<String>) {
        self.publish(EventType::Warning, reason, note.into());
    }

    fn publish(&self, event_type: EventType, reason: &str, note: String) {
        let kind = self.kind();
        let mut regarding = self.key().object_reference(kind);
        regarding.uid = self.found().map(|object| object.uid().to_string());
        self.0.shared.recorder.publish(event_type, regarding, reason, "Reconcile", note);
    }

    /// Returns the recorder, for events about other objects.
    pub fn recorder(&self) -> &Recorder {
        &self.0.shared.recorder
    }
}

// === impl DayTwo ===

impl DayTwo {
    fn of<K>(object: &Cached<K>, shared: &Shared) -> Option<Box<Self>> {
        let switches = Switches::of(object, &shared.switch_prefix)?;
        let pause = switches.pause(&shared.switch_prefix, shared.clock.now());
        let paused = pause.map(|pause| {
            let client = shared.client.paused(pause.until);
            (pause, client)
        });
        Some(Box::new(Self { switches, paused }))
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
