//! Texts of other people, made fit for a terminal.

use std::error::Error;

/// The longest text that is shown on one line.
const SHOWN_MAX: usize = 2_000;

/// A text without control characters, which could steer a terminal, and of a bounded length.
pub fn plain(text: &str) -> String {
    let mut shown: String =
        text.chars().take(SHOWN_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns what an error of the client says to people: the message of the API server, or all
/// causes.
pub fn explain(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return plain(&status.message);
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    plain(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_endless_texts_are_not_shown() {
        assert_eq!(plain("a\x1b[31mb\nc"), "a [31mb c");
        let long = plain(&"x".repeat(5_000));
        assert_eq!(long.chars().count(), SHOWN_MAX + 1);
    }
}
