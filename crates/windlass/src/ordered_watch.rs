//! A channel that keeps the latest value and wakes its receivers in order.
//!
//! It is used like `tokio::sync::watch`, which spreads its receivers over several lists at random:
//! two tasks that wait for one change would run in a different order each time, and two runs with
//! one seed would not be equal.
//!
//! **Invariant:** receivers are woken in the order in which they began to wait.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Notify;

/// The latest value of something that changes, and a way to wait for its changes.
///
/// Values in between may be missed; the latest one never is.
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The number of the change that was seen last.
    seen: u64,
}

/// The sender is gone, so the value does not change any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the value does not change any more, because its sender was dropped")]
pub(crate) struct Closed(());

/// A borrowed value, which cannot change meanwhile: keep it only for a moment.
pub(crate) struct Ref<'a, T>(RwLockReadGuard<'a, T>);

/// Changes the value.
pub(crate) struct Sender<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    value: RwLock<T>,
    /// Counts the changes; grows while the value is locked.
    changes: AtomicU64,
    senders: AtomicUsize,
    notify: Notify,
}

// === impl Sender ===

impl<T> Sender<T> {
    pub(crate) fn new(value: T) -> Self {
        let shared = Shared {
            value: RwLock::new(value),
            changes: AtomicU64::new(0),
            senders: AtomicUsize::new(1),
            notify: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Adds a receiver that has seen the current value.
    pub(crate) fn subscribe(&self) -> Receiver<T> {
        let seen = self.shared.changes.load(Ordering::Acquire);
        Receiver { shared: self.shared.clone(), seen }
    }

    pub(crate) fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.value.read())
    }

    /// Replaces the value and returns the one before.
    pub(crate) fn send_replace(&self, value: T) -> T {
        let mut value = value;
        self.send_modify(|current| std::mem::swap(current, &mut value));
        value
    }

    pub(crate) fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Wakes the receivers if `modify` returns `true`, which means that it changed the value.
    pub(crate) fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let mut value = self.shared.value.write();
        let modified = modify(&mut value);
        if modified {
            self.shared.changes.fetch_add(1, Ordering::Release);
        }
        drop(value);
        if modified {
            self.shared.notify.notify_waiters();
        }
        modified
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.shared.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.notify.notify_waiters();
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&*self.borrow()).finish()
    }
}

// === impl Receiver ===

impl<T> Receiver<T> {
    /// Returns the latest value without marking it as seen.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.value.read())
    }

    /// Returns the latest value and marks it as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let value = self.shared.value.read();
        self.seen = self.shared.changes.load(Ordering::Acquire);
        Ref(value)
    }

    /// Waits for a change that was not seen yet and marks it as seen.
    ///
    /// # Errors
    ///
    /// Fails if the sender is gone and every change was seen.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time: nothing is marked as seen before it returns.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            let mut notified = std::pin::pin!(self.shared.notify.notified());
            // From here on a change wakes this receiver, so none is missed between check and wait.
            notified.as_mut().enable();
            let closed = self.shared.senders.load(Ordering::Acquire) == 0;
            let changes = self.shared.changes.load(Ordering::Acquire);
            if changes != self.seen {
                self.seen = changes;
                return Ok(());
            }
            if closed {
                return Err(Closed(()));
            }
            notified.await;
        }
    }
}

impl<T: Clone> Receiver<T> {
    /// Waits until the value meets a condition, and returns it; at once if it does already.
    ///
    /// # Errors
    ///
    /// Fails if the sender is gone and the last value does not meet the condition.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub async fn wait_for(&mut self, mut condition: impl FnMut(&T) -> bool) -> Result<T, Closed> {
        loop {
            if let Some(value) = self.latest_if(&mut condition) {
                return Ok(value);
            }
            self.changed().await?;
        }
    }

    /// Marks the latest value as seen, and returns it if it meets the condition.
    fn latest_if(&mut self, condition: impl FnOnce(&T) -> bool) -> Option<T> {
        let value = self.borrow_and_update();
        condition(&value).then(|| value.clone())
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), seen: self.seen }
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&*self.borrow()).finish()
    }
}

// === impl Ref ===

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parking_lot::Mutex;
    use proptest::prelude::*;

    use super::*;

    /// Lets these waiters begin to wait one after the other, and returns the order in which
    /// `changes` changes wake them.
    async fn wake_ups(waiters: &[usize], changes: u64) -> Vec<usize> {
        let (sender, woken) = (Sender::new(0), Arc::new(Mutex::new(Vec::new())));
        let mut tasks = Vec::new();
        for number in waiters.iter().copied() {
            let (mut receiver, woken) = (sender.subscribe(), woken.clone());
            tasks.push(tokio::spawn(async move {
                while receiver.changed().await.is_ok() {
                    woken.lock().push(number);
                }
            }));
        }
        // Returns once every task waits, because time is paused.
        tokio::time::sleep(Duration::from_millis(1)).await;
        for _ in 0..changes {
            sender.send_modify(|value| *value += 1);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(sender);
        for task in tasks {
            task.await.expect("a waiter does not panic");
        }
        Arc::try_unwrap(woken).expect("all waiters ended").into_inner()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn receivers_are_woken_in_the_order_in_which_they_began_to_wait(
            waiters in prop::collection::vec(0_usize..1000, 1..80),
            changes in 1_u64..4,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .expect("a runtime without I/O can be built");
            let woken = runtime.block_on(wake_ups(&waiters, changes));
            let expected = waiters.repeat(usize::try_from(changes).expect("is small"));
            prop_assert_eq!(woken, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_before_the_wait_is_not_missed_and_is_seen_once() {
        let sender = Sender::new(1);
        let mut receiver = sender.subscribe();
        assert_eq!(sender.send_replace(2), 1);
        assert_eq!(*receiver.borrow(), 2);
        receiver.changed().await.expect("the sender is there");
        let second = tokio::time::timeout(Duration::from_secs(1), receiver.changed());
        assert!(second.await.is_err(), "nothing new");
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_changes_nothing_wakes_nobody() {
        let sender = Sender::new(1);
        let mut receiver = sender.subscribe();
        assert!(!sender.send_if_modified(|_| false));
        let change = tokio::time::timeout(Duration::from_secs(1), receiver.changed());
        assert!(change.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_value_is_seen_although_its_sender_is_gone() {
        let sender = Sender::new(1);
        let (mut one, mut other) = (sender.subscribe(), sender.subscribe());
        let second = sender.clone();
        drop(sender);
        second.send_replace(7);
        drop(second);
        assert_eq!(one.changed().await, Ok(()));
        assert_eq!(one.changed().await, Err(Closed(())));
        assert_eq!(other.wait_for(|value| *value == 7).await, Ok(7));
        assert_eq!(other.wait_for(|value| *value == 8).await, Err(Closed(())));
    }

    #[tokio::test]
    async fn waiters_on_several_threads_miss_no_change() {
        let sender = Sender::new(0_u32);
        let mut threads = Vec::new();
        for _ in 0..4 {
            let mut receiver = sender.subscribe();
            threads.push(std::thread::spawn(move || {
                futures::executor::block_on(receiver.wait_for(|value| *value == 10_000))
            }));
        }
        for _ in 0..10_000 {
            sender.send_modify(|value| *value += 1);
        }
        for thread in threads {
            assert_eq!(thread.join().expect("does not panic"), Ok(10_000));
        }
    }
}
