//! What a queue reports about itself.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::advance;

use super::{low, ms};
use crate::queue::{LOW_PRIORITY, WorkQueue};

#[tokio::test(start_paused = true)]
async fn stats_show_depth_latency_and_work() {
    let queue = WorkQueue::default();
    queue.add("a");
    queue.add_with("b", low());
    queue.add_after("c", Duration::from_secs(60));
    advance(Duration::from_secs(2)).await;
    let work = queue.get().await.unwrap();
    advance(Duration::from_secs(3)).await;
    let stats = queue.stats();
    assert_eq!((stats.depth, stats.waiting, stats.processing), (1, 1, 1));
    assert_eq!((stats.adds, stats.retries), (2, 1));
    assert_eq!(stats.depth_by_priority, BTreeMap::from([(LOW_PRIORITY, 1)]));
    assert_eq!(stats.queue_latency.sum, Duration::from_secs(2));
    assert_eq!((stats.unfinished, stats.longest), (Duration::from_secs(3), Duration::from_secs(3)));
    drop(work);
    assert_eq!(queue.stats().work_duration.sum, Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn the_key_that_is_worked_on_for_longest_is_known() {
    let queue = WorkQueue::default();
    assert_eq!(queue.longest(), None);
    queue.add("b");
    let _first = queue.get().await.unwrap();
    advance(ms(20)).await;
    queue.add("a");
    let _second = queue.get().await.unwrap();
    assert_eq!(queue.longest(), Some(("b", ms(20))));
}
