//! The last reconciles of a controller, for the diagnostics page.
//!
//! **Invariant:** both the number of runs and the bytes that they keep alive are bounded.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cause::Causes;
use crate::cache::Key;
use crate::client::RequestLog;

/// Most runs that are remembered.
const RUNS_MAX: usize = 256;
/// Most bytes of former states of objects that are kept for their changed fields.
const BYTES_MAX: usize = 4 << 20;
/// Most bytes of an error.
const ERROR_MAX: usize = 1000;

/// The last reconciles of a controller.
#[derive(Debug, Default)]
pub(super) struct Runs(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    runs: VecDeque<Run>,
    bytes: usize,
}

/// One reconcile.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) key: Key,
    pub(super) ended: Instant,
    pub(super) took: Duration,
    pub(super) causes: Causes,
    /// How many objects and lists were read from the cache through the context.
    pub(super) reads: u32,
    pub(super) requests: RequestLog,
    pub(super) outcome: &'static str,
    pub(super) error: Option<String>,
    /// After which time the key is reconciled again, whatever happens.
    pub(super) next: Option<Duration>,
}

// === impl Runs ===

impl Runs {
    /// Remembers a run, and forgets the oldest if there are too many.
    pub(super) fn add(&self, mut run: Run) {
        if let Some(error) = &mut run.error
            && let Some((end, _)) = error.char_indices().find(|(at, _)| *at >= ERROR_MAX)
        {
            error.truncate(end);
        }
        let mut bytes = run.causes.named.bytes();
        let mut ring = self.0.lock();
        if ring.bytes + bytes > BYTES_MAX {
            run.causes.named.drop_states();
            bytes = 0;
        }
        ring.bytes += bytes;
        ring.runs.push_back(run);
        let old = if ring.runs.len() > RUNS_MAX { ring.runs.pop_front() } else { None };
        ring.bytes -= old.as_ref().map_or(0, |old| old.causes.named.bytes());
        drop((ring, old));
    }

    /// Returns the requests of the last run of a key.
    pub(super) fn last_requests(&self, key: &Key) -> String {
        let ring = self.0.lock();
        let run = ring.runs.iter().rev().find(|run| run.key == *key);
        run.map_or_else(String::new, |run| run.requests.named.join(", "))
    }

    /// Returns the last runs, the newest first.
    pub(super) fn report(&self) -> Vec<Value> {
        self.0.lock().runs.iter().rev().map(Run::report).collect()
    }
}

// === impl Run ===

impl Run {
    fn report(&self) -> Value {
        let causes: Vec<String> = self.causes.list(true).iter().map(ToString::to_string).collect();
        json!({
            "object": self.key.to_string(),
            "secondsAgo": self.ended.elapsed().as_secs_f64(),
            "tookSeconds": self.took.as_secs_f64(),
            "causes": causes,
            "reads": self.reads,
            "requests": self.requests.named,
            "moreRequests": self.requests.count as usize - self.requests.named.len(),
            "outcome": self.outcome,
            "error": self.error,
            "againInSeconds": self.next.map(|next| next.as_secs_f64()),
        })
    }
}
