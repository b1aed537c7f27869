//! Changes whose map function failed, until it succeeds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::event_handler::EventHandler;
use crate::cache::{Change, Key};
use crate::queue::{Exponential, WorkQueue};

/// The delay before the first retry; it doubles with each one.
const DELAY_MIN: Duration = Duration::from_millis(100);

const DELAY_MAX: Duration = Duration::from_secs(300);

/// The most objects of one watch whose changes are kept for a retry.
const OBJECTS_MAX: usize = 10_000;

/// The failed changes of one watch. A task retries them; it is spawned with the first failure and
/// ends when this is dropped.
pub(super) struct MapRetries {
    queue: WorkQueue<Key>,
    failed: Mutex<BTreeMap<Key, Failed>>,
    spawned: AtomicBool,
}

/// The failed changes of one object. States between the first and the last change are not
/// promised to be mapped.
struct Failed {
    first: Change,
    last: Option<Change>,
}

// === impl MapRetries ===

impl MapRetries {
    /// Keeps a change until `handler` can map it.
    pub(super) fn add(&self, change: Change, handler: &Arc<EventHandler>) {
        let object = &change.key().clone();
        let mut failed = self.failed.lock();
        if let Some(failed) = failed.get_mut(object) {
            failed.last = Some(change);
        } else if failed.len() < OBJECTS_MAX {
            failed.insert(object.clone(), Failed { first: change, last: None });
        } else {
            drop(failed);
            return tracing::error!(
                controller = %handler.name,
                kind = %handler.watch.kind,
                object = %object,
                "map function fails for more than {OBJECTS_MAX} objects: a change is dropped"
            );
        }
        drop(failed);
        self.queue.add_rate_limited(object);
        if !self.spawned.swap(true, Ordering::AcqRel) {
            tokio::spawn(run(self.queue.clone(), Arc::downgrade(handler)));
        }
    }

    /// Takes the changes of an object that are to be mapped again.
    pub(super) fn take(&self, object: &Key) -> Vec<Change> {
        let failed = self.failed.lock().remove(object);
        failed.into_iter().flat_map(|failed| [Some(failed.first), failed.last]).flatten().collect()
    }

    /// Resets the delay of an object, unless a change of it has failed again.
    fn forget_if_done(&self, object: &Key) {
        if !self.failed.lock().contains_key(object) {
            self.queue.forget(object);
        }
    }
}

impl Default for MapRetries {
    fn default() -> Self {
        Self {
            queue: WorkQueue::with_limiter(Exponential::new(DELAY_MIN, DELAY_MAX)),
            failed: Mutex::default(),
            spawned: AtomicBool::new(false),
        }
    }
}

impl Drop for MapRetries {
    fn drop(&mut self) {
        self.queue.shutdown();
    }
}

/// Retries failed changes until the handler is dropped.
async fn run(queue: WorkQueue<Key>, handler: Weak<EventHandler>) {
    while let Some(work) = queue.get().await {
        let Some(handler) = handler.upgrade() else { return };
        handler.retry(work.key());
        handler.retries.forget_if_done(work.key());
        drop(handler);
        tokio::task::consume_budget().await;
    }
}
