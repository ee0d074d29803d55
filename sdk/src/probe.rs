//! Format detection: data first (the manifest's magic and extensions), then code that sees a bounded part of
//! the file.

/// A format's confidence that a file is its own. The host compares scores; a tie is an error naming both formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score(pub u32);

impl Score {
    /// Not this format. Not an error.
    pub const NO: Score = Score(0);
    /// Only the extension matches.
    pub const EXTENSION: Score = Score(20);
    /// The structure matches, but the format has no magic.
    pub const STRUCTURE: Score = Score(50);
    /// The magic matches.
    pub const MAGIC: Score = Score(80);
    /// Magic and version match.
    pub const MAGIC_AND_VERSION: Score = Score(100);
}

/// All that a probe may see: the name, the length, the first and last bytes, or a folder's entries. It cannot
/// read further.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// The file's or folder's name without its path.
    pub name: &'a str,
    /// The file's length in bytes; 0 for a folder.
    pub len: u64,
    /// The first bytes, at most [`Look::HEAD`]. For a folder, those of the file that the format's manifest
    /// claims.
    pub head: &'a [u8],
    /// The last bytes, at most [`Look::TAIL`].
    pub tail: &'a [u8],
    /// True if it is a folder.
    pub is_folder: bool,
    /// The names in the folder, sorted; empty for a file, whose neighbours no probe sees.
    pub entries: &'a [String],
}

impl Look<'_> {
    /// Number of leading bytes that a probe sees.
    pub const HEAD: usize = 16 * 1024;
    /// Number of trailing bytes that a probe sees.
    pub const TAIL: usize = 1024;

    /// Returns whether the file begins with `magic`.
    pub fn head_is(&self, magic: &[u8]) -> bool {
        self.head.starts_with(magic)
    }

    /// The little-endian u32 at offset `at` of the head; `None` if the head is too short.
    pub fn u32_le(&self, at: usize) -> Option<u32> {
        let bytes = self.head.get(at..at.checked_add(4)?)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    }

    /// The little-endian u64 at offset `at` of the head; `None` if the head is too short.
    pub fn u64_le(&self, at: usize) -> Option<u64> {
        let bytes = self.head.get(at..at.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }
}
