//! Rest: nothing of the copy changes any more.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use windlass_apiserver::ApiServer;

use super::virtual_time::{pass, wait};
use super::worker::Worker;
use crate::failure::Failure;

/// How much time of the copy a plan covers.
const HORIZON: Duration = Duration::from_secs(3_600);
/// An operator that has changed nothing for this time of the copy has come to rest.
const QUIET: Duration = Duration::from_secs(600);
/// A copy without an operator that has not changed for this time of its own is at rest.
const COPY_QUIET: Duration = Duration::from_secs(60);
/// The steps in which time passes: short ones after a change, longer ones after each other.
const STEP_MIN: Duration = Duration::from_secs(1);
const STEP_MAX: Duration = Duration::from_secs(60);
/// The time between two looks, and how many of them in a row see no request before time passes.
const LOOK: Duration = Duration::from_millis(5);
const CALM: u32 = 4;
/// How long nothing may change while a program runs whose time is that of the machine, and how long
/// it has to start.
const REAL_QUIET: Duration = Duration::from_millis(1_500);
const REAL_START: Duration = Duration::from_secs(5);
/// The time between two lines for people.
const PERIOD: Duration = Duration::from_secs(2);

/// Waits for a server to come to rest.
pub struct Settle<'a> {
    server: &'a ApiServer,
    timeout: Duration,
    /// How many requests were answered.
    requests: Arc<AtomicU64>,
}

/// What was seen of a server.
struct Seen {
    requests: u64,
    revision: u64,
    /// The last change that matters.
    last: String,
}

/// Shows people on a terminal, every few seconds, that something happens.
struct Progress {
    shown: Instant,
}

// === impl Progress ===

impl Progress {
    fn show(&mut self, what: &str, passed: Duration) {
        if self.shown.elapsed() >= PERIOD && std::io::stderr().is_terminal() {
            self.shown = Instant::now();
            note!("{what} works; {} s of its time have passed", passed.as_secs());
        }
    }
}

// === impl Settle ===

impl<'a> Settle<'a> {
    pub fn new(server: &'a ApiServer, timeout: Duration) -> Self {
        let requests = Arc::new(AtomicU64::new(0));
        let count = requests.clone();
        server.request_log().set_sink(Box::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        Self { server, timeout, requests }
    }

    /// Lets time pass: for an operator as much as a plan covers, for the copy alone until nothing
    /// has changed for a while, leases and events left out.
    ///
    /// # Errors
    ///
    /// If that takes longer than the user wants to wait, or if the operator ends by itself.
    pub async fn rest(&self, mut worker: Option<&mut Worker>, what: &str) -> Result<(), Failure> {
        let began = Instant::now();
        let mut seen = Seen {
            requests: self.requests.load(Ordering::Relaxed),
            revision: self.server.revision(),
            last: String::new(),
        };
        let (mut calm, mut step) = (0, STEP_MIN);
        let (mut quiet, mut passed) = (Duration::ZERO, Duration::ZERO);
        let (mut moved, mut progress) = (began, Progress { shown: began });
        let covered = |quiet: Duration, passed: Duration, is_alone: bool| match is_alone {
            true => quiet >= COPY_QUIET,
            false => passed >= HORIZON,
        };
        while !covered(quiet, passed, worker.is_none()) {
            wait(LOOK).await;
            if let Some(worker) = &mut worker {
                worker.check(what)?;
            }
            if began.elapsed() >= self.timeout {
                return Err(self.late(what, &seen));
            }
            progress.show(what, passed);
            let (is_busy, is_changed) = self.look(&mut seen);
            if is_changed {
                (step, quiet, moved) = (STEP_MIN, Duration::ZERO, Instant::now());
            }
            let of_the_machine = worker.as_deref().is_some_and(|worker| !worker.is_stepped());
            if of_the_machine {
                if moved.elapsed() >= REAL_QUIET && began.elapsed() >= REAL_START {
                    return Ok(());
                }
                continue;
            }
            calm = if is_busy { 0 } else { calm + 1 };
            if calm < CALM {
                continue;
            }
            pass(step).await;
            if let Some(worker) = &mut worker {
                worker.pass(step, what).await?;
            }
            (quiet, passed, calm) = (quiet + step, passed + step, 0);
            step = (step * 2).min(STEP_MAX);
        }
        if worker.is_some() && quiet < QUIET {
            let (minutes, last) = (HORIZON.as_secs() / 60, &seen.last);
            note!(
                "{what} still changes {last} after {minutes} min of its time; the plan ends there"
            );
        }
        Ok(())
    }

    /// Returns whether requests were answered since the last look, and whether they changed
    /// something that matters.
    fn look(&self, seen: &mut Seen) -> (bool, bool) {
        let requests = self.requests.load(Ordering::Relaxed);
        let is_busy = std::mem::replace(&mut seen.requests, requests) != requests;
        let changes = self.server.changes_since(seen.revision).unwrap_or_default();
        let mut matters = changes.iter().filter(|(resource, _)| {
            !matches!(&*resource.plural, "events" | "leases" | "endpointslices")
        });
        let last = matters.next_back();
        if let Some((resource, event)) = last {
            seen.last = format!("{} {}", resource.plural, event.entry.key.name);
        }
        seen.revision = changes.last().map_or(seen.revision, |(_, event)| event.revision);
        (is_busy || !changes.is_empty(), last.is_some())
    }

    fn late(&self, what: &str, seen: &Seen) -> Failure {
        let time = self.timeout.as_secs();
        let last = &seen.last;
        Failure::other(format!(
            "{what} did not come to rest within {time} s; the last change was to {last}"
        ))
    }
}
