//! The command `windlass` as a process: what it says, how it ends, what it keeps.

#![cfg(unix)]

mod durability;
mod envtest;
mod lifecycle;
mod logging;
mod support;
