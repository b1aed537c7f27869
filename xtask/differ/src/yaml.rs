//! Values as YAML, in the block style that people write.

use serde_json::Value;

/// Returns a document.
pub fn text(value: &Value) -> String {
    let mut out = String::new();
    write(value, 0, &mut out);
    out
}

fn write(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, inner) in map {
                out.push_str(&format!("{indent}{}:", Value::from(key.as_str())));
                nested(inner, depth, out);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for inner in list {
                out.push_str(&format!("{indent}-"));
                nested(inner, depth, out);
            }
        }
        // The rest is JSON, which YAML includes.
        other => out.push_str(&format!("{indent}{other}\n")),
    }
}

fn nested(inner: &Value, depth: usize, out: &mut String) {
    let empty = match inner {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    if empty {
        out.push_str(&format!(" {inner}\n"));
    } else {
        out.push('\n');
        write(inner, depth + 1, out);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_and_lists_are_blocks() {
        let value = json!({"a": {"b": [1, {"c": "x"}, []]}, "d": null});
        let expected =
            "\"a\":\n  \"b\":\n    - 1\n    -\n      \"c\": \"x\"\n    - []\n\"d\": null\n";
        assert_eq!(text(&value), expected);
    }
}
