//! Cuts a watch into frames: four bytes of length, most significant first, then the event.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::{Error, Reason};

/// Cuts bytes into frames as they arrive.
///
/// ```
/// use bytes::Bytes;
/// use windlass_protobuf::Frames;
///
/// let mut frames = Frames::new(1024);
/// frames.push(Bytes::from_static(b"\0\0\0\x02ab\0\0\0"));
/// assert_eq!(frames.next_frame()?, Some(Bytes::from_static(b"ab")));
/// assert_eq!(frames.next_frame()?, None);
/// assert!(!frames.is_empty(), "the length of the next");
/// frames.push(Bytes::from_static(b"\x01c"));
/// assert_eq!(frames.next_frame()?, Some(Bytes::from_static(b"c")));
/// # Ok::<(), windlass_protobuf::Error>(())
/// ```
#[derive(Debug)]
pub struct Frames {
    chunk: Bytes,
    /// The beginning of a frame that came in earlier chunks.
    partial: BytesMut,
    size_max: usize,
}

impl Frames {
    /// Frames of at most `size_max` bytes.
    pub fn new(size_max: usize) -> Self {
        Self { chunk: Bytes::new(), partial: BytesMut::new(), size_max }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            let mut joined = BytesMut::from(&self.chunk[..]);
            joined.extend_from_slice(&chunk);
            self.chunk = joined.freeze();
        }
    }

    /// Returns `true` if no part of a frame is buffered.
    pub fn is_empty(&self) -> bool {
        self.chunk.is_empty() && self.partial.is_empty()
    }

    /// Returns the next whole frame, if there is one.
    ///
    /// # Errors
    /// If the frame is larger than allowed.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if self.partial.is_empty() && self.chunk.len() >= 4 {
                let len =
                    self.len_of([self.chunk[0], self.chunk[1], self.chunk[2], self.chunk[3]])?;
                if self.chunk.len() >= 4 + len {
                    self.chunk.advance(4);
                    return Ok(Some(self.chunk.split_to(len)));
                }
            }
            if self.chunk.is_empty() {
                return Ok(None);
            }
            let wanted = match self.partial.first_chunk::<4>() {
                None => 4,
                Some(head) => 4 + self.len_of(*head)?,
            };
            let take = (wanted - self.partial.len()).min(self.chunk.len());
            self.partial.extend_from_slice(&self.chunk.split_to(take));
            if let Some(head) = self.partial.first_chunk::<4>()
                && self.partial.len() == 4 + self.len_of(*head)?
            {
                let mut frame = self.partial.split().freeze();
                frame.advance(4);
                return Ok(Some(frame));
            }
        }
    }

    /// Returns `true` if a frame has begun but is incomplete.
    pub fn is_partial(&self) -> bool {
        !self.partial.is_empty() || !self.chunk.is_empty()
    }

    fn len_of(&self, head: [u8; 4]) -> Result<usize, Error> {
        let len = u32::from_be_bytes(head) as usize;
        match len > self.size_max {
            true => Err(Reason::Size(self.size_max).into()),
            false => Ok(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_above_the_limit_is_an_error_and_not_a_buffer() {
        let mut frames = Frames::new(8);
        frames.push(Bytes::from_static(b"\0\0\0\x09"));
        assert_eq!(frames.next_frame().unwrap_err().to_string(), "message is larger than 8 bytes");
    }

    proptest! {
        #[test]
        fn frames_cut_anywhere_come_out_whole(
            wanted in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..6),
            cut in 1_usize..30,
        ) {
            let mut bytes = Vec::new();
            for frame in &wanted {
                bytes.extend_from_slice(&(frame.len() as u32).to_be_bytes());
                bytes.extend_from_slice(frame);
            }
            let (mut frames, mut found) = (Frames::new(64), Vec::new());
            for chunk in bytes.chunks(cut) {
                frames.push(Bytes::copy_from_slice(chunk));
                while let Some(frame) = frames.next_frame().unwrap() {
                    found.push(frame.to_vec());
                }
            }
            prop_assert_eq!(found, wanted);
            prop_assert!(!frames.is_partial());
        }
    }
}
