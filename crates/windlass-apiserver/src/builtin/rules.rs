//! Rules that many built-in kinds share: names, labels, selectors, quantities, ports, metadata.
//!
//! Text checks give the explanations only ([`names`], [`net`]); checks of whole parts of an object
//! give [`FieldError`]s with the path they were handed.
//!
//! **Invariant:** explanations are the real server's, letter by letter.

pub mod claim;
pub mod conditions;
pub mod meta;
pub mod names;
pub mod net;
pub mod node_selector;
pub mod quantity;
pub mod rounds;
pub mod selector;
pub mod value;

use serde_json::Value;

use crate::status::{FieldError, FieldErrors};

/// The explanation for a negative number.
pub const NEGATIVE: &str = "must be greater than or equal to 0";

/// The explanation for a changed immutable field.
pub const IMMUTABLE: &str = "field is immutable";

/// Reports an error if an integer field is there and negative.
pub fn non_negative(errors: &mut FieldErrors, number: Option<i64>, field: &str) {
    if let Some(number) = number.filter(|n| *n < 0) {
        errors.push(FieldError::invalid(field, &number.into(), NEGATIVE));
    }
}

/// Reports an error if a value differs from the old one; absent and `null` are the same.
pub fn immutable(errors: &mut FieldErrors, new: &Value, old: &Value, field: &str) {
    if new != old {
        errors.push(FieldError::invalid(field, new, IMMUTABLE));
    }
}

/// One `Invalid value` per explanation, all for the same string.
pub fn each_invalid(errors: &mut FieldErrors, field: &str, text: &str, why: Vec<String>) {
    errors.extend(why.into_iter().map(|why| FieldError::invalid_str(field, text, why)));
}
