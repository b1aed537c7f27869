//! Manifests of Rust types against those that controller-gen makes of the same APIs in Go.
//!
//! `data/` has the expected manifests. They are compared as data, with the differences that
//! `compare` passes over.

extern crate windlass_manifests as windlass;

mod cases;
mod compare;

mod accepted;
mod judge;
mod misuse;
mod partial;
mod readable;
mod recorded;
mod shapes;
mod traps;
mod unusual;
mod verdicts;
mod webhooks;
