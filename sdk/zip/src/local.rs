//! Local headers: the only place that says where the data begins. Their other fields must agree with the
//! central directory.

use crate::end::{read, u16_at, u32_at, u64_at};
use apr_sdk::{Error, FileId, Limits, Result, Source};

pub(crate) const LOCAL: [u8; 4] = *b"PK\x03\x04";
pub(crate) const LOCAL_LEN: usize = 30;

/// General purpose bits: encrypted; sizes and CRC-32 in a descriptor after the data; patch data; masked
/// header.
const ENCRYPTED: u16 = 1;
const DESCRIPTOR: u16 = 1 << 3;
const PATCH: u16 = 1 << 5;
const MASKED: u16 = 1 << 13;

/// The id of the extra field with 64-bit sizes.
pub(crate) const ZIP64: u16 = 1;

/// An entry's fields in the central directory.
pub(crate) struct Central<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) method: u16,
    pub(crate) header: u64,
    pub(crate) stored_len: u64,
    pub(crate) raw_len: u64,
    pub(crate) crc32: u32,
}

/// The offset of an entry's data, which must end before `limit`, the start of the central directory.
///
/// # Errors
/// Malformed or Unsupported, with the offset in the file.
pub(crate) fn data_start(
    source: &dyn Source,
    file: FileId,
    central: &Central<'_>,
    limit: u64,
    limits: &Limits,
) -> Result<u64> {
    let at = central.header;
    let room = limit
        .checked_sub(at)
        .filter(|&room| room >= LOCAL_LEN as u64)
        .ok_or_else(|| Error::malformed("no room for a local header before the central directory").at(at))?;
    // A local name of another length is another name, so this is the header's size without extra fields.
    let fixed = LOCAL_LEN as u64 + central.name.len() as u64;
    let header = read(source, file, at, fixed.min(room), limits)?;
    if !header.starts_with(&LOCAL) {
        let message = "the central directory points to this offset, but there is no local header";
        return Err(Error::malformed(message).at(at));
    }
    let flags = u16_at(&header, 6);
    if flags & (ENCRYPTED | PATCH | MASKED) != 0 {
        return Err(Error::unsupported(format!("the data is encrypted or patched (flags {flags:#06x})"))
            .at(at)
            .hint("decrypt the archive first"));
    }
    if usize::from(u16_at(&header, 26)) != central.name.len() || header.get(LOCAL_LEN..) != Some(central.name)
    {
        return Err(
            Error::malformed("the name in the local header does not match the central directory").at(at)
        );
    }
    let method = u16_at(&header, 8);
    if method != central.method {
        return Err(Error::malformed(format!(
            "the local header has method {method}, but the central directory {}",
            central.method
        ))
        .at(at));
    }
    let extra_len = u64::from(u16_at(&header, 28));
    let start = fixed + extra_len;
    match start.checked_add(central.stored_len) {
        Some(end) if end <= room => {}
        _ => {
            return Err(Error::malformed(format!(
                "the entry has {start} + {} bytes, but only {room} are left before the central directory",
                central.stored_len
            ))
            .at(at));
        }
    }
    let sum = u32_at(&header, 14);
    let mut stored_len = u32_at(&header, 18);
    let mut raw_len = u32_at(&header, 22);
    if flags & DESCRIPTOR != 0 && (sum, stored_len, raw_len) == (0, 0, 0) {
        return Ok(at + start);
    }
    if stored_len == 0xffff_ffff || raw_len == 0xffff_ffff {
        let extra = read(source, file, at + fixed, extra_len, limits)?;
        let mut numbers = field(&extra, ZIP64).unwrap_or_default();
        for size in [&mut raw_len, &mut stored_len] {
            if *size == 0xffff_ffff && numbers.len() >= 8 {
                *size = u64_at(numbers, 0);
                numbers = &numbers[8..];
            }
        }
    }
    // If a descriptor follows, some writers leave some of these 0.
    let local = [sum, stored_len, raw_len];
    let told = [central.crc32.into(), central.stored_len, central.raw_len];
    if local.iter().zip(told).all(|(local, told)| *local == told || flags & DESCRIPTOR != 0 && *local == 0) {
        return Ok(at + start);
    }
    Err(Error::malformed(format!(
        "the local header has CRC-32 {sum:08x}, {stored_len} bytes stored, {raw_len} uncompressed, but the \
         central directory {:08x}, {}, {}",
        central.crc32, central.stored_len, central.raw_len
    ))
    .at(at))
}

/// The data of the extra field `id`.
fn field(mut extra: &[u8], id: u16) -> Option<&[u8]> {
    while extra.len() >= 4 {
        let len = usize::from(u16_at(extra, 2));
        let data = extra.get(4..4 + len)?;
        if u16_at(extra, 0) == id {
            return Some(data);
        }
        extra = &extra[4 + len..];
    }
    None
}
