//! Which changes matter.
//!
//! A predicate looks at one [`Change`] and says whether it leads to a reconcile. Resyncs are asked
//! about like any other change only if [`Predicate::resyncs`] says so: by default they always pass,
//! so that a generation filter does not silently switch periodic resyncs off.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{Selector, SelectorExt};
use serde::Deserialize;

use super::source::Change;
use crate::kind::Object;

type Test = Arc<dyn Fn(&Change) -> bool + Send + Sync>;

/// Says whether a change leads to a reconcile.
///
/// ```
/// use windlass::controller::Predicate;
/// let spec_or_labels = Predicate::generation_changed().or(Predicate::labels_changed());
/// ```
#[derive(Clone)]
pub struct Predicate {
    test: Test,
    resyncs: bool,
}

// === impl Predicate ===

impl Predicate {
    /// A predicate of the author's own.
    pub fn new(test: impl Fn(&Change) -> bool + Send + Sync + 'static) -> Self {
        Self { test: Arc::new(test), resyncs: false }
    }

    /// Looks at the object itself: the new state, or the last one of a deletion.
    ///
    /// An object that does not decode passes, so that the reconcile reports it.
    pub fn object<K: Object>(test: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |change| change.object::<K>().is_none_or(|object| test(&object)))
    }

    /// The desired state changed; updates of status and metadata do not pass.
    pub fn generation_changed() -> Self {
        Self::on_update(|change| match (&change.old, &change.new) {
            (Some(old), Some(new)) => {
                old.generation() != new.generation() || old.deleting() != new.deleting()
            }
            _ => true,
        })
    }

    /// Anything changed.
    pub fn resource_version_changed() -> Self {
        Self::on_update(|change| match (&change.old, &change.new) {
            (Some(old), Some(new)) => old.version() != new.version(),
            _ => true,
        })
    }

    /// The labels changed.
    pub fn labels_changed() -> Self {
        Self::on_update(|change| match (&change.old, &change.new) {
            (Some(old), Some(new)) => old.labels() != new.labels(),
            _ => true,
        })
    }

    /// The annotations changed.
    pub fn annotations_changed() -> Self {
        Self::on_update(|change| {
            let read = |entry: &Option<Arc<crate::cache::Entry>>| {
                let meta = entry.as_ref().and_then(|e| e.decode::<Meta>().ok());
                meta.map(|m| m.metadata.annotations.unwrap_or_default())
            };
            read(&change.old) != read(&change.new)
        })
    }

    /// The labels match, before or after.
    pub fn selected(selector: Selector) -> Self {
        Self::new(move |change| {
            [&change.new, &change.old].into_iter().flatten().any(|entry| {
                let labels = entry.labels().iter();
                selector.matches(&labels.map(|(k, v)| (k.into(), v.into())).collect())
            })
        })
    }

    fn on_update(test: impl Fn(&Change) -> bool + Send + Sync + 'static) -> Self {
        // A deletion and a creation in one: whatever is compared belongs to two objects.
        let both = |change: &Change| change.is_update() && !change.is_replacement();
        Self::new(move |change| !both(change) || test(change))
    }

    /// Both say yes.
    pub fn and(self, other: Self) -> Self {
        let resyncs = self.resyncs || other.resyncs;
        Self { resyncs, ..Self::new(move |change| (self.test)(change) && (other.test)(change)) }
    }

    /// One of them says yes.
    pub fn or(self, other: Self) -> Self {
        let resyncs = self.resyncs && other.resyncs;
        Self { resyncs, ..Self::new(move |change| (self.test)(change) || (other.test)(change)) }
    }

    /// The opposite.
    #[expect(clippy::should_implement_trait, reason = "reads as the other combinators do")]
    pub fn not(self) -> Self {
        Self { resyncs: self.resyncs, ..Self::new(move |change| !(self.test)(change)) }
    }

    /// Asks this predicate about resyncs too; otherwise every resync passes.
    pub fn resyncs(mut self) -> Self {
        self.resyncs = true;
        self
    }

    /// Says whether `change` leads to a reconcile.
    pub fn passes(&self, change: &Change) -> bool {
        (change.resync && !self.resyncs) || (self.test)(change)
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predicate").field("resyncs", &self.resyncs).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    metadata: ObjectMeta,
}
