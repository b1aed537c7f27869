//! Handing keys directly to parked workers.

use std::mem::replace;
use std::sync::Arc;

use super::WorkQueue;
use super::key::QueueKey;
use super::state::State;
use super::work::Work;

/// A pool whose parked workers get keys in the task that adds them: no other task has to wake up
/// first to pass the key on.
pub(crate) trait HandOff<K: QueueKey>: Send + Sync {
    /// Reserves a parked worker, if there is one. Called while the queue is locked.
    fn reserve(&self) -> bool;

    /// Gives a key to a worker that was reserved.
    fn accept(self: Arc<Self>, work: Work<K>);
}

impl<K: QueueKey> WorkQueue<K> {
    /// Hands ready keys to this pool from now on, or to none.
    pub(crate) fn hand_off_to(&self, pool: Option<Arc<dyn HandOff<K>>>) {
        let before = replace(&mut self.shared.state.lock().hand_off, pool);
        drop(before);
    }

    /// Waits until a key is ready, without taking it. Returns `false` once the queue is shut down
    /// and empty.
    pub(crate) async fn ready(&self) -> bool {
        let look = |state: &mut State<K>, now| {
            state.promote(now);
            (!state.ready.is_empty()).then_some(())
        };
        self.shared.wait(look).await.is_some()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use tokio::time::{Duration, Instant};

    use super::*;

    /// A pool that keeps the work it is given.
    #[derive(Default)]
    struct KeptWork {
        free: Mutex<usize>,
        work: Mutex<Vec<Work<u8>>>,
    }

    impl KeptWork {
        fn keys(&self) -> Vec<u8> {
            self.work.lock().iter().map(|work| *work.key()).collect()
        }
    }

    impl HandOff<u8> for KeptWork {
        fn reserve(&self) -> bool {
            let mut free = self.free.lock();
            let any = *free > 0;
            *free -= usize::from(any);
            any
        }

        fn accept(self: Arc<Self>, work: Work<u8>) {
            self.work.lock().push(work);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_handed_to_a_parked_worker_at_once_and_waits_if_there_is_none() {
        let (queue, kept) = (WorkQueue::new(), Arc::new(KeptWork::default()));
        queue.hand_off_to(Some(kept.clone()));
        *kept.free.lock() = 2;
        (1..=3).for_each(|key| queue.add(key));
        assert_eq!((kept.keys(), queue.len()), (vec![1, 2], 1));
        queue.add(1);
        assert_eq!(queue.len(), 1, "one is being worked on");

        // When work ends, its key is ready again, and the parked worker gets the first ready key.
        *kept.free.lock() = 1;
        let done = kept.work.lock().remove(0);
        drop(done);
        assert_eq!((kept.keys(), queue.len()), (vec![2, 3], 1));
        queue.hand_off_to(None);
        *kept.free.lock() = 1;
        queue.add(4);
        assert_eq!((kept.keys(), queue.len()), (vec![2, 3], 2));
        let stats = queue.stats();
        assert_eq!((stats.adds, stats.processing), (5, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_ready_key_does_not_take_it() {
        let queue = WorkQueue::new();
        queue.add_after(1, Duration::from_secs(5));
        let began = Instant::now();
        assert!(queue.ready().await);
        assert_eq!((queue.len(), began.elapsed()), (1, Duration::from_secs(5)));
        queue.shutdown();
        assert!(queue.ready().await, "what is ready is still handed out");
        drop(queue.try_get());
        assert!(!queue.ready().await);
    }
}
