//! Cuts an expression into tokens.
//!
//! Errors have the words of the reference implementation: what could not be read is shown up to
//! and including the character that did not fit.

use super::source::Issue;

/// The kind of a token, in the order in which sets of them are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    OpenParen,
    CloseParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    Str,
    Bytes,
    Ident,
    QuotedIdent,
    Eof,
}

/// The names of the kinds as errors show them.
const NAMES: [&str; 36] = [
    "'=='",
    "'!='",
    "'in'",
    "'<'",
    "'<='",
    "'>='",
    "'>'",
    "'&&'",
    "'||'",
    "'['",
    "']'",
    "'{'",
    "'}'",
    "'('",
    "')'",
    "'.'",
    "','",
    "'-'",
    "'!'",
    "'?'",
    "':'",
    "'+'",
    "'*'",
    "'/'",
    "'%'",
    "'true'",
    "'false'",
    "'null'",
    "NUM_FLOAT",
    "NUM_INT",
    "NUM_UINT",
    "STRING",
    "BYTES",
    "IDENTIFIER",
    "ESC_IDENTIFIER",
    "<EOF>",
];

/// A set of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set(pub u64);

/// A token.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// Its kind.
    pub kind: Kind,
    /// Where it begins, in characters.
    pub at: u32,
    /// Where it begins, in bytes.
    pub start: usize,
    /// Where it ends, in bytes.
    pub end: usize,
}

// === impl Set ===

impl Set {
    /// Returns the set of the given kinds.
    pub const fn of(kinds: &[Kind]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < kinds.len() {
            bits |= 1 << kinds[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    /// Returns both sets together.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns `true` if the kind is in the set.
    pub const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// Returns the set as errors show it.
    pub fn show(self) -> String {
        let names: Vec<&str> = NAMES
            .iter()
            .enumerate()
            .filter(|(i, _)| self.0 >> i & 1 == 1)
            .map(|(_, n)| *n)
            .collect();
        match names.as_slice() {
            [one] => (*one).to_owned(),
            _ => format!("{{{}}}", names.join(", ")),
        }
    }
}

/// Returns the tokens of a text, always ended by [`Kind::Eof`], and what could not be read.
pub fn tokens(text: &str) -> (Vec<Token>, Vec<Issue>) {
    let mut lexer = Lexer { text, byte: 0, at: 0, issues: Vec::new() };
    let mut out = Vec::with_capacity(text.len() / 3 + 2);
    loop {
        lexer.skip();
        let (start, at) = (lexer.byte, lexer.at);
        if lexer.rest().is_empty() {
            out.push(Token { kind: Kind::Eof, at, start, end: start });
            return (out, lexer.issues);
        }
        match scan(lexer.rest()) {
            Ok((kind, len)) => {
                lexer.advance(len);
                out.push(Token { kind, at, start, end: lexer.byte });
            }
            Err(len) => {
                // The character that did not fit belongs to what is skipped.
                let rest = lexer.rest();
                let next = rest[len..].chars().next().map_or(0, char::len_utf8);
                let bad = &rest[..len + next];
                let shown = bad.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
                let text = format!("Syntax error: token recognition error at: '{shown}'");
                lexer.issues.push(Issue::new(at, text));
                lexer.advance(len + next);
            }
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    byte: usize,
    at: u32,
    issues: Vec<Issue>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.byte..]
    }

    fn advance(&mut self, len: usize) {
        let chars = self.rest()[..len].chars().count();
        self.at += u32::try_from(chars).unwrap_or(u32::MAX / 2);
        self.byte += len;
    }

    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches(['\t', ' ', '\r', '\n', '\x0c']).len();
            self.advance(blank);
            if !self.rest().starts_with("//") {
                return;
            }
            let comment = self.rest().find('\n').unwrap_or(self.rest().len());
            self.advance(comment);
        }
    }
}

/// The token at the start of `text`, or how many bytes were read before one did not fit.
fn scan(text: &str) -> Result<(Kind, usize), usize> {
    let bytes = text.as_bytes();
    let next = bytes.get(1).copied();
    let two = |kind, second: u8| if next == Some(second) { Ok((kind, 2)) } else { Err(1) };
    let either = |second: u8, long, short| match next == Some(second) {
        true => Ok((long, 2)),
        false => Ok((short, 1)),
    };
    match bytes[0] {
        b'=' => two(Kind::Equals, b'='),
        b'&' => two(Kind::And, b'&'),
        b'|' => two(Kind::Or, b'|'),
        b'!' => either(b'=', Kind::NotEquals, Kind::Not),
        b'<' => either(b'=', Kind::LessEquals, Kind::Less),
        b'>' => either(b'=', Kind::GreaterEquals, Kind::Greater),
        b'[' => Ok((Kind::OpenBracket, 1)),
        b']' => Ok((Kind::CloseBracket, 1)),
        b'{' => Ok((Kind::OpenBrace, 1)),
        b'}' => Ok((Kind::CloseBrace, 1)),
        b'(' => Ok((Kind::OpenParen, 1)),
        b')' => Ok((Kind::CloseParen, 1)),
        b',' => Ok((Kind::Comma, 1)),
        b'-' => Ok((Kind::Minus, 1)),
        b'?' => Ok((Kind::Question, 1)),
        b':' => Ok((Kind::Colon, 1)),
        b'+' => Ok((Kind::Plus, 1)),
        b'*' => Ok((Kind::Star, 1)),
        b'/' => Ok((Kind::Slash, 1)),
        b'%' => Ok((Kind::Percent, 1)),
        b'.' if next.is_some_and(|b| b.is_ascii_digit()) => Ok(number(bytes)),
        b'.' => Ok((Kind::Dot, 1)),
        b'0'..=b'9' => Ok(number(bytes)),
        b'"' | b'\'' => string(text, 0, false).map(|len| (Kind::Str, len)),
        b'`' => quoted(bytes),
        b if b == b'_' || b.is_ascii_alphabetic() => word(text),
        _ => Err(0),
    }
}

fn number(bytes: &[u8]) -> (Kind, usize) {
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let suffix = |end: usize| matches!(bytes.get(end), Some(b'u' | b'U'));
    if bytes.starts_with(b"0x") {
        let hex = bytes[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        if hex > 0 {
            let end = 2 + hex;
            return if suffix(end) { (Kind::Uint, end + 1) } else { (Kind::Int, end) };
        }
    }
    let whole = digits(0);
    let mut end = whole;
    let mut float = false;
    if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
        float = true;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = if end + 1 + sign <= bytes.len() { digits(end + 1 + sign) } else { 0 };
        if exponent > 0 {
            end += 1 + sign + exponent;
            float = true;
        }
    }
    match float {
        true => (Kind::Float, end),
        false if suffix(end) => (Kind::Uint, end + 1),
        false => (Kind::Int, end),
    }
}

fn word(text: &str) -> Result<(Kind, usize), usize> {
    let bytes = text.as_bytes();
    let end = bytes.iter().take_while(|b| **b == b'_' || b.is_ascii_alphanumeric()).count();
    if matches!(bytes.get(end), Some(b'"' | b'\'')) {
        let prefix = text[..end].to_ascii_lowercase();
        let raw = prefix.ends_with('r');
        let kind = match prefix.as_str() {
            "r" => Some(Kind::Str),
            "b" | "br" => Some(Kind::Bytes),
            _ => None,
        };
        // An unclosed string leaves its prefix as a name, because that is the longest token.
        if let Some(kind) = kind
            && let Ok(len) = string(text, end, raw)
        {
            return Ok((kind, len));
        }
    }
    Ok((
        match &text[..end] {
            "in" => Kind::In,
            "true" => Kind::True,
            "false" => Kind::False,
            "null" => Kind::Null,
            _ => Kind::Ident,
        },
        end,
    ))
}

fn quoted(bytes: &[u8]) -> Result<(Kind, usize), usize> {
    let good = |b: &u8| b.is_ascii_alphanumeric() || b"_.-/ ".contains(b);
    let len = bytes[1..].iter().take_while(|b| good(b)).count();
    match bytes.get(1 + len) {
        Some(b'`') if len > 0 => Ok((Kind::QuotedIdent, len + 2)),
        _ => Err(1 + len),
    }
}

/// The end of the string whose quote is at `open`.
fn string(text: &str, open: usize, raw: bool) -> Result<usize, usize> {
    let bytes = text.as_bytes();
    let quote = bytes[open];
    let triple = [quote; 3];
    let long = bytes[open..].starts_with(&triple);
    if long && let Some(end) = body(text, open + 3, raw, &triple) {
        return end;
    }
    let end = body(text, open + 1, raw, &triple[..1]);
    end.unwrap_or(Err(text.len()))
}

fn body(text: &str, from: usize, raw: bool, quote: &[u8]) -> Option<Result<usize, usize>> {
    let bytes = text.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        if bytes[at..].starts_with(quote) {
            return Some(Ok(at + quote.len()));
        }
        match bytes[at] {
            b'\n' | b'\r' if quote.len() == 1 => return Some(Err(at)),
            b'\\' if !raw => match escape_len(&bytes[at..]) {
                Ok(len) => at += len,
                Err(len) => return Some(Err(at + len)),
            },
            _ => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    None
}

/// The length of an escape, or of its good part.
fn escape_len(bytes: &[u8]) -> Result<usize, usize> {
    let run = |from: usize, count: usize, good: fn(&u8) -> bool| {
        let have =
            bytes[from.min(bytes.len())..].iter().take(count).take_while(|b| good(b)).count();
        if have == count { Ok(from + count) } else { Err(from + have) }
    };
    match bytes.get(1) {
        Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v') => Ok(2),
        Some(b'"' | b'\'' | b'\\' | b'?' | b'`') => Ok(2),
        Some(b'x' | b'X') => run(2, 2, u8::is_ascii_hexdigit),
        Some(b'u') => run(2, 4, u8::is_ascii_hexdigit),
        Some(b'U') => run(2, 8, u8::is_ascii_hexdigit),
        Some(b'0'..=b'3') => run(2, 2, |b| (b'0'..=b'7').contains(b)),
        _ => Err(1),
    }
}
