//! The work queue between event handlers and workers.
//!
//! Handlers add keys, workers take them. One type does what several do in client-go: plain,
//! delayed, rate-limited and prioritized adds all meet in one entry per key, so they are merged
//! instead of racing each other.
//!
//! | client-go `workqueue` | windlass |
//! |---|---|
//! | `Interface`, the plain queue: `Add`, `Get`, `Done` | [`WorkQueue::add`], [`get`](WorkQueue::get), drop of [`Work`] |
//! | `DelayingInterface`: `AddAfter` | [`WorkQueue::add_after`] |
//! | `RateLimitingInterface`: `AddRateLimited`, `Forget`, `NumRequeues` | [`WorkQueue::add_rate_limited`], [`forget`](WorkQueue::forget), [`failures`](WorkQueue::failures) |
//! | `Len`, the metrics provider | [`WorkQueue::stats`] |
//! | `ShutDown` | [`WorkQueue::shutdown`] |
//! | `ShutDownWithDrain` | [`WorkQueue::shutdown`], then wait for the workers to end |
//! | `RateLimiter` | [`Limiter`]; the queue counts the failures |
//! | `ItemExponentialFailureRateLimiter` | [`Exponential`] |
//! | `ItemFastSlowRateLimiter` | a closure, see [`Limiter`] |
//! | `BucketRateLimiter` | [`Bucket`] |
//! | `MaxOfRateLimiter` | a tuple of two [`Limiter`]s |
//! | `priorityqueue.AddOpts` (controller-runtime) | [`WorkQueue::add_with_priority`] |
//!
//! Time comes from `tokio::time`, so a paused runtime is virtual time. There is no background
//! task: one of the workers that wait for a key watches the delays.
//!
//! **Invariant:** a key is handed to one worker at a time.
//! **Invariant:** an add of a key that is being worked on is neither lost nor handed out early:
//! the key is queued again when its worker is done.
//! **Invariant:** a key that becomes ready is given to a worker that waits, if there is one, by the
//! task that adds it: no other task has to run first.
//! **Invariant:** adding a key again can shorten its delay and raise its priority, never the
//! opposite.
//!
//! # Examples
//!
//! ```
//! use windlass::queue::WorkQueue;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let queue = WorkQueue::default();
//! queue.add("a");
//! queue.add("a");
//! let work = queue.get().await.expect("the queue is open");
//! assert_eq!(*work, "a");
//! drop(work);
//! assert_eq!(queue.stats().depth, 0);
//! # }
//! ```

mod add;
mod entries;
mod epoch;
mod failures;
mod get;
mod key;
mod lane;
mod limiter;
mod options;
mod ready;
mod state;
mod stats;
#[cfg(test)]
mod tests;
mod timers;
mod waiters;
mod work;

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use parking_lot::Mutex;

pub(crate) use self::add::Add;
pub(crate) use self::key::{QueueKey, ToKey};
pub use self::limiter::{Bucket, Exponential, Limiter};
pub(crate) use self::options::QueueOptions;
#[cfg(feature = "metrics")]
pub(crate) use self::stats::Histogram;
pub use self::stats::QueueStats;
pub use self::work::Work;

use self::epoch::Epoch;
use self::get::Get;
use self::state::State;
use self::waiters::Slot;
use crate::clock;

/// The priority of keys whose objects did not change: those of the initial list and of resyncs.
pub const LOW_PRIORITY: i32 = -100;

/// A queue of keys for workers; cheap to clone.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::{LOW_PRIORITY, WorkQueue};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let queue = WorkQueue::default();
/// queue.add_with_priority("unchanged", LOW_PRIORITY);
/// queue.add("changed");
/// queue.add_after("later", Duration::from_millis(5));
///
/// let work = queue.get().await.expect("the queue is open");
/// assert_eq!(*work, "changed");
/// queue.add("changed"); // it is being worked on: it is queued again when that is done
/// assert_eq!(*queue.get().await.expect("open"), "unchanged");
/// drop(work);
/// assert_eq!(*queue.get().await.expect("open"), "changed");
/// assert_eq!(*queue.get().await.expect("open"), "later");
/// # }
/// ```
pub struct WorkQueue<K: QueueKey> {
    shared: Arc<Shared<K>>,
}

struct Shared<K: QueueKey> {
    state: Mutex<State<K>>,
    hasher: DefaultHashBuilder,
    clock: Epoch,
    /// Whether any key has failed. Most often none has, and a successful reconcile need not take
    /// the lock to forget its failures.
    any_failures: AtomicBool,
}

// === impl WorkQueue ===

impl<K: QueueKey> WorkQueue<K> {
    /// Creates a queue with a limiter for its rate-limited adds.
    pub fn with_limiter(limiter: impl Limiter<K> + 'static) -> Self {
        QueueOptions::new().limiter(limiter).build()
    }

    /// Adds a key at once and with priority 0.
    ///
    /// `ToKey` is implemented for every key and every reference to one, which is cloned only if the
    /// queue does not hold the key yet.
    pub fn add(&self, key: impl ToKey<K>) {
        self.add_now(key, (0, 0));
    }

    /// Adds a key after a delay. A key that is already delayed keeps the earlier time.
    pub fn add_after(&self, key: impl ToKey<K>, after: Duration) {
        self.add_with(key, Add::default().after(after));
    }

    /// Adds a key after a failure, with the delay that the limiter returns. Returns that delay.
    pub fn add_rate_limited(&self, key: impl ToKey<K>) -> Duration {
        self.add_with(key, Add::default().rate_limited())
    }

    /// Adds a key at once; keys with a larger priority are handed out first.
    ///
    /// The priority of a key that is already queued is raised, never lowered.
    pub fn add_with_priority(&self, key: impl ToKey<K>, priority: i32) {
        self.add_now(key, (priority, 0));
    }

    /// Adds a key with a priority, a delay or a rate limit. Returns the delay.
    ///
    /// Every rate-limited add counts as a failure of the key, also if the key is already queued or
    /// the queue is shut down.
    pub(crate) fn add_with(&self, key: impl ToKey<K>, add: Add) -> Duration {
        if add.after.is_none() && !add.rate_limited {
            self.add_now(key, (add.priority, add.flags));
            return Duration::ZERO;
        }
        let hash = self.shared.hasher.hash_one(key.key());
        let mut state = self.shared.state.lock();
        let mut delay = add.after;
        if add.rate_limited {
            self.shared.any_failures.store(true, Ordering::Release);
            let failures = state.failures.count(key.key());
            let limited = state.limiter.delay(key.key(), failures);
            delay = Some(delay.map_or(limited, |after| after.min(limited)));
        }
        let delay = delay.unwrap_or_default();
        if !state.open {
            return delay;
        }
        let changed = if delay.is_zero() {
            state.enqueue(key, hash, (add.priority, add.flags))
        } else {
            state.stats.retries += 1;
            let rank = (add.priority, add.flags);
            Some(state.delay(key, hash, rank, delay.min(clock::FAR)))
        };
        if let Some(now) = changed {
            self.shared.wake(state, now);
        }
        delay
    }

    /// Waits for a key to work on. Returns `None` once the queue is shut down and empty.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no key. A future that is kept without being polled may hold a
    /// key that no other worker gets.
    pub async fn get(&self) -> Option<Work<K>> {
        Get::new(&self.shared, false).await
    }

    /// Waits for a key that finds no worker in [`get`](Self::get).
    pub(crate) async fn get_unclaimed(&self) -> Option<Work<K>> {
        Get::new(&self.shared, true).await
    }

    /// Ends the wait of workers that were not needed since the last call: their
    /// [`get`](Self::get) returns `None`.
    pub(crate) fn retire_unneeded(&self) {
        let retired = self.shared.state.lock().waiters.retire_unneeded();
        retired.into_iter().for_each(Slot::wake);
    }

    /// Takes a key if one is ready now.
    pub(crate) fn try_get(&self) -> Option<Work<K>> {
        let now = self.shared.clock.now();
        let mut state = self.shared.state.lock();
        let taken = state.pop(now)?;
        self.shared.wake(state, now);
        Some(Work::new(taken, &self.shared))
    }

    /// Resets the failures of a key, after its work has succeeded.
    pub fn forget(&self, key: &K) {
        if !self.shared.any_failures.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.shared.state.lock();
        state.failures.forget(key);
        self.shared.any_failures.store(!state.failures.is_empty(), Ordering::Release);
    }

    /// Returns the number of rate-limited adds of the key since it was last forgotten.
    pub fn failures(&self, key: &K) -> u32 {
        if !self.shared.any_failures.load(Ordering::Acquire) {
            return 0;
        }
        self.shared.state.lock().failures.of(key)
    }

    /// Returns the number of keys that are ready for a worker; delayed keys do not count.
    pub(crate) fn len(&self) -> usize {
        let mut state = self.shared.state.lock();
        state.promote(self.shared.clock.now());
        state.ready.len()
    }

    /// Returns `true` if no key is ready for a worker.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of delayed keys.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        let mut state = self.shared.state.lock();
        state.promote(self.shared.clock.now());
        state.waiting()
    }

    /// Shuts the queue down: adds are ignored from now on, delayed keys are dropped, and keys that
    /// are ready are still handed out.
    ///
    /// ```
    /// use windlass::queue::WorkQueue;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let queue = WorkQueue::default();
    /// let worker = tokio::spawn({
    ///     let queue = queue.clone();
    ///     async move {
    ///         let mut done = Vec::new();
    ///         while let Some(work) = queue.get().await {
    ///             done.push(*work);
    ///         }
    ///         done
    ///     }
    /// });
    /// (1..=3).for_each(|key| queue.add(key));
    /// queue.shutdown();
    /// queue.add(4);
    /// assert_eq!(worker.await.expect("does not panic"), [1, 2, 3]);
    /// # }
    /// ```
    pub fn shutdown(&self) {
        let mut state = self.shared.state.lock();
        state.close();
        let waiting = state.waiters.retire_all();
        drop(state);
        waiting.into_iter().for_each(Slot::wake);
    }

    /// Returns `true` if the queue was shut down.
    #[cfg(test)]
    fn closed(&self) -> bool {
        !self.shared.state.lock().open
    }

    /// Returns the key that has been worked on for the longest time, and that time.
    pub(crate) fn longest(&self) -> Option<(K, Duration)> {
        self.shared.state.lock().longest(self.shared.clock.now())
    }

    /// Returns the statistics of the queue, all of one moment.
    pub fn stats(&self) -> QueueStats {
        let mut state = self.shared.state.lock();
        let now = self.shared.clock.now();
        state.promote(now);
        state.snapshot(now)
    }

    /// Adds a key without a delay or a rate limit.
    fn add_now(&self, key: impl ToKey<K>, rank: (i32, u8)) {
        let hash = self.shared.hasher.hash_one(key.key());
        let mut state = self.shared.state.lock();
        if state.open
            && let Some(now) = state.enqueue(key, hash, rank)
        {
            self.shared.wake(state, now);
        }
    }
}

impl<K: QueueKey> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: QueueKey> Default for WorkQueue<K> {
    /// Creates a queue whose rate-limited adds are delayed by 5 ms to 1000 s, twice as long after
    /// each failure of the key.
    fn default() -> Self {
        QueueOptions::new().build()
    }
}

impl<K: QueueKey> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("len", &self.len()).finish_non_exhaustive()
    }
}
