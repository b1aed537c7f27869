//! A watch that is shared: its store, its state and its handlers.
//!
//! **Invariant:** the watch runs as long as an informer, a reader or a subscription of it
//! lives, and no longer.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::DropGuard;

use super::index::IndexGuard;
use super::mailbox::Mailbox;
use super::reflector::WatchStats;
use super::state::{SyncState, SyncStates};
use super::{Event, Reader, Store};
use crate::clock;
use crate::ordered_watch;

/// A running watch of one kind and scope, seen as objects of type `K`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::cache::{Cache, Event, HandlerOptions, Key, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = windlass::Client::new(server.client());
/// # let mut map = ConfigMap::default();
/// # map.metadata.name = Some("settings".into());
/// # map.metadata.namespace = Some("default".into());
/// # client.create(&map).await?;
/// # let cache = Cache::new(server.client());
/// let maps = cache.informer::<ConfigMap>(&Scope::all().namespace("default"));
///
/// // A handler that is called, and one whose events are awaited: each gets the present first.
/// let handler = maps.handle(HandlerOptions::default(), |event| println!("{}", event.key()));
/// let mut events = maps.subscribe(HandlerOptions::default());
/// let first = events.recv().await.expect("the informer runs");
/// assert!(matches!(first, Event::Added { initial: true, .. }));
/// assert_eq!(first.key(), &Key::namespaced("default", "settings"));
///
/// handler.synced().await;
/// assert!(maps.state().synced());
/// drop(handler); // it is not called any more
/// # Ok(())
/// # }
/// ```
pub struct Informer<K> {
    core: Arc<Core>,
    _object: PhantomData<fn() -> K>,
}

/// Settings of a handler.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::Client;
/// use windlass::cache::{Cache, Event, HandlerOptions, Scope};
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
/// # client.create(&config_map("a")).await?;
/// let cache = Cache::new(server.client());
/// let maps = cache.informer::<ConfigMap>(&Scope::all().namespace("default"));
/// let mut events = maps.subscribe(HandlerOptions { resync: Some(Duration::from_secs(3600)) });
/// assert!(matches!(events.recv().await, Some(Event::Added { initial: true, .. })));
/// assert!(matches!(events.recv().await, Some(Event::Resync { .. })), "an hour later");
/// events.remind(); // or at once
/// assert!(matches!(events.try_recv(), Some(Event::Resync { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandlerOptions {
    /// Reminds the handler of every object after this time, at least a second.
    pub resync: Option<Duration>,
}

/// The events for one handler, taken one after the other; dropping it removes the handler.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::Namespace;
/// use windlass::cache::{Cache, Event, HandlerOptions, Informer, Scope, Subscription};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let namespaces: Informer<Namespace> = Cache::new(client).informer(&Scope::all());
/// let mut events: Subscription<Namespace> = namespaces.subscribe(HandlerOptions::default());
/// while let Some(event) = events.recv().await {
///     if let Event::Added { object, .. } = event
///         && object.key().name() == "default"
///     {
///         break;
///     }
/// }
/// # }
/// ```
pub struct Subscription<K> {
    reader: Reader<K>,
    mailbox: Arc<Mailbox>,
    resync: Option<(Duration, Instant)>,
}

/// A handler that runs; dropping it removes the handler.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::Namespace;
/// use windlass::cache::{Cache, HandlerGuard, HandlerOptions, InformerStats, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let namespaces = Cache::new(client).informer::<Namespace>(&Scope::all());
/// let hourly = HandlerOptions { resync: Some(Duration::from_secs(3600)) };
/// let guard: HandlerGuard = namespaces.handle(hourly, |event| println!("{}", event.key()));
/// guard.synced().await;
/// assert_eq!((guard.lag(), guard.panics()), (0, 0));
/// let figures: InformerStats = namespaces.stats();
/// assert!(figures.objects > 0 && figures.failures == 0);
/// # }
/// ```
pub struct HandlerGuard {
    /// Keeps the watch running; the task does not, so that the watch ends with the guard.
    _core: Arc<Core>,
    task: JoinHandle<()>,
    mailbox: Arc<Mailbox>,
    panics: Arc<AtomicU64>,
}

/// The figures of a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InformerStats {
    /// Objects in the store.
    pub objects: usize,
    /// Bytes the objects take.
    pub bytes: usize,
    /// Lists sent, counting pages.
    pub lists: u64,
    /// Watches opened.
    pub watches: u64,
    /// Events received.
    pub events: u64,
    /// Bookmarks received.
    pub bookmarks: u64,
    /// Failed lists and watches.
    pub failures: u64,
    /// Objects that could not be read.
    pub skipped: u64,
    /// Streaming lists that were replaced by plain ones.
    pub fallbacks: u64,
    /// How often the observer of requests panicked.
    pub observer_panics: u64,
    /// Connections of watches that broke, or ended within an event.
    pub breaks: u64,
    /// Objects that did not decode into a type they were read as.
    pub undecodable: u64,
    /// How often functions of indexes panicked.
    pub index_panics: u64,
    /// Objects with events that a handler has not taken yet; the slowest handler counts.
    pub lag: usize,
}

/// What all informers of one watch share.
pub(super) struct Core {
    pub(super) store: Store,
    pub(super) states: Arc<SyncStates>,
    pub(super) stats: Arc<WatchStats>,
    /// The namespaces that are cached; empty for all.
    pub(super) namespaces: BTreeSet<String>,
    /// The indexes that are declared for the kind.
    pub(super) indexes: Mutex<Vec<IndexGuard>>,
    /// Ends the tasks of the watch.
    pub(super) _running: DropGuard,
}

// === impl Informer ===

impl<K: DeserializeOwned + Send + Sync + 'static> Informer<K> {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core, _object: PhantomData }
    }

    /// Returns the typed view of the store; it keeps the watch running.
    pub fn reader(&self) -> Reader<K> {
        let keep: Arc<dyn Any + Send + Sync> = self.core.clone();
        self.core.store.reader().keep(keep)
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.core.store
    }

    /// Returns the state of the watch.
    pub fn state(&self) -> SyncState {
        self.core.states.get()
    }

    /// Returns the state of the watch as a value to wait on.
    pub fn states(&self) -> ordered_watch::Receiver<SyncState> {
        self.core.states.watch()
    }

    /// Returns `true` if the store holds whole objects; `false` for one of metadata, also while it
    /// is on the way to become one of whole objects.
    #[cfg(test)]
    pub(crate) fn whole(&self) -> bool {
        self.core.states.is_full()
    }

    /// Waits until the store holds the whole scope.
    ///
    /// # Errors
    ///
    /// Fails with the state at once if it is forbidden or there is no such kind, otherwise
    /// when the time is up. The watch keeps trying in any case.
    pub async fn synced(&self, within: Duration) -> Result<(), SyncState> {
        let mut states = self.states();
        let settled = states.wait_for(|state| state.synced() || state.blocked());
        match timeout(within, settled).await {
            Ok(Ok(state)) if state.synced() => Ok(()),
            Ok(Ok(state)) => Err(state.clone()),
            Ok(Err(_)) | Err(_) => Err(self.state()),
        }
    }

    /// Adds a handler whose events are awaited; it first gets the current state, exactly once.
    pub fn subscribe(&self, options: HandlerOptions) -> Subscription<K> {
        let mailbox = Arc::new(Mailbox::new());
        self.core.store.subscribe(mailbox.clone());
        let resync = options.resync.map(|every| every.max(Duration::from_secs(1)));
        let resync = resync.map(|every| (every, clock::after(every)));
        Subscription { reader: self.reader(), mailbox, resync }
    }

    /// Adds a handler that is called in a task of its own; it first gets the current state,
    /// exactly once. A handler that panics is called again with the next event.
    pub fn handle(
        &self,
        options: HandlerOptions,
        mut handler: impl FnMut(Event<K>) + Send + 'static,
    ) -> HandlerGuard {
        let mut subscription = self.subscribe(options);
        subscription.reader = self.core.store.reader();
        let mailbox = subscription.mailbox.clone();
        let panics = Arc::new(AtomicU64::new(0));
        let counted = panics.clone();
        let task = tokio::spawn(async move {
            while let Some(event) = subscription.recv().await {
                let key = event.key().clone();
                if catch_unwind(AssertUnwindSafe(|| handler(event))).is_err() {
                    counted.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(object = %key, "event handler panicked");
                }
                tokio::task::consume_budget().await;
            }
        });
        HandlerGuard { _core: self.core.clone(), task, mailbox, panics }
    }

    /// Returns the same watch, seen as another type.
    pub fn view<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Informer<T> {
        Informer::new(self.core.clone())
    }

    /// Reads the figures of the watch.
    pub fn stats(&self) -> InformerStats {
        let stats = &self.core.stats;
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        InformerStats {
            objects: self.core.store.len(),
            bytes: self.core.store.size(),
            lists: read(&stats.lists),
            watches: read(&stats.watches),
            events: read(&stats.events),
            bookmarks: read(&stats.bookmarks),
            failures: read(&stats.failures),
            skipped: read(&stats.skipped),
            fallbacks: read(&stats.fallbacks),
            observer_panics: read(&stats.observer_panics),
            breaks: read(&stats.breaks),
            undecodable: self.core.store.undecodable(),
            index_panics: self.core.store.index_panics(),
            lag: self.core.store.lag(),
        }
    }
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone(), _object: PhantomData }
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.core.states.get();
        f.debug_struct("Informer").field("store", &self.core.store).field("state", &state).finish()
    }
}

// === impl Subscription ===

impl<K: DeserializeOwned + Send + Sync + 'static> Subscription<K> {
    /// Waits for the next event; the one before counts as handled. `None` once removed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn recv(&mut self) -> Option<Event<K>> {
        loop {
            // Before the mailbox: a handler that always has one more event is reminded as well.
            if let Some((every, due)) = self.resync
                && Instant::now() >= due
            {
                self.reader.store().resync(&self.mailbox);
                self.resync = Some((every, clock::after(every)));
            }
            if let Some(event) = self.try_recv() {
                return Some(event);
            }
            if self.mailbox.closed() {
                return None;
            }
            match self.resync {
                None => self.mailbox.ready().await,
                Some((_, due)) => {
                    tokio::select! {
                        biased;
                        () = self.mailbox.ready() => {}
                        () = sleep_until(due) => {}
                    }
                }
            }
        }
    }

    /// Returns the next event if there is one; the one before counts as handled.
    pub fn try_recv(&mut self) -> Option<Event<K>> {
        self.mailbox.take().map(|notice| Event::new(notice, &self.reader))
    }

    /// Reminds this handler of every object now.
    pub fn remind(&mut self) {
        self.reader.store().resync(&self.mailbox);
    }

    /// Returns whether every object of the first sync was handled, as a value to wait on.
    pub fn synced(&self) -> ordered_watch::Receiver<bool> {
        self.mailbox.synced()
    }

    /// Returns how many objects have events waiting.
    pub fn lag(&self) -> usize {
        self.mailbox.figures().0
    }
}

impl<K> Drop for Subscription<K> {
    fn drop(&mut self) {
        self.mailbox.close();
        self.reader.detach(&self.mailbox);
    }
}

// === impl HandlerGuard ===

impl HandlerGuard {
    /// Waits until the handler has handled everything that was there at the first sync.
    pub async fn synced(&self) {
        // The sender lives in the mailbox, which this holds.
        let _ = self.mailbox.synced().wait_for(|synced| *synced).await;
    }

    /// Returns whether the first sync is handled, as a value to wait on without keeping the handler.
    pub(crate) fn handled(&self) -> ordered_watch::Receiver<bool> {
        self.mailbox.synced()
    }

    /// Returns how many objects have events waiting for the handler.
    pub fn lag(&self) -> usize {
        self.mailbox.figures().0
    }

    /// Returns how many events were merged into earlier ones.
    pub fn merged(&self) -> u64 {
        self.mailbox.figures().1
    }

    /// Returns how often the handler panicked.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

impl Drop for HandlerGuard {
    fn drop(&mut self) {
        self.mailbox.close();
        self.task.abort();
    }
}
