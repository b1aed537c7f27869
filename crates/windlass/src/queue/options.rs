//! The settings of a queue.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::inner::{Epoch, Inner};
use super::{Exponential, Limiter, QueueKey, Shared, WorkQueue};

/// Settings of a [`WorkQueue`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use windlass::queue::{FastSlow, Histogram, QueueOptions, QueueStats};
///
/// let limiter = FastSlow::new(Duration::from_millis(10), Duration::from_secs(60), 3);
/// let queue = QueueOptions::new().limiter(limiter).aging(None).build();
/// queue.add_rate_limited("a");
/// let figures: QueueStats = queue.stats();
/// assert_eq!((figures.depth, figures.waiting, figures.retries), (0, 1, 1));
/// let taken: Histogram = figures.queue_latency;
/// assert_eq!(taken.count, 0);
/// ```
pub struct QueueOptions<K> {
    limiter: Box<dyn Limiter<K>>,
    aging: Option<Duration>,
}

// === impl QueueOptions ===

impl<K: QueueKey> QueueOptions<K> {
    /// Starts from the defaults: exponential delays of 5 ms to 1000 s per key, and aging that
    /// lifts a waiting key by 100 points of priority in 10 s.
    pub fn new() -> Self {
        Self { limiter: Box::new(Exponential::default()), aging: Some(Duration::from_secs(10)) }
    }

    /// Sets the limiter that rate limited adds ask.
    pub fn limiter(mut self, limiter: impl Limiter<K> + 'static) -> Self {
        self.limiter = Box::new(limiter);
        self
    }

    /// Sets the time in which a queued key gains 100 points of priority, so that a key
    /// of low priority cannot starve; `None` makes priorities strict.
    pub fn aging(mut self, per_hundred: Option<Duration>) -> Self {
        self.aging = per_hundred;
        self
    }

    /// Makes the queue.
    pub fn build(self) -> WorkQueue<K> {
        let clock = Epoch::new();
        let clear = AtomicBool::new(self.limiter.is_clear());
        WorkQueue {
            shared: Arc::new(Shared {
                inner: Mutex::new(Inner::new(self.limiter, self.aging, clock)),
                hasher: DefaultHashBuilder::default(),
                clock,
                clear,
                ready: Notify::new(),
                drained: Notify::new(),
            }),
        }
    }
}

impl<K: QueueKey> Default for QueueOptions<K> {
    fn default() -> Self {
        Self::new()
    }
}
