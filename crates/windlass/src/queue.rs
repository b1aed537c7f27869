//! The work queue between event handlers and workers.
//!
//! Handlers put keys in, workers take them out. One type does what four do elsewhere: plain,
//! delayed, rate limited and prioritised adds all meet in one entry per key, so they merge
//! instead of racing. Time comes from `tokio::time`, so a paused runtime is virtual time; there
//! is no background task, workers that wait for work also watch the delays.
//!
//! **Invariant:** a key is handed to one worker at a time.
//! **Invariant:** an add of a key that is being worked on is neither lost nor handed out early:
//! the key is queued again when the worker is done with it.
//! **Invariant:** a delay only ever moves a key earlier, a priority only ever moves it up.
//!
//! # Examples
//!
//! ```
//! use windlass::queue::WorkQueue;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let queue = WorkQueue::new();
//! queue.add("a");
//! queue.add("a");
//! let work = queue.get().await.expect("the queue is open");
//! assert_eq!(*work.key(), "a");
//! drop(work);
//! assert!(queue.is_empty());
//! # }
//! ```

mod hands;
mod inner;
mod limiter;
mod options;
mod ready;
mod stats;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::sleep_until;

pub(crate) use self::hands::Hands;
pub use self::limiter::{Bucket, Exponential, FastSlow, Limiter, MaxOf, MaxWait};
pub use self::options::QueueOptions;
pub use self::stats::{Histogram, QueueStats};

use self::inner::{Epoch, Inner, Taken};
use crate::clock;

/// The priority of keys whose objects did not change: the initial list and resyncs.
pub const LOW_PRIORITY: i32 = -100;

/// The bounds a key type of a [`WorkQueue`] has to meet.
pub trait QueueKey: Hash + Eq + Clone + Ord + Send + 'static {}
impl<T: Hash + Eq + Clone + Ord + Send + 'static> QueueKey for T {}

/// What can be added to a queue: a key, or a reference to one, which is cloned only if the
/// queue does not hold the key yet.
///
/// # Examples
///
/// ```
/// use windlass::Key;
/// use windlass::queue::{ToKey, WorkQueue};
///
/// fn twice(queue: &WorkQueue<Key>, key: impl ToKey<Key>) {
///     queue.add(key.key()); // by reference: cloned, as it is new
///     queue.add(key); // it is queued already: nothing happens
/// }
///
/// let queue = WorkQueue::<Key>::new();
/// twice(&queue, Key::namespaced("default", "web"));
/// assert_eq!(queue.len(), 1);
/// ```
pub trait ToKey<K> {
    /// Returns the key.
    fn key(&self) -> &K;
    /// Makes the key the queue keeps.
    fn into_key(self) -> K;
}

/// How a key is added: at once at priority 0 unless told otherwise.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::{Add, WorkQueue};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let queue = WorkQueue::new();
/// queue.add_with("a", Add { priority: -1, ..Add::default() });
/// queue.add_with("b", Add { after: Some(Duration::from_secs(60)), ..Add::default() });
/// queue.add_with("a", Add { priority: 5, ..Add::default() }); // moves up, never down
/// queue.add("b"); // earlier, never later
/// assert_eq!(queue.len(), 2);
/// assert_eq!(queue.try_get().expect("is ready").priority(), 5);
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Add {
    /// Larger comes first; never lowers the priority of a key that is queued already.
    pub priority: i32,
    /// Waits this long first; a key that waits already keeps the earlier time.
    pub after: Option<Duration>,
    /// Asks the limiter; together with `after` the shorter delay holds.
    pub rate_limited: bool,
}

/// A queue of keys for workers.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::{Add, LOW_PRIORITY, Work, WorkQueue};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let queue = WorkQueue::new();
/// queue.add_with("old news", Add { priority: LOW_PRIORITY, ..Add::default() });
/// queue.add("news");
/// queue.add_after("later", Duration::from_millis(5));
///
/// let work: Work<_> = queue.get().await.expect("the queue is open");
/// assert_eq!(*work.key(), "news");
/// queue.add("news"); // it is being worked on: comes again when that is done
/// assert_eq!(*queue.get().await.expect("open").key(), "old news");
/// drop(work);
/// assert_eq!(*queue.get().await.expect("open").key(), "news");
/// assert_eq!(*queue.get().await.expect("open").key(), "later");
/// # }
/// ```
pub struct WorkQueue<K: QueueKey> {
    shared: Arc<Shared<K>>,
}

/// A key in the hands of a worker; dropping it says that the work is done.
///
/// Examples are at [`WorkQueue`] and [`next`](Self::next).
pub struct Work<K: QueueKey> {
    key: K,
    /// Where the queue knows the key.
    place: u32,
    priority: i32,
    shared: Arc<Shared<K>>,
}

/// The place of a key that was given back.
const GIVEN_BACK: u32 = u32::MAX;

struct Shared<K: QueueKey> {
    inner: Mutex<Inner<K>>,
    hasher: DefaultHashBuilder,
    clock: Epoch,
    /// Whether the limiter remembers nothing, as is most common: then it need not be asked.
    clear: AtomicBool,
    /// Wakes workers that wait for a key.
    ready: Notify,
    /// Wakes those who wait for the queue to run dry.
    drained: Notify,
}

impl<K> ToKey<K> for K {
    fn key(&self) -> &K {
        self
    }

    fn into_key(self) -> K {
        self
    }
}

impl<K: Clone> ToKey<K> for &K {
    fn key(&self) -> &K {
        self
    }

    fn into_key(self) -> K {
        self.clone()
    }
}

// === impl WorkQueue ===

impl<K: QueueKey> WorkQueue<K> {
    /// Makes a queue with the default options.
    pub fn new() -> Self {
        QueueOptions::new().build()
    }

    /// Starts the settings of a queue.
    pub fn options() -> QueueOptions<K> {
        QueueOptions::new()
    }

    /// Adds a key at priority 0, at once.
    pub fn add(&self, key: impl ToKey<K>) {
        self.add_now(key, 0);
    }

    /// Adds a key after a delay; a key that waits already keeps the earlier time.
    pub fn add_after(&self, key: impl ToKey<K>, after: Duration) {
        self.add_with(key, Add { after: Some(after), ..Add::default() });
    }

    /// Adds a key after the delay the limiter asks for, and returns that delay.
    pub fn add_rate_limited(&self, key: impl ToKey<K>) -> Duration {
        self.add_with(key, Add { rate_limited: true, ..Add::default() })
    }

    /// Adds a key with priority, delay and rate limit, and returns the delay.
    ///
    /// The limiter counts a failure on every rate limited add, also when the key is queued
    /// already or the queue is shut down.
    pub fn add_with(&self, key: impl ToKey<K>, add: Add) -> Duration {
        if add.after.is_none() && !add.rate_limited {
            self.add_now(key, add.priority);
            return Duration::ZERO;
        }
        let hash = self.shared.hasher.hash_one(key.key());
        let mut inner = self.shared.inner.lock();
        let mut delay = add.after;
        if add.rate_limited {
            let asked = inner.limiter.when(key.key());
            self.shared.clear.store(inner.limiter.is_clear(), Ordering::Release);
            delay = Some(delay.map_or(asked, |after| after.min(asked)));
        }
        let delay = delay.unwrap_or_default();
        if !inner.open {
            return delay;
        }
        let changed = if delay.is_zero() {
            inner.enqueue(key, hash, add.priority)
        } else {
            inner.stats.retries += 1;
            Some(inner.delay(key, hash, add.priority, delay.min(clock::FAR)))
        };
        if let Some(now) = changed {
            self.shared.wake(inner, now);
        }
        delay
    }

    /// Waits for a key to work on; `None` once the queue is shut down and empty.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no key. One that is kept and not polled may hold back the
    /// others that wait, for the wake-up of a key is given to one of them.
    pub async fn get(&self) -> Option<Work<K>> {
        if let Some(work) = self.take(true) {
            return Some(work);
        }
        self.wait(Inner::pop).await.map(|taken| Work::new(taken, &self.shared))
    }

    /// Looks whenever something may have come, until that finds something.
    async fn wait<T>(&self, look: impl Fn(&mut Inner<K>, u64) -> Option<T>) -> Option<T> {
        let mut idle = Idle { shared: &self.shared, rests: None };
        loop {
            let notified = self.shared.ready.notified();
            tokio::pin!(notified);
            let due = {
                let mut inner = self.shared.inner.lock();
                idle.ends(&mut inner);
                let now = self.shared.clock.now();
                if let Some(found) = look(&mut inner, now) {
                    self.shared.wake(inner, now);
                    return Some(found);
                }
                if !inner.open {
                    return None;
                }
                notified.as_mut().enable();
                idle.begins(&mut inner)
            };
            match due {
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = notified => {}
                        () = sleep_until(self.shared.clock.instant(due)) => {}
                    }
                }
                None => notified.await,
            }
        }
    }

    /// Takes a key if one is ready now.
    pub fn try_get(&self) -> Option<Work<K>> {
        self.take(false)
    }

    /// Clears what the limiter remembers of a key.
    pub fn forget(&self, key: &K) {
        if self.shared.clear.load(Ordering::Acquire) {
            return;
        }
        let mut inner = self.shared.inner.lock();
        inner.limiter.forget(key);
        self.shared.clear.store(inner.limiter.is_clear(), Ordering::Release);
    }

    /// Returns how often the key was added rate limited since it was last forgotten.
    pub fn failures(&self, key: &K) -> u32 {
        if self.shared.clear.load(Ordering::Acquire) {
            return 0;
        }
        self.shared.inner.lock().limiter.failures(key)
    }

    /// Returns how many keys are ready for a worker; keys that wait do not count.
    pub fn len(&self) -> usize {
        let mut inner = self.shared.inner.lock();
        inner.promote(self.shared.clock.now());
        inner.ready.len()
    }

    /// Tells whether no key is ready for a worker.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many keys wait for their time.
    pub fn waiting(&self) -> usize {
        let mut inner = self.shared.inner.lock();
        inner.promote(self.shared.clock.now());
        inner.waiting_live
    }

    /// Ends the queue: adds are ignored from now on, keys that wait are dropped, keys that are
    /// ready are still handed out. Ends a [`drain`](Self::drain) that is under way.
    pub fn shutdown(&self) {
        let mut inner = self.shared.inner.lock();
        inner.close();
        inner.draining = false;
        drop(inner);
        self.shared.ready.notify_waiters();
        self.shared.drained.notify_waiters();
    }

    /// Ends the queue and waits until every ready key is handed out and worked off.
    ///
    /// Needs workers that go on taking keys; [`shutdown`](Self::shutdown) ends the wait.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time; the queue stays closed.
    ///
    /// ```
    /// use windlass::queue::WorkQueue;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let queue = WorkQueue::new();
    /// (1..=3).for_each(|key| queue.add(key));
    /// let worker = async {
    ///     let mut done = Vec::new();
    ///     while let Some(work) = queue.get().await {
    ///         done.push(*work.key());
    ///     }
    ///     done
    /// };
    /// let (done, ()) = tokio::join!(worker, queue.drain());
    /// assert_eq!(done, [1, 2, 3]);
    /// queue.add(4);
    /// assert!(queue.closed() && queue.is_empty(), "too late");
    /// # }
    /// ```
    pub async fn drain(&self) {
        {
            let mut inner = self.shared.inner.lock();
            inner.close();
            inner.draining = true;
        }
        self.shared.ready.notify_waiters();
        loop {
            let drained = self.shared.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            {
                let inner = self.shared.inner.lock();
                if !inner.draining || (inner.processing == 0 && inner.ready.is_empty()) {
                    return;
                }
            }
            drained.await;
        }
    }

    /// Tells whether the queue was shut down.
    pub fn closed(&self) -> bool {
        !self.shared.inner.lock().open
    }

    /// Returns the key that has been in work for the longest time, and that time.
    pub fn longest(&self) -> Option<(K, Duration)> {
        self.shared.inner.lock().longest(self.shared.clock.now())
    }

    /// Reads all the figures of the queue at one moment.
    pub fn stats(&self) -> QueueStats {
        let mut inner = self.shared.inner.lock();
        let now = self.shared.clock.now();
        inner.promote(now);
        inner.snapshot(now)
    }

    /// Adds a key that neither waits nor is limited.
    fn add_now(&self, key: impl ToKey<K>, priority: i32) {
        let hash = self.shared.hasher.hash_one(key.key());
        let mut inner = self.shared.inner.lock();
        if inner.open
            && let Some(now) = inner.enqueue(key, hash, priority)
        {
            self.shared.wake(inner, now);
        }
    }

    /// Takes a key; `call` wakes another worker if there is more to do.
    fn take(&self, call: bool) -> Option<Work<K>> {
        let now = self.shared.clock.now();
        let mut inner = self.shared.inner.lock();
        let taken = inner.pop(now)?;
        if call {
            self.shared.wake(inner, now);
        } else {
            drop(inner);
        }
        Some(Work::new(taken, &self.shared))
    }
}

impl<K: QueueKey> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: QueueKey> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: QueueKey> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("len", &self.len()).finish_non_exhaustive()
    }
}

// === impl Work ===

impl<K: QueueKey> Work<K> {
    fn new(Taken { place, key, priority }: Taken<K>, shared: &Arc<Shared<K>>) -> Self {
        Self { key, place, priority, shared: shared.clone() }
    }

    /// Returns the key to work on.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the priority the key was queued with.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Says that the work is done and takes the next key if one is ready, at the price of one
    /// of the two.
    ///
    /// ```
    /// # use windlass::queue::WorkQueue;
    /// let queue = WorkQueue::new();
    /// (1..=3).for_each(|key| queue.add(key));
    /// let (mut work, mut sum) = (queue.try_get(), 0);
    /// while let Some(now) = work {
    ///     sum += now.key();
    ///     work = now.next();
    /// }
    /// assert_eq!(sum, 6);
    /// ```
    pub fn next(mut self) -> Option<Self> {
        let now = self.shared.clock.now();
        let mut inner = self.shared.inner.lock();
        inner.done(std::mem::replace(&mut self.place, GIVEN_BACK), now);
        let taken = inner.pop(now);
        let drained = inner.draining && inner.processing == 0 && inner.ready.is_empty();
        self.shared.wake(inner, now);
        if drained {
            self.shared.drained.notify_waiters();
        }
        let Taken { place, key, priority } = taken?;
        (self.place, self.key, self.priority) = (place, key, priority);
        Some(self)
    }
}

impl<K: QueueKey> Drop for Work<K> {
    fn drop(&mut self) {
        if self.place == GIVEN_BACK {
            return;
        }
        let now = self.shared.clock.now();
        let mut inner = self.shared.inner.lock();
        inner.done(self.place, now);
        let drained = inner.draining && inner.processing == 0 && inner.ready.is_empty();
        self.shared.wake(inner, now);
        if drained {
            self.shared.drained.notify_waiters();
        }
    }
}

impl<K: QueueKey + fmt::Debug> fmt::Debug for Work<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("key", &self.key).field("priority", &self.priority).finish()
    }
}

// === impl Shared ===

impl<K: QueueKey> Shared<K> {
    /// Gives a ready key to a free hand, and wakes an idle worker if there is anything left to
    /// look at.
    fn wake(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner<K>>, now: u64) {
        let given = inner.hand_out(now);
        let called = inner.calls(now);
        drop(inner);
        if called {
            self.ready.notify_one();
        }
        if let Some((hands, taken)) = given {
            hands.give(Work::new(taken, self));
        }
    }
}

/// Counts a worker as idle while it waits, also when its future is dropped.
struct Idle<'a, K: QueueKey> {
    shared: &'a Arc<Shared<K>>,
    /// Until when it waits, if it does.
    rests: Option<Option<u64>>,
}

// === impl Idle ===

impl<K: QueueKey> Idle<'_, K> {
    fn begins(&mut self, inner: &mut Inner<K>) -> Option<u64> {
        let due = inner.rest();
        self.rests = Some(due);
        due
    }

    fn ends(&mut self, inner: &mut Inner<K>) {
        if let Some(due) = self.rests.take() {
            inner.rise(due);
        }
    }
}

impl<K: QueueKey> Drop for Idle<'_, K> {
    fn drop(&mut self) {
        if self.rests.is_some() {
            let mut inner = self.shared.inner.lock();
            self.ends(&mut inner);
            // This worker may have been the one that was woken, or that watched the next delay.
            self.shared.wake(inner, self.shared.clock.now());
        }
    }
}
