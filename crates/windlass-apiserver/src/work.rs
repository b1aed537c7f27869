//! Counts the steps of a request's checks, so that tests can show that their number grows in
//! proportion to the request, and so that work nobody waits for any more ends.
//!
//! Validators, decoders and merges report each value they read and each text they write; so do CEL
//! and JSON patches.

pub(crate) use windlass_text::work::*;

#[cfg(test)]
mod tests;
