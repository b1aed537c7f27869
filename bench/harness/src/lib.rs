//! What every contestant of the benchmark shares.
//!
//! A contestant is a process: it gets a kubeconfig, a scenario and a size, says `ready` when it
//! has come to the point from which something is measured, waits for a line on its standard
//! input where the scenario waits for another process, and prints its result as one line of JSON.

#![allow(clippy::disallowed_methods, reason = "measures and reports real time")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// The label that carries the time of a change, in microseconds.
pub const STAMP: &str = "bench-stamp";
/// The namespace of the objects.
pub const NAMESPACE: &str = "bench";
/// Over how many nodes the pods are spread.
pub const NODES: usize = 200;

/// The arguments of a contestant: `--name value`, in any order; read first of all.
pub struct Args {
    words: BTreeMap<String, String>,
    read: Instant,
}

/// Counts what this process uses from a moment on.
pub struct Meter {
    began: Instant,
    cpu: f64,
}

/// Times in microseconds, each with the stamp it counts from, if it does.
#[derive(Default)]
pub struct Lags(Vec<(u64, u64)>);

// === impl Args ===

impl Args {
    /// Reads the command line.
    pub fn parse() -> Self {
        let (read, mut found) = (Instant::now(), BTreeMap::new());
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--") else { continue };
            found.insert(name.to_owned(), words.next().unwrap_or_default());
        }
        Self { words: found, read }
    }

    /// A meter that counts from the start of the process.
    pub fn meter(&self) -> Meter {
        Meter { began: self.read, cpu: 0.0 }
    }

    /// A text, or nothing.
    pub fn text(&self, name: &str) -> &str {
        self.words.get(name).map(String::as_str).unwrap_or_default()
    }

    /// A number, or its default.
    pub fn number(&self, name: &str, otherwise: usize) -> usize {
        self.words.get(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    }
}

// === impl Meter ===

impl Meter {
    /// Begins now.
    pub fn start() -> Self {
        Self { began: Instant::now(), cpu: cpu_seconds() }
    }

    /// Time and CPU seconds since the beginning.
    pub fn read(&self) -> (f64, f64) {
        (self.began.elapsed().as_secs_f64(), cpu_seconds() - self.cpu)
    }
}

// === impl Lags ===

impl Lags {
    /// Adds the age of a stamp, if it is one.
    pub fn stamp(&mut self, stamp: Option<&str>) -> bool {
        self.stamp_at(stamp, now_micros())
    }

    /// Adds the age that a stamp, if it is one, had at a time of day.
    pub fn stamp_at(&mut self, stamp: Option<&str>, at: u64) -> bool {
        let then = stamp.and_then(|text| text.parse::<u64>().ok());
        let Some(then) = then else { return false };
        self.0.push((then, at.saturating_sub(then)));
        true
    }

    /// Adds a time.
    pub fn push(&mut self, took: Duration) {
        self.0.push((0, u64::try_from(took.as_micros()).unwrap_or(u64::MAX)));
    }

    /// Takes in the times of another.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no stamps.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every stamp with how old it was, to compare two processes that saw the same events.
    pub fn seen(&self) -> Value {
        json!(self.0)
    }

    /// Median, 90th and 99th percentile and maximum.
    pub fn summary(&mut self) -> Value {
        self.0.sort_unstable_by_key(|(_, took)| *took);
        let at = |part: f64| {
            let last = self.0.len().saturating_sub(1);
            self.0.get((last as f64 * part).round() as usize).map_or(0, |(_, took)| *took)
        };
        json!({
            "p50_us": at(0.5), "p90_us": at(0.9), "p99_us": at(0.99), "max_us": at(1.0),
            "count": self.0.len(),
        })
    }
}

/// CPU time of this process, user and system.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Resident memory now and at its peak, in KiB.
pub fn memory() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Lets the peak begin anew at what is resident now.
pub fn reset_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The time of day in microseconds.
pub fn now_micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or_default()
}

/// Prints one line of JSON.
pub fn say(value: &Value) {
    let mut out = std::io::stdout().lock();
    // A reader that is gone wants nothing any more.
    let _ = writeln!(out, "{value}");
    let _ = out.flush();
}

/// Says that the measuring may begin.
pub fn ready() {
    say(&json!({ "ready": true }));
}

/// Waits for a line on standard input.
pub fn command() -> String {
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
    line.trim().to_owned()
}

/// The name of the n-th object.
pub fn name(n: usize) -> String {
    format!("object-{n:06}")
}

/// A cheap sequence of numbers that jumps about, the same in every run.
pub struct Jumps(u64);

impl Jumps {
    /// Begins at a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// The next number below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (bound.max(1) as u64)).unwrap_or_default()
    }
}
