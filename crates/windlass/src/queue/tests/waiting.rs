//! Workers that wait for keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::poll;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::ms;
use crate::queue::{Work, WorkQueue};

#[tokio::test(start_paused = true)]
async fn an_idle_worker_takes_over_the_timer_of_one_that_is_dropped() {
    let queue = WorkQueue::default();
    queue.add_after("late", ms(500));
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|work| *work.key()) }
    });
    sleep(ms(1)).await;
    // This worker is woken for the earlier delay and then dropped.
    let gone = tokio::time::timeout(ms(5), queue.get());
    queue.add_after("early", ms(50));
    assert!(gone.await.is_err());
    assert_eq!(other.await.unwrap(), Some("early"));
}

#[tokio::test(start_paused = true)]
async fn keys_added_together_reach_as_many_waiting_workers() {
    let queue = WorkQueue::default();
    let held: Arc<Mutex<Vec<Work<u8>>>> = Arc::default();
    for _ in 0..3 {
        let (queue, held) = (queue.clone(), held.clone());
        tokio::spawn(async move {
            let work = queue.get().await;
            held.lock().extend(work);
        });
    }
    sleep(ms(1)).await;
    (0..3).for_each(|key| queue.add(key));
    sleep(ms(1)).await;
    assert_eq!(held.lock().len(), 3, "each holds its key, none waits for another to be done");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_woken_and_dropped_leaves_the_key_to_another() {
    let queue = WorkQueue::<&str>::default();
    let mut gone = Box::pin(queue.get());
    assert!(poll!(&mut gone).is_pending());
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|work| *work.key()) }
    });
    sleep(ms(1)).await;
    queue.add("a");
    drop(gone);
    assert_eq!(other.await.unwrap(), Some("a"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_workers_never_share_a_key_and_lose_none() {
    let queue: WorkQueue<usize> = WorkQueue::default();
    let active = Arc::new(Mutex::new(BTreeSet::new()));
    let last = Arc::new(Mutex::new(BTreeMap::new()));
    let wanted: Arc<Vec<AtomicUsize>> = Arc::new((0..20).map(|_| AtomicUsize::new(0)).collect());
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (queue, active, last, wanted) =
                (queue.clone(), active.clone(), last.clone(), wanted.clone());
            tokio::spawn(async move {
                while let Some(work) = queue.get().await {
                    assert!(active.lock().insert(*work.key()), "two workers on one key");
                    let seen = wanted[*work.key()].load(Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    last.lock().insert(*work.key(), seen);
                    active.lock().remove(work.key());
                }
            })
        })
        .collect();
    let adders: Vec<_> = (0..4)
        .map(|adder| {
            let (queue, wanted) = (queue.clone(), wanted.clone());
            tokio::spawn(async move {
                for round in 0..2000 {
                    let key = (round * 7 + adder) % 20;
                    wanted[key].fetch_add(1, Ordering::SeqCst);
                    match round % 5 {
                        0 => queue.add_after(key, Duration::from_micros(50)),
                        _ => queue.add(key),
                    }
                    if round % 50 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for adder in adders {
        adder.await.unwrap();
    }
    while queue.waiting() > 0 {
        sleep(ms(1)).await;
    }
    queue.shutdown();
    for worker in workers {
        worker.await.unwrap();
    }
    for (key, count) in wanted.iter().enumerate() {
        let seen = last.lock().get(&key).copied();
        assert_eq!(seen, Some(count.load(Ordering::SeqCst)), "the last add of {key} was seen");
    }
}

#[tokio::test(start_paused = true)]
async fn the_worker_that_began_to_wait_last_gets_the_key() {
    let queue = WorkQueue::default();
    let mut workers = [(); 3].map(|()| Box::pin(queue.get()));
    for worker in &mut workers {
        assert!(poll!(worker).is_pending());
    }
    queue.add("a");
    assert_eq!((queue.len(), queue.stats().processing), (0, 1), "it is given at once");
    let [first, second, third] = &mut workers;
    assert!(poll!(first).is_pending() && poll!(second).is_pending());
    assert!(poll!(third).is_ready());
}

#[tokio::test(start_paused = true)]
async fn the_last_choice_gets_a_key_only_if_no_other_worker_waits() {
    let queue = WorkQueue::default();
    let mut worker = Box::pin(queue.get());
    assert!(poll!(&mut worker).is_pending());
    let mut last = Box::pin(queue.get_unclaimed());
    assert!(poll!(&mut last).is_pending());
    queue.add_after("late", ms(5));
    queue.add("a");
    assert!(poll!(&mut last).is_pending());
    let work = worker.await.expect("open");
    let mut worker = Box::pin(queue.get());
    assert!(poll!(&mut worker).is_pending());
    let began = Instant::now();
    let late = async {
        let late = worker.await.expect("open");
        assert_eq!((*late.key(), began.elapsed()), ("late", ms(5)));
        queue.add("b");
        late
    };
    let (_late, unclaimed) = tokio::join!(late, last);
    assert_eq!(*unclaimed.expect("open").key(), "b");
    drop(work);
}

#[tokio::test(start_paused = true)]
async fn a_key_given_to_a_worker_that_is_dropped_is_queued_again() {
    let queue = WorkQueue::default();
    let mut worker = Box::pin(queue.get());
    assert!(poll!(&mut worker).is_pending());
    queue.add("a");
    queue.add("b");
    queue.add("a");
    drop(worker);
    let stats = queue.stats();
    assert_eq!((stats.depth, stats.processing, stats.adds), (2, 0, 2));
    assert_eq!([super::take(&queue), super::take(&queue)], [Some("b"), Some("a")]);
    assert_eq!(super::take(&queue), None);
}

#[tokio::test(start_paused = true)]
async fn workers_that_got_no_key_between_two_checks_are_retired() {
    let queue: WorkQueue<u8> = WorkQueue::default();
    let mut workers = [(); 4].map(|()| Box::pin(queue.get()));
    for worker in &mut workers {
        assert!(poll!(worker).is_pending());
    }
    queue.retire_unneeded();
    for worker in &mut workers {
        assert!(poll!(worker).is_pending(), "they began to wait after the last check");
    }
    queue.add(1);
    let [oldest, second, third, newest] = workers;
    let work = newest.await.expect("the newest gets the key");
    queue.retire_unneeded();
    assert!(oldest.await.is_none() && second.await.is_none() && third.await.is_none());
    drop(work);
    queue.add(2);
    assert!(queue.get().await.is_some(), "the queue is still open");
}
