//! The bytes of one object, packed where that pays.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use lz4_flex::block::{
    CompressTable, compress_into_with_dict, compress_into_with_table, decompress_into,
    decompress_into_with_dict, get_maximum_output_size,
};

/// Larger objects are packed by themselves, and smaller ones beside a sample of their kind.
const SMALL: usize = 1024;
/// Objects up to this size leave their room behind for the next.
const UNPACKED_MAX: usize = 256 << 10;

thread_local! {
    /// Where objects are unpacked to be decoded.
    static UNPACKED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The bytes of one object.
pub(super) enum Body {
    Plain(Box<[u8]>),
    Packed {
        bytes: Box<[u8]>,
        len: u32,
    },
    /// Only what differs from a sample.
    Alike {
        bytes: Box<[u8]>,
        len: u32,
        sample: Arc<Box<[u8]>>,
    },
}

/// Packs bytes; keeps what is used from one object to the next.
#[derive(Default)]
pub(super) struct Packer {
    room: Vec<u8>,
    table: CompressTable,
    /// The first small object. Others of its kind have the same fields, and often the same values.
    sample: Option<Arc<Box<[u8]>>>,
}

// === impl Body ===

impl Body {
    pub(super) fn plain(bytes: &[u8]) -> Self {
        Self::Plain(bytes.into())
    }

    /// Returns how many bytes are kept.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Plain(bytes) | Self::Packed { bytes, .. } | Self::Alike { bytes, .. } => {
                bytes.len()
            }
        }
    }

    /// Returns the bytes as they were.
    pub(super) fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Plain(bytes) => Cow::Borrowed(bytes),
            _ => Cow::Owned(self.read(<[u8]>::to_vec)),
        }
    }

    /// Passes the bytes to a function.
    pub(super) fn read<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        let (bytes, len, sample) = match self {
            Self::Plain(bytes) => return read(bytes),
            Self::Packed { bytes, len } => (bytes, *len as usize, None),
            Self::Alike { bytes, len, sample } => (bytes, *len as usize, Some(sample)),
        };
        // Taken out, so that a type which decodes another entry meanwhile finds another.
        let mut room = UNPACKED.take();
        if room.len() < len {
            room.resize(len, 0);
        }
        let unpacked = match sample {
            None => decompress_into(bytes, &mut room[..len]),
            Some(sample) => decompress_into_with_dict(bytes, &mut room[..len], sample),
        };
        let result = read(&room[..unpacked.expect("unpacks what was packed here")]);
        if room.len() <= UNPACKED_MAX {
            UNPACKED.set(room);
        }
        result
    }
}

// === impl Packer ===

impl Packer {
    /// Packs bytes if that makes them smaller by more than an eighth.
    pub(super) fn pack(&mut self, bytes: &[u8]) -> Body {
        let Ok(len) = u32::try_from(bytes.len()) else { return Body::plain(bytes) };
        let most = get_maximum_output_size(bytes.len());
        if self.room.len() < most {
            self.room.resize(most, 0);
        }
        let sample = match (bytes.len() > SMALL, &self.sample) {
            (true, _) => None,
            (false, Some(sample)) => Some(sample.clone()),
            (false, None) => {
                self.sample = Some(Arc::new(bytes.into()));
                return Body::plain(bytes);
            }
        };
        let packed = match &sample {
            None => compress_into_with_table(bytes, &mut self.room, &mut self.table),
            Some(sample) => compress_into_with_dict(bytes, &mut self.room, sample),
        };
        let Some(packed) = packed.ok().filter(|packed| packed + packed / 8 < bytes.len()) else {
            return Body::plain(bytes);
        };
        let bytes = self.room[..packed].into();
        match sample {
            None => Body::Packed { bytes, len },
            Some(sample) => Body::Alike { bytes, len, sample },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn metadata(n: usize) -> String {
        format!(
            r#"{{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{{
            "creationTimestamp":"2026-01-01T00:00:{:02}Z","labels":{{"app":"web"}},
            "name":"object-{n:06}","namespace":"default","resourceVersion":"{n}",
            "uid":"{n:08x}-0000-4000-8000-{:012x}"}}}}"#,
            n % 60,
            n * 7919
        )
    }

    #[test]
    fn small_objects_of_a_kind_keep_what_differs_only() {
        let mut packer = Packer::default();
        let all: Vec<_> = (0..100).map(metadata).collect();
        let bodies: Vec<_> = all.iter().map(|text| packer.pack(text.as_bytes())).collect();
        let kept: usize = bodies.iter().map(Body::size).sum();
        let came: usize = all.iter().map(String::len).sum();
        assert!(kept * 2 < came, "{kept} of {came}");
        for (body, text) in bodies.iter().zip(&all) {
            assert_eq!(body.bytes(), text.as_bytes());
        }
    }

    #[test]
    fn a_body_takes_no_more_room_than_four_words() {
        assert!(size_of::<Body>() <= 4 * size_of::<usize>(), "{}", size_of::<Body>());
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(
            all in prop::collection::vec(
                prop_oneof!["[a-c]{0,40}", "[ -~]{0,3000}", "(ab|\\{\"x\":1\\}){0,600}"],
                1..8,
            ),
        ) {
            let mut packer = Packer::default();
            for text in all {
                let body = packer.pack(text.as_bytes());
                prop_assert_eq!(body.bytes(), text.as_bytes());
                body.read(|bytes| assert_eq!(bytes, text.as_bytes()));
            }
        }
    }
}
