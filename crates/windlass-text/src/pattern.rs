//! Patterns: Go's regular expressions on the `regex` crate.
//!
//! Both engines descend from RE2 and match alike, but their syntax differs in details. A pattern
//! is read by Go's rules, with Go's error messages, and written in the syntax of the `regex`
//! crate. Capture groups are dropped on the way: nothing here asks for them.
//!
//! **Invariant:** translating is linear in the pattern, matching is linear in the text, and
//! compiled programs are bounded by [`SIZE_MAX`].

use regex::{Regex, RegexBuilder};

mod class;
mod escape;
mod translate;

#[cfg(test)]
mod tests;

/// Upper bound for one compiled pattern, in bytes.
pub const SIZE_MAX: usize = 4 << 20;

/// How deep the parts of a pattern may be nested.
const DEPTH_MAX: u32 = 200;

/// Compiles a pattern.
///
/// # Errors
/// What is wrong with it, in Go's words.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    compile_within(pattern, SIZE_MAX)?.ok_or_else(|| too_large(pattern))
}

/// Does the same as [`compile`], but returns `None` for a pattern whose program has more than
/// `size_max` bytes.
///
/// The time it takes is bounded by that size, too.
pub fn compile_within(pattern: &str, size_max: usize) -> Result<Option<Regex>, String> {
    let translated = translate::translate(pattern)?;
    match RegexBuilder::new(&translated).size_limit(size_max).nest_limit(DEPTH_MAX).build() {
        Ok(regex) => Ok(Some(regex)),
        Err(regex::Error::CompiledTooBig(_)) => Ok(None),
        Err(regex::Error::Syntax(why)) if why.contains("nested parentheses") => {
            Err(fault("expression nests too deeply", pattern))
        }
        Err(_) => Err(fault("invalid or unsupported Perl syntax", pattern)),
    }
}

/// The error of a pattern whose program is too large.
pub fn too_large(pattern: &str) -> String {
    fault("expression too large", pattern)
}

fn fault(what: &str, part: &str) -> String {
    format!("error parsing regexp: {what}: `{part}`")
}
