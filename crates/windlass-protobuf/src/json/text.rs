//! Texts and bytes as JSON has them.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Appends a text; Go replaces what is no UTF-8 when it writes JSON, and so does this.
pub(super) fn put_text(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    match is_plain(bytes) {
        true => out.extend_from_slice(bytes),
        false => escape(String::from_utf8_lossy(bytes).as_bytes(), out),
    }
    out.push(b'"');
}

/// Appends a whole number; most are short.
pub(super) fn put_number(number: i64, out: &mut Vec<u8>) {
    const DIGITS: usize = 20;
    let (mut room, mut at, mut rest) = ([0; DIGITS], DIGITS, number.unsigned_abs());
    loop {
        at -= 1;
        room[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&room[at..]);
}

/// Appends bytes in base64.
pub(super) fn put_base64(bytes: &[u8], out: &mut Vec<u8>) {
    let size = bytes.len().div_ceil(3) * 4;
    out.push(b'"');
    let start = out.len();
    out.resize(start + size, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]);
    debug_assert_eq!(written.ok(), Some(size));
    out.push(b'"');
}

/// Returns `true` if bytes are ASCII that JSON has as it is; looks at eight of them at a time.
fn is_plain(bytes: &[u8]) -> bool {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    /// The high bit of every byte that is below `than` (a borrow may mark a byte above, too).
    const fn below(word: u64, than: u64) -> u64 {
        word.wrapping_sub(LOW * than) & !word & HIGH
    }
    /// The high bit is set where a byte of eight is odd.
    fn odd(word: [u8; 8]) -> u64 {
        let word = u64::from_le_bytes(word);
        below(word, 0x20) | below(word ^ (LOW * 0x22), 1) | below(word ^ (LOW * 0x5c), 1) | word
    }
    let (words, rest) = bytes.as_chunks::<8>();
    let found = words.iter().fold(0, |found, word| found | odd(*word));
    let found = match bytes.last_chunk::<8>() {
        // What is left over, and some of what was looked at.
        Some(last) if !rest.is_empty() => found | odd(*last),
        Some(_) => found,
        None => {
            let mut word = [b' '; 8];
            word[..rest.len()].copy_from_slice(rest);
            odd(word)
        }
    };
    found & HIGH == 0
}

/// Appends UTF-8 as the inside of a JSON text.
fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if !matches!(byte, b'"' | b'\\' | ..=0x1f) {
            continue;
        }
        out.extend_from_slice(&bytes[start..at]);
        start = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => write!(out, "\\u{other:04x}").expect("memory takes all bytes"),
        }
    }
    out.extend_from_slice(&bytes[start..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_is_written_as_json_has_it(text in any::<String>(), plain in "[ -~]{0,40}") {
            for text in [text, plain] {
                let mut out = Vec::new();
                put_text(text.as_bytes(), &mut out);
                prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
            }
        }

        #[test]
        fn a_number_is_written_as_its_digits(number in any::<i64>(), bits in 0..64_u32) {
            for number in [number, number >> bits, i64::MIN, i64::MAX, 0] {
                let mut out = Vec::new();
                put_number(number, &mut out);
                prop_assert_eq!(out, number.to_string().into_bytes());
            }
        }

        #[test]
        fn plain_bytes_need_no_escape(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let odd = |b: &u8| *b < 0x20 || *b > 0x7f || matches!(b, b'"' | b'\\');
            prop_assert_eq!(is_plain(&bytes), !bytes.iter().any(odd));
        }
    }
}
