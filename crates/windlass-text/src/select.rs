//! Selectors: which objects a list, a watch or a controller means.
//!
//! [`LabelSelector`] is the text of `labelSelector=` or a `LabelSelector` object,
//! [`FieldSelector`] the text of `fieldSelector=`. Parsing answers with the texts people know.
//!
//! **Invariant:** parsing is total: every text gives a selector or an error, in linear time.

mod field;
pub mod key;
mod label;
mod lexer;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelSelector, Operator, Requirement};

#[cfg(test)]
mod tests;
