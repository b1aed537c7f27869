//! The settings of a queue.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use parking_lot::Mutex;

use super::epoch::Epoch;
use super::key::QueueKey;
use super::state::State;
use super::{Exponential, Limiter, Shared, WorkQueue};

/// The settings of a queue.
pub(crate) struct QueueOptions<K> {
    limiter: Box<dyn Limiter<K>>,
    aging: Option<Duration>,
}

// === impl QueueOptions ===

impl<K: QueueKey> QueueOptions<K> {
    /// Returns the defaults: exponential delays of 5 ms to 1000 s per key, and aging that raises
    /// the priority of a waiting key by 100 in 10 s.
    pub(crate) fn new() -> Self {
        Self { limiter: Box::new(Exponential::default()), aging: Some(Duration::from_secs(10)) }
    }

    /// Sets the limiter of rate-limited adds.
    pub(crate) fn limiter(mut self, limiter: impl Limiter<K> + 'static) -> Self {
        self.limiter = Box::new(limiter);
        self
    }

    /// Sets the time in which the priority of a ready key grows by 100, so that keys with a low
    /// priority do not starve. `None` makes priorities strict.
    #[cfg(test)]
    pub(crate) fn aging(mut self, per_hundred: Option<Duration>) -> Self {
        self.aging = per_hundred;
        self
    }

    /// Creates the queue.
    pub(crate) fn build(self) -> WorkQueue<K> {
        let clock = Epoch::new();
        WorkQueue {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(self.limiter, self.aging, clock)),
                hasher: DefaultHashBuilder::default(),
                clock,
                any_failures: AtomicBool::new(false),
            }),
        }
    }
}
