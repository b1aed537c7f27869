//! How a body meets the stored object: JSON patch, merge patch, strategic merge patch, and
//! server-side apply with its bookkeeping in `metadata.managedFields`.
//!
//! Everything here is a pure function of JSON values and [`Shape`](crate::shape::Shape)s, so the
//! rest of the server calls it without locks and tests need no server.
//!
//! Where each step belongs in a write:
//! 1. decode the body, convert and default it ([`json_patch`], [`merge_patch`] and
//!    [`strategic_patch`] give the body of a patch);
//! 2. [`track_update`] (or [`apply()`] for apply patches), before the strategy of the resource and
//!    before admission;
//! 3. strategy, admission, validation;
//! 4. [`keep_times`] just before storing, so that a write that changes nothing stays one.
//!
//! **Invariant:** no function panics, whatever the values are. Recursion follows the values, whose
//! depth the decoders bound.

mod apply;
mod configuration;
mod empty;
mod go;
mod json;
mod managed;
mod path;
mod scale;
mod strategic;
mod typed;
mod updater;
mod walk;

#[cfg(test)]
mod tests;

pub use apply::{ApplyRequest, UpdateRequest, apply, check_apply_body, keep_times, track_update};
pub use configuration::merge_configuration;
pub use empty::empty_object;
pub use go::plain as go_text;
pub use json::{json_patch, merge_patch};
pub use managed::ManagedFields;
pub use path::PathSet;
pub use scale::{ScalePaths, scale_to_parent, scale_to_subresource};
pub use strategic::strategic_patch;
