//! The settings of a queue.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use parking_lot::Mutex;

use super::epoch::Epoch;
use super::key::QueueKey;
use super::state::{State, Tenant};
use super::{Exponential, Limiter, Shared, WorkQueue};

/// The settings of a queue.
pub(crate) struct QueueOptions<K> {
    limiter: Box<dyn Limiter<K>>,
    aging: Option<Duration>,
    tenant: Option<Tenant<K>>,
}

// === impl QueueOptions ===

impl<K: QueueKey> QueueOptions<K> {
    /// Returns the defaults: exponential delays of 5 ms to 1000 s per key, and aging that raises
    /// the priority of a waiting key by 100 in 10 s.
    pub(crate) fn new() -> Self {
        let limiter = Box::new(Exponential::default());
        Self { limiter, aging: Some(Duration::from_secs(10)), tenant: None }
    }

    /// Sets the limiter of rate-limited adds.
    pub(crate) fn limiter(mut self, limiter: impl Limiter<K> + 'static) -> Self {
        self.limiter = Box::new(limiter);
        self
    }

    /// Hands out ready keys of one priority in turns of their tenants.
    pub(crate) fn fair_by<T: Hash>(
        mut self,
        tenant: impl Fn(&K) -> T + Send + Sync + 'static,
    ) -> Self {
        self.tenant = Some(Box::new(move |key| {
            let mut hasher = DefaultHasher::new();
            // The queue is locked: a panic of the author's must not leave it half changed.
            let hashed = catch_unwind(AssertUnwindSafe(|| tenant(key).hash(&mut hasher)));
            hashed.map_or(0, |()| hasher.finish())
        }));
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
        let mut state = State::new(self.limiter, self.aging, clock);
        state.tenant = self.tenant;
        WorkQueue {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                hasher: DefaultHashBuilder::default(),
                clock,
                any_failures: AtomicBool::new(false),
            }),
        }
    }
}
