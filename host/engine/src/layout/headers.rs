//! A layout's files before their payload is written: the bytes that its writer provided, and zeros elsewhere.
//! Models can be opened from these as far as headers alone allow.

use super::{OutputFile, Segment};
use crate::place::{Backing, Version};
use crate::values::usize_of;
use apr_sdk::Result;
use std::sync::Arc;

/// One such file.
struct Headers {
    number: u64,
    len: u64,
    /// Runs of bytes, by offset.
    held: Vec<(u64, Vec<u8>)>,
}

/// The files of a layout without their payload.
pub fn headers(files: &[OutputFile]) -> Vec<Arc<dyn Backing>> {
    let mut all: Vec<Arc<dyn Backing>> = Vec::with_capacity(files.len());
    for (number, file) in (0..).zip(files) {
        let inline = file.segments.iter().filter_map(|placed| match &placed.segment {
            Segment::Inline(bytes) => Some((placed.offset, bytes.clone())),
            _ => None,
        });
        all.push(Arc::new(Headers { number, len: file.len, held: inline.collect() }));
    }
    all
}

impl Backing for Headers {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        out.fill(0);
        let end = offset.saturating_add(out.len() as u64);
        let first = self.held.partition_point(|(at, bytes)| at + bytes.len() as u64 <= offset);
        for (at, bytes) in self.held[first..].iter().take_while(|(at, _)| *at < end) {
            let from = offset.max(*at);
            let to = end.min(at + bytes.len() as u64);
            let room = out.get_mut(usize_of(from - offset)..usize_of(to - offset));
            let bytes = bytes.get(usize_of(from - at)..usize_of(to - at));
            if let (Some(room), Some(bytes)) = (room, bytes) {
                room.copy_from_slice(bytes);
            }
        }
        Ok(())
    }

    fn version(&self) -> Option<Version> {
        Some(Version { len: self.len, ..Version::default() })
    }

    fn identity(&self) -> Option<(u64, u64)> {
        // No device has this number.
        Some((u64::MAX, self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Placed;

    #[test]
    fn payload_reads_as_zeros_around_what_is_held() {
        let segments = vec![
            Placed { offset: 0, segment: Segment::Inline(vec![1, 2, 3]), len: 3 },
            Placed { offset: 3, segment: Segment::Pad { to: 7 }, len: 4 },
            Placed { offset: 7, segment: Segment::Inline(vec![4, 5]), len: 2 },
            Placed { offset: 9, segment: Segment::Payload { tensor: 0, encoded: None }, len: 3 },
        ];
        let files = [OutputFile { name: "m".to_owned(), segments, len: 12, floats_from: None }];
        let whole = [1, 2, 3, 0, 0, 0, 0, 4, 5, 0, 0, 0];
        let backing = &headers(&files)[0];
        for from in 0..12 {
            for to in from..12 {
                let mut out = vec![9; to - from];
                backing.read_at(from as u64, &mut out).unwrap();
                assert_eq!(out, whole[from..to]);
            }
        }
    }
}
