//! Label selectors as the controllers of Kubernetes print them into their messages.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// A selector as text; `nil` without a selector.
pub fn selector(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".into() };
    let labels = selector.match_labels.iter().flatten();
    let labels: String = labels.map(|(name, value)| format!("{name}: {value},")).collect();
    let rules = selector.match_expressions.iter().flatten().map(|rule| {
        let values = rule.values.as_deref().unwrap_or_default().join(" ");
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},",
            rule.key, rule.operator,
        )
    });
    let rules: String = rules.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{rules}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_printed_field_by_field() {
        let text = |value: serde_json::Value| {
            selector(Some(&serde_json::from_value(value).expect("is a selector")))
        };
        assert_eq!(selector(None), "nil");
        assert_eq!(
            text(json!({"matchLabels": {"b": "2", "a": "1"}})),
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},\
             MatchExpressions:[]LabelSelectorRequirement{},}"
        );
        assert_eq!(
            text(json!({"matchExpressions": [
                {"key": "k", "operator": "In", "values": ["x", "y"]},
            ]})),
            "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:\
             []LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}"
        );
    }
}
