//! A payload of zstd frames, decoded in order and a window at a time.

use apr_sdk::{Error, Extent, Result, Source, Stream};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, Read};

/// The largest window of a frame of level 19, the highest that is written.
pub const WINDOW: u64 = 8 << 20;
/// Bytes that are decoded at a time.
const STEP: usize = 64 << 10;

/// The decoded bytes of a payload.
pub struct Frames {
    decoder: FrameDecoder,
    /// The frames in the file.
    stored: Extent,
    /// Offset of the next byte that is decoded.
    at: u64,
    /// Decoded bytes that are still to come.
    left: u64,
}

impl Frames {
    /// The payload at `stored`, which has `raw_len` decoded bytes.
    pub fn new(stored: Extent, raw_len: u64) -> Frames {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW);
        Frames { decoder, stored, at: stored.offset, left: raw_len }
    }

    fn end(&self) -> u64 {
        self.stored.offset.saturating_add(self.stored.len)
    }

    /// Decodes until bytes can be taken, or the payload is at its end.
    fn decode(&mut self, source: &dyn Source) -> Result<()> {
        while self.decoder.can_collect() == 0 && (self.at < self.end() || !self.decoder.is_finished()) {
            let at = self.at;
            let mut input =
                Input { source, stored: self.stored, at: self.at, end: self.end(), failure: None };
            let done = match self.decoder.is_finished() {
                true => self.decoder.init(&mut input),
                false => {
                    let step = BlockDecodingStrategy::UptoBytes(STEP);
                    self.decoder.decode_blocks(&mut input, step).map(drop)
                }
            };
            self.at = input.at;
            if let Some(failure) = input.failure {
                return Err(failure);
            }
            done.map_err(|e| Error::malformed(format!("the zstd payload is corrupt: {e}")).at(at))?;
        }
        Ok(())
    }

    /// Fills the start of `out`; returns how many bytes, 0 at the end.
    fn take(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        if wanted == 0 {
            return Ok(0);
        }
        self.decode(source)?;
        let read = self.decoder.read(&mut out[..wanted]).unwrap_or_default();
        self.left -= read as u64;
        if read == 0 {
            let message =
                format!("the payload is {} uncompressed bytes shorter than the header states", self.left);
            return Err(Error::malformed(message).at(self.at));
        }
        if self.left == 0 {
            self.decode(source)?;
            if self.decoder.can_collect() > 0 {
                let message = "the payload has more uncompressed bytes than the header states";
                return Err(Error::malformed(message).at(self.at));
            }
        }
        Ok(read)
    }
}

impl Stream for Frames {
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        self.take(source, out).map_err(|e| e.in_file(source.name(self.stored.file)))
    }
}

/// What is left of the frames in the file.
struct Input<'a> {
    source: &'a dyn Source,
    stored: Extent,
    at: u64,
    end: u64,
    /// The source's own error.
    failure: Option<Error>,
}

impl Read for Input<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(out.len());
        self.source.read_at(self.stored.file, self.at, &mut out[..len]).map_err(|error| {
            let message = error.message().to_owned();
            self.failure = Some(error);
            io::Error::other(message)
        })?;
        self.at += len as u64;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::MemorySource;

    /// Two raw frames: `abc` and `de`.
    const FRAMES: &[u8] = &[
        0x28, 0xb5, 0x2f, 0xfd, 0x20, 3, 0x19, 0, 0, b'a', b'b', b'c', //
        0x28, 0xb5, 0x2f, 0xfd, 0x20, 2, 0x11, 0, 0, b'd', b'e',
    ];

    fn read(bytes: &[u8], raw_len: u64) -> Result<Vec<u8>> {
        let source = MemorySource::new("m", bytes);
        let mut frames = Frames::new(Extent::new(0, 0, bytes.len() as u64), raw_len);
        let (mut out, mut piece) = (Vec::new(), [0; 2]);
        loop {
            match frames.read(&source, &mut piece)? {
                0 => return Ok(out),
                len => out.extend_from_slice(&piece[..len]),
            }
        }
    }

    #[test]
    fn frames_follow_one_another() {
        assert_eq!(read(FRAMES, 5).unwrap(), b"abcde");
        assert_eq!(read(&FRAMES[..12], 3).unwrap(), b"abc");
        assert_eq!(read(&[], 0).unwrap(), b"");
    }

    #[test]
    fn lies_about_the_length_are_refused() {
        let short = read(FRAMES, 6).unwrap_err();
        assert!(short.message().contains("1 uncompressed bytes shorter"), "{short}");
        for len in [3, 4] {
            let long = read(FRAMES, len).unwrap_err();
            assert!(long.message().contains("more uncompressed bytes"), "{long}");
        }
        for cut in 1..FRAMES.len() {
            assert!(read(&FRAMES[..cut], 5).is_err(), "cut to {cut} bytes");
        }
    }

    #[test]
    fn windows_larger_than_any_that_is_written_are_refused() {
        // A frame whose descriptor asks for a window of 1 GiB.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 0x19, 0, 0, b'a', b'b', b'c'];
        assert!(read(&frame, 3).is_err());
    }
}
