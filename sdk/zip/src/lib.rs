//! ZIP for format plugins: turns an archive into an index of extents, and a list of records into a layout.
//!
//! ```text
//! 0                                          central directory        end of file
//! | local header, data | local header, data | entry | entry | ... | end records |
//!   30 bytes, name, extra fields              46 bytes, name, ...   ZIP64: 56 and 20 bytes; always 22 bytes
//! ```
//! All numbers are little-endian. Names, sizes and CRC-32s come from the central directory; where the data
//! begins is only in the local header, whose other fields must agree. Specification: PKWARE's APPNOTE 6.3.10.

#![forbid(unsafe_code)]

mod archive;
mod end;
mod inflate;
mod layout;
mod local;
mod skeleton;
mod window;

pub use archive::{Archive, Entry, Method, is_zip};
pub use inflate::Inflate;
pub use layout::{FIRST_HOLE, HoleNumbers, ZipLayout, patch};
pub use skeleton::{Laid, Skeleton};
