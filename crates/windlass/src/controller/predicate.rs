//! Predicates: which changes lead to a reconcile.
//!
//! By default a resync passes every predicate, so that a filter such as
//! [`Predicate::generation_changed`] does not silently turn periodic resyncs off.
//! [`Predicate::resyncs`] changes that.

use std::fmt;
use std::ops::{BitAnd, BitOr, Not};
use std::sync::Arc;

use kube::core::{DynamicObject, PartialObjectMeta, Selector, SelectorExt};

use crate::cache::{Change, Entry, Origin};
use crate::kind::Object;

type Test = Arc<dyn Fn(&Change) -> bool + Send + Sync>;

/// Decides whether a change leads to a reconcile.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use windlass::Predicate;
/// use windlass::cache::{Origin, Change};
///
/// let mut old = Deployment::default();
/// old.metadata.name = Some("a".into());
/// old.metadata.generation = Some(1);
/// let mut new = old.clone();
/// new.metadata.labels = Some([("app".into(), "web".into())].into());
/// let created = Change::between(None, Some(&new))?;
/// let labels = Change::between(Some(&old), Some(&new))?;
/// new.metadata.generation = Some(2);
/// let spec = Change::between(Some(&old), Some(&new))?;
///
/// let predicate = Predicate::generation_changed();
/// assert!(predicate.passes(&created) && predicate.passes(&spec) && !predicate.passes(&labels));
/// let predicate = predicate | Predicate::labels_changed();
/// assert!(predicate.passes(&labels));
///
/// // A resync passes, unless the predicate is evaluated for resyncs too.
/// let mut resync = labels;
/// resync.origin = Origin::Resync;
/// let never = Predicate::new(|_| false);
/// assert!(never.passes(&resync) && !never.resyncs().passes(&resync));
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Clone)]
pub struct Predicate {
    test: Test,
    resyncs: bool,
}

// === impl Predicate ===

impl Predicate {
    /// Creates a predicate from a function.
    pub fn new(test: impl Fn(&Change) -> bool + Send + Sync + 'static) -> Self {
        Self { test: Arc::new(test), resyncs: false }
    }

    /// Creates a predicate from a function of the object: its new state, or its last one if it was
    /// deleted.
    ///
    /// An object that cannot be decoded passes, so that the reconcile reports it.
    pub fn object<K: Object>(test: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |change| change.object::<K>().is_none_or(|object| test(&object)))
    }

    /// Passes updates that change `metadata.generation`, that is the desired state; updates of status
    /// and metadata do not pass.
    ///
    /// Some kinds have no generation, such as ConfigMap and Secret: of their updates only the
    /// beginning of a deletion passes.
    pub fn generation_changed() -> Self {
        Self::on_update(|change| match (&change.old, &change.new) {
            (Some(old), Some(new)) => {
                old.generation() != new.generation() || old.deleting() != new.deleting()
            }
            _ => true,
        })
    }

    /// Passes updates that change the labels.
    pub fn labels_changed() -> Self {
        Self::on_update(|change| match (&change.old, &change.new) {
            (Some(old), Some(new)) => !old.labels().eq(new.labels()),
            _ => true,
        })
    }

    /// Passes updates that change the annotations.
    pub fn annotations_changed() -> Self {
        Self::on_update(|change| {
            let read = |entry: &Option<Arc<Entry>>| {
                let entry = entry.as_ref()?;
                let object = change.decode::<PartialObjectMeta<DynamicObject>>(entry).ok()?;
                Some(object.metadata.annotations.clone().unwrap_or_default())
            };
            read(&change.old) != read(&change.new)
        })
    }

    /// Passes changes of objects whose labels match a selector, before or after the change.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::core::Expression;
    /// use windlass::Predicate;
    /// use windlass::cache::Change;
    ///
    /// let web = Predicate::selected(Expression::Equal("app".into(), "web".into()).into());
    /// let mut new = ConfigMap::default();
    /// new.metadata.name = Some("a".into());
    /// let mut old = new.clone();
    /// old.metadata.labels = Some([("app".into(), "web".into())].into());
    /// let lost = Change::between(Some(&old), Some(&new))?;
    /// assert!(web.passes(&lost), "the controller has to know that it is no longer selected");
    /// assert!(!(!web).passes(&lost));
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn selected(selector: Selector) -> Self {
        Self::new(move |change| {
            change.states().any(|entry| {
                let labels = entry.labels();
                selector.matches(&labels.map(|(k, v)| (k.into(), v.into())).collect())
            })
        })
    }

    fn on_update(test: impl Fn(&Change) -> bool + Send + Sync + 'static) -> Self {
        // A replacement is a deletion and a creation: the two states are of different objects.
        let both = |change: &Change| {
            change.old.is_some() && change.new.is_some() && !change.is_replacement()
        };
        Self::new(move |change| !both(change) || test(change))
    }

    /// Evaluates this predicate for resyncs too. Otherwise every resync passes.
    pub fn resyncs(mut self) -> Self {
        self.resyncs = true;
        self
    }

    /// Returns `true` if `change` leads to a reconcile.
    pub fn passes(&self, change: &Change) -> bool {
        (change.origin == Origin::Resync && !self.resyncs) || (self.test)(change)
    }
}

impl BitAnd for Predicate {
    type Output = Self;

    /// Passes changes that both predicates let pass.
    fn bitand(self, other: Self) -> Self {
        // Each predicate keeps its own rule for resyncs.
        Self::new(move |change| self.passes(change) && other.passes(change)).resyncs()
    }
}

impl BitOr for Predicate {
    type Output = Self;

    /// Passes changes that at least one of the predicates lets pass.
    fn bitor(self, other: Self) -> Self {
        Self::new(move |change| self.passes(change) || other.passes(change)).resyncs()
    }
}

impl Not for Predicate {
    type Output = Self;

    /// Passes changes that the predicate does not let pass. A resync still passes, unless
    /// [`resyncs`](Predicate::resyncs) was called.
    fn not(self) -> Self {
        Self { resyncs: self.resyncs, ..Self::new(move |change| !(self.test)(change)) }
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predicate").field("resyncs", &self.resyncs).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::Expression;
    use serde_json::{Value, json};

    use super::*;

    /// An object with these changes of the metadata.
    fn object(change: &Value) -> ConfigMap {
        let mut object = json!({"metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 1,
            "labels": {"app": "web"}, "annotations": {"note": "x"},
        }});
        for (name, value) in change.as_object().into_iter().flatten() {
            object["metadata"][name] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    /// An update with these changes of the metadata.
    fn update(mut change: Value) -> Change {
        change["resourceVersion"] = json!("2");
        Change::between(Some(&object(&json!({}))), Some(&object(&change))).unwrap()
    }

    fn same(origin: Origin) -> Change {
        let same = object(&json!({}));
        let mut change = Change::between(Some(&same), Some(&same)).unwrap();
        change.origin = origin;
        change
    }

    fn resync() -> Change {
        same(Origin::Resync)
    }

    fn created() -> Change {
        Change::between(None, Some(&object(&json!({})))).unwrap()
    }

    fn deleted() -> Change {
        Change::between(Some(&object(&json!({}))), None).unwrap()
    }

    #[test]
    fn each_comparison_passes_its_own_change_and_creation_and_deletion() {
        let generation = json!({"generation": 2});
        let finalized = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let labels = json!({"labels": {"app": "db"}});
        let annotations = json!({"annotations": {"note": "y"}});
        let changes = [generation, finalized, labels, annotations].map(update);
        for (name, predicate, passes) in [
            ("generation", Predicate::generation_changed(), [true, true, false, false]),
            ("labels", Predicate::labels_changed(), [false, false, true, false]),
            ("annotations", Predicate::annotations_changed(), [false, false, false, true]),
        ] {
            let passed = [0, 1, 2, 3].map(|at: usize| predicate.passes(&changes[at]));
            assert_eq!(passed, passes, "{name}");
            assert!(predicate.passes(&created()) && predicate.passes(&deleted()), "{name}");
        }
    }

    #[test]
    fn a_selector_looks_at_the_labels_before_and_after() {
        let of = |app: &str| Expression::Equal("app".into(), app.into()).into();
        let moved = update(json!({"labels": {"app": "db"}}));
        assert!(Predicate::selected(of("web")).passes(&moved), "it leaves the selection");
        assert!(Predicate::selected(of("db")).passes(&moved), "it enters it");
        assert!(!Predicate::selected(of("other")).passes(&moved));
        assert!(Predicate::selected(of("web")).passes(&deleted()));
    }

    #[test]
    fn and_or_and_not_are_those_of_logic() {
        let says = |yes: bool| Predicate::new(move |_| yes);
        let change = created();
        for (a, b) in [(false, false), (false, true), (true, false), (true, true)] {
            assert_eq!((says(a) & says(b)).passes(&change), a && b);
            assert_eq!((says(a) | says(b)).passes(&change), a || b);
            assert_eq!((!says(a)).passes(&change), !a);
        }
    }

    #[test]
    fn each_part_decides_on_resyncs_by_its_own_rule() {
        let quiet = Predicate::generation_changed;
        let yes = || Predicate::new(|_| true).resyncs();
        let no = || Predicate::new(|_| false).resyncs();
        assert!(quiet().passes(&resync()) && (!quiet()).passes(&resync()));
        assert!((quiet() & quiet()).passes(&resync()));
        // A predicate that is not evaluated for resyncs lets them pass, also beside one that is.
        assert!((quiet() & yes()).passes(&resync()) && (yes() & quiet()).passes(&resync()));
        assert!(!(quiet() & no()).passes(&resync()) && !(no() & yes()).passes(&resync()));
        assert!((quiet() | no()).passes(&resync()) && (no() | yes()).passes(&resync()));
        assert!(!(no() | no()).passes(&resync()) && (!no()).passes(&resync()));
    }
}
