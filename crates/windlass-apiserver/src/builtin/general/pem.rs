//! PEM blocks, as Go's `encoding/pem` finds them: what is not a block is skipped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// One block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// What it says it is, such as `CERTIFICATE`.
    pub kind: String,
    /// Whether it has headers.
    pub has_headers: bool,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Returns the blocks of a text that is encoded in base64, in order.
pub fn blocks(encoded: &str) -> Vec<Block> {
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut found = Vec::new();
    let mut open: Option<(&str, bool, String)> = None;
    for line in text.lines().map(str::trim_end) {
        if let Some(kind) = kind_of(line, "-----BEGIN ") {
            open = Some((kind, false, String::new()));
        } else if let Some(kind) = kind_of(line, "-----END ") {
            if let Some((begun, has_headers, body)) = open.take()
                && begun == kind
                && let Ok(bytes) = STANDARD.decode(body)
            {
                found.push(Block { kind: kind.to_owned(), has_headers, bytes });
            }
        } else if let Some((_, has_headers, body)) = &mut open {
            if body.is_empty() && line.contains(':') {
                *has_headers = true;
            } else {
                body.push_str(line.trim_start());
            }
        }
    }
    found
}

fn kind_of<'a>(line: &'a str, begin: &str) -> Option<&'a str> {
    line.strip_prefix(begin)?.strip_suffix("-----")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<Block> {
        blocks(&STANDARD.encode(text))
    }

    fn block(kind: &str, has_headers: bool, bytes: &[u8]) -> Block {
        Block { kind: kind.into(), has_headers, bytes: bytes.into() }
    }

    #[test]
    fn blocks_are_found_between_other_text() {
        let text = "Some text\n-----BEGIN A-----\nAQ\n==\n-----END A-----\nmore\n\
                    -----BEGIN B-----\nName: value\n\nAg==\n-----END B-----\n";
        assert_eq!(found(text), [block("A", false, &[1]), block("B", true, &[2])]);
    }

    #[test]
    fn what_is_not_a_whole_block_is_skipped() {
        let text = "-----BEGIN A-----\n-----BEGIN B-----\nAQ==\n-----END B-----\n\
                    -----BEGIN C-----\nno base64!\n-----END C-----\n-----BEGIN D-----\nAQ==\n";
        assert_eq!(found(text), [block("B", false, &[1])]);
        assert_eq!(blocks("no base64!"), []);
    }
}
