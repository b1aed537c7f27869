//! The progress of an exploration, as its reader sees it.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::number;

/// The environment variable that asks for progress.
const PROGRESS: &str = "WINDLASS_SIM_PROGRESS";

/// The progress of an exploration on standard error: a line that is rewritten on a terminal, and a
/// line every ten seconds elsewhere.
pub(crate) struct Shown {
    name: String,
    plans: usize,
    began: Instant,
    /// How often a line is shown; `None` shows nothing.
    every: Option<Duration>,
    terminal: bool,
    last: Mutex<Instant>,
}

// === impl Shown ===

impl Shown {
    pub(crate) fn new(name: &str, plans: usize) -> Self {
        let terminal = stderr().is_terminal();
        let every = Duration::from_secs(if terminal { 1 } else { 10 });
        let now = Instant::now();
        Self {
            name: name.to_owned(),
            plans,
            began: now,
            every: std::env::var_os(PROGRESS).map(|_| every),
            terminal,
            last: Mutex::new(now),
        }
    }

    /// Shows how many plans have run, unless that was shown just now.
    pub(crate) fn update(&self, ran: usize, failures: usize) {
        let Some(every) = self.every else { return };
        let mut last = self.last.lock();
        if last.elapsed() < every {
            return;
        }
        *last = Instant::now();
        let line = line(&self.name, ran, self.plans, failures, self.began.elapsed());
        // A reader that has closed the stream is no reason to stop.
        let _ = match self.terminal {
            true => write!(stderr(), "\r\x1b[2K{line}"),
            false => writeln!(stderr(), "{line}"),
        };
    }

    /// Removes the line from a terminal.
    pub(crate) fn end(&self) {
        if self.every.is_some() && self.terminal {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}

fn line(name: &str, ran: usize, plans: usize, failures: usize, took: Duration) -> String {
    let rate = ran as f64 / took.as_secs_f64().max(0.001);
    let failed = match failures {
        0 => "none fails".to_owned(),
        1 => "1 fails".to_owned(),
        n => format!("{} fail", number(n)),
    };
    let (done, all) = (number(ran), number(plans));
    match plans.checked_sub(ran) {
        None | Some(0) => format!("{name}: {done} plans, {failed}, {rate:.0} plans/s"),
        Some(left) => {
            let left = left as f64 / rate.max(0.001);
            format!("{name}: {done} of {all} plans, {failed}, {rate:.0} plans/s, {left:.0} s left")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_counts_rate_and_the_time_that_is_left() {
        let text = line("shop", 100, 1_100, 1, Duration::from_secs(2));
        assert_eq!(text, "shop: 100 of 1,100 plans, 1 fails, 50 plans/s, 20 s left");
        let text = line("shop", 1_200, 1_100, 0, Duration::from_secs(12));
        assert_eq!(text, "shop: 1,200 plans, none fails, 100 plans/s");
    }
}
