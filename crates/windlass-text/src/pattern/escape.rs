//! Single characters: escapes, and how they are written for the `regex` crate.

use super::fault;

/// A code point. Go's patterns can name surrogates, which no text contains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Scalar(pub u32);

impl From<char> for Scalar {
    fn from(c: char) -> Self {
        Self(u32::from(c))
    }
}

impl Scalar {
    /// The character outside of a class.
    pub fn literal(self) -> String {
        match char::from_u32(self.0) {
            Some(c) if c.is_alphanumeric() => c.to_string(),
            Some(_) => format!("\\x{{{:X}}}", self.0),
            None => super::class::NOTHING.to_owned(),
        }
    }
}

/// Reads `{min}`, `{min,}` or `{min,max}`; returns its length and the numbers.
///
/// Numbers that are too large for any count are all the same.
pub(super) fn count(text: &str) -> Option<(usize, u32, Option<u32>)> {
    let number = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let leading_zero = digits > 1 && text.starts_with('0');
        let value = text[..digits].parse().unwrap_or(u32::MAX);
        (digits > 0 && !leading_zero).then_some((digits, value))
    };
    let (digits, min) = number(&text[1..])?;
    let mut at = 1 + digits;
    let mut max = Some(min);
    if text[at..].starts_with(',') {
        at += 1;
        max = None;
        if !text[at..].starts_with('}') {
            let (digits, value) = number(&text[at..])?;
            at += digits;
            max = Some(value);
        }
    }
    text[at..].starts_with('}').then_some((at + 1, min, max))
}

/// Reads an escape sequence of one character; returns its length.
pub(super) fn read(text: &str) -> Result<(usize, Scalar), String> {
    let mut chars = text[1..].chars();
    let Some(c) = chars.next() else {
        return Err("error parsing regexp: trailing backslash at end of expression: ``".into());
    };
    let plain = |c: char| Ok((2, Scalar::from(c)));
    let invalid = |len: usize| Err(fault("invalid escape sequence", &text[..len]));
    let after = chars.as_str();
    match c {
        'a' => plain('\x07'),
        'f' => plain('\x0c'),
        'n' => plain('\n'),
        'r' => plain('\r'),
        't' => plain('\t'),
        'v' => plain('\x0b'),
        'x' => hexadecimal(text, after),
        // One digit other than 0 is a back reference, which Go does not have.
        '0'..='7' if c == '0' || after.starts_with(|c| matches!(c, '0'..='7')) => {
            let digits = text[1..].bytes().take(3).take_while(|b| matches!(b, b'0'..=b'7'));
            let len = digits.count();
            let value = u32::from_str_radix(&text[1..1 + len], 8).unwrap_or_default();
            Ok((1 + len, Scalar(value)))
        }
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => plain(c),
        c => invalid(1 + c.len_utf8()),
    }
}

/// Reads what follows `\x`: two digits, or any number of them in braces.
fn hexadecimal(text: &str, after: &str) -> Result<(usize, Scalar), String> {
    let invalid = |len: usize| Err(fault("invalid escape sequence", &text[..len]));
    if let Some(digits) = after.strip_prefix('{') {
        let mut value = 0;
        for (at, c) in digits.char_indices() {
            let used = 3 + at + c.len_utf8();
            match c.to_digit(16) {
                Some(digit) if value * 16 + digit <= 0x10_FFFF => value = value * 16 + digit,
                None if c == '}' && at > 0 => return Ok((used, Scalar(value))),
                _ => return invalid(used),
            }
        }
        return invalid(text.len());
    }
    let mut chars = after.chars();
    let (first, second) = (chars.next(), chars.next());
    let used = after.len() - chars.as_str().len();
    match (first.and_then(|c| c.to_digit(16)), second.and_then(|c| c.to_digit(16))) {
        (Some(high), Some(low)) => Ok((2 + used, Scalar(high * 16 + low))),
        _ => invalid(2 + used),
    }
}
