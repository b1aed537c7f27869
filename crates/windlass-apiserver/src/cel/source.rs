//! The text of an expression, and errors that point into it.
//!
//! **Invariant:** offsets count characters, not bytes, because clients see them.

use std::fmt::Write as _;

/// How many errors are shown.
const SHOWN_MAX: usize = 100;

/// The longest line that is shown below an error, in bytes.
const SNIPPET_MAX: usize = 16_384;

/// An offset that stands for no place at all.
pub const NOWHERE: u32 = u32::MAX;

/// An error at a place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where, in characters from the start.
    pub at: u32,
    /// What is wrong.
    pub text: String,
}

// === impl Issue ===

impl Issue {
    /// Creates an error.
    pub fn new(at: u32, text: impl Into<String>) -> Self {
        Self { at, text: text.into() }
    }
}

/// All errors as one text, sorted by place, each with its line and a caret.
pub fn display(source: &str, issues: &[Issue]) -> String {
    let lines: Vec<&str> = source.split('\n').collect();
    let mut starts = Vec::with_capacity(lines.len());
    let mut offset = 0_usize;
    for line in &lines {
        starts.push(offset);
        offset += line.chars().count() + 1;
    }
    let place = |at: u32| match at {
        NOWHERE => (-1_i64, -1_i64),
        at => {
            let line = starts.partition_point(|start| *start <= at as usize).max(1) - 1;
            (line as i64 + 1, (at as usize - starts[line]) as i64)
        }
    };
    let mut sorted: Vec<_> = issues.iter().map(|issue| (place(issue.at), issue)).collect();
    sorted.sort_by_key(|(place, _)| *place);
    let mut out = String::new();
    for ((line, column), issue) in sorted.iter().take(SHOWN_MAX) {
        if !out.is_empty() {
            out.push('\n');
        }
        // Writing to a string cannot fail.
        let _ = write!(out, "ERROR: <input>:{line}:{}: {}", column + 1, issue.text);
        let shown = usize::try_from(line - 1).ok().and_then(|line| lines.get(line));
        if let Some(text) = shown.filter(|text| text.len() <= SNIPPET_MAX) {
            snippet(&mut out, text, usize::try_from(*column).unwrap_or_default());
        }
    }
    if sorted.len() > SHOWN_MAX {
        let _ = write!(out, "\n{} more errors were truncated", sorted.len() - SHOWN_MAX);
    }
    out
}

fn snippet(out: &mut String, line: &str, column: usize) {
    let line = line.replace('\t', " ");
    out.push_str("\n | ");
    out.push_str(&line);
    out.push_str("\n | ");
    let mut chars = line.chars();
    for c in chars.by_ref().take(column) {
        out.push(if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' });
    }
    let wide = chars.next().is_some_and(|c| c.len_utf8() > 1);
    out.push(if wide { '\u{ff3e}' } else { '^' });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sorted_and_point_at_their_place() {
        let issues = [Issue::new(6, "second"), Issue::new(0, "first")];
        assert_eq!(
            display("self\n\tx", &issues),
            "ERROR: <input>:1:1: first\n | self\n | ^\nERROR: <input>:2:2: second\n |  x\n | .^"
        );
    }

    #[test]
    fn wide_characters_get_wide_marks() {
        let text = display("é é", &[Issue::new(2, "bad")]);
        assert!(text.ends_with("\n | \u{ff0e}.\u{ff3e}"), "{text}");
    }
}
