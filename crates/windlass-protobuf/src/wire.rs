//! Protobuf's wire format: tags, varints, lengths.

use crate::error::{Error, Reason};

pub(crate) const VARINT: u8 = 0;
pub(crate) const FIXED64: u8 = 1;
pub(crate) const LEN: u8 = 2;
pub(crate) const GROUP: u8 = 3;
pub(crate) const GROUP_END: u8 = 4;
pub(crate) const FIXED32: u8 = 5;

/// Groups within groups that are skipped at most.
const GROUPS_MAX: usize = 64;

/// Reads a message field by field.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// Who is named by an error in a tag.
    message: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], message: &'static str) -> Self {
        Self { bytes, message }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes that are still to be read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Error> {
        match self.bytes {
            [low @ ..=0x7f, rest @ ..] => {
                self.bytes = rest;
                Ok(u64::from(*low))
            }
            [low, high @ ..=0x7f, rest @ ..] => {
                self.bytes = rest;
                Ok(u64::from(*low & 0x7f) | u64::from(*high) << 7)
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Error> {
        let mut value = 0;
        for (at, byte) in self.bytes.iter().enumerate() {
            if at == 10 {
                return Err(Reason::Overflow.into());
            }
            value |= u64::from(byte & 0x7f).checked_shl(7 * at as u32).unwrap_or(0);
            if *byte < 0x80 {
                self.bytes = &self.bytes[at + 1..];
                return Ok(value);
            }
        }
        Err(Reason::UnexpectedEnd.into())
    }

    /// Number and wire type of the next field.
    #[inline]
    pub(crate) fn tag(&mut self) -> Result<(u32, u8), Error> {
        let tag = self.varint()?;
        let number = (tag >> 3) as i32;
        let wire = (tag & 7) as u8;
        if wire == GROUP_END {
            return Err(Reason::EndGroup(self.message).into());
        }
        if number <= 0 {
            return Err(Reason::IllegalTag { message: self.message, number, tag }.into());
        }
        Ok((number as u32, wire))
    }

    /// The type of the next field, whose tag is read only if it has this number.
    #[inline]
    pub(crate) fn again(&mut self, number: u32) -> Option<u8> {
        // An error would be made for nothing.
        if self.is_empty() {
            return None;
        }
        let mut ahead = self.clone();
        let (next, wire) = ahead.tag().ok()?;
        (next == number).then(|| {
            *self = ahead;
            wire
        })
    }

    #[inline]
    pub(crate) fn len(&mut self) -> Result<&'a [u8], Error> {
        let len = self.varint()?;
        if len > i64::MAX as u64 {
            return Err(Reason::Length.into());
        }
        self.take(usize::try_from(len).map_err(|_| Reason::Length)?)
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let (head, rest) = self.bytes.split_at_checked(len).ok_or(Reason::UnexpectedEnd)?;
        self.bytes = rest;
        Ok(head)
    }

    pub(crate) fn fixed64(&mut self) -> Result<u64, Error> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes were taken")))
    }

    /// Skips a value of an unknown field.
    pub(crate) fn skip(&mut self, wire: u8) -> Result<(), Error> {
        let mut open = 0;
        let mut wire = wire;
        loop {
            match wire {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.take(8)?),
                LEN => drop(self.len()?),
                FIXED32 => drop(self.take(4)?),
                GROUP if open == GROUPS_MAX => return Err(Reason::Depth.into()),
                GROUP => open += 1,
                GROUP_END => open -= 1,
                other => return Err(Reason::IllegalWireType(other).into()),
            }
            if open == 0 {
                return Ok(());
            }
            let tag = self.varint()?;
            wire = (tag & 7) as u8;
        }
    }
}

/// Appends a varint.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a tag.
#[inline]
pub(crate) fn put_tag(out: &mut Vec<u8>, number: u32, wire: u8) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire));
}

/// Appends bytes with their length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends what `fill` writes, with its length before it.
pub(crate) fn put_sized<E>(
    out: &mut Vec<u8>,
    fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    // Most messages are shorter than 128 bytes, so one byte is held free; longer ones are moved.
    let at = out.len();
    out.push(0);
    fill(out)?;
    let len = out.len() - at - 1;
    if len < 0x80 {
        out[at] = len as u8;
        return Ok(());
    }
    let mut prefix = Vec::with_capacity(10);
    put_varint(&mut prefix, len as u64);
    out.splice(at..=at, prefix);
    Ok(())
}

/// How many bytes a varint takes.
pub(crate) fn varint_size(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invalid_numbers_and_lengths_are_reported_in_the_words_of_go() {
        let read = |bytes: &[u8]| Reader::new(bytes, "Pod").tag().unwrap_err().to_string();
        assert_eq!(read(&[0x80]), "unexpected EOF");
        assert_eq!(read(&[0xff; 11]), "proto: integer overflow");
        assert_eq!(read(&[0x02]), "proto: Pod: illegal tag 0 (wire type 2)");
        assert_eq!(read(&[0x0c]), "proto: Pod: wiretype end group for non-group");
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Reader::new(&huge, "Pod").len(), Err(Reason::Length.into()));
        assert_eq!(Reader::new(&[5, 1], "Pod").len(), Err(Reason::UnexpectedEnd.into()));
        assert_eq!(Reader::new(&[], "Pod").skip(7), Err(Reason::IllegalWireType(7).into()));
    }

    #[test]
    fn a_group_is_passed_over_with_all_that_is_in_it() {
        let bytes = [0x08, 1, 0x13, 0x1a, 1, 9, 0x14, 0x0c, 0x08, 5];
        let mut reader = Reader::new(&bytes, "Pod");
        reader.skip(GROUP).unwrap();
        assert_eq!(reader.rest(), [0x08, 5]);
    }

    proptest! {
        #[test]
        fn a_varint_comes_back(value in any::<u64>()) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_size(value));
            let mut reader = Reader::new(&out, "");
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn sized_content_has_its_length_before_it(len in 0_usize..40_000) {
            let mut out = vec![7];
            put_sized(&mut out, |out| { out.resize(out.len() + len, 1); Ok::<_, ()>(()) }).unwrap();
            let mut reader = Reader::new(&out[1..], "");
            prop_assert_eq!(reader.len().unwrap().len(), len);
            prop_assert!(reader.is_empty());
        }
    }
}
