//! The text of an expression, and errors that point into it.
//!
//! **Invariant:** offsets count characters, not bytes, because clients see them.

use std::fmt::{self, Write as _};

/// How many errors are shown.
const SHOWN_MAX: usize = 100;

/// The longest line that is shown below an error, in bytes.
const SNIPPET_MAX: usize = 16_384;

/// An offset that means no place at all.
pub const NOWHERE: u32 = u32::MAX;

/// An error at a place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where, in characters from the start.
    pub at: u32,
    /// What is wrong.
    pub text: String,
}

/// An error in an expression, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1; `None` if the error concerns the whole text.
    pub line: Option<usize>,
    /// The column in that line, in characters from 1; `None` if the error concerns the whole text.
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
}

// === impl Problem ===

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match (self.line, self.column) {
            (Some(1), Some(column)) => write!(f, " at column {column}"),
            (Some(line), Some(column)) => write!(f, " at line {line}, column {column}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

// === impl Issue ===

impl Issue {
    /// Creates an error.
    pub fn new(at: u32, text: impl Into<String>) -> Self {
        Self { at, text: text.into() }
    }
}

/// Returns all errors with their places, sorted by place.
pub fn problems(source: &str, issues: &[Issue]) -> Vec<Problem> {
    let lines = Lines::new(source);
    let problem = |(place, issue): &((i64, i64), &Issue)| {
        let number = |at: i64| usize::try_from(at).ok();
        Problem {
            line: number(place.0),
            column: number(place.1).map(|column| column + 1),
            message: issue.text.clone(),
        }
    };
    lines.sorted(issues).iter().map(problem).collect()
}

/// Returns all errors as one text, sorted by place, each with its line and a caret.
pub fn display(source: &str, issues: &[Issue]) -> String {
    let lines = Lines::new(source);
    let sorted = lines.sorted(issues);
    let mut out = String::new();
    for ((line, column), issue) in sorted.iter().take(SHOWN_MAX) {
        if !out.is_empty() {
            out.push('\n');
        }
        // Writing to a string cannot fail.
        let _ = write!(out, "ERROR: <input>:{line}:{}: {}", column + 1, issue.text);
        let shown = usize::try_from(line - 1).ok().and_then(|line| lines.text.get(line));
        if let Some(text) = shown.filter(|text| text.len() <= SNIPPET_MAX) {
            snippet(&mut out, text, usize::try_from(*column).unwrap_or_default());
        }
    }
    if sorted.len() > SHOWN_MAX {
        let _ = write!(out, "\n{} more errors were truncated", sorted.len() - SHOWN_MAX);
    }
    out
}

/// The lines of a text, and where each starts.
struct Lines<'a> {
    text: Vec<&'a str>,
    starts: Vec<usize>,
}

// === impl Lines ===

impl<'a> Lines<'a> {
    fn new(source: &'a str) -> Self {
        let text: Vec<&str> = source.split('\n').collect();
        let mut starts = Vec::with_capacity(text.len());
        let mut offset = 0_usize;
        for line in &text {
            starts.push(offset);
            offset += line.chars().count() + 1;
        }
        Self { text, starts }
    }

    /// The line, from 1, and the column, from 0, of an offset; both -1 for [`NOWHERE`].
    fn place(&self, at: u32) -> (i64, i64) {
        if at == NOWHERE {
            return (-1, -1);
        }
        let line = self.starts.partition_point(|start| *start <= at as usize).max(1) - 1;
        (line as i64 + 1, (at as usize - self.starts[line]) as i64)
    }

    fn sorted<'i>(&self, issues: &'i [Issue]) -> Vec<((i64, i64), &'i Issue)> {
        let mut sorted: Vec<_> = issues.iter().map(|i| (self.place(i.at), i)).collect();
        sorted.sort_by_key(|(place, _)| *place);
        sorted
    }
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
