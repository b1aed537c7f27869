//! Tasks that come, rest and go.

use std::future::{pending, poll_fn};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

use super::*;
use crate::queue::{Hands, WorkQueue};

impl Crew {
    /// Tells whether any task has a key in its hands.
    fn busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) > 0
    }
}

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

/// Leaves its seat when it is dropped.
struct Place(Arc<Crew>, usize);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// Has keys worked off on a runtime that is closed.
struct Closed {
    crew: Arc<Crew>,
    runtime: Handle,
}

impl Hands<Key> for Closed {
    fn reserve(&self) -> bool {
        self.crew.rests() && self.crew.reserve()
    }

    fn give(self: Arc<Self>, work: Work<Key>) {
        self.crew.call(work, |at, work| {
            let held = (Place(self.crew.clone(), at), work);
            self.runtime.spawn(async move {
                let _held = held;
                pending::<()>().await;
            })
        });
    }
}

/// Hires on a runtime that is closed, in both ways that lead there.
fn hire_in_vain() {
    let runtime = Builder::new_multi_thread().worker_threads(1).build().expect("starts");
    let (crew, queue) = (Arc::new(Crew::new(4)), WorkQueue::new());
    let closed = Arc::new(Closed { crew: crew.clone(), runtime: runtime.handle().clone() });
    drop(runtime);
    queue.add(Key::cluster("a"));
    assert!(crew.reserve());
    closed.clone().give(queue.try_get().expect("was added"));
    assert!(!crew.busy() && queue.stats().processing == 0, "dropped at once");

    // One that rests is dropped before one that has a key which is to come again.
    let [rests, works] = [(); 2].map(|()| {
        assert!(crew.reserve());
        crew.rota.lock().seat().0
    });
    assert!(crew.poll_rest(rests, &Context::from_waker(Waker::noop())).is_pending());
    crew.leave(rests);
    queue.add(Key::cluster("b"));
    let work = queue.try_get().expect("was added");
    queue.add(Key::cluster("b"));
    queue.set_hands(Some(closed));
    drop(work);
    crew.leave(works);
    assert!(!crew.busy() && !crew.rests());
    assert_eq!((queue.len(), queue.stats().processing), (0, 0));
}

#[test]
fn nobody_waits_for_himself_when_a_runtime_closes() {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        hire_in_vain();
        done.send(()).expect("is waited for");
    });
    ended.recv_timeout(Duration::from_secs(20)).expect("ends");
}
