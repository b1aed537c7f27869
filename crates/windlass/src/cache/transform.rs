//! Changes of objects on their way into a store.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use super::Malformed;
use super::malformed::redacted;

/// A function that changes objects before they are stored.
#[derive(Clone)]
pub(super) struct Transform(Arc<dyn Fn(&mut Value) + Send + Sync>);

// === impl Transform ===

impl Transform {
    pub(super) fn new(function: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    /// Transforms the bytes of an object; `name` is for the error if that fails.
    pub(super) fn apply(&self, json: &[u8], name: &str) -> Result<Vec<u8>, Malformed> {
        let malformed = |message: String| Malformed { name: name.to_owned(), message };
        let wrong = |err: serde_json::Error| malformed(redacted(&err));
        let mut value = serde_json::from_slice(json).map_err(wrong)?;
        catch_unwind(AssertUnwindSafe(|| self.0(&mut value)))
            .map_err(|_| malformed("transform panicked".to_owned()))?;
        serde_json::to_vec(&value).map_err(wrong)
    }
}
