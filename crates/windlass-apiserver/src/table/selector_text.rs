//! Labels and selectors as text.

use serde_json::Value;

/// `a=b,c=d`, or `<none>`.
pub(super) fn labels(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten();
    let pairs: Vec<_> =
        pairs.map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    none_if_empty(pairs.join(","))
}

/// A `LabelSelector` object in the form of a query, or `<none>`.
pub(super) fn selector(selector: &Value) -> String {
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push((key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return "<error>".to_owned(),
        };
        parts.push((key.to_owned(), text));
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    let texts: Vec<_> = parts.into_iter().map(|(_, text)| text).collect();
    none_if_empty(texts.join(","))
}

/// `<none>` for nothing.
pub(super) fn none_if_empty(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}
