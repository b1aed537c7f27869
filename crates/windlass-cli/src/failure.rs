//! Why the command failed, in one sentence and a status.

use std::fmt;

/// A failure that ends the command.
#[derive(Debug)]
pub struct Failure {
    /// The exit status: 2 for what the caller got wrong, 1 for the rest.
    pub code: u8,
    message: String,
}

impl Failure {
    /// Something the caller can correct on the command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into() }
    }

    /// Anything else.
    pub fn other(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
