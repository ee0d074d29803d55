//! The manifest section of a plugin's library: a fixed head, then the text that `export_plugin!` composed. Written
//! here at compile time, read by the host from the file before any of it is loaded.
//!
//! Bytes, in the target's byte order, without padding; the head may grow at its end, readers skip by `head_len`:
//!
//! | offset | field |
//! | --- | --- |
//! | 0 | magic `APRPLUG` and the version of this layout, 1 |
//! | 8, 12 | `head_len`, `text_len` |
//! | 16, 20 | the interface's version: major, minor |
//! | 24, 28 | flags (bit 0: panics unwind; bit 1: debug assertions), the hash of the wire sources (0: frozen) |
//! | 32, 48, 96 | abi_stable's version (16 bytes), target triple (48), compiler (64), filled with zeros |
//! | 160 | text: `key=value` lines, UTF-8 |

use apr_sdk::{Error, Result};

/// The section's name in ELF and PE files; Mach-O says `__DATA,__aprplug`, which the reader of object files maps to it.
pub const SECTION: &str = ".aprplug";
/// What the section begins with.
pub const MAGIC: [u8; 8] = *b"APRPLUG\x01";
/// Bytes of the head that this version writes and needs.
pub const HEAD_LEN: usize = HEAD_LEN_U32 as usize;
const HEAD_LEN_U32: u32 = 160;
/// Flag: the library was built so that a panic unwinds. Anything else would end the process.
pub const UNWINDS: u32 = 1;
/// Flag: the library was built with debug assertions.
pub const DEBUG_ASSERTIONS: u32 = 2;
/// The abi_stable version both sides are pinned to.
pub const ABI_STABLE: &str = "0.11.3";
/// The target this build is for.
pub const TARGET: &str = env!("APR_ABI_TARGET");
/// The hash of this build's wire sources and those of `apr-sdk`; 0 if they are frozen.
pub const WIRE_HASH: u32 = number(env!("APR_ABI_WIRE_HASH"));
/// The most bytes of a manifest's text (as in `apr_sdk::Manifest::parse`).
pub const TEXT_LIMIT: u32 = 1 << 20;

/// A decimal number at compile time.
pub(crate) const fn number(digits: &str) -> u32 {
    let digits = digits.as_bytes();
    let (mut n, mut at) = (0, 0);
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

/// The head as it lies in the section.
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
    /// The section for `text`. `unwinds` must be `cfg!(panic = "unwind")` as the plugin's crate sees it.
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

    /// The section's bytes.
    pub const fn bytes(&'static self) -> &'static [u8] {
        // SAFETY: the struct is `repr(C)` of byte arrays and 4-aligned numbers at 4-aligned offsets (the size assert
        // above shows that the head has no padding); what may follow the text is cut off by the length; it is a
        // static, so it lives for ever and is never written.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), HEAD_LEN + N) }
    }
}

/// What a section says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The interface's version: major, minor.
    pub abi: (u32, u32),
    /// Whether panics unwind.
    pub unwinds: bool,
    /// Whether it was built with debug assertions.
    pub debug_assertions: bool,
    /// The hash of the wire sources; 0: frozen.
    pub wire_hash: u32,
    /// abi_stable's version.
    pub abi_stable: String,
    /// The target triple.
    pub target: String,
    /// The compiler; for diagnosis only.
    pub rustc: String,
    /// The text.
    pub text: String,
}

/// Reads a section. Every number is distrusted: the file was not loaded yet. `big_endian` is the file's byte order.
/// Also gives how many of the bytes are head and text; linkers may pad a section.
///
/// # Errors
/// Plugin with `E_NOT_A_PLUGIN`.
pub fn parse(section: &[u8], big_endian: bool) -> Result<(Head, usize)> {
    let wrong = |what: &str| Error::plugin(format!("its manifest section {what}")).code("E_NOT_A_PLUGIN");
    let fixed = section.get(..HEAD_LEN).ok_or_else(|| wrong("is too short"))?;
    if fixed[..8] != MAGIC {
        return Err(wrong("does not begin with the magic"));
    }
    let number = |at: usize| -> u32 {
        let bytes = [fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]];
        if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    let word = |from: usize, to: usize| {
        let bytes = fixed[from..to].split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| wrong("has a head that is not UTF-8"))
    };
    let (head_len, text_len) = (number(8), number(12));
    if text_len > TEXT_LIMIT {
        return Err(wrong("has a text that is too long"));
    }
    let start = usize::try_from(head_len).ok().filter(|n| *n >= HEAD_LEN);
    let end = head_len.checked_add(text_len).and_then(|end| usize::try_from(end).ok());
    let text = start.zip(end).and_then(|(start, end)| section.get(start..end));
    let (text, end) = text.zip(end).ok_or_else(|| wrong("is shorter than its head says"))?;
    let text = std::str::from_utf8(text).map_err(|_| wrong("has a text that is not UTF-8"))?;
    let flags = number(24);
    let head = Head {
        abi: (number(16), number(20)),
        unwinds: flags & UNWINDS != 0,
        debug_assertions: flags & DEBUG_ASSERTIONS != 0,
        wire_hash: number(28),
        abi_stable: word(32, 48)?,
        target: word(48, 96)?,
        rustc: word(96, 160)?,
        text: text.to_owned(),
    };
    Ok((head, end))
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
