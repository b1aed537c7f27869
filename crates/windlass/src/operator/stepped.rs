//! Time that passes only when another process says so: `windlass plan` runs an operator this way.
//!
//! With `WINDLASS_CLOCK` in its environment, a timestamp, the program starts at that time and its
//! time stands still. Each line of standard input is a number of milliseconds that pass then, and each is
//! answered by a line of standard output. Requests take no time. The program ends with its input.

#[cfg(feature = "plan")]
mod steps;

use jiff::Timestamp;

#[cfg(feature = "plan")]
pub(super) use steps::block_on;

use crate::error::{Error, Result};

const VARIABLE: &str = "WINDLASS_CLOCK";

/// Returns the time at which the program starts, if its time is to stand still.
///
/// # Errors
///
/// Fails if the variable is not a timestamp.
pub(super) fn start() -> Result<Option<Timestamp>> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
    if cfg!(not(feature = "plan")) {
        // The plan is then made in real time.
        return Ok(None);
    }
    let time = text.to_str().and_then(|text| text.parse().ok());
    let wrong =
        || Error::Invalid(format!("{VARIABLE} is not a timestamp such as 2026-01-01T00:00:00Z"));
    time.map(Some).ok_or_else(wrong)
}
