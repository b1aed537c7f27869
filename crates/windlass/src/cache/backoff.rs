//! Waits between tries, and the jitter that spreads them.

use std::time::Duration;

use tokio::time::Instant;

use crate::splitmix;

/// Random numbers from a seed, so that a run can be repeated.
#[derive(Clone, Debug)]
pub(super) struct Jitter(u64);

/// Waits that double, with jitter, and start over after a quiet time.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    last: Option<Instant>,
}

const FIRST: Duration = Duration::from_millis(800);
const MAX: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_secs(120);

// === impl Jitter ===

impl Jitter {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number in `0.0..1.0`.
    pub(super) fn fraction(&mut self) -> f64 {
        (splitmix::next(&mut self.0) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

// === impl Backoff ===

impl Backoff {
    pub(super) fn new() -> Self {
        Self { next: FIRST, last: None }
    }

    /// Returns the next wait: between the current step and twice that.
    pub(super) fn wait(&mut self, jitter: &mut Jitter) -> Duration {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.saturating_duration_since(last) > QUIET) {
            self.next = FIRST;
        }
        let wait = self.next.mul_f64(1.0 + jitter.fraction());
        self.next = (self.next * 2).min(MAX);
        self.last = Some(now + wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_double_to_their_limit_and_start_over_after_a_quiet_time() {
        let mut backoff = Backoff::new();
        let mut jitter = Jitter::new(1);
        for step in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            let step = Duration::from_millis(step);
            let wait = backoff.wait(&mut jitter);
            assert!(wait >= step && wait < 2 * step, "{wait:?} for {step:?}");
            tokio::time::advance(wait).await;
        }
        tokio::time::advance(QUIET + Duration::from_secs(1)).await;
        assert!(backoff.wait(&mut jitter) < 2 * FIRST);
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut jitter = Jitter::new(seed);
            [jitter.fraction(), jitter.fraction(), jitter.fraction()]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert!(numbers(7).iter().all(|n| (0.0..1.0).contains(n)));
    }
}
