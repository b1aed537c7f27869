//! Changes of objects on their way into a store.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::entry::Malformed;

/// Changes an object before it is stored; must come to the same result when done twice.
///
/// What it takes away is not there for selectors and indexes either; what the server sends stays
/// the same.
pub type Transform = Arc<dyn Fn(&mut serde_json::Value) + Send + Sync>;

/// Transforms the bytes of an object; `name` is for the report if that fails.
pub(super) fn apply(transform: &Transform, json: &[u8], name: &str) -> Result<Vec<u8>, Malformed> {
    let malformed = |message: String| Malformed { name: name.to_owned(), message };
    let wrong = |err: serde_json::Error| malformed(super::entry::discreet(&err));
    let mut value = serde_json::from_slice(json).map_err(wrong)?;
    catch_unwind(AssertUnwindSafe(|| transform(&mut value)))
        .map_err(|_| malformed("transform panicked".to_owned()))?;
    serde_json::to_vec(&value).map_err(wrong)
}
