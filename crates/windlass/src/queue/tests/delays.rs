//! Delayed adds.

use std::time::Duration;

use tokio::time::{Instant, advance};

use super::{ms, take};
use crate::queue::WorkQueue;

#[tokio::test(start_paused = true)]
async fn a_delay_only_moves_a_key_earlier_and_a_ready_key_ignores_it() {
    let queue = WorkQueue::default();
    let start = Instant::now();
    queue.add_after("a", ms(50));
    queue.add_after("a", ms(20));
    queue.add_after("a", ms(90));
    assert_eq!((queue.len(), queue.waiting()), (0, 1));
    drop(queue.get().await.unwrap());
    assert_eq!(start.elapsed(), ms(20));
    queue.add("b");
    queue.add_after("b", ms(10));
    drop(queue.get().await.unwrap());
    advance(ms(100)).await;
    assert!(queue.try_get().is_none(), "one entry per key");
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_ends_while_the_key_is_worked_on_marks_it_dirty() {
    let queue = WorkQueue::default();
    queue.add("a");
    let work = queue.get().await.unwrap();
    queue.add_after("a", ms(10));
    advance(ms(20)).await;
    assert!(queue.try_get().is_none());
    drop(work);
    assert_eq!(take(&queue), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_ends_after_the_work_is_kept() {
    let queue = WorkQueue::default();
    queue.add("a");
    let work = queue.get().await.unwrap();
    queue.add_after("a", ms(10));
    drop(work);
    assert!(queue.try_get().is_none());
    advance(ms(10)).await;
    assert_eq!(take(&queue), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_the_maximum_duration_is_kept_and_can_be_shortened() {
    let queue = WorkQueue::default();
    queue.add_after("never", Duration::MAX);
    queue.add_after("soon", Duration::MAX);
    queue.add_after("soon", ms(5));
    assert_eq!(*queue.get().await.unwrap().key(), "soon");
    advance(Duration::from_secs(365 * 86_400)).await;
    assert_eq!((queue.len(), queue.waiting()), (0, 1));
    // A limiter may return any delay.
    let queue = WorkQueue::with_limiter(|_: &&str, _| Duration::MAX);
    queue.add_rate_limited("a");
    assert_eq!(queue.waiting(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_hands_out_each_due_key_once() {
    let queue = WorkQueue::default();
    for key in 0..10_u64 {
        queue.add_after(key, Duration::from_secs(3600 * key + 1));
    }
    advance(Duration::from_secs(86_400)).await;
    let woken: Vec<_> = std::iter::from_fn(|| take(&queue)).collect();
    assert_eq!(woken, (0..10).collect::<Vec<_>>(), "in the order of their times");
    assert_eq!(queue.waiting(), 0);
}
