//! The tasks that work for a pool: made when they are needed, kept for a while when they are not.
//!
//! A task that finds nothing to do rests until it is called with a key in its hands. The last that
//! lay down is called first, for its memory is the warmest, and those that nobody called between
//! two looks end. So a limit of 32,000 costs nothing until it is used, and a burst that comes again
//! finds its tasks made.
//!
//! **Invariant:** at most as many are busy as may be; who calls has a place reserved before.
//! **Invariant:** nobody is called or hired once the crew is closed.
//! **Invariant:** a task is called once for each time it rests.
//! **Invariant:** nothing is spawned and no key is dropped under the lock: a runtime that closes
//! drops a task at once, and its place and its key come back here.

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

pub(super) struct Crew {
    /// As many as may be busy at once.
    most: usize,
    busy: AtomicUsize,
    /// Tells that not all are busy any more.
    room: Notify,
    /// How many rest, for those who only want to know whether any does.
    resting: AtomicUsize,
    rota: Mutex<Rota>,
    /// Wakes those who wait for the last task to end.
    ended: Notify,
}

#[derive(Default)]
struct Rota {
    seats: Vec<Seat>,
    /// Seats without a task.
    vacant: Vec<usize>,
    /// Seats of tasks at rest, the last to lie down at the back; some have been left.
    resting: VecDeque<usize>,
    /// The fewest that rested since the last look.
    unused: usize,
    /// Tasks that were ever hired.
    hired: u64,
    closed: bool,
    aborted: bool,
}

struct Seat {
    state: State,
    /// Which of all that were hired has the seat.
    number: u64,
    task: Option<JoinHandle<()>>,
}

enum State {
    Vacant,
    Busy,
    Resting(Waker),
    Called(Work<Key>),
    Dismissed,
}

// === impl Crew ===

impl Crew {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            busy: AtomicUsize::new(0),
            room: Notify::new(),
            resting: AtomicUsize::new(0),
            rota: Mutex::default(),
            ended: Notify::new(),
        }
    }

    /// Tells whether there is any task, at work or at rest.
    pub(super) fn any(&self) -> bool {
        !self.rota.lock().seats.is_empty()
    }

    /// Tells whether as many are busy as may be.
    pub(super) fn full(&self) -> bool {
        self.busy.load(Ordering::Acquire) >= self.most
    }

    /// Waits until there is room for one more.
    pub(super) async fn has_room(&self) {
        while self.full() {
            self.room.notified().await;
        }
    }

    /// Reserves a place for one more, if not as many are busy as may be.
    pub(super) fn reserve(&self) -> bool {
        let more = |busy: usize| (busy < self.most).then_some(busy + 1);
        self.busy.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Gives a place back that was reserved, or that a task needs no more.
    pub(super) fn release(&self) {
        if self.busy.fetch_sub(1, Ordering::AcqRel) == self.most {
            self.room.notify_one();
        }
    }

    /// Gives a key, for which a place is reserved, to a task at rest, or to one that `hire` spawns
    /// for a seat.
    pub(super) fn call(
        &self,
        work: Work<Key>,
        hire: impl FnOnce(usize, Work<Key>) -> JoinHandle<()>,
    ) {
        let mut rota = self.rota.lock();
        if rota.closed {
            drop(rota);
            return self.release();
        }
        while let Some(at) = rota.resting.pop_back() {
            rota.unused = rota.unused.min(rota.resting.len());
            self.count(&rota);
            let state = &mut rota.seats[at].state;
            if matches!(state, State::Resting(_)) {
                let before = replace(state, State::Called(work));
                drop(rota);
                before.wake();
                return;
            }
        }
        let (at, number) = rota.seat();
        drop(rota);
        self.file(at, number, hire(at, work));
    }

    /// Notes the task of a seat, unless it has left it already.
    fn file(&self, at: usize, number: u64, task: JoinHandle<()>) {
        let mut rota = self.rota.lock();
        if rota.aborted {
            drop(rota);
            return task.abort();
        }
        let seat = rota.seats.get_mut(at).filter(|seat| seat.number == number);
        let unused = match seat {
            Some(seat) => seat.task.replace(task),
            None => Some(task),
        };
        drop((rota, unused));
    }

    /// Lets the task of a seat rest until it is called; `None` if it is to end.
    pub(super) fn poll_rest(&self, at: usize, cx: &Context<'_>) -> Poll<Option<Work<Key>>> {
        let mut rota = self.rota.lock();
        let closed = rota.closed;
        let state = &mut rota.seats[at].state;
        match replace(state, State::Busy) {
            State::Called(work) => Poll::Ready(Some(work)),
            State::Busy if !closed => {
                *state = State::Resting(cx.waker().clone());
                rota.resting.push_back(at);
                self.count(&rota);
                drop(rota);
                self.release();
                Poll::Pending
            }
            State::Resting(_) => {
                *state = State::Resting(cx.waker().clone());
                Poll::Pending
            }
            before @ (State::Busy | State::Dismissed | State::Vacant) => {
                *state = before;
                Poll::Ready(None)
            }
        }
    }

    /// Takes back the seat of a task that ends.
    pub(super) fn leave(&self, at: usize) {
        let mut rota = self.rota.lock();
        let left = replace(&mut rota.seats[at], Seat::vacant());
        rota.vacant.push(at);
        let last = rota.vacant.len() == rota.seats.len();
        if last {
            let Rota { hired, closed, aborted, .. } = *rota;
            *rota = Rota { hired, closed, aborted, ..Rota::default() };
            self.count(&rota);
        }
        drop(rota);
        if matches!(left.state, State::Busy | State::Called(_)) {
            self.release();
        }
        if last {
            self.ended.notify_waiters();
        }
    }

    /// Tells whether any task rests.
    pub(super) fn rests(&self) -> bool {
        self.resting.load(Ordering::Acquire) > 0
    }

    fn count(&self, rota: &Rota) {
        self.resting.store(rota.resting.len(), Ordering::Release);
    }

    /// Ends the tasks that were not needed since the last look.
    pub(super) fn look(&self) {
        let mut rota = self.rota.lock();
        let unneeded = rota.unused;
        let dismissed = rota.dismiss(unneeded);
        rota.unused = rota.resting.len();
        self.count(&rota);
        drop(rota);
        dismissed.into_iter().for_each(State::wake);
    }

    /// Ends tasks at rest now and others when they would rest.
    pub(super) fn close(&self) {
        let mut rota = self.rota.lock();
        rota.closed = true;
        let dismissed = rota.dismiss(usize::MAX);
        self.count(&rota);
        drop(rota);
        dismissed.into_iter().for_each(State::wake);
    }

    /// Drops what tasks have in their hands, at their next await.
    pub(super) fn abort(&self) {
        let mut rota = self.rota.lock();
        rota.aborted = true;
        let tasks: Vec<_> = rota.seats.iter_mut().filter_map(|seat| seat.task.take()).collect();
        drop(rota);
        tasks.iter().for_each(JoinHandle::abort);
    }

    /// Waits until no task is left.
    pub(super) async fn ended(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.rota.lock().seats.is_empty() {
                return;
            }
            ended.await;
        }
    }
}

// === impl Rota ===

impl Rota {
    /// Takes a seat for one that is hired now.
    fn seat(&mut self) -> (usize, u64) {
        self.hired += 1;
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.seats.push(Seat::vacant());
            self.seats.len() - 1
        });
        self.seats[at] = Seat { state: State::Busy, number: self.hired, task: None };
        (at, self.hired)
    }

    /// Takes up to `count` tasks that rest for longest; who calls this has to wake them.
    fn dismiss(&mut self, count: usize) -> Vec<State> {
        let count = count.min(self.resting.len());
        let seats = &mut self.seats;
        let resting = self.resting.drain(..count).filter_map(|at| {
            let state = &mut seats[at].state;
            matches!(state, State::Resting(_)).then(|| replace(state, State::Dismissed))
        });
        resting.collect()
    }
}

// === impl Seat ===

impl Seat {
    fn vacant() -> Self {
        Self { state: State::Vacant, number: 0, task: None }
    }
}

// === impl State ===

impl State {
    fn wake(self) {
        if let Self::Resting(waker) = self {
            waker.wake();
        }
    }
}
