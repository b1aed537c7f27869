//! Traps.
