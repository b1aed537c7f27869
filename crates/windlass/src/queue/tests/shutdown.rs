//! The end of a queue.

use tokio::time::sleep;

use super::ms;
use crate::queue::WorkQueue;

#[tokio::test(start_paused = true)]
async fn after_shutdown_ready_keys_are_still_handed_out_and_nothing_is_added() {
    let queue = WorkQueue::default();
    queue.add("a");
    queue.add_after("late", ms(1));
    queue.shutdown();
    queue.shutdown();
    queue.add("b");
    assert_eq!(*queue.get().await.unwrap().key(), "a");
    assert!(queue.get().await.is_none());
    assert!(queue.closed());
}

#[tokio::test(start_paused = true)]
async fn shutdown_wakes_workers_that_wait() {
    let queue: WorkQueue<u8> = WorkQueue::default();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.is_none() })
        })
        .collect();
    sleep(ms(1)).await;
    queue.shutdown();
    for worker in waiting {
        assert!(worker.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn workers_end_after_shutdown_when_keys_in_work_and_dirty_ones_are_done() {
    let queue = WorkQueue::default();
    queue.add("a");
    let work = queue.get().await.unwrap();
    queue.add("a");
    queue.shutdown();
    let next = work.next().expect("the key became dirty before the shutdown");
    queue.add("a");
    assert!(next.next().is_none(), "adds after the shutdown are ignored");
    assert!(queue.get().await.is_none());
}
