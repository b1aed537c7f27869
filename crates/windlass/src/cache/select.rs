//! Label selection over packed labels.

use kube::core::{Expression, Selector};

use super::labels::Labels;

/// Returns `true` if a selector matches these labels.
pub(super) fn matches(selector: &Selector, labels: &Labels) -> bool {
    selector.selects_all() || matches_all(&expressions(selector), labels)
}

/// Splits a selector into its expressions, to use it on many objects.
pub(super) fn expressions(selector: &Selector) -> Vec<Expression> {
    selector.clone().into_iter().collect()
}

/// Returns `true` if all expressions match.
pub(super) fn matches_all(expressions: &[Expression], labels: &Labels) -> bool {
    expressions.iter().all(|expression| match expression {
        Expression::In(label, values) => labels.get(label).is_some_and(|v| values.contains(v)),
        Expression::NotIn(label, values) => !labels.get(label).is_some_and(|v| values.contains(v)),
        Expression::Equal(label, value) => labels.get(label) == Some(value),
        Expression::NotEqual(label, value) => labels.get(label) != Some(value),
        Expression::Exists(label) => labels.get(label).is_some(),
        Expression::DoesNotExist(label) => labels.get(label).is_none(),
        // A kind of expression this version does not know selects nothing.
        #[allow(unreachable_patterns)]
        _ => false,
    })
}
