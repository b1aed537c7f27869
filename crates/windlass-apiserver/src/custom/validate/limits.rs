//! The limits of numbers: range of the format, multiples, least and most.

use serde_json::{Number, Value};
use windlass_cel::Schema;
use windlass_text::number::go_float;

use super::{Code, Fault, Outcome, Path};

/// Checks a number against the limits of its schema.
pub(super) fn check_number(
    schema: &Schema,
    kinds: &[&str],
    format: &str,
    number: &Number,
    path: &Path<'_>,
    out: &mut Outcome,
) {
    let kind = match kinds {
        [kind @ ("integer" | "number")] => *kind,
        _ => "",
    };
    let format = match (kind, format) {
        ("integer", "int32" | "int64") | ("number", "float" | "double") => format,
        _ => "",
    };
    let value = number.as_f64().unwrap_or_default();
    let whole = number.as_i64();
    let range = |what: &str, whole: Option<i64>, value: f64| {
        in_range(whole, value, kind, format).then_some(()).ok_or_else(|| match format {
            "" => format!("{what} value must be of type {kind} (default format) in {path}"),
            _ => format!("{what} value must be of type {kind} with format {format} in {path}"),
        })
    };
    if let Err(message) = range("Checked", whole, value) {
        out.plain(message);
    }
    let shown = Value::Number(number.clone());
    let mut bound = |what: &str, limit: Option<f64>, test: &dyn Fn(Option<i64>, f64) -> Limit| {
        let Some(limit) = limit else { return };
        let mut native = whole;
        if let Err(message) = range(what, None, limit) {
            out.plain(message);
            native = None;
        }
        match test(native, limit) {
            Limit::Kept => {}
            Limit::Broken(text) => out.fail(Code::Other, path, shown.clone(), text),
            Limit::NotPositive(factor) => {
                let name = path.to_string();
                let message =
                    format!("factor MultipleOf declared for {name} must be positive: {factor}");
                out.add(Fault { code: Code::Other, name, value: shown.clone(), message });
            }
        }
    };
    bound("MultipleOf", schema.multiple_of, &|native, factor| multiple(native, value, factor));
    let low = schema.exclusive_minimum;
    bound("Minimum boundary", schema.minimum, &|native, limit| {
        let word = if low { "greater than" } else { "greater than or equal to" };
        match native {
            Some(n) => {
                limit_of(n < limit as i64 || (low && n == limit as i64), word, limit.trunc())
            }
            None => limit_of(value < limit || (low && value == limit), word, limit),
        }
    });
    let high = schema.exclusive_maximum;
    bound("Maximum boundary", schema.maximum, &|native, limit| {
        let word = if high { "less than" } else { "less than or equal to" };
        match native {
            Some(n) => {
                limit_of(n > limit as i64 || (high && n == limit as i64), word, limit.trunc())
            }
            None => limit_of(value > limit || (high && value == limit), word, limit),
        }
    });
}

enum Limit {
    Kept,
    Broken(String),
    NotPositive(String),
}

fn limit_of(broken: bool, word: &str, limit: f64) -> Limit {
    match broken {
        true => Limit::Broken(format!("should be {word} {}", go_float(limit))),
        false => Limit::Kept,
    }
}

fn multiple(native: Option<i64>, value: f64, factor: f64) -> Limit {
    let (positive, kept, factor) = match native {
        Some(n) => {
            let whole = factor as i64;
            (whole > 0, whole > 0 && n % whole == 0, whole as f64)
        }
        None => {
            let count = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
            let whole = (count - count.round()).abs() <= 1e-9 * count.abs().max(1.0);
            (factor > 0.0, whole, factor)
        }
    };
    match (positive, kept) {
        (false, _) => Limit::NotPositive(go_float(factor)),
        (true, true) => Limit::Kept,
        (true, false) => Limit::Broken(format!("should be a multiple of {}", go_float(factor))),
    }
}

fn in_range(whole: Option<i64>, value: f64, kind: &str, format: &str) -> bool {
    let whole = whole.or_else(|| {
        (value.fract() == 0.0 && value.abs() < 9.223_372_036_854_775e18).then_some(value as i64)
    });
    match (kind, format) {
        ("integer", "int32") => whole.is_some_and(|n| i32::try_from(n).is_ok()),
        ("integer", _) => whole.is_some(),
        ("number", "float") => value.abs() <= f64::from(f32::MAX),
        _ => true,
    }
}
