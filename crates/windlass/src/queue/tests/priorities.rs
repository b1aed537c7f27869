//! Priorities and aging.

use std::time::Duration;

use tokio::time::{Instant, advance};

use super::{low, ms, take};
use crate::queue::{LOW_PRIORITY, QueueOptions, WorkQueue};

#[tokio::test(start_paused = true)]
async fn higher_priorities_come_first_and_a_raise_moves_to_the_end_of_its_level() {
    let queue = WorkQueue::new();
    queue.add_with("low", low());
    queue.add_with("raised", low());
    queue.add("one");
    queue.add("raised");
    queue.add_with("one", low());
    let order: Vec<_> = std::iter::from_fn(|| take(&queue)).collect();
    assert_eq!(order, ["one", "raised", "low"]);
}

#[tokio::test(start_paused = true)]
async fn an_add_during_the_work_has_its_own_priority() {
    let queue = WorkQueue::new();
    queue.add("a");
    let work = queue.get().await.unwrap();
    queue.add_with("a", low());
    drop(work);
    assert_eq!(queue.get().await.unwrap().priority(), LOW_PRIORITY);
}

#[tokio::test(start_paused = true)]
async fn a_key_of_low_priority_does_not_starve() {
    let queue = WorkQueue::new();
    queue.add_with(0, low());
    let start = Instant::now();
    for key in 1.. {
        queue.add(key);
        queue.add(-key);
        if take(&queue) == Some(0) {
            break;
        }
        advance(ms(10)).await;
        assert!(start.elapsed() < Duration::from_secs(60), "starved");
    }
    assert!(start.elapsed() >= Duration::from_secs(9), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn without_aging_priorities_are_strict() {
    let queue = QueueOptions::new().aging(None).build();
    queue.add_with("low", low());
    advance(Duration::from_secs(3600)).await;
    queue.add("high");
    assert_eq!(take(&queue), Some("high"));
}
