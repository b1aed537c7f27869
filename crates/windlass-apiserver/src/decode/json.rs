//! A JSON reader that keeps order and duplicates and fails with Go's words.
//!
//! **Invariant:** no input makes it panic or recurse deeper than [`super::DEPTH_MAX`].

use std::borrow::Cow;

use super::Node;

/// Reads one JSON value.
///
/// # Errors
/// The text that Go's `encoding/json` gives for the same body.
pub fn read(body: &[u8]) -> Result<Node<'_>, String> {
    let mut reader = Reader { body, at: 0, depth: 0 };
    reader.space();
    let node = reader.value("looking for beginning of value")?;
    reader.space();
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.unexpected("after top-level value")),
    }
}

struct Reader<'a> {
    body: &'a [u8],
    at: usize,
    depth: usize,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    /// The error for the current byte.
    fn unexpected(&self, context: &str) -> String {
        match self.peek() {
            None => "unexpected end of JSON input".into(),
            Some(byte) => format!("invalid character {} {context}", quote_char(byte)),
        }
    }

    fn value(&mut self, context: &str) -> Result<Node<'a>, String> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Node::String(self.string()?)),
            Some(b't') => self.literal("true", Node::Bool(true)),
            Some(b'f') => self.literal("false", Node::Bool(false)),
            Some(b'n') => self.literal("null", Node::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.unexpected(context)),
        }
    }

    fn nested(
        &mut self,
        read: impl Fn(&mut Self) -> Result<Node<'a>, String>,
    ) -> Result<Node<'a>, String> {
        self.depth += 1;
        if self.depth > super::DEPTH_MAX {
            return Err("exceeded max depth".into());
        }
        self.at += 1;
        let node = read(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn object(&mut self) -> Result<Node<'a>, String> {
        let mut entries = Vec::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Node::Object(entries));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            self.space();
            let value = self.value("looking for beginning of value")?;
            entries.push((key, value));
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Node::Object(entries));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn array(&mut self) -> Result<Node<'a>, String> {
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Node::Array(items));
        }
        loop {
            self.space();
            items.push(self.value("looking for beginning of value")?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Node::Array(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn literal(&mut self, word: &str, node: Node<'a>) -> Result<Node<'a>, String> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let wanted = quote_char(expected);
                return Err(self.unexpected(&format!("in literal {word} (expecting {wanted})")));
            }
            self.at += 1;
        }
        Ok(node)
    }

    fn number(&mut self) -> Result<Node<'a>, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let text = String::from_utf8_lossy(&self.body[start..self.at]);
        Ok(Node::Number(text))
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }

    fn some_digits(&mut self, context: &str) -> Result<(), String> {
        match self.peek() {
            Some(b'0'..=b'9') => {
                self.digits();
                Ok(())
            }
            _ => Err(self.unexpected(context)),
        }
    }

    /// A string; bytes that are no UTF-8 become U+FFFD, as Go reads them.
    fn string(&mut self) -> Result<Cow<'a, str>, String> {
        self.at += 1;
        let start = self.at;
        let rest = &self.body[start..];
        let plain = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f));
        let end = start + plain.unwrap_or(rest.len());
        if self.body.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(String::from_utf8_lossy(&self.body[start..end]));
        }
        let mut out = Vec::with_capacity(end - start + 16);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    let text = String::from_utf8_lossy(&out).into_owned();
                    return Ok(Cow::Owned(text));
                }
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.escape()?;
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                None | Some(0..=0x1f) => return Err(self.unexpected("in string literal")),
                Some(byte) => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let c = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    fn unicode(&mut self) -> Result<char, String> {
        let high = self.hex4()?;
        if !(0xd800..0xdc00).contains(&high) {
            return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        // A surrogate: without its second half it is not a character.
        let here = self.at;
        if self.body[here..].starts_with(b"\\u") {
            self.at += 2;
            let low = self.hex4()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = here;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| char::from(b).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}

/// A byte as Go quotes it in syntax errors.
fn quote_char(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".into(),
        b'"' => "'\"'".into(),
        b'\n' => r"'\n'".into(),
        b'\r' => r"'\r'".into(),
        b'\t' => r"'\t'".into(),
        b'\\' => r"'\\'".into(),
        7 => r"'\a'".into(),
        8 => r"'\b'".into(),
        0xb => r"'\v'".into(),
        0xc => r"'\f'".into(),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..0xa0 => format!("'\\u{byte:04x}'"),
        0xad => "'\\u00ad'".into(),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        read(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn syntax_errors_have_gos_words() {
        assert_eq!(error(""), "unexpected end of JSON input");
        assert_eq!(error("{\"a\": "), "unexpected end of JSON input");
        assert_eq!(error("not"), "invalid character 'o' in literal null (expecting 'u')");
        assert_eq!(
            error("{a}"),
            "invalid character 'a' looking for beginning of object key string"
        );
        assert_eq!(
            error("{\"a\":1,}"),
            "invalid character '}' looking for beginning of object key string"
        );
        assert_eq!(error("{\"a\" 1}"), "invalid character '1' after object key");
        assert_eq!(error("{\"a\":1 2}"), "invalid character '2' after object key:value pair");
        assert_eq!(error("[1 2]"), "invalid character '2' after array element");
        assert_eq!(error("[1,]"), "invalid character ']' looking for beginning of value");
        assert_eq!(error("{} x"), "invalid character 'x' after top-level value");
        assert_eq!(error("01"), "invalid character '1' after top-level value");
        assert_eq!(error("1.x"), "invalid character 'x' after decimal point in numeric literal");
        assert_eq!(error("\"\\q\""), "invalid character 'q' in string escape code");
        assert_eq!(error("\"a\nb\""), "invalid character '\\n' in string literal");
    }

    #[test]
    fn text_is_read_as_go_reads_it() {
        let node = read(b"\"\\ud83d\\ude80 \\ud800 \xff \\u0041\"").unwrap();
        assert_eq!(node.as_str().unwrap(), "\u{1f680} \u{fffd} \u{fffd} A");
    }

    #[test]
    fn deep_bodies_are_refused() {
        let deep = "[".repeat(100_000);
        assert_eq!(error(&deep), "exceeded max depth");
    }

    #[test]
    fn duplicates_are_found_in_order() {
        let node = read(br#"{"a":{"k":1,"k":2},"a":{},"l":[{"x":1,"x":2}]}"#).unwrap();
        assert_eq!(
            node.duplicates(),
            ["duplicate field \"a.k\"", "duplicate field \"a\"", "duplicate field \"l[0].x\""]
        );
        assert_eq!(node.to_value().unwrap(), serde_json::json!({"a": {}, "l": [{"x": 2}]}));
    }
}
