//! Aggregated cluster roles: rules gathered from the roles that labels select.

use std::collections::HashSet;

use serde_json::Value;

use super::{strings, text};

/// Returns the rules of an aggregated role, gathered from `roles` in the order given.
///
/// `None` when the role has no aggregation rule. Equal rules are kept once. The role itself never
/// contributes, also when its own selector would match it.
pub fn aggregate<'a>(
    role: &Value,
    roles: impl IntoIterator<Item = &'a Value> + Clone,
) -> Option<Vec<Value>> {
    let selectors = role.get("aggregationRule")?.get("clusterRoleSelectors")?.as_array()?;
    let name = text(role, &["metadata", "name"]);
    let mut rules: Vec<Value> = Vec::new();
    let mut known: HashSet<Value> = HashSet::new();
    for selector in selectors {
        for other in roles.clone() {
            if text(other, &["metadata", "name"]) == name
                || !selects(selector, &other["metadata"]["labels"])
            {
                continue;
            }
            for rule in other["rules"].as_array().into_iter().flatten() {
                if known.insert(rule.clone()) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    Some(rules)
}

/// Returns `true` if a label selector matches labels; an unknown operator matches nothing.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector["matchLabels"].as_object();
    let exact = wanted.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let expressions = selector["matchExpressions"].as_array();
    exact && expressions.into_iter().flatten().all(|e| fits(e, labels))
}

fn fits(expression: &Value, labels: &Value) -> bool {
    let have = labels.get(text(expression, &["key"])).and_then(Value::as_str);
    let values = strings(&expression["values"]);
    let among = have.is_some_and(|have| values.iter().any(|v| v == have));
    match text(expression, &["operator"]) {
        "In" => among,
        "NotIn" => !among,
        "Exists" => have.is_some(),
        "DoesNotExist" => have.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_come_from_selected_roles_once_each() {
        let role = |name: &str, label: &str, verb: &str| {
            json!({"metadata": {"name": name, "labels": {"to": label}},
                   "rules": [{"verbs": [verb]}]})
        };
        let all = [role("a", "x", "get"), role("b", "x", "get"), role("c", "y", "list")];
        let sum = json!({
            "metadata": {"name": "sum"},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "x"}}]},
        });
        assert_eq!(aggregate(&sum, &all), Some(vec![json!({"verbs": ["get"]})]));
        assert_eq!(aggregate(&all[0], &all), None);
    }
}
