//! The report of an exploration.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use crate::canonical;
use crate::oracle::{Oracle, Violation};
use crate::plan::Plan;
use crate::sim::Outcome;

mod likely;
mod looked;
mod shown;
mod timeline;

pub(crate) use shown::Shown;

/// What an exploration found.
///
/// Its text is what `cargo test` shows.
#[derive(Debug)]
pub struct Report {
    /// The name of the scenario.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// How many plans there are.
    pub plans: usize,
    /// How many of them have a single fault.
    pub singles: usize,
    /// How many plans ran.
    pub ran: usize,
    /// How many of them ended before the end of the scenario, because the cluster and the operator were
    /// back in the state that they have without faults: see `Explore::stateless`.
    pub rejoined: usize,
    /// The failures; the first one is shrunk and described.
    pub failures: Vec<Failure>,
    /// Why the scenario is not deterministic, if it is not.
    pub nondeterministic: Option<String>,
    /// Plans with a fault whose site did not occur: they prove nothing.
    pub unreached: Vec<String>,
    /// Files of kept plans whose sites do not occur any more.
    pub outdated: Vec<String>,
    /// What is wrong with kept plans that cannot be read, and with a replayed one that does not happen.
    pub unreadable: Vec<String>,
    /// Properties stated with `sometimes` that never held.
    pub never: Vec<String>,
    /// Properties that were stated and never looked at.
    pub unseen: Vec<String>,
    /// Nothing ran, because the scenario is not the one that is replayed.
    pub skipped: bool,
    /// Rights of the operator's role that no run has used.
    pub unused: Vec<String>,
    /// How often each oracle looked.
    pub looked: BTreeMap<Oracle, u64>,
    /// How many requests the operator sends without faults.
    pub requests: u32,
    /// How long the exploration took.
    pub elapsed: Duration,
    /// The name of the test that explores.
    test: Option<String>,
}

/// A run that violates an oracle.
#[derive(Debug)]
pub struct Failure {
    /// The plan, as small as it could be made.
    pub plan: Plan,
    /// The violations.
    pub violations: Vec<Violation>,
    pub(crate) shrunk: Option<Shrunk>,
    /// The file in which the plan is kept, or why it is not.
    pub(crate) kept: Option<Result<String, String>>,
    timeline: Vec<String>,
    likely: Option<&'static str>,
}

/// How much smaller a plan became.
#[derive(Debug, Default)]
pub(crate) struct Shrunk {
    pub faults: (usize, usize),
    pub steps: (usize, usize),
    pub tries: u32,
    pub took: Duration,
}

// === impl Report ===

impl Report {
    pub(crate) fn new(name: &str, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            seed,
            plans: 0,
            singles: 0,
            ran: 0,
            rejoined: 0,
            failures: Vec::new(),
            nondeterministic: None,
            unreached: Vec::new(),
            outdated: Vec::new(),
            unreadable: Vec::new(),
            never: Vec::new(),
            unseen: Vec::new(),
            skipped: false,
            unused: Vec::new(),
            looked: BTreeMap::new(),
            requests: 0,
            elapsed: Duration::ZERO,
            test: test_name(),
        }
    }

    pub(crate) fn took(mut self, began: Instant) -> Self {
        self.elapsed = began.elapsed();
        self
    }

    /// Returns `true` if no oracle was violated, and nothing was passed without having been looked
    /// at. An exploration in which no plan ran proves nothing.
    pub fn is_ok(&self) -> bool {
        let stated = self.never.is_empty() && self.unseen.is_empty();
        let kept = self.outdated.is_empty() && self.unreadable.is_empty();
        let ran = self.ran > 0 || self.skipped;
        ran && stated && kept && self.failures.is_empty() && self.nondeterministic.is_none()
    }

    /// Returns `true` if one of the failures violates this oracle.
    pub fn violates(&self, oracle: Oracle) -> bool {
        let violations = self.failures.iter().flat_map(|failure| &failure.violations);
        violations.into_iter().any(|violation| violation.oracle == oracle)
    }

    fn summary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, plans, ran, requests, .. } = self;
        write!(f, "{name}: ")?;
        let of = match ran.min(plans) == plans {
            true => format!("{} plans", number(*ran)),
            false => format!("{} of {} plans", number(*ran), number(*plans)),
        };
        match self.failures.len() {
            0 if *ran == 0 => write!(f, "no plan ran, so nothing is proved")?,
            0 => write!(f, "{of} pass")?,
            1 => write!(f, "1 of {} plans fails", number(*ran))?,
            n => write!(f, "{} of {} plans fail", number(n), number(*ran))?,
        }
        if let Some(shrunk) = self.failures.first().and_then(|failure| failure.shrunk.as_ref()) {
            write!(f, " ({shrunk})")?;
        } else if self.failures.is_empty() {
            write!(f, " ({requests} requests without faults, {:.1} s", self.elapsed.as_secs_f64())?;
            if self.rejoined > 0 {
                write!(f, "; {} ended early", number(self.rejoined))?;
            }
            if ran < plans {
                write!(f, "; `windlass explore {name}` runs all of them")?;
            }
            write!(f, ")")?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(difference) = &self.nondeterministic {
            return write!(f, "{}: {difference}", self.name);
        }
        if self.skipped {
            return writeln!(
                f,
                "{}: not explored, because another scenario is replayed",
                self.name
            );
        }
        self.summary(f)?;
        for name in &self.never {
            writeln!(f, "\n  Sometimes: \"{name}\" was not true in any state of any run")?;
        }
        for name in &self.unseen {
            writeln!(f, "\n  Stated: \"{name}\" was not looked at in any run")?;
        }
        for text in &self.unreadable {
            writeln!(f, "\n  {text}")?;
        }
        for file in &self.outdated {
            writeln!(
                f,
                "\n  tests/plans/{file}: this plan does not happen any more, because its site does \
                 not occur; change it or delete the file"
            )?;
        }
        if let Some(failure) = self.failures.first() {
            failure.describe(f, self)?;
        }
        for failure in self.failures.iter().skip(1).take(9) {
            let oracle = failure.violations[0].oracle;
            writeln!(f, "  Also:   {oracle} with '{}'", failure.plan)?;
        }
        if self.failures.len() > 10 {
            writeln!(f, "  and {} more", self.failures.len() - 10)?;
        }
        if !self.unreached.is_empty() {
            let count = number(self.unreached.len());
            writeln!(f, "  {count} plans prove nothing, because their site did not occur:")?;
            self.unreached.iter().take(5).try_for_each(|plan| writeln!(f, "    {plan}"))?;
        }
        looked::lines(&self.looked).iter().try_for_each(|line| writeln!(f, "{line}"))?;
        match self.unused.is_empty() {
            true => Ok(()),
            false => writeln!(f, "  Rights that were never used: {}", self.unused.join(", ")),
        }
    }
}

// === impl Failure ===

impl Failure {
    /// A failure with its timeline and a likely reason.
    pub(crate) fn new(plan: Plan, violations: Vec<Violation>, outcome: &Outcome) -> Self {
        let timeline = timeline::of(outcome);
        let likely = likely::reason(&plan, violations[0].oracle);
        Self { plan, violations, shrunk: None, kept: None, timeline, likely }
    }

    /// A failure without a description.
    pub(crate) fn brief(plan: Plan, violations: Vec<Violation>) -> Self {
        Self { plan, violations, shrunk: None, kept: None, timeline: Vec::new(), likely: None }
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
        let mut shown = self.violations.iter();
        for violation in shown.by_ref().take(4) {
            writeln!(f, "\n{violation}")?;
        }
        if self.plan.faults.is_empty() && self.plan.seed == 0 {
            writeln!(f, "  No fault is needed: this happens in every run.\n")?;
        }
        for (fault, site) in &self.plan.faults {
            writeln!(f, "  The fault: {}\n", fault.sentence(site))?;
        }
        if !self.timeline.is_empty() {
            writeln!(f, "   virtual   who          what")?;
            self.timeline.iter().try_for_each(|line| writeln!(f, "{line}"))?;
            writeln!(f)?;
        }
        if let Some(likely) = self.likely {
            writeln!(f, "  Likely: {likely}")?;
        }
        let Report { name, seed, test, .. } = report;
        // A run without faults is not replayed: the test is it.
        if self.plan != Plan::default() {
            let filter = match test {
                Some(test) => format!("{test} -- --exact --nocapture"),
                None => format!("{name} -- --nocapture"),
            };
            writeln!(
                f,
                "  Replay: WINDLASS_REPLAY='{name}@{seed}: {}' cargo test {filter}",
                self.plan
            )?;
        }
        match &self.kept {
            None => Ok(()),
            Some(Ok(file)) => writeln!(
                f,
                "  Kept:   {file} (runs with every cargo test; delete it if it is of no use)"
            ),
            Some(Err(error)) => writeln!(f, "  The plan could not be kept: {error}"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}: {}", self.oracle, self.text)?;
        self.details.iter().take(16).try_for_each(|line| writeln!(f, "      {line}"))
    }
}

impl fmt::Display for Shrunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: usize, what: &str| match n {
            1 => format!("1 {what}"),
            n => format!("{n} {what}s"),
        };
        write!(
            f,
            "shrunk from {} to {} and from {} to {}; {} tries",
            count(self.faults.0, "fault"),
            self.faults.1,
            count(self.steps.0, "step"),
            self.steps.1,
            self.tries,
        )
    }
}

/// The name of the test that runs on this thread; `None` if the thread does not say.
fn test_name() -> Option<String> {
    let thread = std::thread::current();
    thread.name().filter(|name| *name != "main").map(str::to_owned)
}

/// `1,904`.
fn number(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Describes the first difference between two runs that have to be equal.
pub(crate) fn first_difference(one: &Outcome, other: &Outcome) -> Option<String> {
    let lines = |run: &Outcome| -> Vec<String> {
        let trace = run.trace.iter().map(ToString::to_string);
        let history = run.history.iter().map(|change| {
            let after = change.after.as_ref().map(|object| {
                let mut object = object.as_ref().clone();
                canonical::leave_out(&mut object, &run.masks, &change.key.resource);
                object.to_string()
            });
            format!("r{} {} {}", change.revision, change.key, after.unwrap_or_default())
        });
        trace.chain(history).chain(run.error.clone()).collect()
    };
    let (one, other) = (lines(one), lines(other));
    let place = (0..one.len().max(other.len())).find(|n| one.get(*n) != other.get(*n))?;
    let shown = |lines: &[String]| lines.get(place).cloned().unwrap_or_else(|| "nothing".into());
    Some(format!(
        "not deterministic: two runs with the same seed differ at line {} of their traces\n  \
         first:  {}\n  second: {}\n  Common causes: iterating over a HashMap, random numbers, the \
         time of the machine, threads, real connections. Use ordered maps, `sim.seed()` and \
         `cx.clock()`.\n",
        place + 1,
        shown(&one),
        shown(&other)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([7, 999, 1904, 1_000_000].map(number), ["7", "999", "1,904", "1,000,000"]);
    }
}
