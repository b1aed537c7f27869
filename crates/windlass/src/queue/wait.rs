//! Workers that wait for a key, and who wakes them.
//!
//! A waiting worker sleeps until the queue notifies it or until the first delayed key is due,
//! whichever comes first. There is no timer task: each worker that begins to wait takes over the
//! timer of the earliest delay.

use std::sync::Arc;

use parking_lot::MutexGuard;
use tokio::time::sleep_until;

use super::Shared;
use super::key::QueueKey;
use super::state::{State, Taken};
use super::work::Work;

/// Counts a worker as idle while it waits, also if its future is dropped.
struct IdleGuard<'a, K: QueueKey> {
    shared: &'a Arc<Shared<K>>,
    /// `Some` while the worker is counted, with the time at which it wakes by itself.
    idle_until: Option<Option<u64>>,
}

// === impl Shared ===

impl<K: QueueKey> Shared<K> {
    /// Waits until `look` finds something. `None` once the queue is shut down and nothing is found.
    pub(super) async fn wait<T>(
        self: &Arc<Self>,
        look: impl Fn(&mut State<K>, u64) -> Option<T>,
    ) -> Option<T> {
        let mut idle = IdleGuard { shared: self, idle_until: None };
        loop {
            let notified = self.ready.notified();
            tokio::pin!(notified);
            let due = {
                let mut state = self.state.lock();
                idle.end(&mut state);
                let now = self.clock.now();
                if let Some(found) = look(&mut state, now) {
                    self.wake(state, now);
                    return Some(found);
                }
                if !state.open {
                    return None;
                }
                notified.as_mut().enable();
                idle.begin(&mut state)
            };
            match due {
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = notified => {}
                        () = sleep_until(self.clock.instant(due)) => {}
                    }
                }
                None => notified.await,
            }
        }
    }

    /// Gives a ready key to a parked worker of the pool, and notifies a waiting worker if there
    /// is a ready key or an earlier timer left.
    pub(super) fn wake(self: &Arc<Self>, mut state: MutexGuard<'_, State<K>>, now: u64) {
        let handed_off = state.take_for_hand_off(now);
        let notify = state.should_wake(now);
        drop(state);
        if notify {
            self.ready.notify_one();
        }
        if let Some((hand_off, taken)) = handed_off {
            hand_off.accept(Work::new(taken, self));
        }
    }

    /// Marks the key of a slot as done, and takes the next ready key if asked to.
    pub(super) fn finish(self: &Arc<Self>, slot: u32, take: bool) -> Option<Taken<K>> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.done(slot, now);
        let taken = if take { state.pop(now) } else { None };
        let drained = state.draining && state.is_drained();
        self.wake(state, now);
        if drained {
            self.drained.notify_waiters();
        }
        taken
    }
}

// === impl IdleGuard ===

impl<K: QueueKey> IdleGuard<'_, K> {
    fn begin(&mut self, state: &mut State<K>) -> Option<u64> {
        let due = state.begin_idle();
        self.idle_until = Some(due);
        due
    }

    fn end(&mut self, state: &mut State<K>) {
        if let Some(due) = self.idle_until.take() {
            state.end_idle(due);
        }
    }
}

impl<K: QueueKey> Drop for IdleGuard<'_, K> {
    fn drop(&mut self) {
        if self.idle_until.is_some() {
            let mut state = self.shared.state.lock();
            self.end(&mut state);
            // This worker may have been the one that was notified, or that had the timer.
            self.shared.wake(state, self.shared.clock.now());
        }
    }
}
