//! Pointers of Git LFS: small texts in the place of files that were never fetched.

use apr_sdk::Error;

/// The first bytes of a pointer. Source: the LFS specification, `docs/spec.md`, "The Pointer".
pub const MARK: &[u8] = b"version https://git-lfs.github.com/spec/";

/// The remedy.
pub const HINT: &str = "run `git lfs pull` in its folder";

/// Bytes of a pointer at most. Source: as [`MARK`].
const LONGEST: u64 = 1024;

/// A pointer of so many bytes, in words.
pub fn description(len: u64) -> String {
    format!("a {len}-byte Git LFS pointer: the file itself was never fetched")
}

/// Returns whether bytes read from the start of a file of this length may be those of a pointer.
pub fn may_begin(len: u64, bytes: &[u8]) -> bool {
    len < LONGEST && !bytes.is_empty() && (MARK.starts_with(bytes) || bytes.starts_with(MARK))
}

/// The error for a pointer that is read as a part of a model.
pub fn refusal(len: u64) -> Error {
    Error::malformed(format!("this is {}", description(len))).code("E001").hint(HINT)
}
