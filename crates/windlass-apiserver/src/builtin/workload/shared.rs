//! What the controllers' strategies have in common.

use serde_json::{Value, json};

use super::spec_defaults::null_unless_set;
use crate::builtin::rules::value::{copy_field, int, items_mut, object_mut};
use crate::builtin::rules::{IMMUTABLE, NEGATIVE, names, selector};
use crate::status::{FieldError, FieldErrorKind, FieldErrors};

/// Starts an object: generation 1 and an empty status.
pub fn start(object: &mut Value, status: Value) {
    object["metadata"]["generation"] = json!(1);
    object["status"] = status;
}

/// Keeps the stored status, and counts the generation up if something that counts changed.
pub fn keep(object: &mut Value, old: &Value, changed: bool) {
    copy_field(object, old, "status");
    bump(object, old, changed);
}

/// Sets the generation from the stored one, one more after a change.
pub fn bump(object: &mut Value, old: &Value, changed: bool) {
    let generation = int(old, "metadata.generation").unwrap_or_default() + i64::from(changed);
    if generation > 0 {
        object["metadata"]["generation"] = generation.into();
    }
}

/// Keeps the stored spec on an update of the status.
pub fn keep_spec(object: &mut Value, old: &Value) {
    copy_field(object, old, "spec");
}

/// Makes sure the status is there, with the fields that are always written.
pub fn status_with(object: &mut Value, zeros: &[&str]) {
    let Some(status) = object_mut(object, "status") else { return };
    for key in zeros {
        super::spec_defaults::zero(status, &[(*key, 0.into())]);
    }
}

/// Writes `null` for missing times of conditions.
pub fn condition_times(object: &mut Value, times: &[&str]) {
    let Some(status) = object.get_mut("status") else { return };
    for condition in items_mut(status, "conditions") {
        for time in times {
            null_unless_set(condition, time);
        }
    }
}

/// Reports negative integers among the fields of an object.
pub fn all_non_negative(errors: &mut FieldErrors, object: &Value, field: &str, keys: &[&str]) {
    for key in keys {
        if let Some(number) = object[*key].as_i64().filter(|n| *n < 0) {
            errors.push(FieldError::invalid(format!("{field}.{key}"), &number.into(), NEGATIVE));
        }
    }
}

/// Reports an error if a count is greater than another one; absent counts are 0.
pub fn at_most(errors: &mut FieldErrors, status: &Value, key: &str, max: &str, why: &str) {
    let count = int(status, key).unwrap_or_default();
    if count > int(status, max).unwrap_or_default() {
        errors.push(FieldError::invalid(format!("status.{key}"), &count.into(), why));
    }
}

/// Reports an error if the collision count went down.
pub fn collisions_kept(errors: &mut FieldErrors, object: &Value, old: &Value) {
    let count = |o: &Value| int(o, "status.collisionCount");
    let new = count(object).unwrap_or_default();
    if count(old).is_some_and(|old| new < old) {
        errors.push(FieldError::invalid(
            "status.collisionCount",
            &new.into(),
            "cannot be decremented",
        ));
    }
}

/// The rules for the label selector of a controller.
pub fn required_selector(errors: &mut FieldErrors, spec: &Value, kind: &str) {
    let found = &spec["selector"];
    if found.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
        return;
    }
    selector::validate(errors, found, "spec.selector");
    if selector::is_empty(found) {
        errors.push(FieldError::raw(
            FieldErrorKind::Invalid,
            "spec.selector",
            selector::show(found),
            format!("empty selector is invalid for {kind}"),
        ));
    }
}

/// Returns `true` if a selector could be parsed at all (known operators, good keys and values).
pub fn parses(found: &Value) -> bool {
    let mut errors = FieldErrors::default();
    selector::validate(&mut errors, found, "");
    errors.is_empty()
}

/// Reports an error if a selector changed.
pub fn selector_kept(errors: &mut FieldErrors, object: &Value, old: &Value) {
    let (new, old) = (&object["spec"]["selector"], &old["spec"]["selector"]);
    if new != old {
        let shown = selector::show(new);
        errors.push(FieldError::raw(FieldErrorKind::Invalid, "spec.selector", shown, IMMUTABLE));
    }
}

/// The rules of an integer or a percentage.
pub fn int_or_percent(errors: &mut FieldErrors, value: &Value, field: &str) {
    match value {
        Value::String(text) => {
            let why = names::percent(text);
            crate::builtin::rules::each_invalid(errors, field, text, why);
        }
        Value::Number(number) if number.as_i64().is_some_and(|n| n < 0) => {
            errors.push(FieldError::invalid(field, value, NEGATIVE));
        }
        _ => {}
    }
}

/// Reports percentages above 100.
pub fn at_most_100_percent(errors: &mut FieldErrors, value: &Value, field: &str) {
    if percent_of(value).is_some_and(|p| p > 100) {
        errors.push(FieldError::invalid(field, value, "must not be greater than 100%"));
    }
}

/// Returns the number in an integer or a percentage; 0 if it is neither.
pub fn int_or_percent_value(value: &Value) -> i64 {
    percent_of(value).or(value.as_i64()).unwrap_or_default()
}

fn percent_of(value: &Value) -> Option<i64> {
    let text = value.as_str()?;
    if !names::percent(text).is_empty() {
        return None;
    }
    text.trim_end_matches('%').parse().ok()
}

#[cfg(test)]
pub mod testing {
    //! Short ways to run a strategy in tests.

    use super::*;
    use crate::builtin::Strategy;

    /// Returns the object as a create stores it, or its problems.
    pub fn create(strategy: &dyn Strategy, mut object: Value) -> Result<Value, Vec<String>> {
        strategy.defaults(&mut object);
        strategy.prepare_create(&mut object);
        let errors = strategy.validate(&object);
        if errors.is_empty() { Ok(object) } else { Err(texts(&errors)) }
    }

    /// Returns the object as an update stores it, or its problems.
    pub fn update(
        strategy: &dyn Strategy,
        mut object: Value,
        old: &Value,
    ) -> Result<Value, Vec<String>> {
        strategy.defaults(&mut object);
        strategy.prepare_update(&mut object, old);
        let errors = strategy.validate_update(&object, old);
        if errors.is_empty() { Ok(object) } else { Err(texts(&errors)) }
    }

    /// Returns the texts of errors.
    pub fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }
}
