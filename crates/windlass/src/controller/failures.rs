//! The errors of several objects as one error.

use super::rule::with_rule;
use crate::error::Error;

/// Most errors of which the text is shown.
const SHOWN_MAX: usize = 5;

/// The errors of several objects, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<Error>);

// === impl Failures ===

impl Failures {
    pub(super) fn add(&mut self, error: Error) {
        self.0.push(with_rule(error));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails if there are errors.
    pub(super) fn into_result(self) -> Result<(), Error> {
        self.into_error().map_or(Ok(()), Err)
    }

    /// Returns the errors as one; `None` if there are none.
    ///
    /// A single error stays what it is. So does one because of which no write is sent at all, and a
    /// conflict if there is nothing worse: a retry finds out about the others.
    fn into_error(mut self) -> Option<Error> {
        let stops = |error: &Error| error.is_paused() || error.is_fenced();
        if let Some(at) = self.0.iter().position(stops) {
            return Some(self.0.swap_remove(at));
        }
        if self.0.iter().any(|error| !error.is_conflict()) {
            self.0.retain(|error| !error.is_conflict());
        } else {
            self.0.truncate(1);
        }
        if self.0.len() < 2 {
            return self.0.pop();
        }
        let shown = self.0.iter().take(SHOWN_MAX).map(Error::chain);
        let mut text = format!("{} objects failed", self.0.len());
        for (at, error) in shown.enumerate() {
            text.push_str(if at == 0 { ": " } else { "; " });
            text.push_str(&error);
        }
        if self.0.len() > SHOWN_MAX {
            text.push_str("; …");
        }
        let all = Error::from(text);
        // One that a retry can help is reason enough for a retry.
        let terminal = self.0.iter().all(Error::is_terminal);
        Some(if terminal { Error::terminal(all) } else { all })
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn failures(errors: Vec<Error>) -> Failures {
        Failures(errors)
    }

    fn conflict() -> Error {
        let status = Status::failure("it was modified", "Conflict").with_code(409).boxed();
        Error::Api { action: "patch Secret a/b".into(), status }
    }

    fn fenced() -> Error {
        Error::Fenced { action: "patch".into(), lease: "a/b".into(), was_held: true }
    }

    #[test]
    fn all_errors_are_named_and_one_stays_what_it_is() {
        assert!(failures(vec![]).into_result().is_ok());
        let one = failures(vec!["a".into()]).into_error().expect("an error");
        assert_eq!(one.to_string(), "a");
        let two = failures(vec!["a".into(), Error::terminal("b")]).into_error().expect("an error");
        assert_eq!(two.to_string(), "2 objects failed: a; terminal error: b");
        assert!(!two.is_terminal());
        let many: Vec<Error> = (0..7).map(|n| Error::terminal(n.to_string())).collect();
        let many = failures(many).into_error().expect("an error");
        assert!(many.is_terminal());
        assert!(many.chain().ends_with("terminal error: 4; …"), "{}", many.chain());
    }

    #[test]
    fn what_decides_over_a_retry_is_kept() {
        let error = failures(vec![conflict(), conflict()]).into_error().expect("an error");
        assert!(error.is_conflict(), "tried again at once");
        let error = failures(vec![conflict(), "a".into()]).into_error().expect("an error");
        assert_eq!(error.to_string(), "a");
        let error = failures(vec!["a".into(), fenced(), "b".into()]).into_error();
        assert!(error.is_some_and(|error| error.is_fenced()));
    }
}
