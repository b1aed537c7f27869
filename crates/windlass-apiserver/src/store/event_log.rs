//! What changed, per resource, in order: a bounded log that watchers read with a cursor.
//!
//! **Invariant:** events are ordered by revision; a cursor is the revision read last, so joining a
//! snapshot and the log needs no lock: whatever is above the snapshot's revision follows.
//! **Invariant:** the log is bounded; a watcher that falls behind it is cut, never waited for.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::RwLock;

use super::Entry;
use super::news::{News, NewsSubscription};

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was removed.
    Deleted,
}

/// One change.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// At which revision.
    pub revision: u64,
    /// The new state; for a deletion the last one, under the deletion's revision.
    pub entry: Arc<Entry>,
    /// The state before.
    pub previous: Option<Arc<Entry>>,
    lines: [OnceLock<Bytes>; 3],
}

/// How much history a log keeps.
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// Events at most.
    pub events_max: usize,
    /// Bytes of object bodies at most.
    pub bytes_max: usize,
}

/// The history before a revision is no longer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The oldest revision a watch can start from.
    pub oldest: u64,
}

/// The events of one resource.
pub struct EventLog {
    ring: RwLock<Ring>,
    limits: LogLimits,
    news: Arc<News>,
}

struct Ring {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Everything up to this revision is forgotten.
    floor: u64,
    /// The revision of the newest event that was forgotten: who read up to it missed nothing.
    lost: u64,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { events_max: 100_000, bytes_max: 48 << 20 }
    }
}

// === impl Event ===

impl Event {
    pub(super) fn new(
        kind: EventKind,
        revision: u64,
        entry: Arc<Entry>,
        previous: Option<Arc<Entry>>,
    ) -> Self {
        Self { kind, revision, entry, previous, lines: Default::default() }
    }

    /// The line for watchers that see the change as `kind`, encoded once for all of them.
    pub fn line(&self, kind: EventKind, encode: impl FnOnce() -> Bytes) -> Bytes {
        self.lines[kind as usize].get_or_init(encode).clone()
    }
}

impl EventKind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

// === impl EventLog ===

impl EventLog {
    pub(super) fn new(limits: LogLimits, floor: u64) -> Self {
        let ring = Ring { events: VecDeque::new(), bytes: 0, floor, lost: 0 };
        Self { ring: RwLock::new(ring), limits, news: Arc::default() }
    }

    pub(super) fn push(&self, event: Event) {
        let revision = event.revision;
        {
            let mut ring = self.ring.write();
            ring.bytes += event.entry.body.len();
            ring.events.push_back(Arc::new(event));
            while ring.events.len() > self.limits.events_max || ring.bytes > self.limits.bytes_max {
                ring.evict();
            }
        }
        self.news.publish(revision);
    }

    pub(super) fn compact(&self, floor: u64) {
        let mut ring = self.ring.write();
        while ring.events.front().is_some_and(|e| e.revision <= floor) {
            ring.evict();
        }
        ring.floor = ring.floor.max(floor);
    }

    /// The events after a revision, oldest first.
    ///
    /// # Errors
    /// If some of them are forgotten.
    pub fn since(&self, revision: u64) -> Result<Vec<Arc<Event>>, Gone> {
        self.batch(revision, usize::MAX)
    }

    /// As [`EventLog::since`], at most `count_max` of them.
    ///
    /// # Errors
    /// If some of them are forgotten.
    pub fn batch(&self, revision: u64, count_max: usize) -> Result<Vec<Arc<Event>>, Gone> {
        let ring = self.ring.read();
        if revision < ring.floor {
            return Err(Gone { oldest: ring.floor });
        }
        Ok(ring.after(revision, count_max))
    }

    /// As [`EventLog::batch`], for one who read everything up to the revision: forgotten history
    /// matters only if there was an event in it.
    ///
    /// # Errors
    /// If an event was forgotten before it was read.
    pub fn follow(&self, revision: u64, count_max: usize) -> Result<Vec<Arc<Event>>, Gone> {
        let ring = self.ring.read();
        if revision < ring.lost {
            return Err(Gone { oldest: ring.floor });
        }
        Ok(ring.after(revision, count_max))
    }

    /// The number of watchers of this log.
    pub fn watchers(&self) -> usize {
        self.news.subscriptions()
    }

    /// Returns what a watcher waits on for new events.
    pub fn subscribe(&self) -> NewsSubscription {
        self.news.subscribe()
    }
}

impl Ring {
    fn after(&self, revision: u64, count_max: usize) -> Vec<Arc<Event>> {
        let first = self.events.partition_point(|e| e.revision <= revision);
        self.events.iter().skip(first).take(count_max).cloned().collect()
    }

    fn evict(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.entry.body.len();
            self.floor = self.floor.max(event.revision);
            self.lost = self.lost.max(event.revision);
        }
    }
}
