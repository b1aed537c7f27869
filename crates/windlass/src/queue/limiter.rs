//! Rate limiters: how long a key that failed is delayed.

use std::time::Duration;

use tokio::time::Instant;

/// Decides how long a key is delayed after a failure.
///
/// The queue counts the failures of each key. It owns its limiter and calls it while the queue is
/// locked: a limiter that blocks or takes long stops all workers and all adds of keys, and
/// one that calls the same queue never returns.
///
/// # Examples
///
/// A closure is a limiter, too. This one is client-go's `ItemFastSlowRateLimiter`: a short delay
/// for the first failures of a key and a long one for all others.
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::{Limiter, WorkQueue};
///
/// fn fast_slow(fast: Duration, slow: Duration) -> impl Limiter<&'static str> {
///     move |_: &&str, failures| if failures <= 2 { fast } else { slow }
/// }
///
/// let (fast, slow) = (Duration::from_millis(10), Duration::from_secs(60));
/// let limiter = fast_slow(fast, slow);
/// let queue = WorkQueue::with_limiter(limiter);
/// let delays = [(); 4].map(|()| queue.add_rate_limited("a"));
/// assert_eq!(delays, [fast, fast, slow, slow]);
/// ```
///
/// Two limiters in a tuple are one, which uses the longer of their delays. This is the default of
/// client-go, a delay per key, and ten keys per second overall:
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::{Bucket, Exponential, WorkQueue};
///
/// let queue = WorkQueue::with_limiter((Exponential::default(), Bucket::new(10.0, 100)));
/// assert_eq!(queue.add_rate_limited("a"), Duration::from_millis(5));
/// assert_eq!(queue.add_rate_limited("a"), Duration::from_millis(10));
/// queue.forget(&"a");
/// assert_eq!(queue.add_rate_limited("a"), Duration::from_millis(5));
/// ```
pub trait Limiter<K>: Send {
    /// Returns the delay of a key that has just failed; `failures` includes that failure, so it is
    /// at least 1.
    fn delay(&mut self, key: &K, failures: u32) -> Duration;
}

/// Doubles the delay with every failure of a key: `base`, `2 * base`, … up to `max`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::{Exponential, WorkQueue};
/// let second = Duration::from_secs(1);
/// let queue = WorkQueue::with_limiter(Exponential::new(second, 5 * second));
/// let delays = [(); 4].map(|()| queue.add_rate_limited("a"));
/// assert_eq!(delays, [second, 2 * second, 4 * second, 5 * second]);
/// assert_eq!((queue.failures(&"a"), queue.failures(&"b")), (4, 0));
/// queue.forget(&"a");
/// assert_eq!(queue.add_rate_limited("a"), second);
/// ```
#[derive(Clone, Debug)]
pub struct Exponential {
    base: Duration,
    max: Duration,
}

/// Limits the adds of all keys together: a number at once, then a number per second.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::{Bucket, WorkQueue};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let queue = WorkQueue::with_limiter(Bucket::new(10.0, 2));
/// let delays = ["a", "b", "c", "d"].map(|key| queue.add_rate_limited(key));
/// let tenth = Duration::from_millis(100);
/// assert_eq!(delays, [Duration::ZERO, Duration::ZERO, tenth, 2 * tenth]);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Bucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    last: Option<Instant>,
}

impl<K, F: FnMut(&K, u32) -> Duration + Send> Limiter<K> for F {
    fn delay(&mut self, key: &K, failures: u32) -> Duration {
        self(key, failures)
    }
}

// === impl Exponential ===

impl Exponential {
    /// Returns a limiter with a delay of `base` after the first failure and of at most `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max }
    }
}

impl Default for Exponential {
    /// 5 ms to 1000 s.
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl<K> Limiter<K> for Exponential {
    fn delay(&mut self, _key: &K, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1));
        factor.and_then(|f| self.base.checked_mul(f)).map_or(self.max, |wait| wait.min(self.max))
    }
}

// === impl Bucket ===

impl Bucket {
    /// Returns a limiter that lets `burst` adds pass at once, and `per_second` from then on.
    pub fn new(per_second: f64, burst: u32) -> Self {
        let burst = f64::from(burst);
        Self { per_second: per_second.max(f64::MIN_POSITIVE), burst, tokens: burst, last: None }
    }
}

impl<K> Limiter<K> for Bucket {
    fn delay(&mut self, _key: &K, _failures: u32) -> Duration {
        let now = Instant::now();
        let passed =
            self.last.map_or(0.0, |last| now.saturating_duration_since(last).as_secs_f64());
        self.last = Some(now);
        self.tokens = (self.tokens + passed * self.per_second).min(self.burst) - 1.0;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-self.tokens / self.per_second).unwrap_or(Duration::MAX / 4)
    }
}

impl<K, A: Limiter<K>, B: Limiter<K>> Limiter<K> for (A, B) {
    fn delay(&mut self, key: &K, failures: u32) -> Duration {
        self.0.delay(key, failures).max(self.1.delay(key, failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn exponential_delays_double_up_to_the_limit_and_never_overflow() {
        let mut limiter = Exponential::default();
        let delays = [1, 2, 3, 4].map(|failures| limiter.delay(&"a", failures));
        assert_eq!(delays, [ms(5), ms(10), ms(20), ms(40)]);
        for failures in [19, 32, 33, 200, u32::MAX] {
            assert_eq!(limiter.delay(&"a", failures), Duration::from_secs(1000));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_lets_its_burst_pass_and_then_its_rate() {
        let mut limiter = Bucket::new(10.0, 2);
        let mut delay = || limiter.delay(&"a", 1);
        assert_eq!([(); 4].map(|()| delay()), [ms(0), ms(0), ms(100), ms(200)]);
        tokio::time::advance(ms(1000)).await;
        assert_eq!(delay(), ms(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pair_asks_both_limiters_and_uses_the_longer_delay() {
        let mut limiter = (Exponential::new(ms(1), ms(300)), Bucket::new(10.0, 1));
        let delays = [1, 1, 9].map(|failures| limiter.delay(&"a", failures));
        assert_eq!(delays, [ms(1), ms(100), ms(256)]);
        assert_eq!(limiter.delay(&"b", 1), ms(300), "each add takes a token, also a longer one");
    }
}
