//! Which objects select another one by its labels, answered by an index of their selectors.
//!
//! Every selector is filed under one of its requirements that a label can satisfy: `app=web`, or
//! that `app` exists. An object that has that label is a candidate, and the others are not looked at.
//! A selector without such a requirement, such as an empty one, is a candidate for every object.
//! The parsed selector is part of what is filed, so a look-up neither decodes an object nor parses a
//! selector.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use kube::core::{Expression, Selector};

use super::index::Index;
use super::labels::Labels;
use super::store::State;
use super::{Cache, Entry, Key, select};
use crate::error::Result;
use crate::kind::Object;
use crate::list::List;
use crate::selector::labels_of;

/// A selector in an [`Index`], made by [`Index::selectors`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    /// The requirement that it is filed under.
    term: Term,
    /// The namespace of the object that selects; empty for a cluster-scoped one.
    namespace: Arc<str>,
    expressions: Arc<[Expression]>,
}

/// What a label has to be for a selector to be looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Term {
    /// Any labels, or none.
    Any,
    Exists(Arc<str>),
    Equal(Arc<str>, Arc<str>),
}

// === impl Index ===

impl<K: Object> Index<K, Selection> {
    /// Creates an index of objects by their label selectors, which answers which objects select
    /// another one: [`Watch::selected_by`](crate::Watch::selected_by) and
    /// [`List::selecting`](crate::List::selecting) use it.
    ///
    /// The function returns a `LabelSelector`, or a selector of kube; `None` selects nothing, and so
    /// does a selector that is not valid. An empty selector selects everything.
    pub fn selectors<S, F>(name: &str, selector: F) -> Self
    where
        S: TryInto<Selector, Error: fmt::Display> + 'static,
        F: Fn(&K) -> Option<S> + Send + Sync + 'static,
    {
        Self::new(name, move |object: &K| {
            let selector = selector(object).and_then(|selector| labels_of(selector).ok());
            let namespace = object.meta().namespace.as_deref().unwrap_or_default();
            selector.map_or_else(Vec::new, |selector| Selection::of(&selector, namespace))
        })
    }
}

// === impl List ===

impl<K: Object> List<K, Cache> {
    /// Selects objects whose selector matches these labels, by an index of
    /// [selectors](Index::selectors).
    ///
    /// As with [`by`](Self::by), the index has to be declared.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{Pod, Service};
    /// use kube::core::Selector;
    /// use windlass::cache::{Index, Selection};
    /// use windlass::{Context, Controller, Next, Result};
    ///
    /// fn services() -> Index<Service, Selection> {
    ///     Index::selectors("pods", |service: &Service| {
    ///         let labels = service.spec.as_ref()?.selector.clone()?;
    ///         Some(labels.into_iter().collect::<Selector>())
    ///     })
    /// }
    ///
    /// /// Counts the services of a pod.
    /// async fn reconcile(cx: Context<Pod>) -> Result<Next> {
    ///     let Some(pod) = cx.object() else { return Ok(Next::Done) };
    ///     let labels = pod.metadata.labels.iter().flatten();
    ///     let services = cx.list::<Service>().selecting(&services(), labels).keys()?;
    ///     cx.event("Counted", format!("{} services", services.len()));
    ///     Ok(Next::Done)
    /// }
    ///
    /// # let _ = Controller::<Pod>::builder("pods")
    /// #     .reads::<Service>()
    /// #     .index(&services())
    /// #     .build(reconcile);
    /// ```
    pub fn selecting<N, V>(
        self,
        index: &Index<K, Selection>,
        labels: impl IntoIterator<Item = (N, V)>,
    ) -> Self
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let labels: Vec<(N, V)> = labels.into_iter().collect();
        let labels: Vec<_> = labels
            .iter()
            .map(|(name, value)| (name.as_ref().into(), value.as_ref().into()))
            .collect();
        let namespace = self.query.namespace.clone();
        self.selecting_labels(index, namespace, Labels::pack("", &labels))
    }

    /// Selects objects whose selector matches an entry. Nothing is found in a namespace that is not
    /// cached any more.
    pub(crate) fn selecting_entry(self, index: &Index<K, Selection>, entry: &Entry) -> Self {
        let namespace = entry.key().namespace().map(str::to_string);
        self.selecting_labels(index, namespace, entry.label_set().clone())
    }

    fn selecting_labels(
        self,
        index: &Index<K, Selection>,
        namespace: Option<String>,
        labels: Labels,
    ) -> Self {
        let (index, namespaced) = (index.clone(), self.kind.namespaced());
        let namespace = namespace.filter(|_| namespaced);
        self.looked_up(move |state| index.selecting(state, namespace.as_deref(), &labels))
    }
}

impl<K: 'static> Index<K, Selection> {
    /// Returns the objects of a namespace, or of all, whose selectors match, by key.
    fn selecting(
        &self,
        state: &State,
        namespace: Option<&str>,
        labels: &Labels,
    ) -> Result<Vec<Arc<Entry>>> {
        let mut keys: BTreeSet<Key> = BTreeSet::new();
        for term in Term::of(labels) {
            let first = Selection::first(term, namespace.unwrap_or_default());
            let within = |at: &Selection| {
                at.term == first.term && namespace.is_none_or(|name| *at.namespace == *name)
            };
            self.range(state, first.clone(), |selection, key| {
                let here = within(selection);
                if here && select::matches_all(&selection.expressions, labels) {
                    keys.insert(key.clone());
                }
                here
            })?;
        }
        Ok(keys.iter().filter_map(|key| state.objects.get(key).cloned()).collect())
    }
}

// === impl Selection ===

impl Selection {
    /// Returns the values under which a selector is filed: one, or one for each allowed value of the
    /// label that it is filed by.
    fn of(selector: &Selector, namespace: &str) -> Vec<Self> {
        let expressions: Arc<[Expression]> = select::expressions(selector).into();
        let exact = expressions.iter().find_map(|expression| match expression {
            Expression::Equal(name, value) => Some(vec![Term::equal(name, value)]),
            Expression::In(name, values) => {
                Some(values.iter().map(|value| Term::equal(name, value)).collect())
            }
            _ => None,
        });
        let exists = || {
            expressions.iter().find_map(|expression| match expression {
                Expression::Exists(name) => Some(vec![Term::Exists(name.as_str().into())]),
                _ => None,
            })
        };
        let terms = exact.or_else(exists).unwrap_or_else(|| vec![Term::Any]);
        let namespace: Arc<str> = namespace.into();
        let filed =
            |term| Self { term, namespace: namespace.clone(), expressions: expressions.clone() };
        terms.into_iter().map(filed).collect()
    }

    /// Returns what comes before every selection of a term and a namespace.
    fn first(term: Term, namespace: &str) -> Self {
        Self { term, namespace: namespace.into(), expressions: Arc::default() }
    }
}

// === impl Term ===

impl Term {
    /// Returns the terms that an object with these labels satisfies.
    fn of(labels: &Labels) -> Vec<Self> {
        let of_label = |(name, value)| [Self::Exists(Arc::from(name)), Self::equal(name, value)];
        std::iter::once(Self::Any).chain(labels.iter().flat_map(of_label)).collect()
    }

    fn equal(name: &str, value: &str) -> Self {
        Self::Equal(name.into(), value.into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::core::SelectorExt;
    use proptest::prelude::*;

    use super::*;

    fn expression() -> impl Strategy<Value = Expression> {
        let name = || prop::sample::select(vec!["app", "tier", "zone"]).prop_map(String::from);
        let value = || prop::sample::select(vec!["", "a", "b"]).prop_map(String::from);
        let values = || prop::collection::btree_set(value(), 0..3);
        prop_oneof![
            (name(), value()).prop_map(|(name, value)| Expression::Equal(name, value)),
            (name(), value()).prop_map(|(name, value)| Expression::NotEqual(name, value)),
            (name(), values()).prop_map(|(name, values)| Expression::In(name, values)),
            (name(), values()).prop_map(|(name, values)| Expression::NotIn(name, values)),
            name().prop_map(Expression::Exists),
            name().prop_map(Expression::DoesNotExist),
        ]
    }

    proptest! {
        #[test]
        fn a_selector_is_found_under_a_term_of_every_object_that_it_matches(
            expressions in prop::collection::vec(expression(), 0..4),
            labels in prop::collection::btree_map("(app|tier|zone)", "[ab]?", 0..4),
        ) {
            let selector: Selector = expressions.into_iter().collect();
            let packed: Vec<_> =
                labels.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect();
            let packed = Labels::pack("", &packed);
            let terms = Term::of(&packed);
            let found = Selection::of(&selector, "default").iter().any(|selection| {
                terms.contains(&selection.term) && select::matches_all(&selection.expressions, &packed)
            });
            let labels: BTreeMap<String, String> = labels;
            prop_assert_eq!(found, selector.matches(&labels));
        }
    }
}
