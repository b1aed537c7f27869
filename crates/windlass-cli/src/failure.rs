//! Why the command failed, in one sentence and a status.

use std::error::Error;
use std::fmt;

/// A failure that ends the command.
#[derive(Debug)]
pub struct Failure {
    /// The exit status: 2 for what the caller got wrong, 127 for a program that cannot be started,
    /// 1 for the rest.
    pub code: u8,
    message: String,
}

impl Failure {
    /// Creates a failure that the caller can correct on the command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into() }
    }

    /// Anything else.
    pub fn other(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }

    /// A failure with an exit status of its own.
    pub fn with_code(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The same failure with the status 1.
    pub fn without_code(self) -> Self {
        Self { code: 1, ..self }
    }

    /// An error with all its causes.
    pub fn of(error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Self::other(message)
    }

    /// The same failure with what it means in front.
    pub fn context(self, text: &str) -> Self {
        Self { message: format!("{text}: {}", self.message), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
