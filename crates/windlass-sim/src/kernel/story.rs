//! What has happened so far in a run, as far as another run can continue it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{Kernel, Sight, State, Write, names};
use crate::external::Ledger;
use crate::plan::Fault;
use crate::trace::Record;

/// What has happened in a run until a moment at which nothing is under way.
#[derive(Clone)]
pub(crate) struct Story {
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
    /// What has happened so far.
    pub(crate) fn story(&self) -> Story {
        let at = self.now();
        let state = self.state.lock();
        Story {
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

    /// Continues the story of another run: what has happened in this one is forgotten.
    pub(crate) fn continues(&self, story: &Story) {
        *self.started.lock() = (Instant::now(), story.at);
        let mut state = self.state.lock();
        state.trace.clone_from(&story.trace);
        state.writes.clone_from(&story.writes);
        state.ledger.clone_from(&story.ledger);
        (state.requests, state.background) = (story.requests, story.background);
        state.counts.clone_from(&story.counts);
        state.names.clone_from(&story.names);
        state.views.seen.clone_from(&story.seen);
        state.reconciles = story.reconciles;
        (state.steps, state.step_revisions) = (story.steps, story.step_revisions);
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
