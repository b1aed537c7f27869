//! Hooks for tests: what each request and each watcher suffers, and a log of what was asked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use crate::request::RequestInfo;
use crate::status::Status;

/// What happens to a request instead of, or before, its answer.
#[derive(Clone, Debug, Default)]
pub struct Fault {
    /// Waits this long before the request is handled.
    pub delay: Duration,
    /// Answers with this failure; the request is not handled.
    pub fail: Option<Status>,
    /// Handles the request, then answers with this failure: the write happened, but the client does
    /// not know.
    pub fail_after: Option<Status>,
    /// A watch sees every event this much later.
    pub watch_lag: Duration,
    /// A watch is closed after this many events.
    pub watch_events_max: Option<usize>,
}

/// Decides the fault of each request.
pub type FaultHook = dyn Fn(&RequestInfo) -> Fault + Send + Sync;

/// The hooks of one server.
#[derive(Default)]
pub struct Faults {
    hook: ArcSwapOption<Box<FaultHook>>,
}

/// One request as it was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// When, RFC 3339.
    pub time: String,
    /// Who asked.
    pub user: String,
    /// What was asked: verb, resource, names.
    pub request: RequestInfo,
    /// The status code of the answer.
    pub code: u16,
    /// The store's revision after it.
    pub revision: u64,
    /// The revision of its last write; `None` if it wrote nothing.
    pub written: Option<u64>,
}

/// The revision of the last write of a request, in the extensions of its response.
///
/// A response without it changed nothing: a read, a refused write, a write without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written(pub u64);

/// Takes requests as they are answered.
pub type LogSink = dyn Fn(&LogEntry) + Send + Sync;

/// The newest requests, for tests and for the audit log.
pub struct RequestLog {
    entries: Mutex<Option<VecDeque<LogEntry>>>,
    sink: ArcSwapOption<Box<LogSink>>,
    entries_max: usize,
}

// === impl Faults ===

impl Faults {
    /// Replaces the hook; `None` takes it away.
    pub fn set(&self, hook: Option<Box<FaultHook>>) {
        self.hook.store(hook.map(Arc::new));
    }

    /// Returns what a request suffers.
    pub fn of(&self, request: &RequestInfo) -> Fault {
        self.hook.load().as_ref().map(|hook| hook(request)).unwrap_or_default()
    }
}

// === impl RequestLog ===

impl Default for RequestLog {
    fn default() -> Self {
        Self { entries: Mutex::new(None), sink: ArcSwapOption::empty(), entries_max: 100_000 }
    }
}

impl RequestLog {
    /// Starts to keep requests (the newest 100,000).
    pub fn enable(&self) {
        self.entries.lock().get_or_insert_default();
    }

    /// Sets a function that is called for every request, too, when it is answered.
    pub fn set_sink(&self, sink: Box<LogSink>) {
        self.sink.store(Some(Arc::new(sink)));
    }

    /// Returns the kept requests, oldest first.
    pub fn entries(&self) -> Vec<LogEntry> {
        self.entries.lock().iter().flatten().cloned().collect()
    }

    /// Returns `true` if anybody listens: making an entry costs.
    pub fn wanted(&self) -> bool {
        self.sink.load().is_some() || self.entries.lock().is_some()
    }

    /// Takes a request.
    pub fn push(&self, entry: LogEntry) {
        if let Some(sink) = &*self.sink.load() {
            sink(&entry);
        }
        if let Some(entries) = &mut *self.entries.lock() {
            if entries.len() == self.entries_max {
                entries.pop_front();
            }
            entries.push_back(entry);
        }
    }
}
