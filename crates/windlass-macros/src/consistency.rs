//! Keys that contradict each other, or the type.

use serde_json::Value;
use syn::{Error, Type};

use crate::attribute::Entry;
use crate::json;
use crate::shape;

/// Lower and upper bounds of the same.
const PAIRS: [(&str, &str); 4] = [
    ("min", "max"),
    ("min_length", "max_length"),
    ("min_items", "max_items"),
    ("min_properties", "max_properties"),
];

/// Returns errors about keys, of which each by itself is right.
pub fn check(entries: &[Entry], kind: Option<&Type>, name: &str) -> Vec<Error> {
    let keys = Keys { entries };
    let mut errors = Vec::new();
    for (lower, upper) in PAIRS {
        errors.extend(keys.reversed(lower, upper, false));
    }
    errors.extend(keys.reversed("exclusive_min", "max", true));
    errors.extend(keys.reversed("min", "exclusive_max", true));
    errors.extend(keys.reversed("exclusive_min", "exclusive_max", true));
    if let Some(width) = kind.and_then(width) {
        for key in ["min", "max", "exclusive_min", "exclusive_max"] {
            errors.extend(keys.beyond(key, width, name));
        }
    }
    errors
}

struct Keys<'a> {
    entries: &'a [Entry],
}

// === impl Keys ===

impl Keys<'_> {
    fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name() == name)
    }

    fn value(&self, name: &str) -> Option<Value> {
        json::value(self.find(name)?.tokens().ok()?).ok()
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.value(name)?.as_f64()
    }

    fn reversed(&self, lower: &str, upper: &str, exclusive: bool) -> Option<Error> {
        let (least, most) = (self.number(lower)?, self.number(upper)?);
        let is_empty = if exclusive { least >= most } else { least > most };
        let message = format!("no value is possible, `{lower}` is {least} and `{upper}` is {most}");
        let entry = self.find(upper).filter(|_| is_empty)?;
        Some(entry.error(message))
    }

    fn beyond(&self, key: &str, (least, most): (f64, f64), name: &str) -> Option<Error> {
        let number = self.number(key)?;
        let message =
            format!("`{key} = {number}` does not fit the type of `{name}`, {least} to {most}");
        let fits = (least..=most).contains(&number);
        let entry = self.find(key).filter(|_| !fits)?;
        Some(entry.error(message))
    }
}

/// The numbers that an integer type can hold.
fn width(kind: &Type) -> Option<(f64, f64)> {
    let Type::Path(path) = shape::bare(kind) else { return None };
    Some(match shape::last(path)?.as_str() {
        "u8" => (0.0, f64::from(u8::MAX)),
        "u16" => (0.0, f64::from(u16::MAX)),
        "u32" => (0.0, f64::from(u32::MAX)),
        "u64" | "usize" => (0.0, u64::MAX as f64),
        "i8" => (f64::from(i8::MIN), f64::from(i8::MAX)),
        "i16" => (f64::from(i16::MIN), f64::from(i16::MAX)),
        "i32" => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => return None,
    })
}
