//! Splits response bodies into objects as the bytes arrive.
//!
//! **Invariant:** no more than one object is ever buffered, and no object above the limit.

use bytes::{Bytes, BytesMut};

/// A line or an item is too large, or the bytes are not a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    #[error("object larger than {0} bytes in the response")]
    TooLarge(usize),
    #[error("response is not a list: {0}")]
    NotAList(&'static str),
}

/// Splits a watch stream into lines.
pub(super) struct Lines {
    chunk: Bytes,
    partial: BytesMut,
    size_max: usize,
}

/// Splits a list response into its items.
pub(super) struct ListScanner {
    state: State,
    /// Open brackets within the value that is being read.
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The part of the current item that arrived in earlier chunks.
    partial: Vec<u8>,
    field: Vec<u8>,
    /// The list's own fields other than the items.
    head: Vec<(Vec<u8>, Vec<u8>)>,
    size_max: usize,
    /// The current item is too large and is skipped.
    skipping: bool,
    /// The beginnings of items that were skipped.
    oversized: Vec<Vec<u8>>,
}

/// Most bytes that are kept of an item that is too large, to find its name.
const OVERSIZED_HEAD: usize = 1 << 20;
/// Most items that are too large and still named.
const OVERSIZED_MAX: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Start,
    /// Between fields of the list.
    BeforeField,
    InField,
    AfterField,
    BeforeValue,
    /// Within the value of a field that is not the items.
    InValue,
    BetweenItems,
    InItem,
    End,
}

// === impl Lines ===

impl Lines {
    pub(super) fn new(size_max: usize) -> Self {
        Self { chunk: Bytes::new(), partial: BytesMut::new(), size_max }
    }

    /// Adds the next bytes. All lines of the previous bytes must have been taken.
    pub(super) fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty());
        self.chunk = chunk;
    }

    /// Returns the next whole line that is not blank.
    pub(super) fn next_line(&mut self) -> Result<Option<Bytes>, WireError> {
        loop {
            let Some(end) = newline(&self.chunk) else {
                self.partial.extend_from_slice(&self.chunk);
                self.chunk.clear();
                if self.partial.len() > self.size_max {
                    return Err(WireError::TooLarge(self.size_max));
                }
                return Ok(None);
            };
            let head = self.chunk.split_to(end);
            let _ = self.chunk.split_to(1);
            let line = if self.partial.is_empty() {
                head
            } else {
                self.partial.extend_from_slice(&head);
                self.partial.split().freeze()
            };
            if line.len() > self.size_max {
                return Err(WireError::TooLarge(self.size_max));
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }

    /// Returns `true` if a line has arrived in part. All complete lines must have been taken.
    pub(super) fn within_line(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Returns what is left at the end of the stream: a complete line or a part of one.
    pub(super) fn rest(&mut self) -> Option<Bytes> {
        let rest = self.partial.split().freeze();
        (!rest.trim_ascii().is_empty()).then_some(rest)
    }
}

/// Finds the first newline, eight bytes at a time.
fn newline(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut at = 0;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let found = u64::from_ne_bytes(word.try_into().expect("eight bytes")) ^ (LOW * 0x0a);
        if found.wrapping_sub(LOW) & !found & HIGH != 0 {
            break;
        }
        at += 8;
    }
    bytes[at..].iter().position(|b| *b == b'\n').map(|rest| at + rest)
}

// === impl ListScanner ===

impl ListScanner {
    pub(super) fn new(size_max: usize) -> Self {
        Self {
            state: State::Start,
            depth: 0,
            in_string: false,
            escaped: false,
            partial: Vec::new(),
            field: Vec::new(),
            head: Vec::new(),
            size_max,
            skipping: false,
            oversized: Vec::new(),
        }
    }

    /// Returns the beginnings of the items that were skipped since the last call.
    pub(super) fn take_oversized(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.oversized)
    }

    /// Adds the next bytes and calls `item` with every item that is complete now.
    pub(super) fn feed(
        &mut self,
        chunk: &[u8],
        item: &mut dyn FnMut(&[u8]),
    ) -> Result<(), WireError> {
        let mut at = 0;
        while at < chunk.len() {
            at = match self.state {
                State::InItem => self.feed_item(chunk, at, item)?,
                State::InValue => self.feed_value(chunk, at)?,
                State::InField => self.feed_field(chunk, at)?,
                _ => {
                    self.feed_between(chunk[at])?;
                    // The byte that begins an item or a value is part of it.
                    at + usize::from(!matches!(self.state, State::InItem | State::InValue))
                }
            };
        }
        Ok(())
    }

    /// Returns the raw value of a field of the list, once the list is complete.
    pub(super) fn field(&self, name: &str) -> Option<&[u8]> {
        self.head.iter().find(|(key, _)| key == name.as_bytes()).map(|(_, value)| &value[..])
    }

    /// Returns `true` if the whole list was read.
    pub(super) fn complete(&self) -> bool {
        self.state == State::End
    }

    fn feed_between(&mut self, byte: u8) -> Result<(), WireError> {
        if byte.is_ascii_whitespace() {
            return Ok(());
        }
        self.state = match (self.state, byte) {
            (State::Start, b'{') => State::BeforeField,
            (State::Start, _) => return Err(WireError::NotAList("no object")),
            (State::BeforeField, b'"') => {
                self.field.clear();
                State::InField
            }
            (State::BeforeField, b',') => State::BeforeField,
            (State::BeforeField, b'}') => State::End,
            (State::AfterField, b':') => State::BeforeValue,
            (State::BeforeValue, b'[') if self.field == b"items" => State::BetweenItems,
            (State::BeforeValue, _) => State::InValue,
            (State::BetweenItems, b',') => State::BetweenItems,
            (State::BetweenItems, b']') => State::BeforeField,
            (State::BetweenItems, b'{') => State::InItem,
            (State::BetweenItems, _) => return Err(WireError::NotAList("item is no object")),
            _ => return Err(WireError::NotAList("unexpected byte")),
        };
        Ok(())
    }

    fn feed_field(&mut self, chunk: &[u8], mut at: usize) -> Result<usize, WireError> {
        while at < chunk.len() {
            if chunk[at] == b'"' {
                self.state = State::AfterField;
                return Ok(at + 1);
            }
            self.field.push(chunk[at]);
            if self.field.len() > 256 {
                return Err(WireError::NotAList("field name too long"));
            }
            at += 1;
        }
        Ok(at)
    }

    fn feed_item(
        &mut self,
        chunk: &[u8],
        from: usize,
        item: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, WireError> {
        let end = self.scan(chunk, from);
        let part = &chunk[from..end.unwrap_or(chunk.len())];
        if !self.skipping && self.partial.len() + part.len() > self.size_max {
            self.skipping = true;
            self.partial.extend(part.iter().take(OVERSIZED_HEAD));
            self.partial.truncate(OVERSIZED_HEAD);
            self.partial.shrink_to_fit();
        }
        if self.skipping {
            let Some(end) = end else { return Ok(chunk.len()) };
            let head = std::mem::take(&mut self.partial);
            self.oversized.push(if self.oversized.len() < OVERSIZED_MAX { head } else { vec![] });
            self.skipping = false;
            self.state = State::BetweenItems;
            return Ok(end);
        }
        let Some(end) = end else {
            self.partial.extend_from_slice(part);
            return Ok(chunk.len());
        };
        if self.partial.is_empty() {
            item(part);
        } else {
            self.partial.extend_from_slice(part);
            item(&self.partial);
            self.partial.clear();
        }
        self.state = State::BetweenItems;
        Ok(end)
    }

    /// Reads the value of another field; a number or a word ends before the next comma.
    fn feed_value(&mut self, chunk: &[u8], from: usize) -> Result<usize, WireError> {
        let first = self.partial.first().copied().unwrap_or(chunk[from]);
        let end = if matches!(first, b'{' | b'[' | b'"') {
            self.scan(chunk, from)
        } else {
            let stop = chunk[from..].iter().position(|b| matches!(b, b',' | b'}'));
            stop.map(|stop| from + stop)
        };
        self.partial.extend_from_slice(&chunk[from..end.unwrap_or(chunk.len())]);
        if self.partial.len() > self.size_max {
            return Err(WireError::TooLarge(self.size_max));
        }
        let Some(end) = end else { return Ok(chunk.len()) };
        if self.head.len() > 32 {
            return Err(WireError::NotAList("too many fields"));
        }
        let field = std::mem::take(&mut self.field);
        self.head.push((field, std::mem::take(&mut self.partial)));
        self.state = State::BeforeField;
        Ok(end)
    }

    /// Finds the end of a bracketed or quoted value.
    fn scan(&mut self, chunk: &[u8], from: usize) -> Option<usize> {
        for (at, byte) in chunk.iter().enumerate().skip(from) {
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                } else if *byte == b'\\' {
                    self.escaped = true;
                } else if *byte == b'"' {
                    self.in_string = false;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
