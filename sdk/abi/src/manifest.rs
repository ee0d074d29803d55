//! The manifest section of a plugin's library: a fixed head, then the text that `export_plugin!` composed.
//! Written here at compile time; the host reads it from the file before loading any of it.
//!
//! In the target's byte order, without padding. The head may grow at its end: readers skip it by `head_len`.
//!
//! | offset | field |
//! | --- | --- |
//! | 0 | magic `APRPLUG` and the version of this layout, 1 |
//! | 8, 12 | `head_len`, `text_len` |
//! | 16, 20 | version of the interface: major, minor |
//! | 24, 28 | flags (bit 0: panics unwind; bit 1: debug assertions), hash of the wire sources (0: frozen) |
//! | 32, 48, 96 | abi_stable's version (16 bytes), target triple (48), compiler (64), padded with zeros |
//! | 160 | text: `key=value` lines, UTF-8 |

use apr_sdk::{Error, Result};

/// The section's name in ELF and PE files; in Mach-O it is `__DATA,__aprplug`, which the object file reader
/// maps to this.
pub const SECTION: &str = ".aprplug";
/// The first bytes of the section; the last one is the version of its layout.
pub const MAGIC: [u8; 8] = *b"APRPLUG\x01";
/// Bytes of head that this version writes and requires.
pub const HEAD_LEN: usize = HEAD_LEN_U32 as usize;
const HEAD_LEN_U32: u32 = 160;
/// Flag: panics unwind in this library. Otherwise a panic would abort the process.
pub const UNWINDS: u32 = 1;
/// Flag: the library was built with debug assertions.
pub const DEBUG_ASSERTIONS: u32 = 2;
/// The version of abi_stable that both sides are pinned to.
pub const ABI_STABLE: &str = "0.11.3";
/// The target triple of this build.
pub const TARGET: &str = env!("APR_ABI_TARGET");
/// The hash of this build's wire sources and those of `apr-sdk`; 0 if they are frozen.
pub const WIRE_HASH: u32 = number(env!("APR_ABI_WIRE_HASH"));
/// Bytes of a manifest's text, as in `apr_sdk::Manifest::parse`.
pub const TEXT_LIMIT: u32 = 1 << 20;

/// Parses a decimal number at compile time.
pub(crate) const fn number(digits: &str) -> u32 {
    let digits = digits.as_bytes();
    let mut n = 0;
    let mut at = 0;
    while at < digits.len() {
        assert!(digits[at].is_ascii_digit(), "not a number");
        n = n * 10 + (digits[at] - b'0') as u32;
        at += 1;
    }
    n
}

const fn filled<const N: usize>(text: &str) -> [u8; N] {
    let text = text.as_bytes();
    let mut out = [0; N];
    let mut at = 0;
    while at < text.len() && at < N {
        out[at] = text[at];
        at += 1;
    }
    out
}

/// The head, as laid out in the section.
#[repr(C)]
struct RawHead {
    magic: [u8; 8],
    head_len: u32,
    text_len: u32,
    abi_major: u32,
    abi_minor: u32,
    flags: u32,
    wire_hash: u32,
    abi_stable: [u8; 16],
    target: [u8; 48],
    rustc: [u8; 64],
}

const _: () = assert!(size_of::<RawHead>() == HEAD_LEN);

/// The whole section of a plugin whose text has `N` bytes.
#[repr(C)]
pub struct Section<const N: usize> {
    head: RawHead,
    text: [u8; N],
}

impl<const N: usize> Section<N> {
    /// Builds the section for `text`. `unwinds` must be `cfg!(panic = "unwind")` evaluated in the plugin's
    /// crate.
    pub const fn new(text: &str, unwinds: bool) -> Section<N> {
        assert!(text.len() == N && N <= TEXT_LIMIT as usize, "the text's length must be the section's");
        let mut flags = 0;
        if unwinds {
            flags |= UNWINDS;
        }
        if cfg!(debug_assertions) {
            flags |= DEBUG_ASSERTIONS;
        }
        #[allow(clippy::cast_possible_truncation, reason = "asserted above: at most 2^20")]
        let text_len = N as u32;
        Section {
            head: RawHead {
                magic: MAGIC,
                head_len: HEAD_LEN_U32,
                text_len,
                abi_major: crate::ABI.0,
                abi_minor: crate::ABI.1,
                flags,
                wire_hash: WIRE_HASH,
                abi_stable: filled(ABI_STABLE),
                target: filled(TARGET),
                rustc: filled(env!("APR_ABI_RUSTC")),
            },
            text: filled(text),
        }
    }

    /// The section from its first byte to the end of the text.
    pub const fn bytes(&'static self) -> &'static [u8] {
        // SAFETY: the struct is `repr(C)`, made of byte arrays and 4-aligned numbers at 4-aligned offsets
        // (the size assert above shows that the head has no padding); the length excludes any padding after
        // the text; it is a static, so it lives forever and is never written.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), HEAD_LEN + N) }
    }
}

/// The decoded contents of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The interface version the plugin was built for: major, minor.
    pub abi: (u32, u32),
    /// True if panics unwind.
    pub unwinds: bool,
    /// True if it was built with debug assertions.
    pub debug_assertions: bool,
    /// The hash of the wire sources; 0: frozen.
    pub wire_hash: u32,
    /// The version of abi_stable.
    pub abi_stable: String,
    /// The target triple.
    pub target: String,
    /// The compiler; for diagnosis only.
    pub rustc: String,
    /// The manifest text.
    pub text: String,
}

fn wrong(what: &str) -> Error {
    Error::plugin(format!("its manifest section {what}")).code("E_NOT_A_PLUGIN")
}

/// Decodes a section. No number is trusted: the file has not been loaded yet. `big_endian` is the file's byte
/// order. Also returns the length of head and text; linkers may pad a section.
///
/// # Errors
/// Plugin with `E_NOT_A_PLUGIN`.
pub fn parse(section: &[u8], big_endian: bool) -> Result<(Head, usize)> {
    let fixed = section.get(..HEAD_LEN).ok_or_else(|| wrong("is too short"))?;
    if fixed[..8] != MAGIC {
        return Err(wrong("does not start with the magic"));
    }
    let number = |at: usize| -> u32 {
        let bytes = [fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]];
        if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    let head_len = number(8);
    let text_len = number(12);
    if text_len > TEXT_LIMIT {
        return Err(wrong("has text that is too long"));
    }
    let start = usize::try_from(head_len).ok().filter(|n| *n >= HEAD_LEN);
    let end = head_len.checked_add(text_len).and_then(|end| usize::try_from(end).ok());
    let text = start.zip(end).and_then(|(start, end)| section.get(start..end));
    let (text, end) = text.zip(end).ok_or_else(|| wrong("is shorter than its header states"))?;
    let text = std::str::from_utf8(text).map_err(|_| wrong("has text that is not valid UTF-8"))?;
    let flags = number(24);
    let head = Head {
        abi: (number(16), number(20)),
        unwinds: flags & UNWINDS != 0,
        debug_assertions: flags & DEBUG_ASSERTIONS != 0,
        wire_hash: number(28),
        abi_stable: word(&fixed[32..48])?,
        target: word(&fixed[48..96])?,
        rustc: word(&fixed[96..160])?,
        text: text.to_owned(),
    };
    Ok((head, end))
}

/// A text that zeros may follow.
fn word(bytes: &[u8]) -> Result<String> {
    let word = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    std::str::from_utf8(word).map(str::to_owned).map_err(|_| wrong("has a header that is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "id=toy\nversion=1.2\n";
    static TOY: Section<{ TEXT.len() }> = Section::new(TEXT, true);

    #[test]
    fn what_is_written_is_read() {
        let (head, len) = parse(TOY.bytes(), cfg!(target_endian = "big")).unwrap();
        assert_eq!((head.text.as_str(), len), (TEXT, HEAD_LEN + TEXT.len()));
        assert_eq!((head.abi, head.unwinds, head.wire_hash), (crate::ABI, true, WIRE_HASH));
        assert_eq!((head.target.as_str(), head.abi_stable.as_str()), (TARGET, ABI_STABLE));
        assert!(head.rustc.starts_with("rustc 1."), "{}", head.rustc);
    }

    #[test]
    fn every_cut_and_every_bad_length_is_an_error() {
        let good = TOY.bytes().to_vec();
        for len in 0..good.len() {
            assert!(parse(&good[..len], false).is_err(), "{len}");
        }
        for (at, value) in [(8, u32::MAX), (8, 0), (8, 159), (8, 161), (12, u32::MAX), (12, 1 << 19)] {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
            assert!(parse(&bad, cfg!(target_endian = "big")).is_err(), "{at} {value}");
        }
        for at in [0, 7, 48, 160] {
            let mut bad = good.clone();
            bad[at] = 0xff;
            assert!(parse(&bad, cfg!(target_endian = "big")).is_err(), "{at}");
        }
    }
}
