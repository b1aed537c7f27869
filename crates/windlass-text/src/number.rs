//! Numbers as Go keeps and prints them.

use serde_json::{Number, Value};

/// Up to here every whole number is a float of its own; what is written beyond as a float stays one.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;

/// A float as Go's `%v` prints it.
pub fn go_float(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let text = format!("{value:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    if exponent.parse::<i32>().is_ok_and(|e| (-4..21).contains(&e)) {
        return format!("{value}");
    }
    match exponent.strip_prefix('-') {
        Some(digits) => format!("{mantissa}e-{digits:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}

/// Numbers as the server keeps them: whole ones are integers, those beyond 64 bits floats.
pub fn normalize(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if number.as_i64().is_none()
                && let Some(float) = number.as_f64()
            {
                let whole = float.fract() == 0.0 && float.abs() <= WHOLE_MAX;
                let kept = match whole {
                    true => Some(Number::from(float as i64)),
                    false => Number::from_f64(float),
                };
                if let Some(kept) = kept {
                    *number = kept;
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(map) => map.values_mut().for_each(normalize),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn floats_print_as_in_go() {
        assert_eq!(go_float(0.5), "0.5");
        assert_eq!(go_float(3.0), "3");
        assert_eq!(go_float(1e-7), "1e-07");
        assert_eq!(go_float(1e23), "1e+23");
        assert_eq!(go_float(1e20), "100000000000000000000");
    }

    #[test]
    fn whole_floats_become_integers() {
        let mut value = json!({"a": 1.0, "b": [2.5], "c": 9_223_372_036_854_775_808_u64});
        normalize(&mut value);
        assert_eq!(value["a"].to_string(), "1");
        assert_eq!(value["b"], json!([2.5]));
        assert!(value["c"].is_f64());
        let mut value = json!({"a": 1e15, "b": 1e18});
        normalize(&mut value);
        assert!(value["a"].is_i64() && value["b"].is_f64());
    }
}
