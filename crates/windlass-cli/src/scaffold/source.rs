//! A Rust file as syntax and as text: what is in it, and where.
//!
//! Files are parsed to find places, and edited as text at these places. So everything between the
//! edits keeps its bytes: comments, blank lines, formatting.

use std::ops::Range;
use std::str::FromStr as _;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;

use crate::failure::Failure;

/// What the lexer says about a text without a meaning.
const NO_TOKENS: &str = "cannot parse string into token stream";
/// The largest file that is read.
pub const SIZE_MAX: usize = 1 << 20;
/// How deep brackets may be nested: deeper ones exhaust the stack of the parser.
const DEPTH_MAX: usize = 200;
/// The mark that some editors put in front of a file.
const BOM: char = '\u{feff}';

/// A parsed Rust file.
pub struct Source {
    /// The path, as it is shown to people.
    pub path: String,
    pub text: String,
    pub syntax: syn::File,
    /// The bytes in front of what was parsed.
    pub skipped: usize,
}

/// A change of a text: bytes to be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub range: Range<usize>,
    pub text: String,
}

// === impl Edit ===

impl Edit {
    pub fn insert(at: usize, text: impl Into<String>) -> Self {
        Self { range: at..at, text: text.into() }
    }

    pub fn remove(range: Range<usize>) -> Self {
        Self { range, text: String::new() }
    }

    pub fn replace(range: Range<usize>, text: impl Into<String>) -> Self {
        Self { range, text: text.into() }
    }
}

// === impl Source ===

impl Source {
    /// Parses a file.
    pub fn parse(path: &str, text: String) -> Result<Self, Failure> {
        let refused = |why: String| Failure::other(format!("{path} cannot be edited: {why}"));
        if text.len() > SIZE_MAX {
            return Err(refused(format!("it is larger than {SIZE_MAX} bytes")));
        }
        if nesting(&text) > DEPTH_MAX {
            return Err(refused(format!("its brackets are nested deeper than {DEPTH_MAX} levels")));
        }
        let skipped = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
        let syntax = syn::parse_str::<syn::File>(&text[skipped..]).map_err(|error| {
            let at = error.span().start();
            let why = match error.to_string() {
                // So the lexer speaks of everything that it cannot read.
                text if text == NO_TOKENS => "a bracket or a quote is not closed".to_owned(),
                text => text,
            };
            Failure::other(format!(
                "{path}:{}:{}: {why}; correct it first, nothing was changed",
                at.line,
                at.column + 1
            ))
        })?;
        Ok(Self { path: path.to_owned(), text, syntax, skipped })
    }

    /// The bytes of a piece of syntax.
    pub fn range(&self, span: proc_macro2::Span) -> Range<usize> {
        let range = span.byte_range();
        range.start + self.skipped..range.end + self.skipped
    }

    /// The bytes of an item, with its attributes and documentation.
    pub fn item_range(&self, item: &syn::Item) -> Range<usize> {
        self.range(item.span())
    }

    /// The line of a byte, counted from 1.
    pub fn line(&self, at: usize) -> usize {
        self.text[..at].matches('\n').count() + 1
    }

    /// The first byte of the line of a byte.
    pub fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |newline| newline + 1)
    }

    /// The byte after the last one of the line of a byte, without its line break.
    pub fn line_end(&self, at: usize) -> usize {
        let end = self.text[at..].find('\n').map_or(self.text.len(), |newline| at + newline);
        match self.text[at..end].ends_with('\r') {
            true => end - 1,
            false => end,
        }
    }

    /// The byte after the line of a byte and its line break.
    pub fn next_line(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |newline| at + newline + 1)
    }

    /// The line break of the file.
    pub fn newline(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// The text after some edits.
    ///
    /// Fails if the tokens of the result are not those of the file, with the edited ones replaced:
    /// then something near the edits, such as a comment, would change its meaning.
    pub fn edited(&self, edits: Vec<Edit>) -> Result<String, Failure> {
        let unsafe_here = |at: usize| {
            Failure::other(format!(
                "{}:{} cannot be edited safely; make the change by hand, nothing was changed",
                self.path,
                self.line(at)
            ))
        };
        let first = edits.iter().map(|edit| edit.range.start).min().unwrap_or_default();
        let expected = self.tokens_with(&edits).ok_or_else(|| unsafe_here(first))?;
        let text = apply(&self.text, edits).ok_or_else(|| unsafe_here(first))?;
        let code = text.trim_start_matches(BOM);
        let found = tokens(code).ok_or_else(|| unsafe_here(first))?;
        let same = found.iter().map(|token| &token.text).eq(expected.iter());
        match same && syn::parse_str::<syn::File>(code).is_ok() {
            true => Ok(text),
            false => Err(unsafe_here(first)),
        }
    }

    /// The tokens that the file should have after edits.
    fn tokens_with(&self, edits: &[Edit]) -> Option<Vec<String>> {
        let mut edits: Vec<&Edit> = edits.iter().collect();
        edits.sort_by_key(|edit| edit.range.start);
        let mut edits = edits.into_iter().peekable();
        let mut all = Vec::new();
        let mut gone = 0..0;
        for token in tokens(&self.text[self.skipped..])? {
            let at = token.at + self.skipped;
            while let Some(edit) = edits.next_if(|edit| edit.range.start <= at) {
                all.extend(tokens(&edit.text)?.into_iter().map(|token| token.text));
                gone = edit.range.clone();
            }
            if !gone.contains(&at) {
                all.push(token.text);
            }
        }
        for edit in edits {
            all.extend(tokens(&edit.text)?.into_iter().map(|token| token.text));
        }
        Some(all)
    }
}

/// Applies edits that do not overlap; edits at one place keep their order.
fn apply(text: &str, mut edits: Vec<Edit>) -> Option<String> {
    edits.sort_by_key(|edit| edit.range.start);
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    for edit in edits {
        result.push_str(text.get(done..edit.range.start)?);
        result.push_str(&edit.text);
        done = edit.range.end;
    }
    result.push_str(text.get(done..)?);
    Some(result)
}

/// A token: an identifier, a literal, a character of punctuation, a bracket.
pub struct Token {
    pub text: String,
    pub at: usize,
}

/// The tokens of a text, with brackets as tokens of their own. `None` if it is not Rust.
pub fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut all = Vec::new();
    flatten(TokenStream::from_str(text).ok()?, &mut all);
    Some(all)
}

fn flatten(stream: TokenStream, all: &mut Vec<Token>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    proc_macro2::Delimiter::Parenthesis => ("(", ")"),
                    proc_macro2::Delimiter::Brace => ("{", "}"),
                    proc_macro2::Delimiter::Bracket => ("[", "]"),
                    proc_macro2::Delimiter::None => ("", ""),
                };
                let at = group.span_open().byte_range().start;
                all.push(Token { text: open.into(), at });
                flatten(group.stream(), all);
                let at = group.span_close().byte_range().start;
                all.push(Token { text: close.into(), at });
            }
            other => {
                let at = other.span().byte_range().start;
                all.push(Token { text: other.to_string(), at });
            }
        }
    }
}

/// How deep brackets are nested at most, counting those in strings and comments too.
fn nesting(text: &str) -> usize {
    let (mut depth, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    most
}
