//! Manifests as YAML, equal to the byte for equal data.
//!
//! Keys are sorted, lists are not indented, and long texts are not folded, as in the manifests of
//! controller-gen.

use serde_json::Value;

/// Returns a value as one YAML document, with a newline at the end.
///
/// ```
/// use serde_json::json;
///
/// let rule = json!({"verbs": ["get", "*"], "apiGroups": [""]});
/// let text = windlass_manifests::yaml::document(&rule);
/// assert_eq!(text, "apiGroups:\n- \"\"\nverbs:\n- get\n- \"*\"\n");
/// ```
pub fn document(value: &Value) -> String {
    let options = serde_saphyr::ser_options! {
        compact_list_indent: true,
        prefer_block_scalars: true,
        folded_wrap_chars: 1 << 20,
    };
    let mut text = serde_saphyr::to_string_with_options(value, options).unwrap_or_default();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Returns values as YAML documents, each after a `---` line.
pub fn documents<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    values.into_iter().map(|value| format!("---\n{}", document(value))).collect()
}

/// Reads all documents of a text of YAML or JSON. Empty documents are left out.
///
/// ```
/// let read = windlass_manifests::yaml::read("a: 1\n---\n---\nb: [x]\n").unwrap();
/// assert_eq!(read.len(), 2);
/// assert!(windlass_manifests::yaml::read("a: [").is_err());
/// ```
///
/// # Errors
/// Where the text is not YAML, in one line.
pub fn read(text: &str) -> Result<Vec<Value>, String> {
    if text.trim_start().starts_with('{')
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok(vec![value]);
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let read = serde_saphyr::from_multiple_with_options::<Value>(text, options);
    let read = read.map_err(|error| {
        let text = error.to_string();
        format!("not YAML: {}", text.lines().next().unwrap_or_default())
    })?;
    Ok(read.into_iter().filter(|value| !value.is_null()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_survive_writing_and_reading() {
        for value in [
            json!({"a": "yes", "b": "8443", "c": "1e3", "d": "null", "e": "~", "f": "*", "g": ""}),
            json!({"a": "line\nline\n", "b": " leading", "c": "trailing ", "d": "a: b", "e": "#x"}),
            json!({"a": {}, "b": [], "c": [{"d": [1, 2.5, true, null]}], "e": {"f": {"g": [[]]}}}),
            json!({"long": "word ".repeat(100), "0": "0x10", "on": "off", "2020-01-01": "12:30:45"}),
        ] {
            let text = document(&value);
            let read: Value = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{text}{e}"));
            assert_eq!(read, value, "{text}");
        }
    }

    #[test]
    fn documents_are_separated() {
        assert_eq!(documents([&json!({"a": 1}), &json!({"b": 2})]), "---\na: 1\n---\nb: 2\n");
    }
}
