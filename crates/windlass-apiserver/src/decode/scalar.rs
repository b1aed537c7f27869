//! Single values with rules of their own: base64 and quantities.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use windlass_text::quantity::{Quantity, QuantityError};

use super::Node;
use crate::builtin::rules::quantity::Quantity as Amount;

/// Reads base64 as Go's `StdEncoding` does and gives its normal form.
///
/// # Errors
/// `illegal base64 data at input byte N`.
pub fn base64(text: &str) -> Result<String, String> {
    // Most texts are fine and normal already.
    if let Ok(bytes) = STANDARD.decode(text) {
        return Ok(STANDARD.encode(bytes));
    }
    let bytes = go_decode(text.as_bytes())
        .map_err(|at| format!("illegal base64 data at input byte {at}"))?;
    Ok(STANDARD.encode(bytes))
}

/// Decodes with Go's leniency (line ends are skipped, spare bits ignored) and its error offsets.
fn go_decode(input: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(input.len() / 4 * 3);
    let mut at = 0;
    loop {
        let mut quad = [0u8; 4];
        let mut len = 0;
        let mut padded = false;
        while len < 4 {
            let Some(&byte) = input.get(at) else {
                return match len {
                    0 => Ok(out),
                    // The offset of the group that is cut short.
                    _ => Err(at - len),
                };
            };
            at += 1;
            match byte {
                b'\n' | b'\r' => {}
                b'=' => {
                    padding(input, &mut at, len)?;
                    padded = true;
                    break;
                }
                other => {
                    quad[len] = sextet(other).ok_or(at - 1)?;
                    len += 1;
                }
            }
        }
        let word = quad.iter().fold(0u32, |word, six| word << 6 | u32::from(*six));
        let bytes = word.to_be_bytes();
        out.extend_from_slice(&bytes[1..len.max(1)]);
        if padded {
            return Ok(out);
        }
    }
}

/// Checks what follows the first `=`, of which `at` is already behind.
fn padding(input: &[u8], at: &mut usize, len: usize) -> Result<(), usize> {
    let skip = |at: &mut usize| {
        while let Some(b'\n' | b'\r') = input.get(*at) {
            *at += 1;
        }
    };
    match len {
        0 | 1 => return Err(*at - 1),
        2 => {
            skip(at);
            match input.get(*at) {
                None => return Err(input.len()),
                Some(b'=') => *at += 1,
                Some(_) => return Err(*at - 1),
            }
        }
        _ => {}
    }
    skip(at);
    if *at < input.len() { Err(*at) } else { Ok(()) }
}

fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Reads a quantity, text or number, and gives its normal form.
///
/// # Errors
/// The text of Go's quantity parser.
pub fn quantity(node: &Node<'_>) -> Result<String, String> {
    let text = match node {
        Node::String(text) => text,
        Node::Number(text) => text,
        _ => return Err(QuantityError::Format.to_string()),
    };
    let quantity: Quantity =
        text.trim().parse().map_err(|error: QuantityError| error.to_string())?;
    Ok(quantity.to_string())
}

/// Rounds the quantities of a list of resources up to thousandths, the finest that it keeps.
pub(super) fn round_up(list: &mut Value) {
    for value in list.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Some(amount) = value.as_str().and_then(Amount::parse)
            && amount.is_finer_than_milli()
        {
            *value = amount.to_decimal().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_errors_name_the_byte() {
        let at = |text: &str| base64(text).unwrap_err();
        assert_eq!(at("not base64!"), "illegal base64 data at input byte 3");
        assert_eq!(at("!"), "illegal base64 data at input byte 0");
        assert_eq!(at("YQ"), "illegal base64 data at input byte 0");
        assert_eq!(at("YWJjY"), "illegal base64 data at input byte 4");
        assert_eq!(at("YQ=a"), "illegal base64 data at input byte 2");
        assert_eq!(at("YQ==YQ=="), "illegal base64 data at input byte 4");
    }

    #[test]
    fn base64_is_normalised() {
        assert_eq!(base64("YW\nJj").unwrap(), "YWJj");
        assert_eq!(base64("YR==").unwrap(), "YQ==");
        assert_eq!(base64("").unwrap(), "");
    }
}
