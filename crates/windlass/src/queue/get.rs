//! Waiting for a key.
//!
//! There is no timer task: the worker that has waited for the longest time also sleeps until the
//! first delayed key is due.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use parking_lot::MutexGuard;
use tokio::time::{Sleep, sleep_until};

use super::Shared;
use super::key::QueueKey;
use super::state::{State, Taken};
use super::waiters::Slot;
use super::work::Work;

/// Waits for a key; see [`WorkQueue::get`](super::WorkQueue::get).
pub(super) struct Get<'a, K: QueueKey> {
    shared: &'a Arc<Shared<K>>,
    last_choice: bool,
    /// The number of this worker in the list of those who wait, once it is there.
    id: Option<usize>,
    /// Runs while this worker watches the delayed keys. Boxed, because few workers need it.
    timer: Option<Pin<Box<Sleep>>>,
}

// === impl Get ===

impl<'a, K: QueueKey> Get<'a, K> {
    /// Returns the future of a worker. One that is the last choice gets a key only if no other
    /// worker waits.
    pub(super) fn new(shared: &'a Arc<Shared<K>>, last_choice: bool) -> Self {
        Self { shared, last_choice, id: None, timer: None }
    }

    /// Looks for a key. If there is none, returns when to look again without being woken.
    fn look(&mut self, waker: &Waker) -> ControlFlow<Option<Work<K>>, Option<u64>> {
        loop {
            let mut state = self.shared.state.lock();
            if let Some(id) = self.id
                && let Some(slot) = state.waiters.take(id)
            {
                drop(state);
                self.id = None;
                return ControlFlow::Break(match slot {
                    Slot::Key(taken) => Some(Work::new(taken, self.shared)),
                    Slot::Empty(_) | Slot::Retired => None,
                });
            }
            let now = self.shared.clock.now();
            state.promote(now);
            if state.can_give() {
                // Keys that have become due are for those who wait, among them maybe this one.
                self.shared.wake(state, now);
                continue;
            }
            let mut old_waker = None;
            let id = match self.id {
                Some(id) => {
                    old_waker = state.waiters.replace_waker(id, waker);
                    id
                }
                None => {
                    if let Some(taken) = state.pop(now) {
                        drop(state);
                        return ControlFlow::Break(Some(Work::new(taken, self.shared)));
                    }
                    if !state.open {
                        return ControlFlow::Break(None);
                    }
                    *self.id.insert(state.waiters.join(waker.clone(), self.last_choice))
                }
            };
            let due = state.watch_timers(id);
            drop(state);
            drop(old_waker);
            return ControlFlow::Continue(due);
        }
    }
}

impl<K: QueueKey> Future for Get<'_, K> {
    type Output = Option<Work<K>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let due = match self.look(cx.waker()) {
                ControlFlow::Break(work) => return Poll::Ready(work),
                ControlFlow::Continue(due) => due.map(|due| self.shared.clock.instant(due)),
            };
            let Some(due) = due else {
                self.timer = None;
                return Poll::Pending;
            };
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.deadline() != due {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(cx));
        }
    }
}

impl<K: QueueKey> Drop for Get<'_, K> {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut state = self.shared.state.lock();
        let now = self.shared.clock.now();
        // A key that this worker was given and has not seen, and the timers, are for others now.
        let slot = state.leave(id, now);
        self.shared.wake(state, now);
        drop(slot);
    }
}

// === impl Shared ===

impl<K: QueueKey> Shared<K> {
    /// Gives ready keys to workers that wait, and wakes the one that watches the timers if the
    /// first of them is earlier than it knows.
    pub(super) fn wake<'a>(&'a self, mut state: MutexGuard<'a, State<K>>, now: u64) {
        while let Some(waker) = state.wake_one(now) {
            let more = state.should_wake();
            drop(state);
            waker.wake();
            if !more {
                return;
            }
            state = self.state.lock();
        }
    }

    /// Marks the key of a slot as done, and takes the next ready key if asked to.
    pub(super) fn finish(&self, slot: u32, take: bool) -> Option<Taken<K>> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.done(slot, now);
        let taken = if take { state.pop(now) } else { None };
        self.wake(state, now);
        taken
    }
}
