//! Oracles: what has to hold in every run, whatever the fault.
//!
//! Most of them compare a run with the reference, a run without faults. Each counts how often it
//! looked, because an oracle that never looks proves nothing.

use std::fmt;

use crate::canonical::Canonical;
use crate::sim::Outcome;

mod bounded;
mod converges;
mod no_wrong_delete;
mod one_owner;
mod quiet;
mod stated;
mod truthful;
mod wellbehaved;

/// A property that every run is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Oracle {
    /// The scenario comes to its end.
    Completes,
    /// The end is that of the reference.
    Converges,
    /// Nothing exists at the end that the reference does not have, inside or outside the cluster.
    NoLeak,
    /// Nothing is deleted that has to stay.
    NoWrongDelete,
    /// At rest the operator writes nothing, also after a restart.
    Quiet,
    /// The number of requests and reconciles is bounded.
    Bounded,
    /// Nobody overwrites what belongs to somebody else.
    OneOwner,
    /// The status is true.
    Truthful,
    /// No reconcile panics.
    NoPanic,
    /// No reconcile fails for good.
    NoTerminal,
    /// Nothing waits for its finalizers at the end.
    NoStuckFinalizer,
    /// The operator's role allows what it does.
    Rbac,
    /// The end does not depend on the way: it is the same from nothing.
    SameFromZero,
    /// A change of the spec that is taken back leaves no trace.
    Rollback,
    /// A property that the author stated with `always`.
    Always,
    /// A property that the author stated with `eventually`.
    Eventually,
    /// A property that the author stated with `sometimes`.
    Sometimes,
}

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The oracle.
    pub oracle: Oracle,
    /// What is wrong, in one sentence.
    pub text: String,
    /// The objects and fields in question.
    pub details: Vec<String>,
}

/// What the oracles found in a run.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub violations: Vec<Violation>,
    /// How often each oracle looked.
    pub looked: Vec<(Oracle, u32)>,
}

/// What an oracle looks at.
pub(crate) struct Check<'a> {
    pub reference: &'a Outcome,
    pub reference_end: &'a Canonical,
    pub run: &'a Outcome,
    pub run_end: &'a Canonical,
    /// The run is the reference itself.
    pub is_reference: bool,
}

// === impl Oracle ===

impl Oracle {
    /// All oracles, in the order of reports.
    pub(crate) const ALL: [Self; 17] = [
        Self::Completes,
        Self::Converges,
        Self::NoLeak,
        Self::NoWrongDelete,
        Self::Quiet,
        Self::Bounded,
        Self::OneOwner,
        Self::Truthful,
        Self::NoPanic,
        Self::NoTerminal,
        Self::NoStuckFinalizer,
        Self::Rbac,
        Self::SameFromZero,
        Self::Rollback,
        Self::Always,
        Self::Eventually,
        Self::Sometimes,
    ];
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

// === impl Verdict ===

impl Verdict {
    pub(crate) fn looked(&mut self, oracle: Oracle, times: usize) {
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        self.looked.push((oracle, times));
    }

    pub(crate) fn add(&mut self, oracle: Oracle, text: impl Into<String>, details: Vec<String>) {
        self.violations.push(Violation { oracle, text: text.into(), details });
    }
}

/// Asks all oracles that look at one run.
pub(crate) fn judge(check: &Check<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    stated::completes(check, &mut verdict);
    if !verdict.violations.is_empty() {
        return verdict; // the rest would only follow from it
    }
    converges::check(check, &mut verdict);
    no_wrong_delete::check(check, &mut verdict);
    quiet::check(check, &mut verdict);
    bounded::check(check, &mut verdict);
    one_owner::check(check, &mut verdict);
    truthful::check(check, &mut verdict);
    wellbehaved::check(check, &mut verdict);
    stated::check(check, &mut verdict);
    verdict
}

/// Compares the end of the reference with that of a run from nothing: what is different depends on the
/// way, and what is there in addition was left behind.
pub(crate) fn compare_with_zero(check: &Check<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    converges::compare(check, (Oracle::SameFromZero, Oracle::NoLeak), &mut verdict);
    for violation in &mut verdict.violations {
        violation.text = violation.text.replace("without the fault", "from nothing");
        for line in &mut violation.details {
            *line = line.replace("without the fault", "from nothing");
        }
    }
    verdict
}

/// A violation if a run was stopped because the operator sends requests without end.
pub(crate) fn looping(run: &Outcome) -> Option<Violation> {
    bounded::looping(run)
}
