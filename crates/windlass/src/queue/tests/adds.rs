//! Plain adds: one entry per key.

use super::take;
use crate::queue::WorkQueue;

#[tokio::test(start_paused = true)]
async fn a_key_added_during_its_work_is_handed_out_once_more_and_only_after_that() {
    let queue = WorkQueue::new();
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
