//! A key that a worker has taken from the queue.

use std::fmt;
use std::mem::replace;
use std::ops::Deref;
use std::sync::Arc;

use super::Shared;
use super::key::QueueKey;
use super::state::Taken;

/// A key that a worker has taken from a [`WorkQueue`](super::WorkQueue). Dropping it marks the
/// work as done. It dereferences to the key.
///
/// No other worker gets the key while this value exists.
///
/// # Examples
///
/// ```
/// use windlass::queue::{Work, WorkQueue};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let queue = WorkQueue::default();
/// queue.add("a");
/// let work: Work<&str> = queue.get().await.expect("the queue is open");
/// queue.add("a");
/// assert_eq!(queue.stats().depth, 0, "the key is being worked on");
/// drop(work);
/// assert_eq!(*queue.get().await.expect("it was added again"), "a");
/// # }
/// ```
pub struct Work<K: QueueKey> {
    key: K,
    /// The slot of the key in the queue's table, or `DONE`.
    slot: u32,
    priority: i32,
    flags: u8,
    shared: Arc<Shared<K>>,
}

/// The slot of work that has been marked as done.
const DONE: u32 = u32::MAX;

// === impl Work ===

impl<K: QueueKey> Work<K> {
    pub(super) fn new(taken: Taken<K>, shared: &Arc<Shared<K>>) -> Self {
        let Taken { slot, key, priority, flags } = taken;
        Self { key, slot, priority, flags, shared: shared.clone() }
    }

    /// Returns the key.
    pub(crate) fn key(&self) -> &K {
        &self.key
    }

    /// Returns the priority with which the key was queued.
    pub(crate) fn priority(&self) -> i32 {
        self.priority
    }

    /// Returns the flags of all adds of the key since it was handed out last.
    pub(crate) fn flags(&self) -> u8 {
        self.flags
    }

    /// Marks this work as done and takes the next key if one is ready. Locks the queue once
    /// instead of twice.
    ///
    /// ```
    /// # use windlass::queue::WorkQueue;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let queue = WorkQueue::default();
    /// (1..=3).for_each(|key| queue.add(key));
    /// let (mut work, mut sum) = (queue.get().await, 0);
    /// while let Some(now) = work {
    ///     sum += *now;
    ///     work = now.next();
    /// }
    /// assert_eq!(sum, 6);
    /// # }
    /// ```
    pub fn next(mut self) -> Option<Self> {
        let slot = replace(&mut self.slot, DONE);
        let Taken { slot, key, priority, flags } = self.shared.finish(slot, true)?;
        (self.slot, self.key) = (slot, key);
        (self.priority, self.flags) = (priority, flags);
        Some(self)
    }
}

impl<K: QueueKey> Deref for Work<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K: QueueKey> Drop for Work<K> {
    fn drop(&mut self) {
        if self.slot != DONE {
            self.shared.finish(self.slot, false);
        }
    }
}

impl<K: QueueKey + fmt::Debug> fmt::Debug for Work<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("key", &self.key).field("priority", &self.priority).finish()
    }
}
