//! What changed, per resource, in order: a bounded log that watchers read with a cursor.
//!
//! **Invariant:** events are ordered by revision; a cursor is the revision read last, so joining a
//! snapshot and the log needs no lock: whatever is above the snapshot's revision follows.
//! **Invariant:** a state and the event that led to it become visible in one step.
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
    /// Bytes at most: the objects, their earlier states and their encodings.
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
    /// The events, each with the bytes that are counted for it.
    events: VecDeque<(Arc<Event>, usize)>,
    /// The bytes counted for all events.
    bytes: usize,
    /// How many events were added since the bytes were counted last.
    uncounted: usize,
    /// Everything up to this revision is forgotten.
    floor: u64,
    /// The revision of the newest event that was forgotten: a reader up to it has missed nothing.
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

    /// The bytes that this event keeps in memory, in a log whose first event is of revision
    /// `oldest`: an earlier state counts if no other event of the log has it.
    fn bytes(&self, oldest: u64) -> usize {
        let previous = self.previous.as_ref().filter(|entry| entry.revision < oldest);
        let lines = self.lines.iter().filter_map(OnceLock::get);
        self.entry.bytes()
            + previous.map_or(0, |entry| entry.bytes())
            + lines.map(Bytes::len).sum::<usize>()
    }

    /// Returns the line for watchers that see the change as `kind`, encoded once for all of them.
    pub fn line(&self, kind: EventKind, encode: impl FnOnce() -> Bytes) -> Bytes {
        self.lines[kind as usize].get_or_init(encode).clone()
    }
}

impl EventKind {
    /// Returns the word on the wire.
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
        let ring = Ring { events: VecDeque::new(), bytes: 0, uncounted: 0, floor, lost: 0 };
        Self { ring: RwLock::new(ring), limits, news: Arc::default() }
    }

    /// Appends an event, and calls `publish` before any reader can see the event.
    ///
    /// `publish` makes the new state visible. A reader that sees that state and then asks for
    /// events waits here for the event; a reader that sees the event finds the state published.
    pub(super) fn push(&self, event: Event, publish: impl FnOnce()) {
        let revision = event.revision;
        {
            let mut ring = self.ring.write();
            ring.push(Arc::new(event));
            while ring.events.len() > self.limits.events_max || ring.bytes > self.limits.bytes_max {
                ring.evict();
            }
            publish();
        }
        self.news.publish(revision);
    }

    pub(super) fn compact(&self, floor: u64) {
        let mut ring = self.ring.write();
        while ring.events.front().is_some_and(|(event, _)| event.revision <= floor) {
            ring.evict();
        }
        ring.floor = ring.floor.max(floor);
    }

    /// Returns the events after a revision, oldest first.
    ///
    /// # Errors
    /// If some of them are forgotten.
    pub fn since(&self, revision: u64) -> Result<Vec<Arc<Event>>, Gone> {
        self.batch(revision, usize::MAX)
    }

    /// Returns the same as [`EventLog::since`], at most `count_max` of them.
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

    /// Returns the same as [`EventLog::batch`], for a reader of everything up to the revision:
    /// forgotten history matters only if there was an event in it.
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

    /// Returns the number of watchers of this log.
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
        let first = self.events.partition_point(|(event, _)| event.revision <= revision);
        self.events.iter().skip(first).take(count_max).map(|(event, _)| event.clone()).collect()
    }

    fn push(&mut self, event: Arc<Event>) {
        let oldest = self.events.front().map_or(event.revision, |(first, _)| first.revision);
        let bytes = event.bytes(oldest);
        self.bytes += bytes;
        self.events.push_back((event, bytes));
        // Events grow when watchers encode them. Counting all again whenever the log has grown by
        // an eighth costs a few steps per event.
        self.uncounted += 1;
        if self.uncounted > self.events.len() / 8 {
            self.count();
        }
    }

    fn count(&mut self) {
        let oldest = self.events.front().map_or(0, |(first, _)| first.revision);
        self.bytes = 0;
        self.uncounted = 0;
        for (event, bytes) in &mut self.events {
            *bytes = event.bytes(oldest);
            self.bytes += *bytes;
        }
    }

    fn evict(&mut self) {
        if let Some((event, bytes)) = self.events.pop_front() {
            self.bytes -= bytes;
            self.floor = self.floor.max(event.revision);
            self.lost = self.lost.max(event.revision);
        }
    }
}
