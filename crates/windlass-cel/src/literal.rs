//! The values of literals.

use super::ast::Literal;
use super::token::Kind;

const BAD: &str = "unable to unescape string";

/// Returns the value of a literal token.
pub fn value(kind: Kind, text: &str, minus: bool) -> Result<Literal, String> {
    match kind {
        Kind::True => Ok(Literal::Bool(true)),
        Kind::False => Ok(Literal::Bool(false)),
        Kind::Int => int(text, minus).map(Literal::Int).ok_or("invalid int literal".into()),
        Kind::Uint => uint(text).map(Literal::Uint).ok_or("invalid uint literal".into()),
        Kind::Float => {
            let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
            let signed = value.map(|value| if minus { -value } else { value });
            signed.map(Literal::Double).ok_or("invalid double literal".into())
        }
        Kind::Str => {
            let bytes = unescape(text, false)?;
            let text = String::from_utf8(bytes).map_err(|_| BAD)?;
            Ok(Literal::Str(text.into()))
        }
        Kind::Bytes => Ok(Literal::Bytes(unescape(&text[1..], true)?.into())),
        _ => Ok(Literal::Null),
    }
}

fn int(text: &str, minus: bool) -> Option<i64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    let value = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if minus { -value } else { value }).ok()
}

fn uint(text: &str) -> Option<u64> {
    let text = text.trim_end_matches(['u', 'U']);
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// What a quoted text says; in bytes, `\x` and octal escapes are single bytes.
fn unescape(text: &str, bytes: bool) -> Result<Vec<u8>, String> {
    let raw = text.starts_with(['r', 'R']);
    let text = if raw { &text[1..] } else { text };
    let quote = text.get(..1).ok_or(BAD)?;
    let long = quote.repeat(3);
    let width = if text.len() >= 6 && text.starts_with(&long) { 3 } else { 1 };
    let body = text.get(width..text.len() - width).ok_or(BAD)?;
    // Line ends count as one newline, whatever the platform wrote.
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    if raw || !body.contains('\\') {
        return Ok(body.into_bytes());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.extend(c.encode_utf8(&mut [0; 4]).bytes());
            continue;
        }
        let escape = chars.next().ok_or(BAD)?;
        let simple = match escape {
            'a' => Some(7),
            'b' => Some(8),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            '\\' | '\'' | '"' | '`' | '?' => u8::try_from(escape).ok(),
            _ => None,
        };
        if let Some(simple) = simple {
            out.push(simple);
            continue;
        }
        let (digits, radix, first) = match escape {
            'x' | 'X' => (2, 16, None),
            'u' if !bytes => (4, 16, None),
            'U' if !bytes => (8, 16, None),
            '0'..='3' => (2, 8, Some(escape)),
            _ => return Err(BAD.into()),
        };
        let digits: String = first.into_iter().chain(chars.by_ref().take(digits)).collect();
        let code = u32::from_str_radix(&digits, radix).map_err(|_| BAD)?;
        match u8::try_from(code) {
            Ok(byte) if bytes => out.push(byte),
            _ => {
                let c = char::from_u32(code).ok_or(BAD)?;
                out.extend(c.encode_utf8(&mut [0; 4]).bytes());
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(source: &str) -> String {
        match value(Kind::Str, source, false) {
            Ok(Literal::Str(text)) => text.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn escapes_give_their_characters() {
        assert_eq!(text(r#""a\n\x41\u00e9\101""#), "a\nA\u{e9}A");
        assert_eq!(text(r"r'\d'"), "\\d");
        assert_eq!(text("'''a'b'''"), "a'b");
        let bytes = value(Kind::Bytes, r"b'\xff'", false);
        assert_eq!(bytes, Ok(Literal::Bytes([255].into())));
    }

    #[test]
    fn numbers_beyond_their_type_are_errors() {
        let refusal = |kind, text, minus| value(kind, text, minus).unwrap_err();
        assert_eq!(refusal(Kind::Int, "9223372036854775808", false), "invalid int literal");
        assert!(value(Kind::Int, "9223372036854775808", true).is_ok());
        assert_eq!(refusal(Kind::Uint, "0xFFFFFFFFFFFFFFFFFu", false), "invalid uint literal");
        assert_eq!(refusal(Kind::Float, "1.99e90000009", false), "invalid double literal");
    }
}
