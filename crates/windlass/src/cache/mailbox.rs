//! The changes one handler has not seen yet.
//!
//! There is at most one pending change per key: what happens to an object while its handler is
//! busy is merged into it. So a slow handler costs memory by the number of objects, never by
//! the number of changes, and it always receives the last state, beside that of its last change.
//! States in between are not delivered.
//!
//! **Invariant:** the changes of one object come in order, and the last one is never lost.
//! **Invariant:** a deletion is delivered even if the handler never saw the object.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Change, Key};
use crate::ordered_watch;

pub(super) struct Mailbox {
    inner: Mutex<Inner>,
    wake: Notify,
    synced: ordered_watch::Sender<bool>,
}

#[derive(Default)]
struct Inner {
    pending: HashMap<Key, Change>,
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
/// Room for this many changes is kept while there are none.
const ROOM_KEPT: usize = 1024;
/// How many changes are delivered between two checks of the clock.
const LOOK_EVERY: usize = 16;

enum Mail {
    Key(Key),
    /// All objects of the first sync are before this.
    SyncPoint,
}

// === impl Mailbox ===

impl Mailbox {
    pub(super) fn new() -> Self {
        Self {
            inner: Mutex::default(),
            wake: Notify::new(),
            synced: ordered_watch::Sender::new(false),
        }
    }

    pub(super) fn deliver(&self, change: &Change) {
        let mut inner = self.inner.lock();
        inner.check_busy();
        match inner.pending.get_mut(change.key()) {
            None => {
                inner.pending.insert(change.key().clone(), change.clone());
                inner.order.push_back(Mail::Key(change.key().clone()));
            }
            Some(pending) => pending.merge(change),
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// Delivers a resync, unless a change of the object waits anyway.
    pub(super) fn resync(&self, change: Change) {
        let mut inner = self.inner.lock();
        let key = change.key().clone();
        if !inner.pending.contains_key(&key) {
            inner.pending.insert(key.clone(), change);
            inner.order.push_back(Mail::Key(key));
        }
    }

    pub(super) fn sync_point(&self) {
        self.inner.lock().order.push_back(Mail::SyncPoint);
        self.wake.notify_one();
    }

    /// Returns the next change if there is one. The change before it counts as handled.
    pub(super) fn take(&self) -> Option<Change> {
        let mut inner = self.inner.lock();
        inner.busy = None;
        loop {
            match inner.order.pop_front()? {
                Mail::SyncPoint => {
                    self.synced.send_replace(true);
                }
                Mail::Key(key) => {
                    let pending = inner.pending.remove(&key);
                    let (change, rest) = pending.expect("a key in order has a change").split();
                    if let Some(rest) = rest {
                        inner.pending.insert(key.clone(), rest);
                        inner.order.push_front(Mail::Key(key.clone()));
                    }
                    inner.busy = Some(Busy { key, since: Instant::now(), logged: false });
                    inner.give_room_back();
                    return Some(change);
                }
            }
        }
    }

    /// Waits until there may be a change.
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

    /// Returns how many objects have changes waiting.
    pub(super) fn len(&self) -> usize {
        self.inner.lock().pending.len()
    }
}

// === impl Inner ===

impl Inner {
    /// Frees the room of a burst, such as a first list, once all of it is delivered.
    fn give_room_back(&mut self) {
        if self.order.is_empty() && self.order.capacity() > ROOM_KEPT {
            self.order = VecDeque::new();
            self.pending = HashMap::new();
        }
    }

    /// Logs a handler that does not come back, once per event.
    fn check_busy(&mut self) {
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
