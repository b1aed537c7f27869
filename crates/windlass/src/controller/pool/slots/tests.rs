//! Tasks that are spawned, parked, woken and retired.

use std::future::{pending, poll_fn};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

use super::*;
use crate::queue::{HandOff, WorkQueue};

impl Slots {
    /// Returns `true` if any task works on a key.
    fn busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) > 0
    }
}

/// Wakes tasks for `count` keys at once and waits until all are done.
async fn burst(slots: &Arc<Slots>, spawned: &Arc<AtomicUsize>, count: usize) {
    let queue = WorkQueue::new();
    for n in 0..count {
        queue.add(Key::cluster(&n.to_string()));
        let work = queue.try_get().expect("was added");
        slots.has_room().await;
        assert!(slots.reserve());
        slots.wake(work, |at, work| {
            spawned.fetch_add(1, Ordering::Relaxed);
            let slots = slots.clone();
            tokio::spawn(async move {
                let mut work = Some(work);
                while work.take().is_some() {
                    work = poll_fn(|cx| slots.poll_park(at, cx)).await;
                }
                slots.vacate(at);
            })
        });
    }
    while slots.busy() {
        tokio::task::yield_now().await;
    }
    assert!(queue.is_empty());
}

#[tokio::test]
async fn a_burst_that_comes_again_finds_its_tasks_spawned() {
    let (slots, spawned) = (Arc::new(Slots::new(8)), Arc::default());
    for _ in 0..3 {
        burst(&slots, &spawned, 5).await;
    }
    assert_eq!(spawned.load(Ordering::Relaxed), 5);
    assert!(slots.any_parked() && !slots.full());
}

#[tokio::test]
async fn tasks_that_are_not_needed_between_two_checks_end() {
    let (slots, spawned) = (Arc::new(Slots::new(8)), Arc::default());
    burst(&slots, &spawned, 6).await;
    slots.retire_unneeded();
    burst(&slots, &spawned, 2).await;
    slots.retire_unneeded();
    tokio::task::yield_now().await;
    assert_eq!(slots.table.lock().parked.len(), 2, "the two that were needed are kept");
    slots.retire_unneeded();
    slots.all_ended().await;
    assert!(!slots.any_parked());
    burst(&slots, &spawned, 1).await;
    assert_eq!(spawned.load(Ordering::Relaxed), 7);
}

#[tokio::test]
async fn no_more_tasks_are_busy_than_the_limit() {
    let (slots, spawned) = (Arc::new(Slots::new(2)), Arc::default());
    burst(&slots, &spawned, 10).await;
    assert_eq!(spawned.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn no_task_is_woken_or_spawned_once_the_slots_are_closed() {
    let (slots, spawned) = (Arc::new(Slots::new(4)), Arc::default());
    burst(&slots, &spawned, 1).await;
    let queue = WorkQueue::new();
    queue.add(Key::cluster("late"));
    assert!(slots.reserve());
    slots.close();
    let work = queue.try_get().expect("was added");
    slots.wake(work, |_, _| unreachable!("no task is spawned"));
    slots.all_ended().await;
    assert!(!slots.busy() && !slots.any_parked());
    assert_eq!(queue.stats().processing, 0, "the key is marked as done");
}

#[tokio::test]
async fn no_more_places_are_reserved_than_the_limit() {
    let slots = Slots::new(2);
    assert_eq!([(); 3].map(|()| slots.reserve()), [true, true, false]);
    slots.release();
    slots.has_room().await;
    assert!(slots.reserve() && slots.full());
}

#[tokio::test]
async fn closed_or_aborted_tasks_end() {
    for aborted in [false, true] {
        let (slots, spawned) = (Arc::new(Slots::new(4)), Arc::default());
        burst(&slots, &spawned, 3).await;
        slots.close();
        if aborted {
            slots.abort();
            // These tasks have no guard that vacates their slot when they are dropped.
            (0..3).for_each(|at| slots.vacate(at));
        }
        slots.all_ended().await;
    }
}

/// Vacates its slot when it is dropped.
struct Guard(Arc<Slots>, usize);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.vacate(self.1);
    }
}

/// Spawns tasks on a runtime that has shut down.
struct Closed {
    slots: Arc<Slots>,
    runtime: Handle,
}

impl HandOff<Key> for Closed {
    fn reserve(&self) -> bool {
        self.slots.any_parked() && self.slots.reserve()
    }

    fn accept(self: Arc<Self>, work: Work<Key>) {
        self.slots.wake(work, |at, work| {
            let held = (Guard(self.slots.clone(), at), work);
            self.runtime.spawn(async move {
                let _held = held;
                pending::<()>().await;
            })
        });
    }
}

/// Spawns tasks on a runtime that has shut down, in both ways that lead there.
fn spawn_in_vain() {
    let runtime = Builder::new_multi_thread().worker_threads(1).build().expect("starts");
    let (slots, queue) = (Arc::new(Slots::new(4)), WorkQueue::new());
    let closed = Arc::new(Closed { slots: slots.clone(), runtime: runtime.handle().clone() });
    drop(runtime);
    queue.add(Key::cluster("a"));
    assert!(slots.reserve());
    closed.clone().accept(queue.try_get().expect("was added"));
    assert!(!slots.busy() && queue.stats().processing == 0, "dropped at once");

    // A parked task is dropped before a busy one whose key is queued again.
    let [parked, busy] = [(); 2].map(|()| {
        assert!(slots.reserve());
        slots.table.lock().occupy().0
    });
    assert!(slots.poll_park(parked, &Context::from_waker(Waker::noop())).is_pending());
    slots.vacate(parked);
    queue.add(Key::cluster("b"));
    let work = queue.try_get().expect("was added");
    queue.add(Key::cluster("b"));
    queue.hand_off_to(Some(closed));
    drop(work);
    slots.vacate(busy);
    assert!(!slots.busy() && !slots.any_parked());
    assert_eq!((queue.len(), queue.stats().processing), (0, 0));
}

#[test]
fn a_runtime_that_shuts_down_causes_no_deadlock() {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        spawn_in_vain();
        done.send(()).expect("is waited for");
    });
    ended.recv_timeout(Duration::from_secs(20)).expect("ends");
}
