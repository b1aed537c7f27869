//! The command `windlass` as a process: what it says, how it ends, what it keeps.

#![allow(
    clippy::disallowed_methods,
    reason = "the command runs in real time, with real keys and files"
)]
#![cfg(unix)]

mod crd_diff;
mod dev;
mod doctor;
mod durability;
mod envtest;
mod lifecycle;
mod logging;
mod plan;
mod project;
mod run;
mod scaffold;
mod support;
mod toolchain;
mod transcript;
mod types;
