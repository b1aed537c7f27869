//! Rate-limited adds, and the failures that the queue counts.

use std::time::Duration;

use super::ms;
use crate::queue::{Add, WorkQueue};

#[tokio::test(start_paused = true)]
async fn every_rate_limited_add_counts_a_failure_and_the_shorter_delay_is_used() {
    let limiter = |_: &&str, failures| if failures <= 1 { ms(5) } else { ms(500) };
    let queue = WorkQueue::with_limiter(limiter);
    assert_eq!(queue.add_rate_limited("a"), ms(5));
    assert_eq!(queue.add_rate_limited("a"), ms(500));
    let both = Add::default().rate_limited().after(ms(30));
    assert_eq!(queue.add_with("a", both), ms(30));
    assert_eq!(queue.failures(&"a"), 3);
    queue.shutdown();
    queue.add_rate_limited("a");
    assert_eq!(queue.failures(&"a"), 4);
    queue.forget(&"a");
    assert_eq!(queue.failures(&"a"), 0);
}

#[test]
fn failures_of_one_key_are_forgotten_alone() {
    let queue = WorkQueue::default();
    assert_eq!(queue.failures(&"a"), 0);
    queue.forget(&"a");
    for failures in 1..=3 {
        queue.add_rate_limited("a");
        queue.add_rate_limited("b");
        assert_eq!((queue.failures(&"a"), queue.failures(&"b")), (1, failures));
        queue.forget(&"a");
        assert_eq!((queue.failures(&"a"), queue.failures(&"b")), (0, failures));
    }
    queue.forget(&"b");
    assert_eq!(queue.failures(&"b"), 0);
    queue.add_rate_limited("a");
    assert_eq!(queue.failures(&"a"), 1);
}

#[test]
fn a_limiter_sees_the_key_and_its_failures() {
    let by_key = |key: &u64, failures: u32| Duration::from_secs(key * u64::from(failures));
    let queue = WorkQueue::with_limiter(by_key);
    let delays = [1, 2, 2].map(|key| queue.add_rate_limited(key).as_secs());
    assert_eq!(delays, [1, 2, 4]);
}
