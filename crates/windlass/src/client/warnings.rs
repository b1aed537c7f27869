//! Warnings of the API server, such as the use of a deprecated version, in the log.

use std::time::Duration;

use http::{Response, header};

use crate::cache::ExpiringStore;

/// Most texts that are remembered; beyond that the oldest give way.
const REMEMBERED_MAX: usize = 1000;

/// How long a text is not logged again.
const LOG_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Logs each warning of the server once a day.
#[derive(Debug)]
pub(super) struct Warnings(ExpiringStore<String, ()>);

// === impl Warnings ===

impl Warnings {
    /// Logs the warnings of a response that were not logged lately.
    pub(super) fn log<B>(&self, response: &Response<B>, action: &str) {
        for value in response.headers().get_all(header::WARNING) {
            for warning in warning_texts(&String::from_utf8_lossy(value.as_bytes())) {
                if self.is_new(&warning) {
                    tracing::warn!(action, warning, "the API server returned a warning");
                }
            }
        }
    }

    fn is_new(&self, warning: &str) -> bool {
        let new = self.0.get(warning).is_none();
        if new {
            self.0.insert(warning.to_owned(), ());
        }
        new
    }
}

impl Default for Warnings {
    fn default() -> Self {
        Self(ExpiringStore::new(LOG_INTERVAL, REMEMBERED_MAX))
    }
}

/// Returns the texts of `299 - "text", 299 - "another"`.
fn warning_texts(value: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), value);
    while let Some((head, tail)) = rest.split_once('"') {
        let (mut text, mut escaped, mut end) = (String::new(), false, tail.len());
        for (at, letter) in tail.char_indices() {
            match letter {
                _ if escaped => {
                    text.push(letter);
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    end = at + 1;
                    break;
                }
                _ => text.push(letter),
            }
        }
        // A quoted date may follow, without a code before it.
        if head.trim_start_matches([',', ' ']).starts_with("299 ") {
            found.push(text);
        }
        rest = &tail[end..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_texts_are_unquoted() {
        assert_eq!(warning_texts(r#"299 - "v1 is old""#), ["v1 is old"]);
        let field = r#"299 - "unknown field \"spec.foo\"""#;
        assert_eq!(warning_texts(field), [r#"unknown field "spec.foo""#]);
        let two = r#"299 - "a, \\ b" "Wed, 21 Oct 2015 07:28:00 GMT", 299 - "alt für neu""#;
        assert_eq!(warning_texts(two), [r"a, \ b", "alt für neu"]);
        assert!(warning_texts("199 - x").is_empty() && warning_texts(r#"199 - "x""#).is_empty());
        assert_eq!(warning_texts(r#"299 - "no end"#), ["no end"]);
    }
}
