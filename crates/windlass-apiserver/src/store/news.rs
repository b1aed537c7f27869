//! Wakes the watchers of one resource when a new event is there.
//!
//! **Invariant:** watchers are woken in the order in which they began to wait. `tokio::sync::watch`
//! spreads its receivers over several lists at random, so two runs with one seed would not be equal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The revision of the newest event of a resource, which watchers wait for.
#[derive(Debug, Default)]
pub struct News {
    newest: AtomicU64,
    subscriptions: AtomicUsize,
    notify: Notify,
}

/// What one watcher of a resource waits on for new events.
#[derive(Debug)]
pub struct NewsSubscription {
    news: Arc<News>,
    seen: u64,
}

// === impl News ===

impl News {
    /// Creates news whose newest revision is `revision`.
    pub(super) fn starting_at(revision: u64) -> Self {
        Self { newest: AtomicU64::new(revision), ..Self::default() }
    }

    /// Publishes the revision of the newest event and wakes every watcher that waits.
    pub(super) fn publish(&self, revision: u64) {
        self.newest.store(revision, Ordering::Release);
        self.notify.notify_waiters();
    }

    /// The number of watchers.
    pub(super) fn subscriptions(&self) -> usize {
        self.subscriptions.load(Ordering::Relaxed)
    }

    /// Adds a watcher, which has seen everything up to now.
    pub(super) fn subscribe(self: &Arc<Self>) -> NewsSubscription {
        self.subscriptions.fetch_add(1, Ordering::Relaxed);
        NewsSubscription { news: self.clone(), seen: self.newest.load(Ordering::Acquire) }
    }
}

// === impl NewsSubscription ===

impl NewsSubscription {
    /// Returns the revision of the newest event and marks it as seen.
    pub fn newest(&mut self) -> u64 {
        self.seen = self.news.newest.load(Ordering::Acquire);
        self.seen
    }

    /// Waits for an event that is newer than what was seen.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time: nothing is marked as seen before it returns.
    pub async fn changed(&mut self) {
        loop {
            let mut notified = std::pin::pin!(self.news.notify.notified());
            // From here on a publication wakes us, so none is missed between the look and the wait.
            notified.as_mut().enable();
            let newest = self.news.newest.load(Ordering::Acquire);
            if newest != self.seen {
                self.seen = newest;
                return;
            }
            notified.await;
        }
    }
}

impl Drop for NewsSubscription {
    fn drop(&mut self) {
        self.news.subscriptions.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn watchers_are_woken_in_the_order_in_which_they_wait() {
        let news = Arc::new(News::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..50 {
            let (mut subscription, order) = (news.subscribe(), order.clone());
            tasks.push(tokio::spawn(async move {
                subscription.changed().await;
                order.lock().unwrap().push(number);
            }));
        }
        tokio::task::yield_now().await;
        assert_eq!(news.subscriptions(), 50);
        news.publish(1);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
        assert_eq!(news.subscriptions(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_published_before_the_wait_ends_it_at_once() {
        let news = Arc::new(News::default());
        let mut subscription = news.subscribe();
        news.publish(7);
        subscription.changed().await;
        assert_eq!(subscription.newest(), 7);
        let wait = tokio::time::timeout(std::time::Duration::from_secs(1), subscription.changed());
        assert!(wait.await.is_err(), "nothing new");
    }
}
