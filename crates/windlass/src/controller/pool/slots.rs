//! The tasks of a worker pool: spawned when they are needed, kept for a while when they are not.
//!
//! Each task has a slot. A task that finds nothing to do parks until it is woken with a key. The
//! task that parked last is woken first, because its memory is most likely still cached, and tasks
//! that were not needed between two checks are retired. So a limit of 32,000 costs nothing until it
//! is used, and a burst that comes again finds its tasks already spawned.
//!
//! **Invariant:** no more tasks are busy than the limit allows; whoever wakes or spawns one has
//! reserved its place before.
//! **Invariant:** no task is woken or spawned once the pool is closed.
//! **Invariant:** a task is woken once for each time it parks.
//! **Invariant:** nothing is spawned and no key is dropped under the lock: a runtime that shuts
//! down drops a new task at once, and both its slot and its key come back here.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::mem::replace;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::cache::Key;
use crate::queue::Work;

pub(super) struct Slots {
    /// The most tasks that may be busy at once.
    max: usize,
    busy: AtomicUsize,
    /// Notified when not all tasks are busy any more.
    has_room: Notify,
    /// The number of parked tasks, readable without the lock.
    parked: AtomicUsize,
    table: Mutex<Table>,
    /// Wakes those who wait for the last task to end.
    all_ended: Notify,
}

#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    /// The slots without a task.
    vacant: Vec<usize>,
    /// The slots of parked tasks, the last one that parked at the back. Some have been vacated.
    parked: VecDeque<usize>,
    /// The fewest parked tasks since the last check.
    unneeded: usize,
    /// The number of tasks that were ever spawned.
    spawned: u64,
    closed: bool,
    aborted: bool,
}

struct Slot {
    state: State,
    /// Which of all spawned tasks has the slot.
    number: u64,
    task: Option<JoinHandle<()>>,
}

enum State {
    Vacant,
    Busy,
    Parked(Waker),
    Woken(Work<Key>),
    Retired,
}

// === impl Slots ===

impl Slots {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            busy: AtomicUsize::new(0),
            has_room: Notify::new(),
            parked: AtomicUsize::new(0),
            table: Mutex::default(),
            all_ended: Notify::new(),
        }
    }

    /// Returns `true` if there is any task, busy or parked.
    pub(super) fn any(&self) -> bool {
        !self.table.lock().slots.is_empty()
    }

    /// Returns `true` if as many tasks are busy as may be.
    pub(super) fn full(&self) -> bool {
        self.busy.load(Ordering::Acquire) >= self.max
    }

    /// Waits until one more task may be busy.
    pub(super) async fn has_room(&self) {
        while self.full() {
            self.has_room.notified().await;
        }
    }

    /// Reserves a place for one more busy task. Returns `false` if the limit is reached.
    pub(super) fn reserve(&self) -> bool {
        let more = |busy: usize| (busy < self.max).then_some(busy + 1);
        self.busy.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Releases a place that was reserved, or that a task no longer needs.
    pub(super) fn release(&self) {
        if self.busy.fetch_sub(1, Ordering::AcqRel) == self.max {
            self.has_room.notify_one();
        }
    }

    /// Gives a key, for which a place is reserved, to a parked task, or to one that `spawn` spawns
    /// for a slot.
    pub(super) fn wake(
        &self,
        work: Work<Key>,
        spawn: impl FnOnce(usize, Work<Key>) -> JoinHandle<()>,
    ) {
        let mut table = self.table.lock();
        if table.closed {
            drop(table);
            return self.release();
        }
        while let Some(at) = table.parked.pop_back() {
            table.unneeded = table.unneeded.min(table.parked.len());
            self.count_parked(&table);
            let state = &mut table.slots[at].state;
            if matches!(state, State::Parked(_)) {
                let before = replace(state, State::Woken(work));
                drop(table);
                before.wake();
                return;
            }
        }
        let (at, number) = table.occupy();
        drop(table);
        self.store(at, number, spawn(at, work));
    }

    /// Stores the handle of a task in its slot, unless the task has already left it.
    fn store(&self, at: usize, number: u64, task: JoinHandle<()>) {
        let mut table = self.table.lock();
        if table.aborted {
            drop(table);
            return task.abort();
        }
        let slot = table.slots.get_mut(at).filter(|slot| slot.number == number);
        let unused = match slot {
            Some(slot) => slot.task.replace(task),
            None => Some(task),
        };
        drop((table, unused));
    }

    /// Parks the task of a slot until it is woken with a key. `None` if the task has to end.
    pub(super) fn poll_park(&self, at: usize, cx: &Context<'_>) -> Poll<Option<Work<Key>>> {
        let mut table = self.table.lock();
        let closed = table.closed;
        let state = &mut table.slots[at].state;
        match replace(state, State::Busy) {
            State::Woken(work) => Poll::Ready(Some(work)),
            State::Busy if !closed => {
                *state = State::Parked(cx.waker().clone());
                table.parked.push_back(at);
                self.count_parked(&table);
                drop(table);
                self.release();
                Poll::Pending
            }
            State::Parked(_) => {
                *state = State::Parked(cx.waker().clone());
                Poll::Pending
            }
            before @ (State::Busy | State::Retired | State::Vacant) => {
                *state = before;
                Poll::Ready(None)
            }
        }
    }

    /// Vacates the slot of a task that ends.
    pub(super) fn vacate(&self, at: usize) {
        let mut table = self.table.lock();
        let left = replace(&mut table.slots[at], Slot::vacant());
        table.vacant.push(at);
        let last = table.vacant.len() == table.slots.len();
        if last {
            let Table { spawned, closed, aborted, .. } = *table;
            *table = Table { spawned, closed, aborted, ..Table::default() };
            self.count_parked(&table);
        }
        drop(table);
        if matches!(left.state, State::Busy | State::Woken(_)) {
            self.release();
        }
        if last {
            self.all_ended.notify_waiters();
        }
    }

    /// Returns `true` if any task is parked.
    pub(super) fn any_parked(&self) -> bool {
        self.parked.load(Ordering::Acquire) > 0
    }

    fn count_parked(&self, table: &Table) {
        self.parked.store(table.parked.len(), Ordering::Release);
    }

    /// Retires the tasks that were not needed since the last call.
    pub(super) fn retire_unneeded(&self) {
        let mut table = self.table.lock();
        let unneeded = table.unneeded;
        let retired = table.retire(unneeded);
        table.unneeded = table.parked.len();
        self.count_parked(&table);
        drop(table);
        retired.into_iter().for_each(State::wake);
    }

    /// Retires parked tasks now, and the others when they would park.
    pub(super) fn close(&self) {
        let mut table = self.table.lock();
        table.closed = true;
        let retired = table.retire(usize::MAX);
        self.count_parked(&table);
        drop(table);
        retired.into_iter().for_each(State::wake);
    }

    /// Aborts all tasks, at their next await.
    pub(super) fn abort(&self) {
        let mut table = self.table.lock();
        table.aborted = true;
        let tasks: Vec<_> = table.slots.iter_mut().filter_map(|slot| slot.task.take()).collect();
        drop(table);
        tasks.iter().for_each(JoinHandle::abort);
    }

    /// Waits until no task is left.
    pub(super) async fn all_ended(&self) {
        loop {
            let ended = self.all_ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.table.lock().slots.is_empty() {
                return;
            }
            ended.await;
        }
    }
}

// === impl Table ===

impl Table {
    /// Takes a slot for a task that is about to be spawned.
    fn occupy(&mut self) -> (usize, u64) {
        self.spawned += 1;
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot::vacant());
            self.slots.len() - 1
        });
        self.slots[at] = Slot { state: State::Busy, number: self.spawned, task: None };
        (at, self.spawned)
    }

    /// Marks up to `count` tasks that have been parked for longest as retired. The caller has to
    /// wake them.
    fn retire(&mut self, count: usize) -> Vec<State> {
        let count = count.min(self.parked.len());
        let slots = &mut self.slots;
        let parked = self.parked.drain(..count).filter_map(|at| {
            let state = &mut slots[at].state;
            matches!(state, State::Parked(_)).then(|| replace(state, State::Retired))
        });
        parked.collect()
    }
}

// === impl Slot ===

impl Slot {
    fn vacant() -> Self {
        Self { state: State::Vacant, number: 0, task: None }
    }
}

// === impl State ===

impl State {
    fn wake(self) {
        if let Self::Parked(waker) = self {
            waker.wake();
        }
    }
}
