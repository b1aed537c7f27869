//! Those who get a key the moment it is ready.

use std::mem::replace;
use std::sync::Arc;

use super::{Inner, QueueKey, Work, WorkQueue};

/// Workers at rest that the queue gives keys to, in the task of whoever adds them: nobody has to
/// wake up first to hand them on.
pub(crate) trait Hands<K: QueueKey>: Send + Sync {
    /// Reserves one that rests, if any does. The queue is locked meanwhile.
    fn reserve(&self) -> bool;
    /// Gives a key to one that was reserved.
    fn give(self: Arc<Self>, work: Work<K>);
}

impl<K: QueueKey> WorkQueue<K> {
    /// Gives keys to these from now on, or to nobody.
    pub(crate) fn set_hands(&self, hands: Option<Arc<dyn Hands<K>>>) {
        let before = replace(&mut self.shared.inner.lock().hands, hands);
        drop(before);
    }

    /// Waits until a key is ready, which another may take; `false` once the queue is shut down
    /// and empty.
    pub(crate) async fn ready(&self) -> bool {
        let look = |inner: &mut Inner<K>, now| {
            inner.promote(now);
            (!inner.ready.is_empty()).then_some(())
        };
        self.wait(look).await.is_some()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use tokio::time::{Duration, Instant};

    use super::*;

    /// Hands that hold what they are given.
    #[derive(Default)]
    struct Held {
        free: Mutex<usize>,
        work: Mutex<Vec<Work<u8>>>,
    }

    impl Held {
        fn keys(&self) -> Vec<u8> {
            self.work.lock().iter().map(|work| *work.key()).collect()
        }
    }

    impl Hands<u8> for Held {
        fn reserve(&self) -> bool {
            let mut free = self.free.lock();
            let any = *free > 0;
            *free -= usize::from(any);
            any
        }

        fn give(self: Arc<Self>, work: Work<u8>) {
            self.work.lock().push(work);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_goes_to_a_free_hand_at_once_and_waits_if_there_is_none() {
        let (queue, held) = (WorkQueue::new(), Arc::new(Held::default()));
        queue.set_hands(Some(held.clone()));
        *held.free.lock() = 2;
        (1..=3).for_each(|key| queue.add(key));
        assert_eq!((held.keys(), queue.len()), (vec![1, 2], 1));
        queue.add(1);
        assert_eq!(queue.len(), 1, "one is worked on");

        // Work that ends makes its key ready again: a free hand gets the first of all.
        *held.free.lock() = 1;
        let done = held.work.lock().remove(0);
        drop(done);
        assert_eq!((held.keys(), queue.len()), (vec![2, 3], 1));
        queue.set_hands(None);
        *held.free.lock() = 1;
        queue.add(4);
        assert_eq!((held.keys(), queue.len()), (vec![2, 3], 2));
        let stats = queue.stats();
        assert_eq!((stats.adds, stats.processing), (5, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_waits_for_a_key_to_be_ready_leaves_it_there() {
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
