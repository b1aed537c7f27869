//! Values printed the way Go's `%v`, `%#v` and `%T` print decoded JSON; error texts quote them.

use serde_json::Value;

use crate::status::quote;

/// Formats a value as Go's `%v` does: `map[a:1 b:[x y]]`.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let items: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", plain(value))).collect();
            format!("map[{}]", items.join(" "))
        }
        scalar => scalar.to_string(),
    }
}

/// `%#v`: `map[string]interface {}{"a":1}`.
pub(super) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let items: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}:{}", quote(key), syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", items.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// `%T`: the Go type a JSON value is decoded to.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_print_as_go_prints_them() {
        let value = json!({"b": [1, "x"], "a": true});
        assert_eq!(plain(&value), "map[a:true b:[1 x]]");
        assert_eq!(
            syntax(&value),
            "map[string]interface {}{\"a\":true, \"b\":[]interface {}{1, \"x\"}}"
        );
        assert_eq!(type_name(&json!(1.5)), "float64");
    }
}
