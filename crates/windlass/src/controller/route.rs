//! From the changes of one watch to the keys in the queue.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube::core::DynamicObject;

use super::inbox::Inbox;
use super::source::Change;
use super::worker::panic_text;
use super::{Predicate, Watch};
use crate::cache::{Cached, Event, Key};
use crate::client::Client;
use crate::kind::Kind;
use crate::queue::{Add, LOW_PRIORITY};

/// From one watch to the queue.
pub(super) struct Route {
    pub(super) name: Arc<str>,
    pub(super) reconciled: Kind,
    pub(super) filter: Option<Predicate>,
    pub(super) inbox: Inbox,
    pub(super) client: Client,
    pub(super) panics: Arc<AtomicU64>,
    pub(super) watch: Watch,
}

// === impl Route ===

impl Route {
    /// Queues whom an event concerns.
    pub(super) fn take(&self, event: &Event<DynamicObject>) {
        for change in changes(event).into_iter().flatten() {
            self.follow(&change, event.key());
        }
    }

    /// Queues whom one change concerns.
    fn follow(&self, change: &Change, object: &Key) {
        let keys = catch_unwind(AssertUnwindSafe(|| {
            let pass = |p: &Option<Predicate>| p.as_ref().is_none_or(|p| p.passes(change));
            if pass(&self.filter) && pass(&self.watch.predicate) {
                self.watch.keys(change, &self.reconciled, self.client.cached())
            } else {
                Cow::default()
            }
        }));
        let keys = keys.unwrap_or_else(|panic| {
            self.panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                controller = %self.name,
                kind = %self.watch.kind,
                object = %object,
                panic = panic_text(&*panic),
                "a predicate or map function panicked: the change is not followed"
            );
            Cow::default()
        });
        // What is old news must not delay what is new.
        let usual = if change.is_old_news() { LOW_PRIORITY } else { 0 };
        let priority = self.watch.priority.unwrap_or(usual);
        for key in &*keys {
            self.inbox.add(key, Add { priority, ..Add::default() });
        }
    }
}

/// The changes that an event stands for: mostly one.
fn changes(event: &Event<DynamicObject>) -> [Option<Change>; 2] {
    let update = |old: &Cached<DynamicObject>, new: &Cached<DynamicObject>| Change {
        old: Some(old.entry().clone()),
        new: Some(new.entry().clone()),
        ..Change::default()
    };
    match event {
        Event::Added { object, initial } => {
            let new = Some(object.entry().clone());
            [Some(Change { new, initial: *initial, ..Change::default() }), None]
        }
        Event::Updated { old, new } => [Some(update(old, new)), None],
        // Who was concerned before the last change has not heard of it yet.
        Event::Deleted { last, old, .. } => {
            let gone = Change { old: Some(last.entry().clone()), ..Change::default() };
            [old.as_ref().map(|old| update(old, last)), Some(gone)]
        }
        Event::Resync { object } => [Some(Change { resync: true, ..update(object, object) }), None],
    }
}
