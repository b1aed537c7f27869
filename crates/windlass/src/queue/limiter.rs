//! Rate limiters: how long a key that failed is delayed.

use std::time::Duration;

use hashbrown::HashMap;
use tokio::time::Instant;

use super::key::QueueKey;

/// Decides how long a key is delayed after a failure.
///
/// The queue owns its limiter and calls it while the queue is locked: a method that blocks, locks
/// the same queue or takes long stops all workers and everybody who adds keys.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::{Exponential, Limiter, WorkQueue};
///
/// /// Delays a key by an hour after more than ten failures.
/// struct Patient(Exponential<String>);
///
/// impl Limiter<String> for Patient {
///     fn when(&mut self, key: &String) -> Duration {
///         let wait = self.0.when(key);
///         if self.0.failures(key) > 10 { Duration::from_secs(3600) } else { wait }
///     }
///     fn forget(&mut self, key: &String) {
///         self.0.forget(key);
///     }
///     fn failures(&self, key: &String) -> u32 {
///         self.0.failures(key)
///     }
/// }
///
/// let queue = WorkQueue::with_limiter(Patient(Exponential::default()));
/// assert_eq!(queue.add_rate_limited("a".to_string()), Duration::from_millis(5));
/// ```
pub trait Limiter<K>: Send {
    /// Counts a failure of the key and returns its delay.
    fn when(&mut self, key: &K) -> Duration;
    /// Forgets the failures of the key.
    fn forget(&mut self, key: &K);
    /// Returns the number of failures of the key since it was last forgotten.
    fn failures(&self, key: &K) -> u32;
    /// Returns `true` if no failure of any key is remembered. The queue then calls neither
    /// [`failures`](Self::failures) nor [`forget`](Self::forget), which saves a lock for each
    /// successful reconcile. `false` is always correct.
    fn is_clear(&self) -> bool {
        false
    }
}

/// Doubles the delay with every failure of a key: `base`, `2 * base`, … up to `max`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::{Exponential, Limiter};
/// let second = Duration::from_secs(1);
/// let mut limiter = Exponential::new(second, 5 * second);
/// let waits = [(); 4].map(|()| limiter.when(&"a"));
/// assert_eq!(waits, [second, 2 * second, 4 * second, 5 * second]);
/// assert_eq!((limiter.failures(&"a"), limiter.failures(&"b")), (4, 0));
/// limiter.forget(&"a");
/// assert_eq!(limiter.when(&"a"), second);
/// ```
#[derive(Clone, Debug)]
pub struct Exponential<K> {
    base: Duration,
    max: Duration,
    failures: Failures<K>,
}

/// Limits the adds of all keys together: a number at once, then a number per second.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::{Bucket, Limiter};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let mut limiter = Bucket::new(10.0, 2);
/// let waits = ["a", "b", "c", "d"].map(|key| limiter.when(&key));
/// let tenth = Duration::from_millis(100);
/// assert_eq!(waits, [Duration::ZERO, Duration::ZERO, tenth, 2 * tenth]);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Bucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    last: Option<Instant>,
}

/// Uses a short delay for the first failures of a key and a long one for all others.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::{FastSlow, Limiter};
/// let (fast, slow) = (Duration::from_millis(10), Duration::from_secs(60));
/// let mut limiter = FastSlow::new(fast, slow, 2);
/// assert_eq!([(); 4].map(|()| limiter.when(&"a")), [fast, fast, slow, slow]);
/// ```
#[derive(Clone, Debug)]
pub struct FastSlow<K> {
    fast: Duration,
    slow: Duration,
    fast_max: u32,
    failures: Failures<K>,
}

/// Combines limiters: the longest of their delays is used.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::{Bucket, Exponential, MaxOf, WorkQueue};
///
/// // The default of client-go: a delay per key, and ten keys per second overall.
/// let limiter = MaxOf::default().and(Exponential::default()).and(Bucket::new(10.0, 100));
/// let queue = WorkQueue::with_limiter(limiter);
/// assert_eq!(queue.add_rate_limited("a"), Duration::from_millis(5));
/// assert_eq!(queue.add_rate_limited("a"), Duration::from_millis(10));
/// queue.forget(&"a");
/// assert_eq!(queue.add_rate_limited("a"), Duration::from_millis(5));
/// ```
pub struct MaxOf<K> {
    limiters: Vec<Box<dyn Limiter<K>>>,
}

/// The number of failures of each key.
#[derive(Clone, Debug)]
struct Failures<K>(HashMap<K, u32>);

// === impl Exponential ===

impl<K> Exponential<K> {
    /// Returns a limiter with a delay of `base` after the first failure and of at most `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: Failures(HashMap::new()) }
    }
}

impl<K> Default for Exponential<K> {
    /// 5 ms to 1000 s.
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl<K: QueueKey> Limiter<K> for Exponential<K> {
    fn when(&mut self, key: &K) -> Duration {
        let factor = 1_u32.checked_shl(self.failures.count(key) - 1);
        factor.and_then(|f| self.base.checked_mul(f)).map_or(self.max, |wait| wait.min(self.max))
    }

    fn forget(&mut self, key: &K) {
        self.failures.forget(key);
    }

    fn failures(&self, key: &K) -> u32 {
        self.failures.of(key)
    }

    fn is_clear(&self) -> bool {
        self.failures.0.is_empty()
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
    fn when(&mut self, _key: &K) -> Duration {
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

    fn forget(&mut self, _key: &K) {}

    fn failures(&self, _key: &K) -> u32 {
        0
    }

    fn is_clear(&self) -> bool {
        true
    }
}

// === impl FastSlow ===

impl<K> FastSlow<K> {
    /// Returns a limiter with a delay of `fast` for the first `fast_max` failures, then of `slow`.
    pub fn new(fast: Duration, slow: Duration, fast_max: u32) -> Self {
        Self { fast, slow, fast_max, failures: Failures(HashMap::new()) }
    }
}

impl<K: QueueKey> Limiter<K> for FastSlow<K> {
    fn when(&mut self, key: &K) -> Duration {
        if self.failures.count(key) <= self.fast_max { self.fast } else { self.slow }
    }

    fn forget(&mut self, key: &K) {
        self.failures.forget(key);
    }

    fn failures(&self, key: &K) -> u32 {
        self.failures.of(key)
    }

    fn is_clear(&self) -> bool {
        self.failures.0.is_empty()
    }
}

// === impl MaxOf ===

impl<K> MaxOf<K> {
    /// Adds a limiter.
    pub fn and(mut self, limiter: impl Limiter<K> + 'static) -> Self {
        self.limiters.push(Box::new(limiter));
        self
    }
}

impl<K> Default for MaxOf<K> {
    /// Returns a combination of no limiters, which never delays a key.
    fn default() -> Self {
        Self { limiters: Vec::new() }
    }
}

impl<K> Limiter<K> for MaxOf<K> {
    fn when(&mut self, key: &K) -> Duration {
        self.limiters.iter_mut().map(|l| l.when(key)).max().unwrap_or_default()
    }

    fn forget(&mut self, key: &K) {
        self.limiters.iter_mut().for_each(|l| l.forget(key));
    }

    fn failures(&self, key: &K) -> u32 {
        self.limiters.iter().map(|l| l.failures(key)).max().unwrap_or(0)
    }

    fn is_clear(&self) -> bool {
        self.limiters.iter().all(|l| l.is_clear())
    }
}

// === impl Failures ===

impl<K: QueueKey> Failures<K> {
    /// Adds a failure of the key and returns their number.
    fn count(&mut self, key: &K) -> u32 {
        let failures = self.0.entry(key.clone()).or_insert(0);
        *failures = failures.saturating_add(1);
        *failures
    }

    fn forget(&mut self, key: &K) {
        if !self.0.is_empty() {
            self.0.remove(key);
        }
    }

    fn of(&self, key: &K) -> u32 {
        self.0.get(key).copied().unwrap_or(0)
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
        let waits: Vec<_> = (0..4).map(|_| limiter.when(&"a")).collect();
        assert_eq!(waits, [ms(5), ms(10), ms(20), ms(40)]);
        assert_eq!(limiter.when(&"b"), ms(5));
        for _ in 0..200 {
            limiter.when(&"a");
        }
        assert_eq!(limiter.when(&"a"), Duration::from_secs(1000));
        limiter.forget(&"a");
        assert_eq!(limiter.when(&"a"), ms(5));
    }

    #[test]
    fn fast_slow_is_slow_after_the_fast_failures() {
        let mut limiter = FastSlow::new(ms(1), ms(10), 2);
        let waits: Vec<_> = (0..3).map(|_| limiter.when(&"a")).collect();
        assert_eq!(waits, [ms(1), ms(1), ms(10)]);
        assert_eq!(limiter.failures(&"a"), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_lets_its_burst_pass_and_then_its_rate() {
        let mut limiter = Bucket::new(10.0, 2);
        let mut when = || Limiter::<u8>::when(&mut limiter, &0);
        assert_eq!(when(), ms(0));
        assert_eq!(when(), ms(0));
        assert_eq!(when(), ms(100));
        assert_eq!(when(), ms(200));
        tokio::time::advance(ms(1000)).await;
        assert_eq!(when(), ms(0));
    }

    #[test]
    fn max_of_asks_every_limiter_and_takes_the_longest_delay() {
        let mut limiter = MaxOf::default()
            .and(Exponential::new(ms(1), ms(100)))
            .and(FastSlow::new(ms(4), ms(9), 1));
        let waits: Vec<_> = (0..3).map(|_| limiter.when(&"a")).collect();
        assert_eq!(waits, [ms(4), ms(9), ms(9)]);
        assert_eq!(limiter.failures(&"a"), 3);
    }
}
