//! Priorities and aging.

use std::time::Duration;

use tokio::time::{Instant, advance};

use super::{low, ms, take};
use crate::queue::{Add, LOW_PRIORITY, QueueOptions, WorkQueue};

#[tokio::test(start_paused = true)]
async fn higher_priorities_come_first_and_a_raise_moves_to_the_end_of_its_level() {
    let queue = WorkQueue::default();
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
    let queue = WorkQueue::default();
    queue.add("a");
    let work = queue.get().await.unwrap();
    queue.add_with("a", low());
    drop(work);
    assert_eq!(queue.get().await.unwrap().priority(), LOW_PRIORITY);
}

#[tokio::test(start_paused = true)]
async fn a_key_of_low_priority_does_not_starve() {
    let queue = WorkQueue::default();
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

#[tokio::test(start_paused = true)]
async fn tenants_take_turns_within_a_priority() {
    let tenant = |key: &&'static str| key.split('/').next().unwrap_or_default();
    let queue = QueueOptions::new().aging(None).fair_by(tenant).build();
    for key in ["a/1", "a/2", "a/3", "a/4", "b/1", "b/2", "c/1"] {
        queue.add(key);
    }
    queue.add_with("a/low", low());
    queue.add_with("a/4", Add::default().priority(1)); // outdated where it was
    let order: Vec<_> = std::iter::from_fn(|| take(&queue)).collect();
    assert_eq!(order, ["a/4", "a/1", "b/1", "c/1", "a/2", "b/2", "a/3", "a/low"]);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_many_keys_delays_those_with_one_by_at_most_one_key() {
    let queue = QueueOptions::new().fair_by(|key: &(u32, u32)| key.0).build();
    (0..10_000).for_each(|key| queue.add((0, key)));
    (1..=50).for_each(|tenant| queue.add((tenant, 0)));
    let first: Vec<u32> = std::iter::from_fn(|| take(&queue)).take(100).map(|key| key.0).collect();
    for tenant in 1..=50 {
        assert!(first.contains(&tenant), "tenant {tenant} is not among the first hundred");
    }
    assert_eq!(std::iter::from_fn(|| take(&queue)).count(), 10_050 - 100);
}

#[tokio::test(start_paused = true)]
async fn a_function_of_tenants_that_panics_loses_no_key() {
    crate::panic::install_hook();
    let queue = QueueOptions::new().fair_by(|key: &u32| 1 / *key).build();
    (0..10).for_each(|key| queue.add(key));
    assert_eq!(std::iter::from_fn(|| take(&queue)).count(), 10);
}
