//! LZ4 blocks.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

/// The table of an encoder, and room for what it makes of data that does not shrink.
pub struct Lz4 {
    table: CompressTable,
    out: Vec<u8>,
}

impl Default for Lz4 {
    fn default() -> Lz4 {
        // Whole blocks need the large one; shorter ones must not depend on what was encoded before.
        Lz4 { table: CompressTable::large(), out: Vec::new() }
    }
}

impl Lz4 {
    /// Encodes `raw`; `None` if that does not fit `out`.
    pub fn encode(&mut self, raw: &[u8], out: &mut [u8]) -> Option<usize> {
        let most = get_maximum_output_size(raw.len());
        if self.out.len() < most {
            self.out.resize(most, 0);
        }
        let len = compress_into_with_table(raw, &mut self.out, &mut self.table).ok()?;
        out.get_mut(..len)?.copy_from_slice(&self.out[..len]);
        Some(len)
    }
}

/// Decodes `data`, which must be one block; returns the length.
///
/// # Errors
/// What is wrong, in words.
pub fn decode(data: &[u8], out: &mut [u8]) -> Result<usize, String> {
    let len = decompress_into(data, out).map_err(|error| error.to_string())?;
    // Of all that may follow a block, the decoder takes only such a token, for a last sequence of nothing.
    let may_go_on = data.last().is_some_and(|last| last >> 4 == 0);
    if may_go_on && !ends_in_literals(data) {
        Err("a byte follows its last sequence".to_owned())
    } else {
        Ok(len)
    }
}

/// Returns whether a block that can be decoded ends as the format demands: in a sequence that has literals and no match.
fn ends_in_literals(block: &[u8]) -> bool {
    let mut rest = block;
    loop {
        let Some((&token, after)) = rest.split_first() else { return false };
        let Some((literals, after)) = length(token >> 4, after) else { return false };
        let Some(after) = after.get(literals..) else { return false };
        if after.is_empty() {
            return literals > 0;
        }
        let next = after.get(OFFSET_LEN..).and_then(|after| length(token & 15, after));
        let Some((_, next)) = next else { return false };
        rest = next;
    }
}

/// Bytes of the offset of a match.
const OFFSET_LEN: usize = 2;

/// A length whose first four bits are `first`, and what follows the rest of it.
fn length(first: u8, mut rest: &[u8]) -> Option<(usize, &[u8])> {
    let mut len = usize::from(first);
    let mut goes_on = first == 15;
    while goes_on {
        let (&more, after) = rest.split_first()?;
        len += usize::from(more);
        goes_on = more == 255;
        rest = after;
    }
    Some((len, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(raw: &[u8]) -> Vec<u8> {
        let mut out = vec![0; raw.len() + 100];
        let len = Lz4::default().encode(raw, &mut out).unwrap();
        out.truncate(len);
        out
    }

    #[test]
    fn a_block_has_nothing_behind_it() {
        let texts =
            [b"the quick brown fox, ".repeat(300), vec![0; 5000], (0..=255).collect(), vec![7], vec![0; 13]];
        for raw in texts {
            let block = encoded(&raw);
            let mut out = vec![0; raw.len()];
            assert_eq!(decode(&block, &mut out), Ok(raw.len()));
            assert_eq!(out, raw);
            for byte in 0..=255 {
                let longer = [&block[..], &[byte]].concat();
                assert!(decode(&longer, &mut out).is_err(), "{byte:#x} after {} bytes", block.len());
            }
            assert!(decode(&[&block[..], &[0, 0]].concat(), &mut out).is_err());
        }
    }

    #[test]
    fn a_sequence_of_any_length_is_passed() {
        // Literals and matches below, at and above 15 and 15 + 255.
        for len in [1usize, 14, 15, 16, 269, 270, 271, 600] {
            let literals: Vec<u8> = (0..len).map(|n| (n * 31 % 256).to_le_bytes()[0]).collect();
            let raw =
                [&literals[..], &[9; 4], &vec![9; len], &[1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 1, 0, 2, 0]]
                    .concat();
            assert!(ends_in_literals(&encoded(&raw)), "{len}");
        }
    }
}
