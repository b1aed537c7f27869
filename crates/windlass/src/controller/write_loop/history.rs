//! What is remembered of the writes of one object, and whether the next one is idle.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::difference::Difference;

/// The time within which idle writes make a loop.
pub(super) const WINDOW: Duration = Duration::from_secs(60);
/// Most idle writes within that time that are not a loop.
const IDLE_MAX: usize = 20;
/// Most states that are remembered per object.
const STATES_MAX: usize = 4;

/// The writes of one object that were looked at.
#[derive(Default)]
pub(super) struct History {
    owner_generation: i64,
    body: u64,
    difference: Option<u64>,
    version: u64,
    generation: i64,
    states: VecDeque<u64>,
    idle: VecDeque<Instant>,
}

/// A write that was answered, as hashes and numbers.
pub(super) struct AnsweredWrite {
    pub(super) owner_generation: i64,
    pub(super) body: u64,
    pub(super) state: u64,
    pub(super) version: u64,
    pub(super) generation: i64,
    /// Whether the write changed the object, if that is known.
    pub(super) changed: Option<bool>,
    /// What was written beyond what was there, if that is known.
    pub(super) difference: Option<Difference>,
    /// What was written and is missing in the answer.
    pub(super) altered: Difference,
    /// Whether the object itself was written, and not a subresource.
    pub(super) whole_object: bool,
}

/// Why writes do not come to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Altered,
    Times,
    Undone,
    Returns,
    Standstill,
    Reconciled,
}

// === impl History ===

impl History {
    /// Remembers a write. Returns why it is idle and the fields it is about, if it is.
    pub(super) fn add(&mut self, write: &AnsweredWrite) -> Option<(Cause, String)> {
        if self.owner_generation != write.owner_generation {
            *self = Self { owner_generation: write.owner_generation, ..Self::default() };
        }
        let effect = self.has_effect(write);
        let made = write.difference.as_ref().map(Difference::hash);
        let (again, known) = (self.body == write.body, self.states.contains(&write.state));
        let times = write.difference.as_ref().is_some_and(Difference::only_times);
        let cause = if again && !write.altered.is_empty() {
            Some(Cause::Altered)
        } else if !effect {
            None
        } else if known && times {
            Some(Cause::Times)
        } else if made.is_some() && self.difference == made {
            Some(Cause::Undone)
        } else {
            known.then_some(Cause::Returns)
        };
        if effect {
            self.difference = made;
        }
        (self.body, self.version) = (write.body, write.version);
        self.generation = write.generation;
        self.states.retain(|state| *state != write.state);
        self.states.push_back(write.state);
        if self.states.len() > STATES_MAX {
            self.states.pop_front();
        }
        let cause = cause?;
        Some((cause, write.fields(cause)))
    }

    /// Counts an idle write. Returns `true`, and starts over, if there were too many.
    pub(super) fn is_loop(&mut self, now: Instant) -> bool {
        self.idle.retain(|at| now.duration_since(*at) < WINDOW);
        self.idle.push_back(now);
        let found = self.idle.len() > IDLE_MAX;
        if found {
            self.idle.clear();
        }
        found
    }

    fn has_effect(&self, write: &AnsweredWrite) -> bool {
        write.changed.unwrap_or_else(|| {
            let moved = self.version != 0 && self.version != write.version;
            let generation = write.generation == 0 || self.generation != write.generation;
            moved && write.whole_object && generation
        })
    }
}

// === impl AnsweredWrite ===

impl AnsweredWrite {
    /// Returns the paths of the fields that a loop is about.
    pub(super) fn fields(&self, cause: Cause) -> String {
        match cause {
            Cause::Altered => self.altered.paths(),
            _ => self.difference.as_ref().map(Difference::paths).unwrap_or_default(),
        }
    }
}

// === impl Cause ===

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Altered => "the server stores something else than what is written",
            Self::Times => "only timestamps change from one write to the next",
            Self::Undone => "somebody else undoes what is written",
            Self::Returns => "the same states are written again and again",
            Self::Standstill => "the object is written again and again without any time passing",
            Self::Reconciled => "it is reconciled again and again without any time passing",
        })
    }
}
