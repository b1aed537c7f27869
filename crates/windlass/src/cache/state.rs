//! The state of a watch: a value to read and to wait on.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ordered_watch;

/// The state of a watch.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use kube::core::DynamicObject;
/// use windlass::Kind;
/// use windlass::cache::{Cache, Scope, SyncState};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let drive = Kind::new("ships.example.com", "v1", "Drive", "drives");
/// let drives = Cache::new(client).informer_of::<DynamicObject>(&drive, &Scope::default());
/// // Fails at once, not after an hour; the watch begins when somebody installs the kind.
/// let state = drives.synced(Duration::from_secs(3600)).await.expect_err("nobody serves it");
/// assert!(matches!(state, SyncState::NoKind(_)));
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncState {
    /// Nothing is known yet.
    Pending,
    /// Nothing can be requested: the scope or the kind is not valid.
    Invalid(String),
    /// The server does not answer, or not properly, and never has.
    Unreachable(String),
    /// The server refuses; the watch continues by itself once permission is granted.
    Forbidden(String),
    /// The server does not serve the kind; the watch continues by itself once it does.
    NoKind(String),
    /// The store holds the whole scope and follows it.
    Synced {
        /// The version of the last list.
        version: u64,
    },
    /// The store holds what was known at that time; the watch tries to continue.
    Stale {
        /// When the watch broke.
        since: Instant,
        /// Why it broke.
        reason: String,
    },
}

/// The states of all sources of a store, and the one that represents them.
pub(super) struct SyncStates {
    sources: Mutex<Sources>,
    /// Whole objects are wanted; `false` as long as metadata will do.
    full_wanted: ordered_watch::Sender<bool>,
    /// All sources have brought whole objects.
    complete: AtomicBool,
    /// Every source has brought everything once: what is missing is not there.
    filled: AtomicBool,
    /// The namespaces of which that is so, if they come and go.
    held: ArcSwap<BTreeSet<String>>,
    joint: ordered_watch::Sender<SyncState>,
}

#[derive(Default)]
struct Sources {
    all: Vec<SourceState>,
    /// All sources of now were added.
    known: bool,
}

#[derive(Clone)]
struct SourceState {
    /// The namespace, if namespaces come and go.
    namespace: Option<String>,
    state: SyncState,
    /// It has brought everything once.
    brought: bool,
    /// Its namespace is not cached any more.
    ended: bool,
}

// === impl SyncState ===

impl SyncState {
    /// Returns `true` if the store follows the server.
    pub(crate) fn synced(&self) -> bool {
        matches!(self, Self::Synced { .. })
    }

    /// Returns `true` if somebody has to act before the watch can continue.
    pub(crate) fn blocked(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::Forbidden(_) | Self::NoKind(_))
    }

    /// Orders states: the worst of several sources represents all.
    fn rank(&self) -> u8 {
        match self {
            Self::Invalid(_) | Self::Forbidden(_) => 0,
            Self::NoKind(_) => 1,
            Self::Unreachable(_) => 2,
            Self::Pending => 3,
            Self::Stale { .. } => 4,
            Self::Synced { .. } => 5,
        }
    }
}

impl fmt::Display for SyncState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("pending"),
            Self::Invalid(reason) => write!(f, "invalid: {reason}"),
            Self::Unreachable(reason) => write!(f, "unreachable: {reason}"),
            Self::Forbidden(reason) => write!(f, "forbidden: {reason}"),
            Self::NoKind(reason) => write!(f, "no such kind: {reason}"),
            Self::Synced { version } => write!(f, "synced at version {version}"),
            Self::Stale { since, reason } => {
                write!(f, "stale for {} s: {reason}", since.elapsed().as_secs())
            }
        }
    }
}

// === impl SyncStates ===

impl SyncStates {
    pub(super) fn new(sources: usize, full: bool) -> Self {
        Self {
            sources: Mutex::new(Sources {
                all: vec![SourceState::new(None); sources],
                known: true,
            }),
            full_wanted: ordered_watch::Sender::new(full),
            complete: AtomicBool::new(full),
            filled: AtomicBool::new(false),
            held: ArcSwap::default(),
            joint: ordered_watch::Sender::new(SyncState::Pending),
        }
    }

    /// Creates the states of sources that come and go.
    pub(super) fn of_chosen(full: bool) -> Self {
        let states = Self::new(0, full);
        states.sources.lock().known = false;
        states
    }

    /// Adds the source of a namespace.
    pub(super) fn add(&self, source: usize, namespace: &str) {
        let mut sources = self.sources.lock();
        let added = SourceState::new(Some(namespace.to_owned()));
        match sources.all.get_mut(source) {
            Some(free) => *free = added,
            None => sources.all.push(added),
        }
        self.publish(&sources);
    }

    /// Ends a source whose namespace is not cached any more.
    pub(super) fn end(&self, source: usize) {
        let mut sources = self.sources.lock();
        sources.all[source].ended = true;
        self.publish(&sources);
    }

    /// Notes that all sources of now were added.
    pub(super) fn sources_known(&self) {
        let mut sources = self.sources.lock();
        sources.known = true;
        self.publish(&sources);
    }

    /// Returns `true` if the first list of a namespace is there.
    pub(super) fn holds(&self, namespace: &str) -> bool {
        self.held.load().contains(namespace)
    }

    /// Returns `true` if a namespace is cached, or will be when its first list is there.
    pub(super) fn has(&self, namespace: &str) -> bool {
        let sources = self.sources.lock();
        sources.active().any(|source| source.namespace.as_deref() == Some(namespace))
    }

    /// Notes the state of a source; `metadata_only` if that brings metadata only.
    pub(super) fn set(&self, source: usize, state: SyncState, metadata_only: bool) {
        let mut sources = self.sources.lock();
        // Metadata do not sync a watch of which more is wanted by now.
        if metadata_only && state.synced() && *self.full_wanted.borrow() {
            return;
        }
        let of = &mut sources.all[source];
        // A watch that is stale already keeps the time at which it broke, not the reason.
        of.state = match (&of.state, state) {
            (SyncState::Stale { since, .. }, SyncState::Stale { reason, .. }) => {
                SyncState::Stale { since: *since, reason }
            }
            (_, state) => state,
        };
        of.brought |= of.state.synced();
        if !metadata_only && sources.active().all(|source| source.state.synced()) {
            self.complete.store(true, Ordering::Release);
        }
        self.publish(&sources);
    }

    fn publish(&self, sources: &Sources) {
        // Also if another one is stale by now.
        if sources.known && sources.active().all(|source| source.brought) {
            self.filled.store(true, Ordering::Release);
        }
        let brought = sources.active().filter(|source| source.brought);
        let held: BTreeSet<String> =
            brought.filter_map(|source| source.namespace.clone()).collect();
        if **self.held.load() != held {
            self.held.store(Arc::new(held));
        }
        let worst = sources.active().map(|source| &source.state).min_by_key(|state| state.rank());
        let joint = match worst {
            Some(state) => state.clone(),
            None if sources.known => SyncState::Synced { version: 0 },
            None => SyncState::Pending,
        };
        self.joint.send_if_modified(|at| {
            let changed = *at != joint;
            *at = joint;
            changed
        });
    }

    /// Asks for whole objects from now on; nothing is synced until they are there.
    pub(super) fn upgrade_to_full(&self) {
        let mut sources = self.sources.lock();
        if !self.full_wanted.send_replace(true) {
            sources.all.iter_mut().for_each(|source| source.state = SyncState::Pending);
            if sources.known && sources.active().next().is_none() {
                self.complete.store(true, Ordering::Release);
            }
            self.publish(&sources);
        }
    }

    /// Returns `true` if every object is stored as a whole.
    pub(super) fn is_full(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// Returns `true` if every source has brought its first list.
    pub(super) fn has_synced(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    /// Returns `true` if whole objects are asked for.
    pub(super) fn wants_full(&self) -> bool {
        *self.full_wanted.borrow()
    }

    /// Returns whether whole objects are wanted, as a value to wait on.
    pub(super) fn full_wanted(&self) -> ordered_watch::Receiver<bool> {
        self.full_wanted.subscribe()
    }

    pub(super) fn get(&self) -> SyncState {
        #[cfg(test)]
        super::Work::count_state();
        self.joint.borrow().clone()
    }

    pub(super) fn watch(&self) -> ordered_watch::Receiver<SyncState> {
        self.joint.subscribe()
    }
}

// === impl Sources ===

impl Sources {
    fn active(&self) -> impl Iterator<Item = &SourceState> {
        self.all.iter().filter(|source| !source.ended)
    }
}

// === impl SourceState ===

impl SourceState {
    fn new(namespace: Option<String>) -> Self {
        Self { namespace, state: SyncState::Pending, brought: false, ended: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_source_brought_once_is_known_although_one_is_stale_by_now() {
        let (states, synced) = (SyncStates::new(2, true), SyncState::Synced { version: 1 });
        states.set(0, synced.clone(), false);
        let stale = SyncState::Stale { since: Instant::now(), reason: "away".into() };
        states.set(0, stale, false);
        assert!(!states.has_synced());
        states.set(1, synced, false);
        assert!(states.has_synced() && !states.get().synced());
    }

    #[test]
    fn a_stale_watch_keeps_the_time_at_which_it_broke_and_shows_the_latest_reason() {
        let states = SyncStates::new(1, true);
        let since = Instant::now();
        let later = since + std::time::Duration::from_secs(60);
        states.set(0, SyncState::Stale { since, reason: "a 500".into() }, false);
        states.set(0, SyncState::Stale { since: later, reason: "a hang".into() }, false);
        assert_eq!(states.get(), SyncState::Stale { since, reason: "a hang".into() });
    }
}
