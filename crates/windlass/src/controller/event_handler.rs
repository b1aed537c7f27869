//! The handler of one watch: from its changes to keys in the queue.
//!
//! **Invariant:** no change is lost. A predicate that panics lets the change pass, and a map
//! function that fails or panics is called again later, with a growing delay.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cause::flag;
use super::key_sink::KeySink;
use super::map_output::MapError;
use super::map_retries::MapRetries;
use super::memory::KeyMemory;
use super::settled::is_settled;
use super::source::Mapper;
use super::switches::Switched;
use super::worker::panic_text;
use super::{Predicate, Watch};
use crate::cache::{Change, Key, Origin};
use crate::client::Client;
use crate::kind::Kind;
use crate::queue::{Add, LOW_PRIORITY};

/// The priority of objects of the first list that may have something to do.
const UNSETTLED_PRIORITY: i32 = LOW_PRIORITY / 2;

/// The handler of one watch of a controller.
pub(super) struct EventHandler {
    pub(super) name: Arc<str>,
    pub(super) reconciled: Kind,
    pub(super) sink: KeySink,
    pub(super) client: Client,
    pub(super) panics: Arc<AtomicU64>,
    pub(super) memory: Arc<KeyMemory>,
    /// The prefix of the annotations that switch something for one object.
    pub(super) switch_prefix: Arc<str>,
    pub(super) watch: Watch,
    pub(super) retries: MapRetries,
}

// === impl EventHandler ===

impl EventHandler {
    /// Queues the keys that a change concerns.
    pub(super) fn handle(self: &Arc<Self>, change: Change) {
        let switched = self.switched(&change);
        if matches!(self.watch.mapper, Mapper::Itself) && change.new.is_none() {
            // No predicate can keep what was remembered.
            self.memory.forget(change.key(), change.entry().uid());
        }
        let passes = self.watch.predicate.as_ref().is_none_or(|p| self.passes(p, &change));
        if (passes || switched.any) && !self.enqueue(&change, switched.requested) {
            self.retries.add(change, self);
        }
    }

    /// Returns what somebody switched for the reconciled object by this change. No predicate can
    /// ignore that.
    fn switched(&self, change: &Change) -> Switched {
        match self.watch.mapper {
            Mapper::Itself => Switched::by(change, &self.switch_prefix),
            _ => Switched::default(),
        }
    }

    /// Maps the changes of an object again for which the map function failed.
    pub(super) fn retry(self: &Arc<Self>, object: &Key) {
        for change in self.retries.take(object) {
            if !self.enqueue(&change, false) {
                self.retries.add(change, self);
            }
        }
    }

    /// Evaluates a predicate. A change passes if the predicate panics: an additional reconcile does
    /// no harm, a missing one would.
    fn passes(&self, predicate: &Predicate, change: &Change) -> bool {
        catch_unwind(AssertUnwindSafe(|| predicate.passes(change))).unwrap_or_else(|panic| {
            self.panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                controller = %self.name,
                kind = %self.watch.kind,
                object = %change.key(),
                panic = panic_text(&*panic),
                "predicate panicked; the change passes"
            );
            true
        })
    }

    /// Queues the keys that one change concerns. Returns `false` if the map function failed.
    fn enqueue(&self, change: &Change, requested: bool) -> bool {
        let keys = catch_unwind(AssertUnwindSafe(|| {
            self.watch.keys(change, &self.reconciled, self.client.cached())
        }));
        let keys = match keys {
            Ok(Ok(keys)) => keys,
            Ok(Err(error)) => {
                self.report_failure(change.key(), &error);
                return false;
            }
            Err(panic) => {
                self.panics.fetch_add(1, Ordering::Relaxed);
                let error = format!("panicked: {}", panic_text(&*panic));
                self.report_failure(change.key(), &error.into());
                return false;
            }
        };
        let priority = self.watch.priority.unwrap_or_else(|| self.usual_priority(change));
        for key in &*keys {
            tracing::trace!(
                controller = %self.name,
                namespace = key.namespace().unwrap_or_default(),
                name = key.name(),
                kind = self.watch.kind.kind(),
                object = %change.key(),
                change = change.word(),
                "Queued"
            );
            let flags = if requested { flag::REQUESTED } else { 0 };
            let add = Add::default().priority(priority).flags(flags);
            self.sink.changed(key, &self.watch.kind, change, add);
        }
        true
    }

    /// Objects that did not change must not delay those that did, and after a start those with
    /// nothing left to do must not delay the others.
    fn usual_priority(&self, change: &Change) -> i32 {
        match (change.is_old_news(), change.origin, &self.watch.mapper, &change.new) {
            (false, ..) => 0,
            (true, Origin::Initial, Mapper::Itself, Some(object)) if !is_settled(object) => {
                UNSETTLED_PRIORITY
            }
            _ => LOW_PRIORITY,
        }
    }

    fn report_failure(&self, object: &Key, error: &MapError) {
        tracing::error!(
            controller = %self.name,
            kind = %self.watch.kind,
            object = %object,
            error = %error,
            "map function failed; it is retried"
        );
    }
}
