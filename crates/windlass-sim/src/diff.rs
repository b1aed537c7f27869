//! The difference between two values, field by field.

use serde_json::Value;

/// The most lines of one difference.
const LINES_MAX: usize = 12;

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The path, such as `spec.replicas` or `status.conditions[0].reason`.
    pub path: String,
    pub expected: Option<Value>,
    pub found: Option<Value>,
}

/// The fields in which two values differ.
pub(crate) fn differences(expected: &Value, found: &Value) -> Vec<Difference> {
    let mut all = Vec::new();
    compare(String::new(), Some(expected), Some(found), &mut all);
    all
}

/// The fields in which two values differ, as lines of a report.
pub(crate) fn lines(expected: &Value, found: &Value) -> Vec<String> {
    let all = differences(expected, found);
    let mut lines: Vec<String> = all.iter().take(LINES_MAX).map(Difference::line).collect();
    if all.len() > LINES_MAX {
        lines.push(format!("and {} more fields", all.len() - LINES_MAX));
    }
    lines
}

fn compare(
    path: String,
    expected: Option<&Value>,
    found: Option<&Value>,
    all: &mut Vec<Difference>,
) {
    match (expected, found) {
        // Before the paths of all fields in it are written out.
        (a, b) if a == b => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for (field, value) in a {
                compare(join(&path, field), Some(value), b.get(field), all);
            }
            for (field, value) in b.iter().filter(|(field, _)| !a.contains_key(*field)) {
                compare(join(&path, field), None, Some(value), all);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for place in 0..a.len().max(b.len()) {
                compare(format!("{path}[{place}]"), a.get(place), b.get(place), all);
            }
        }
        (a, b) => {
            let (expected, found) = (a.cloned(), b.cloned());
            all.push(Difference { path, expected, found });
        }
    }
}

/// The path of a field below another path.
pub(crate) fn join(path: &str, field: &str) -> String {
    let plain = field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match (path, plain) {
        ("", true) => field.to_owned(),
        (path, true) => format!("{path}.{field}"),
        (path, false) => format!("{path}[{field:?}]"),
    }
}

// === impl Difference ===

impl Difference {
    fn line(&self) -> String {
        let shown = |value: &Option<Value>| match value {
            None => "nothing".to_owned(),
            Some(value) => shorten(&value.to_string()),
        };
        format!(
            "{}: {}, without the fault {}",
            self.path,
            shown(&self.found),
            shown(&self.expected)
        )
    }
}

/// The text, or its beginning if it is long.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(80) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_names_the_field() {
        let expected = json!({"spec": {"size": 3, "list": [1, 2]}, "data": {"a.b": "x"}});
        let found = json!({"spec": {"size": 5, "list": [1]}, "data": {"a.b": "y"}});
        assert_eq!(
            lines(&expected, &found),
            [
                r#"data["a.b"]: "y", without the fault "x""#,
                "spec.list[1]: nothing, without the fault 2",
                "spec.size: 5, without the fault 3",
            ]
        );
        assert!(lines(&expected, &expected).is_empty());
    }
}
