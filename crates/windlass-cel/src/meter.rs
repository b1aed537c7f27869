//! What a run really does, next to what it is charged.
//!
//! The charges are those of the real server, which charges some calls less than they cost: a
//! comparison of two lists by their lengths alone, and a text only after it is made. So a run also
//! counts its steps, and more than [`STEPS_PER_UNIT`] steps for each unit of its limit end it as
//! an exceeded limit does. Programs that the charges were made for never come near that.

use serde_json::Value;
use windlass_text::work;

use super::value::Fault;

/// How many steps a unit of cost pays for.
const STEPS_PER_UNIT: u64 = 10;

/// The most bytes a text may have that an expression makes.
const TEXT_MAX: usize = 10 << 20;

/// What it takes to make an item or a text, compared with a look at one: it has to be stored, too.
const MADE: usize = 4;

/// Runs a program of a limited cost; returns its result and its cost, which is at least what the
/// steps are worth.
pub fn run<T>(
    limit: u64,
    program: impl FnOnce() -> (Result<T, Fault>, u64),
) -> (Result<T, Fault>, u64) {
    let before = work::total();
    work::limited(limit.saturating_mul(STEPS_PER_UNIT), || {
        let (result, cost) = program();
        let result = if work::is_over() { Err(Fault::Cost) } else { result };
        (result, cost.max((work::total() - before) / STEPS_PER_UNIT))
    })
}

/// Fails if the run has done too much.
#[inline]
pub fn check() -> Result<(), Fault> {
    if work::is_over() { Err(Fault::Cost) } else { Ok(()) }
}

/// Counts a list that was made.
pub fn made_list(items: usize) {
    work::spent(1 + items * MADE);
}

/// Counts a list before it is made.
///
/// # Errors
/// The limit is exceeded.
pub fn make_list(items: usize) -> Result<(), Fault> {
    made_list(items);
    check()
}

/// Counts a text that was made.
pub fn made_text(bytes: usize) {
    work::scanned(bytes.saturating_mul(MADE));
}

/// Checks the size of a text before it is made; [`made_text`] counts it when it is.
///
/// # Errors
/// The text is too long, or the limit is exceeded.
pub fn make_text(bytes: usize) -> Result<(), Fault> {
    if bytes > TEXT_MAX {
        return Err(Fault::Cost);
    }
    check()
}

/// Returns `true` if both are equal, and counts the values that are compared.
pub fn equal(left: &Value, right: &Value) -> bool {
    work::spent(1);
    match (left, right) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same = |(key, value)| b.get(key).is_some_and(|other| equal(value, other));
            a.len() == b.len() && a.iter().all(same)
        }
        (Value::String(a), Value::String(b)) => {
            work::scanned(a.len().min(b.len()));
            a == b
        }
        _ => left == right,
    }
}
