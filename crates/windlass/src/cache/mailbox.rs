//! The changes one handler has not seen yet.
//!
//! There is at most one pending change per key: what happens to an object while its handler is
//! busy is merged into it. So a slow handler costs memory by the number of objects, never by
//! the number of events, and it always learns the last state, beside the one of its last event.
//! States in between are not reported.
//!
//! **Invariant:** the changes of one object come in order, and the last one is never lost.
//! **Invariant:** a deletion is delivered even if the handler never saw the object.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Entry, Key};
use crate::ordered_watch;

/// A change of the store.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) key: Key,
    pub(super) old: Option<Arc<Entry>>,
    /// The new state, or the last one if the object is gone.
    pub(super) new: Arc<Entry>,
    pub(super) gone: bool,
    pub(super) initial: bool,
    pub(super) final_state_unknown: bool,
    /// Earlier changes that were not reported are part of this one.
    pub(super) merged: bool,
}

/// What a handler receives next.
#[derive(Debug)]
pub(super) enum Notice {
    Change(Change),
    Resync(Arc<Entry>),
}

pub(super) struct Mailbox {
    inner: Mutex<Inner>,
    wake: Notify,
    synced: ordered_watch::Sender<bool>,
    merged: AtomicU64,
}

#[derive(Default)]
struct Inner {
    pending: HashMap<Key, Pending>,
    order: VecDeque<Mail>,
    closed: bool,
    /// What the handler took last, until it comes back for more.
    busy: Option<Busy>,
}

struct Busy {
    key: Key,
    since: Instant,
    logged: bool,
}

/// A handler that takes longer for one event is named in the log.
const BUSY_MAX: Duration = Duration::from_secs(10);
/// How many changes are delivered between two looks at the clock.
const LOOK_EVERY: usize = 16;

enum Mail {
    Key(Key),
    /// All objects of the first sync are before this.
    SyncPoint,
}

enum Pending {
    Change(Change),
    Resync(Arc<Entry>),
}

// === impl Mailbox ===

impl Mailbox {
    pub(super) fn new() -> Self {
        Self {
            inner: Mutex::default(),
            wake: Notify::new(),
            synced: ordered_watch::Sender::new(false),
            merged: AtomicU64::new(0),
        }
    }

    pub(super) fn deliver(&self, change: &Change) {
        let mut inner = self.inner.lock();
        inner.complain();
        match inner.pending.get_mut(&change.key) {
            None => {
                inner.pending.insert(change.key.clone(), Pending::Change(change.clone()));
                inner.order.push_back(Mail::Key(change.key.clone()));
            }
            Some(pending) => {
                self.merged.fetch_add(1, Ordering::Relaxed);
                let (old, merged, initial) = match pending {
                    // An object of the first list stays one, also if it changes before it is taken.
                    Pending::Change(earlier) => (earlier.old.take(), true, earlier.initial),
                    Pending::Resync(_) => (change.old.clone(), false, false),
                };
                let initial = initial && !change.gone;
                *pending = Pending::Change(Change { old, merged, initial, ..change.clone() });
            }
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// Reports an object again, unless a change of it waits anyway.
    pub(super) fn resync(&self, entry: &Arc<Entry>) {
        let mut inner = self.inner.lock();
        if !inner.pending.contains_key(entry.key()) {
            let key = entry.key().clone();
            inner.pending.insert(key.clone(), Pending::Resync(entry.clone()));
            inner.order.push_back(Mail::Key(key));
        }
    }

    pub(super) fn sync_point(&self) {
        self.inner.lock().order.push_back(Mail::SyncPoint);
        self.wake.notify_one();
    }

    /// Returns the next notice if there is one. The notice before it counts as handled.
    pub(super) fn take(&self) -> Option<Notice> {
        let mut inner = self.inner.lock();
        inner.busy = None;
        loop {
            match inner.order.pop_front()? {
                Mail::SyncPoint => {
                    self.synced.send_replace(true);
                }
                Mail::Key(key) => {
                    let pending = inner.pending.remove(&key);
                    inner.busy = Some(Busy { key, since: Instant::now(), logged: false });
                    return Some(match pending.expect("an ordered key has a pending change") {
                        Pending::Change(change) => Notice::Change(change),
                        Pending::Resync(entry) => Notice::Resync(entry),
                    });
                }
            }
        }
    }

    /// Waits until something may have come.
    pub(super) async fn ready(&self) {
        self.wake.notified().await;
    }

    pub(super) fn close(&self) {
        self.inner.lock().closed = true;
        self.wake.notify_one();
    }

    pub(super) fn closed(&self) -> bool {
        self.inner.lock().closed
    }

    pub(super) fn synced(&self) -> ordered_watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// Returns how many keys wait, and how many changes were merged into earlier ones.
    pub(super) fn figures(&self) -> (usize, u64) {
        (self.inner.lock().pending.len(), self.merged.load(Ordering::Relaxed))
    }
}

// === impl Inner ===

impl Inner {
    /// Logs a handler that does not come back, once per event.
    fn complain(&mut self) {
        let waiting = self.order.len();
        if waiting % LOOK_EVERY != 1 {
            return;
        }
        let Some(busy) = self.busy.as_mut().filter(|busy| !busy.logged) else { return };
        let took = busy.since.elapsed();
        if took > BUSY_MAX {
            busy.logged = true;
            tracing::warn!(object = %busy.key, ?took, waiting, "event handler does not return");
        }
    }
}
