//! Expiry of Events: each is deleted an hour after its last write, as by the real server.
//!
//! A task follows the log of events and sleeps until the next one is due. It starts with the first
//! event, and has no timer while there are no events, so that a paused runtime is idle.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::Inner;
use crate::builtin::event;
use crate::object;
use crate::store::{Change, Entry, EventKind, EventLog, Key, WriteError};

/// How long an event is kept after its last write.
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);
/// When to try again to delete an event that could not be deleted.
const RETRY: SignedDuration = SignedDuration::from_mins(1);
/// How many events are deleted before others get a turn.
const BATCH: usize = 100;

/// The task that deletes expired events, once there was an event.
#[derive(Default)]
pub(super) struct Expiry(Mutex<Option<AbortHandle>>);

/// When which event is due.
#[derive(Default)]
struct Schedule {
    order: BTreeSet<(Timestamp, Key)>,
    due: HashMap<Key, Timestamp>,
    /// Everything up to this revision is scheduled.
    revision: u64,
}

// === impl Expiry ===

impl Drop for Expiry {
    fn drop(&mut self) {
        if let Some(task) = self.0.lock().take() {
            task.abort();
        }
    }
}

impl Inner {
    /// Starts to delete expired events, if there are events.
    pub(super) fn start_expiry(self: &Arc<Self>) {
        if !self.store.world().table(&event::storage()).items.is_empty() {
            self.ensure_expiry();
        }
    }

    /// Makes sure that an event which was written expires.
    pub(super) fn ensure_expiry(self: &Arc<Self>) {
        // The first write in a runtime starts what could not be started without one.
        let Ok(runtime) = Handle::try_current() else { return };
        let mut task = self.expiry.0.lock();
        if task.as_ref().is_none_or(AbortHandle::is_finished) {
            *task = Some(runtime.spawn(run(Arc::downgrade(self))).abort_handle());
        }
    }
}

async fn run(server: Weak<Inner>) {
    let Some(log) = server.upgrade().map(|server| server.store.log(&event::storage())) else {
        return;
    };
    let mut newest = log.subscribe();
    let mut schedule = Schedule::default();
    loop {
        let wait = {
            let Some(server) = server.upgrade() else { return };
            newest.newest();
            schedule.update(&server, &log);
            schedule.expire(&server);
            schedule.wait(server.clock.now())
        };
        let Some(wait) = wait else {
            newest.changed().await;
            continue;
        };
        tokio::select! {
            biased;
            () = newest.changed() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

// === impl Schedule ===

impl Schedule {
    /// Schedules what was written since the last time.
    fn update(&mut self, server: &Inner, log: &EventLog) {
        let now = server.clock.now();
        let changes = match self.revision {
            0 => None,
            revision => log.follow(revision, usize::MAX).ok(),
        };
        let Some(changes) = changes else { return self.read_all(server, now) };
        for change in changes {
            self.revision = change.revision;
            match change.kind {
                EventKind::Added | EventKind::Modified => {
                    self.set(&change.entry.key, later(now, EVENT_TTL));
                }
                EventKind::Deleted => self.remove(&change.entry.key),
            }
        }
    }

    /// Schedules all events that are stored.
    fn read_all(&mut self, server: &Inner, now: Timestamp) {
        let world = server.store.world();
        *self = Self { revision: world.revision, ..Self::default() };
        for entry in world.table(&event::storage()).items.values() {
            self.set(&entry.key, later(last_write(entry).unwrap_or(now), EVENT_TTL));
        }
    }

    fn set(&mut self, key: &Key, due: Timestamp) {
        self.remove(key);
        self.order.insert((due, key.clone()));
        self.due.insert(key.clone(), due);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(due) = self.due.remove(key) {
            self.order.remove(&(due, key.clone()));
        }
    }

    /// Deletes events that are due, a batch at most.
    fn expire(&mut self, server: &Inner) {
        let now = server.clock.now();
        for _ in 0..BATCH {
            let Some((_, key)) = self.order.first().filter(|(due, _)| *due <= now).cloned() else {
                return;
            };
            self.remove(&key);
            let Some(entry) = server.store.world().get(&event::storage(), &key) else { continue };
            if entry.revision > self.revision {
                // It was written again: the log says so.
                continue;
            }
            let deleted =
                server.store.write(&event::storage(), &key, Some(entry.revision), Change::Delete);
            if let Err(WriteError::Journal(_)) = deleted {
                self.set(&key, later(now, RETRY));
            }
        }
    }

    /// How long nothing is to be done; `None` if there are no events.
    fn wait(&self, now: Timestamp) -> Option<Duration> {
        let (due, _) = self.order.first()?;
        // A clock of the machine may stop a moment before it should.
        let wait = Duration::try_from(due.duration_since(now)).unwrap_or_default();
        Some(wait.max(Duration::from_millis(1)))
    }
}

/// When an event was last written, as it says itself.
fn last_write(entry: &Entry) -> Option<Timestamp> {
    let event = entry.object();
    let managers = event.pointer("/metadata/managedFields").and_then(Value::as_array);
    let times = managers.into_iter().flatten().filter_map(|manager| manager["time"].as_str());
    let times = times.chain([object::meta_str(&event, "creationTimestamp")]);
    times.filter_map(|time| time.parse().ok()).max()
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}
