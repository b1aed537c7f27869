//! What a run has recorded so far, from which another run can continue.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{Kernel, Sight, State, Write, names};
use crate::external::Ledger;
use crate::plan::Fault;
use crate::trace::Record;

/// The records of a run up to a moment at which nothing is under way.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub at: Duration,
    pub trace: Vec<Record>,
    pub writes: Vec<Write>,
    pub ledger: Ledger,
    pub requests: u32,
    background: u32,
    counts: BTreeMap<String, u32>,
    names: names::Names,
    seen: BTreeMap<(String, String, String, String), Sight>,
    reconciles: (u32, u32),
    steps: usize,
    step_revisions: [u64; 2],
}

// === impl Kernel ===

impl Kernel {
    /// Returns a copy of what this run has recorded so far.
    pub(crate) fn recorded(&self) -> Recorded {
        let at = self.now();
        let state = self.state.lock();
        Recorded {
            at,
            trace: state.trace.clone(),
            writes: state.writes.clone(),
            ledger: state.ledger.clone(),
            requests: state.requests,
            background: state.background,
            counts: state.counts.clone(),
            names: state.names.clone(),
            seen: state.views.seen.clone(),
            reconciles: state.reconciles,
            steps: state.steps,
            step_revisions: state.step_revisions,
        }
    }

    /// Replaces the records of this run by those of another one, which it continues.
    pub(crate) fn continues(&self, recorded: &Recorded) {
        *self.started.lock() = (Instant::now(), recorded.at);
        let mut state = self.state.lock();
        state.trace.clone_from(&recorded.trace);
        state.writes.clone_from(&recorded.writes);
        state.ledger.clone_from(&recorded.ledger);
        (state.requests, state.background) = (recorded.requests, recorded.background);
        state.counts.clone_from(&recorded.counts);
        state.names.clone_from(&recorded.names);
        state.views.seen.clone_from(&recorded.seen);
        state.reconciles = recorded.reconciles;
        (state.steps, state.step_revisions) = (recorded.steps, recorded.step_revisions);
    }
}

// === impl State ===

impl State {
    /// Returns `true` if all faults have happened and nothing is left of them: every replica lives, and
    /// nothing is under way or held back.
    pub(crate) fn has_recovered(&self) -> bool {
        // A transition happens at the end of the scenario.
        let happened = self.faults.iter().all(|p| p.fired && p.fault != Fault::Transition);
        let now = Instant::now();
        let lives = self.replicas.iter().all(|life| {
            life.alive && life.past.is_none() && life.paused_until.is_none_or(|until| until <= now)
        });
        let under_way = self.in_flight > 0 || self.starting > 0 || self.interrupted;
        happened && lives && !under_way && !self.views.withholds(now)
    }
}
