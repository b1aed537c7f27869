//! Cuts a list into its items as the bytes arrive.
//!
//! **Invariant:** no more than one item is ever buffered, and none above the limit.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::envelope::{Envelope, MAGIC, unknown};
use crate::error::{Error, Reason};
use crate::facts::message_of;
use crate::wire::{LEN, Reader, put_tag, put_varint, varint_size};

/// The number of the items in every list.
const ITEMS: u32 = 2;
/// How much is kept of an item that is too large, to report its name.
const HEAD_MAX: usize = 4096;

/// The pieces of a list in its envelope, which together are never held as one.
///
/// The items are messages without envelopes, as [`Message::encode`](crate::Message::encode) makes
/// them.
///
/// # Errors
/// If the kind of the list is not in the table, or its metadata does not fit.
pub fn list_pieces(
    api_version: &str,
    kind: &str,
    metadata: &Value,
    items: Vec<Bytes>,
) -> Result<impl Iterator<Item = Bytes> + Send + use<>, Error> {
    let list = message_of(api_version, kind).ok_or_else(|| unknown(api_version, kind))?;
    let mut start = Vec::new();
    list.encode(&json!({"metadata": metadata}), &mut start)?;
    let size = |item: &Bytes| 1 + varint_size(item.len() as u64) + item.len();
    let whole = start.len() + items.iter().map(size).sum::<usize>();
    let (mut head, tail) = Envelope::around(api_version, kind, whole);
    head.extend_from_slice(&start);
    let items = items.into_iter().flat_map(|item| {
        let mut head = Vec::with_capacity(6);
        put_tag(&mut head, ITEMS, LEN);
        put_varint(&mut head, item.len() as u64);
        [Bytes::from(head), item]
    });
    Ok(std::iter::once(Bytes::from(head)).chain(items).chain([Bytes::from_static(tail)]))
}

/// Cuts a list in its envelope into items.
///
/// ```
/// use windlass_protobuf::{ListReader, from_value, message_of};
/// use serde_json::json;
///
/// let list = from_value(&json!({
///     "kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
///     "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}],
/// }))?;
/// let (mut reader, mut items) = (ListReader::new(1 << 20), 0);
/// for chunk in list.chunks(5) {
///     reader.feed(chunk, &mut |_| items += 1)?;
/// }
/// assert!(reader.is_complete());
/// assert_eq!(items, 2);
/// # Ok::<(), windlass_protobuf::Error>(())
/// ```
#[derive(Debug)]
pub struct ListReader {
    /// The element that is not whole yet.
    partial: Vec<u8>,
    /// How many bytes it takes to go on.
    wanted: usize,
    begun: bool,
    /// Bytes of the list that are still missing; `None` outside of the list.
    inner: Option<usize>,
    listed: bool,
    types: Vec<u8>,
    metadata: Vec<u8>,
    size_max: usize,
    /// Bytes that are still missing of an item that is too large.
    passing: usize,
    /// The beginning of that item.
    head: Vec<u8>,
    oversized: Vec<[String; 2]>,
}

/// What the next bytes are.
enum Step {
    /// So many are done with.
    Done(usize),
    /// So many are needed.
    Wanted(usize),
}

impl ListReader {
    /// Reads a list of items of at most `size_max` bytes.
    pub fn new(size_max: usize) -> Self {
        Self {
            partial: Vec::new(),
            wanted: 0,
            begun: false,
            inner: None,
            listed: false,
            types: Vec::new(),
            metadata: Vec::new(),
            size_max,
            passing: 0,
            head: Vec::new(),
            oversized: Vec::new(),
        }
    }

    /// Takes the next bytes and hands every item that is now whole to `item`.
    ///
    /// Items that are too large are passed over and remembered by name.
    ///
    /// # Errors
    /// If the bytes are no list.
    pub fn feed(&mut self, chunk: &[u8], item: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let mut chunk = self.pass(chunk);
        while !self.partial.is_empty() {
            let missing = self.wanted.saturating_sub(self.partial.len()).min(chunk.len());
            self.partial.extend_from_slice(&chunk[..missing]);
            chunk = &chunk[missing..];
            if self.partial.len() < self.wanted {
                return Ok(());
            }
            let partial = std::mem::take(&mut self.partial);
            match self.step(&partial, item)? {
                Step::Done(len) => {
                    debug_assert_eq!(len, partial.len());
                    chunk = self.pass(chunk);
                }
                Step::Wanted(wanted) => {
                    self.wanted = wanted;
                    self.partial = partial;
                    if chunk.is_empty() {
                        return Ok(());
                    }
                }
            }
        }
        while !chunk.is_empty() {
            match self.step(chunk, item)? {
                Step::Done(len) => chunk = self.pass(&chunk[len..]),
                Step::Wanted(wanted) => {
                    self.wanted = wanted;
                    self.partial.extend_from_slice(chunk);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Leaves out what belongs to an item that is too large.
    fn pass<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        if self.passing == 0 {
            return chunk;
        }
        let len = self.passing.min(chunk.len());
        self.passing -= len;
        self.head.extend_from_slice(&chunk[..len.min(HEAD_MAX - self.head.len())]);
        if self.passing == 0 {
            self.oversized.push(names(&self.head));
            self.head.clear();
        }
        &chunk[len..]
    }

    /// Takes namespace and name of the items that were too large so far; what is not known of them
    /// is empty.
    pub fn take_oversized(&mut self) -> Vec<[String; 2]> {
        std::mem::take(&mut self.oversized)
    }

    /// Returns `true` if the list is complete, so that the body may end here.
    pub fn is_complete(&self) -> bool {
        self.passing == 0 && self.listed && self.partial.is_empty() && self.inner.is_none()
    }

    /// The message in the list's `metadata` (`ListMeta`), once it has been received.
    pub fn metadata(&self) -> &[u8] {
        &self.metadata
    }

    /// Group and version, and kind of the list.
    ///
    /// # Errors
    /// If they are no texts.
    pub fn types(&self) -> Result<(String, String), Error> {
        let texts = texts(&self.types, [1, 2])?;
        let [api_version, kind] = texts;
        Ok((api_version, kind))
    }

    /// The version of the list, and where the next page begins (empty if this is the last).
    ///
    /// # Errors
    /// If the list's metadata is malformed.
    pub fn version(&self) -> Result<(String, String), Error> {
        let [version, next] = texts(&self.metadata, [2, 3])?;
        Ok((version, next))
    }

    /// Reads one element at the beginning of `bytes`.
    fn step(&mut self, bytes: &[u8], item: &mut dyn FnMut(&[u8])) -> Result<Step, Error> {
        if !self.begun {
            let Some(head) = bytes.first_chunk::<4>() else { return Ok(Step::Wanted(4)) };
            if *head != MAGIC {
                return Err(Reason::Prefix.into());
            }
            self.begun = true;
            return Ok(Step::Done(4));
        }
        let message = if self.inner.is_some() { "List" } else { "Unknown" };
        let mut reader = Reader::new(bytes, message);
        let head = (|| {
            let (number, wire) = reader.tag()?;
            if wire != LEN {
                return Err(Error::from(Reason::IllegalWireType(wire)));
            }
            Ok((number, reader.varint()?))
        })();
        let (number, len) = match head {
            // A tag and a length take twenty bytes at most, so this comes to an end.
            Err(error) if *error.reason() == Reason::UnexpectedEnd => {
                return Ok(Step::Wanted(bytes.len() + 1));
            }
            other => other?,
        };
        let len = usize::try_from(len).map_err(|_| Reason::Length)?;
        let head = bytes.len() - reader.rest().len();
        if self.inner.is_none() && number == 2 {
            self.enter(len)?;
            return Ok(Step::Done(head));
        }
        let whole = head.saturating_add(len);
        if self.inner.is_some_and(|left| whole > left) {
            return Err(Reason::UnexpectedEnd.into());
        }
        if len > self.size_max {
            if self.inner.is_none() || number != ITEMS {
                return Err(Reason::Size(self.size_max).into());
            }
            self.inner = self.inner.map(|left| left - whole).filter(|left| *left > 0);
            self.passing = len;
            return Ok(Step::Done(head));
        }
        if bytes.len() < whole {
            return Ok(Step::Wanted(whole));
        }
        let content = &bytes[head..whole];
        match (self.inner, number) {
            (None, 1) => self.types = content.to_vec(),
            (Some(_), 1) => self.metadata = content.to_vec(),
            (Some(_), ITEMS) => item(content),
            _ => {}
        }
        self.inner = self.inner.map(|left| left - whole).filter(|left| *left > 0);
        Ok(Step::Done(whole))
    }

    fn enter(&mut self, len: usize) -> Result<(), Error> {
        if self.listed {
            return Err(Error::value("one list", "two lists"));
        }
        self.listed = true;
        self.inner = (len > 0).then_some(len);
        Ok(())
    }
}

/// Namespace and name of an object of which only the beginning is there.
fn names(head: &[u8]) -> [String; 2] {
    let mut found = [String::new(), String::new()];
    let mut reader = Reader::new(head, "ObjectMeta");
    // The metadata come first, and are longer than what is there of them.
    if !matches!(reader.tag(), Ok((1, LEN))) || reader.varint().is_err() {
        return found;
    }
    while let Ok((number, LEN)) = reader.tag() {
        let Ok(content) = reader.len() else { break };
        match number {
            1 => found[1] = String::from_utf8_lossy(content).into_owned(),
            2 => {}
            3 => found[0] = String::from_utf8_lossy(content).into_owned(),
            _ => break,
        }
    }
    found
}

/// Two texts of a message, by their numbers.
fn texts(bytes: &[u8], numbers: [u32; 2]) -> Result<[String; 2], Error> {
    let mut found = [String::new(), String::new()];
    let mut reader = Reader::new(bytes, "ListMeta");
    while !reader.is_empty() {
        match reader.tag()? {
            (number, LEN) => {
                let content = reader.len()?;
                if let Some(at) = numbers.iter().position(|n| *n == number) {
                    found[at] = String::from_utf8_lossy(content).into_owned();
                }
            }
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::from_value;

    fn list(names: &[String]) -> Vec<u8> {
        let items: Vec<_> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
        from_value(&json!({
            "kind": "PodList", "apiVersion": "v1", "items": items,
            "metadata": {"resourceVersion": "7", "continue": "next"},
        }))
        .unwrap()
    }

    #[test]
    fn a_list_that_is_cut_short_is_not_complete() {
        let bytes = list(&["a".to_owned()]);
        let mut reader = ListReader::new(1 << 20);
        reader.feed(&bytes[..bytes.len() - 10], &mut |_| {}).unwrap();
        assert!(!reader.is_complete());
        let mut small = ListReader::new(40);
        for chunk in bytes.chunks(7) {
            small.feed(chunk, &mut |_| panic!("the item is larger")).unwrap();
        }
        assert!(small.is_complete());
        assert_eq!(small.take_oversized(), [[String::new(), "a".to_owned()]]);
        assert!(small.take_oversized().is_empty());
        let error = ListReader::new(9).feed(b"{\"items\":[]}", &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("expected prefix"), "{error}");
    }

    #[test]
    fn a_list_in_pieces_is_the_list_as_a_whole() {
        let item = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n".repeat(300)}});
        let metadata = json!({"resourceVersion": "7"});
        let whole = from_value(&json!({
            "kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": [item, item],
        }));
        let mut bytes = Vec::new();
        message_of("v1", "Pod").unwrap().encode(&item, &mut bytes).unwrap();
        let items = vec![Bytes::from(bytes); 2];
        let pieces = list_pieces("v1", "PodList", &metadata, items).unwrap();
        assert_eq!(pieces.collect::<Vec<_>>().concat(), whole.unwrap());
    }

    #[test]
    fn every_list_has_its_items_at_the_same_number() {
        for message in crate::facts::all() {
            if message.name.ends_with("List") && message.fields.iter().any(|f| f.name() == "items")
            {
                assert_eq!(message.field(ITEMS).unwrap().name(), "items", "{message:?}");
                assert_eq!(message.fields.len(), 2, "{message:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_list_cut_anywhere_gives_its_items(
            names in prop::collection::vec("[a-z]{0,200}", 0..6),
            cut in 1_usize..300,
        ) {
            let bytes = list(&names);
            let (mut reader, mut count) = (ListReader::new(1 << 20), 0);
            for chunk in bytes.chunks(cut) {
                reader.feed(chunk, &mut |_| count += 1).unwrap();
            }
            prop_assert_eq!(count, names.len());
            prop_assert!(reader.is_complete());
            prop_assert_eq!(reader.version().unwrap(), ("7".to_owned(), "next".to_owned()));
            prop_assert_eq!(reader.types().unwrap(), ("v1".to_owned(), "PodList".to_owned()));
        }

        #[test]
        fn garbage_never_panics(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            cut in 1_usize..9,
        ) {
            let mut reader = ListReader::new(40);
            let bytes = [&MAGIC[..], &bytes].concat();
            for chunk in bytes.chunks(cut) {
                if reader.feed(chunk, &mut |_| {}).is_err() {
                    break;
                }
            }
        }
    }
}
