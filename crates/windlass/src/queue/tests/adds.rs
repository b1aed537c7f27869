//! Plain adds: one entry per key.

use super::take;
use crate::queue::{Add, WorkQueue};

#[tokio::test(start_paused = true)]
async fn a_key_added_during_its_work_is_handed_out_once_more_and_only_after_that() {
    let queue = WorkQueue::default();
    queue.add("a");
    let work = queue.get().await.unwrap();
    queue.add("a");
    queue.add("a");
    assert!(queue.try_get().is_none());
    assert_eq!((queue.len(), queue.stats().adds), (0, 2));
    drop(work);
    assert_eq!((take(&queue), take(&queue)), (Some("a"), None));
    assert_eq!(queue.stats().adds, 2);
}

#[tokio::test(start_paused = true)]
async fn a_worker_gets_the_flags_of_all_adds_since_the_key_was_handed_out() {
    let queue = WorkQueue::default();
    let add = |flags| Add::default().flags(flags);
    queue.add_with("a", add(1));
    queue.add_with("a", add(2));
    let work = queue.get().await.unwrap();
    assert_eq!(work.flags(), 3);
    queue.add_with("a", add(4)); // for the next worker
    let work = work.next().unwrap();
    assert_eq!(work.flags(), 4);
    drop(work);

    let second = std::time::Duration::from_secs(1);
    queue.add_with("a", add(1).after(second));
    queue.add_with("a", add(2).after(2 * second));
    let work = queue.get().await.unwrap();
    assert_eq!(work.flags(), 3, "both wanted it later");
    queue.add_with("a", add(4).after(second));
    drop(work);
    queue.add_with("a", add(8));
    let work = queue.get().await.unwrap();
    assert_eq!(work.flags(), 8, "the delay has not ended");
}
