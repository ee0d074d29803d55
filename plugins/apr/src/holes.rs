//! Holes of the layout: what is known only when the payload is written.

use crate::shards::ManifestPiece;
use apr_sdk::{Error, PatchSink, Result, Sum, Written, WrittenHole, WrittenTensor};

/// The bits of a hole's number that say what goes there; the others number a file, an input or a tensor.
pub const KIND: u32 = 0xf << 28;
/// The checksum in the footer of a file.
pub const FOOTER: u32 = 1 << 28;
/// The checksum of a shard in the manifest.
pub const SHARD_CRC: u32 = 2 << 28;
/// The checksum of an input.
pub const INPUT: u32 = 3 << 28;
/// Offset and size of a tensor in the index.
pub const PLACE: u32 = 4 << 28;
/// The table of block lengths of a file, at the start of its data section.
pub const LENGTHS: u32 = 5 << 28;
/// The size in the footer of a file.
pub const FILE_SIZE: u32 = 6 << 28;
/// The size of a shard in the manifest.
pub const SHARD_SIZE: u32 = 7 << 28;

/// Fills all holes.
///
/// # Errors
/// Any error from the sink; Plugin if something was not written.
pub fn fill(written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
    let holes = Holes(written);
    let data_sections: Vec<&WrittenHole> =
        written.holes.iter().filter(|hole| hole.id & KIND == LENGTHS).collect();
    for hole in &written.holes {
        match hole.id & KIND {
            INPUT => {
                // An input without payload may be missing from the list; the checksum of nothing is 0.
                let input = written.inputs.get(number(hole) as usize);
                let crc = input.and_then(|input| input.digests.get(Sum::CRC32_HEX));
                sink.fill(hole.id, crc.unwrap_or(b"00000000"))?;
            }
            PLACE => {
                let tensor = written.tensors.get(number(hole) as usize).ok_or_else(missing)?;
                let data = data_sections.iter().find(|hole| hole.file == tensor.file).ok_or_else(missing)?;
                let offset = tensor.offset.checked_sub(data.offset).ok_or_else(missing)?;
                let place = [offset, tensor.stored_len].map(u64::to_le_bytes);
                sink.fill(hole.id, place.as_flattened())?;
            }
            LENGTHS => sink.fill(hole.id, &holes.lengths(hole.file)?)?,
            FILE_SIZE => sink.fill(hole.id, &holes.size_of(hole.file)?.to_le_bytes())?,
            SHARD_SIZE => {
                let file = holes.of(FOOTER, |footer| number(footer) == number(hole))?.file;
                let text = format!("{:1$}", holes.size_of(file)?, ManifestPiece::SIZE_LEN);
                sink.fill(hole.id, text.as_bytes())?;
            }
            _ => {}
        }
    }
    // Checksums of files last: they cover the holes that are filled by now.
    for hole in written.holes.iter().filter(|hole| hole.id & KIND == FOOTER) {
        sink.fill_digest(hole.id, hole.file, 0, hole.offset, Sum::CRC32)?;
    }
    for hole in written.holes.iter().filter(|hole| hole.id & KIND == SHARD_CRC) {
        // The same as in its footer: including the footer, every shard of this length would have the same
        // checksum.
        let footer = holes.of(FOOTER, |footer| number(footer) == number(hole))?;
        sink.fill_digest(hole.id, footer.file, 0, footer.offset, Sum::CRC32_HEX)?;
    }
    Ok(())
}

fn number(hole: &WrittenHole) -> u32 {
    hole.id & !KIND
}

#[cold]
fn missing() -> Error {
    Error::plugin("a file or a tensor was never written")
}

struct Holes<'w>(&'w Written);

impl Holes<'_> {
    /// The hole of this kind that is meant.
    fn of(&self, kind: u32, is_meant: impl Fn(&WrittenHole) -> bool) -> Result<&WrittenHole> {
        let holes = &self.0.holes;
        holes.iter().find(|hole| hole.id & KIND == kind && is_meant(hole)).ok_or_else(missing)
    }

    fn size_of(&self, file: u32) -> Result<u64> {
        self.0.files.get(file as usize).map(|file| file.len).ok_or_else(missing)
    }

    /// The lengths of all blocks in a file, by the offset of their tensors.
    fn lengths(&self, file: u32) -> Result<Vec<u8>> {
        let mut tensors: Vec<&WrittenTensor> =
            self.0.tensors.iter().filter(|tensor| tensor.file == file && !tensor.blocks.is_empty()).collect();
        tensors.sort_by_key(|tensor| tensor.offset);
        let mut bytes = Vec::new();
        for len in tensors.iter().flat_map(|tensor| &tensor.blocks) {
            let len = u32::try_from(*len).map_err(|_| Error::plugin("a block of more than 4 GiB"))?;
            bytes.extend_from_slice(&len.to_le_bytes());
        }
        Ok(bytes)
    }
}
