//! The workers that wait for a key.
//!
//! A worker that finds no ready key joins a list and leaves its waker there. A key that becomes
//! ready is put directly into the slot of the worker that joined last, because its memory is most
//! likely still cached, and that worker is woken.
//!
//! **Invariant:** no waker is called or dropped here, because that can drop a task, whose worker
//! then leaves this list: callers do both without the lock of the queue.

use std::mem::replace;
use std::task::Waker;

use slab::Slab;

use super::state::Taken;

pub(super) struct Waiters<K> {
    workers: Slab<Waiter<K>>,
    oldest: Option<usize>,
    newest: Option<usize>,
    /// The number of waiting workers that can be retired.
    len: usize,
    /// The smallest `len` since workers were last retired.
    len_min: usize,
}

struct Waiter<K> {
    slot: Slot<K>,
    /// The neighbours in the list, as long as the slot is empty.
    older: Option<usize>,
    newer: Option<usize>,
    last_choice: bool,
}

/// What a worker that waits is given.
pub(super) enum Slot<K> {
    /// Nothing yet; the waker wakes the worker.
    Empty(Waker),
    Key(Taken<K>),
    /// The worker has to end.
    Retired,
}

// === impl Waiters ===

impl<K> Waiters<K> {
    pub(super) fn new() -> Self {
        Self { workers: Slab::new(), oldest: None, newest: None, len: 0, len_min: 0 }
    }

    /// Returns `true` if no worker waits for a key.
    pub(super) fn is_empty(&self) -> bool {
        self.newest.is_none()
    }

    /// Adds a worker and returns its number. One that is the last choice gets a key only if no
    /// other worker waits.
    pub(super) fn join(&mut self, waker: Waker, last_choice: bool) -> usize {
        let (older, newer) = if last_choice { (None, self.oldest) } else { (self.newest, None) };
        let slot = Slot::Empty(waker);
        let id = self.workers.insert(Waiter { slot, older, newer, last_choice });
        self.link(older, newer, Some(id), Some(id));
        self.len += usize::from(!last_choice);
        id
    }

    /// Replaces the waker of a worker whose slot is empty and returns the one before.
    pub(super) fn replace_waker(&mut self, id: usize, waker: &Waker) -> Option<Waker> {
        match &mut self.workers[id].slot {
            Slot::Empty(old) if !old.will_wake(waker) => Some(replace(old, waker.clone())),
            _ => None,
        }
    }

    /// Removes a worker that was given something, and returns that.
    pub(super) fn take(&mut self, id: usize) -> Option<Slot<K>> {
        match self.workers[id].slot {
            Slot::Empty(_) => None,
            _ => Some(self.workers.remove(id).slot),
        }
    }

    /// Removes a worker that no longer waits, and returns what it was given.
    pub(super) fn leave(&mut self, id: usize) -> Slot<K> {
        if matches!(self.workers[id].slot, Slot::Empty(_)) {
            self.unlink(id);
        }
        self.workers.remove(id).slot
    }

    /// Gives a key to the newest worker and returns its waker, or the key if no worker waits.
    pub(super) fn give(&mut self, key: Taken<K>) -> Result<Waker, Taken<K>> {
        match self.newest {
            None => Err(key),
            Some(newest) => match self.fill(newest, Slot::Key(key)) {
                Slot::Empty(waker) => Ok(waker),
                Slot::Key(_) | Slot::Retired => unreachable!("only empty slots are in the list"),
            },
        }
    }

    /// Returns `true` for the worker that has waited for the longest time.
    pub(super) fn is_oldest(&self, id: usize) -> bool {
        self.oldest == Some(id)
    }

    /// Returns a waker of the worker that has waited for the longest time.
    pub(super) fn oldest(&self) -> Option<Waker> {
        match &self.workers[self.oldest?].slot {
            Slot::Empty(waker) => Some(waker.clone()),
            Slot::Key(_) | Slot::Retired => None,
        }
    }

    /// Retires the workers that got no key since the last call, and returns what they had in
    /// their slots: their wakers.
    pub(super) fn retire_unneeded(&mut self) -> Vec<Slot<K>> {
        let mut retired = Vec::new();
        let mut next = self.oldest;
        while let Some(id) = next
            && retired.len() < self.len_min
        {
            next = self.workers[id].newer;
            if !self.workers[id].last_choice {
                retired.push(id);
            }
        }
        let wakers = retired.into_iter().map(|id| self.fill(id, Slot::Retired)).collect();
        self.len_min = self.len;
        wakers
    }

    /// Retires all workers, and returns what they had in their slots: their wakers.
    pub(super) fn retire_all(&mut self) -> Vec<Slot<K>> {
        let newest_first = std::iter::from_fn(|| {
            let newest = self.newest?;
            Some(self.fill(newest, Slot::Retired))
        });
        newest_first.collect()
    }

    /// Puts something into the slot of a worker in the list, which ends its wait.
    fn fill(&mut self, id: usize, slot: Slot<K>) -> Slot<K> {
        self.unlink(id);
        replace(&mut self.workers[id].slot, slot)
    }

    fn unlink(&mut self, id: usize) {
        let Waiter { older, newer, last_choice, .. } = self.workers[id];
        self.link(older, newer, newer, older);
        self.len -= usize::from(!last_choice);
        self.len_min = self.len_min.min(self.len);
    }

    /// Sets the newer neighbour of `older` and the older neighbour of `newer`, or the ends of the
    /// list if there is no such worker.
    fn link(
        &mut self,
        older: Option<usize>,
        newer: Option<usize>,
        next: Option<usize>,
        previous: Option<usize>,
    ) {
        match older {
            Some(older) => self.workers[older].newer = next,
            None => self.oldest = next,
        }
        match newer {
            Some(newer) => self.workers[newer].older = previous,
            None => self.newest = previous,
        }
    }
}

// === impl Slot ===

impl<K> Slot<K> {
    /// Wakes the worker whose slot was empty.
    pub(super) fn wake(self) {
        if let Self::Empty(waker) = self {
            waker.wake();
        }
    }
}
