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
    closed: bool,
}

struct Seat {
    state: State,
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

    /// Tells whether any task has a key in its hands.
    pub(super) fn busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) > 0
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
        let at = rota.vacant.pop().unwrap_or_else(|| {
            rota.seats.push(Seat { state: State::Vacant, task: None });
            rota.seats.len() - 1
        });
        // Spawned under the lock, so that the task cannot leave its seat before it has it.
        rota.seats[at] = Seat { state: State::Busy, task: Some(hire(at, work)) };
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
        let left = replace(&mut rota.seats[at], Seat { state: State::Vacant, task: None });
        rota.vacant.push(at);
        let last = rota.vacant.len() == rota.seats.len();
        if last {
            *rota = Rota { closed: rota.closed, ..Rota::default() };
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

// === impl State ===

impl State {
    fn wake(self) {
        if let Self::Resting(waker) = self {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::queue::WorkQueue;

    /// Calls for `count` keys at once and waits until all are worked off.
    async fn burst(crew: &Arc<Crew>, hired: &Arc<AtomicUsize>, count: usize) {
        let queue = WorkQueue::new();
        for n in 0..count {
            queue.add(Key::cluster(&n.to_string()));
            let work = queue.try_get().expect("was added");
            crew.has_room().await;
            assert!(crew.reserve());
            crew.call(work, |at, work| {
                hired.fetch_add(1, Ordering::Relaxed);
                let crew = crew.clone();
                tokio::spawn(async move {
                    let mut work = Some(work);
                    while work.take().is_some() {
                        work = poll_fn(|cx| crew.poll_rest(at, cx)).await;
                    }
                    crew.leave(at);
                })
            });
        }
        while crew.busy() {
            tokio::task::yield_now().await;
        }
        assert!(queue.is_empty());
    }

    #[tokio::test]
    async fn a_burst_that_comes_again_finds_its_tasks_made() {
        let (crew, hired) = (Arc::new(Crew::new(8)), Arc::default());
        for _ in 0..3 {
            burst(&crew, &hired, 5).await;
        }
        assert_eq!(hired.load(Ordering::Relaxed), 5);
        assert!(crew.rests() && !crew.full());
    }

    #[tokio::test]
    async fn tasks_that_nobody_needs_between_two_looks_end() {
        let (crew, hired) = (Arc::new(Crew::new(8)), Arc::default());
        burst(&crew, &hired, 6).await;
        crew.look();
        burst(&crew, &hired, 2).await;
        crew.look();
        tokio::task::yield_now().await;
        assert_eq!(crew.rota.lock().resting.len(), 2, "the two that were needed stay");
        crew.look();
        crew.ended().await;
        assert!(!crew.rests());
        burst(&crew, &hired, 1).await;
        assert_eq!(hired.load(Ordering::Relaxed), 7);
    }

    #[tokio::test]
    async fn no_more_are_busy_than_may_be() {
        let (crew, hired) = (Arc::new(Crew::new(2)), Arc::default());
        burst(&crew, &hired, 10).await;
        assert_eq!(hired.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn nobody_is_called_or_hired_once_the_crew_is_closed() {
        let (crew, hired) = (Arc::new(Crew::new(4)), Arc::default());
        burst(&crew, &hired, 1).await;
        let queue = WorkQueue::new();
        queue.add(Key::cluster("late"));
        assert!(crew.reserve());
        crew.close();
        let work = queue.try_get().expect("was added");
        crew.call(work, |_, _| unreachable!("nobody is hired"));
        crew.ended().await;
        assert!(!crew.busy() && !crew.rests());
        assert_eq!(queue.stats().processing, 0, "the key is given back");
    }

    #[tokio::test]
    async fn no_more_places_are_reserved_than_there_are() {
        let crew = Crew::new(2);
        assert_eq!([(); 3].map(|()| crew.reserve()), [true, true, false]);
        crew.release();
        crew.has_room().await;
        assert!(crew.reserve() && crew.full());
    }

    #[tokio::test]
    async fn a_crew_that_is_closed_or_aborted_ends() {
        for aborted in [false, true] {
            let (crew, hired) = (Arc::new(Crew::new(4)), Arc::default());
            burst(&crew, &hired, 3).await;
            crew.close();
            if aborted {
                crew.abort();
                // What is dropped does not leave by itself here, as a place does.
                (0..3).for_each(|at| crew.leave(at));
            }
            crew.ended().await;
        }
    }
}
