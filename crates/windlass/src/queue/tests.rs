//! The behaviour of the queue, by topic.

mod adds;
mod concurrent;
mod delays;
mod failures;
mod hand_over;
mod model;
mod priorities;
mod shutdown;
mod statistics;
mod waiting;

use std::time::Duration;

use super::{Add, LOW_PRIORITY, QueueKey, WorkQueue};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn low() -> Add {
    Add::default().priority(LOW_PRIORITY)
}

fn take<K: QueueKey>(queue: &WorkQueue<K>) -> Option<K> {
    queue.try_get().map(|work| work.key().clone())
}
