//! The end records: where the central directory is and how many entries it has (APPNOTE 4.3.14 to 4.3.16).

use apr_sdk::{Error, FileId, Limits, Result, Source};

pub(crate) const END: [u8; 4] = *b"PK\x05\x06";
pub(crate) const END_LEN: u64 = 22;
pub(crate) const LOCATOR: [u8; 4] = *b"PK\x06\x07";
pub(crate) const LOCATOR_LEN: u64 = 20;
pub(crate) const END64: [u8; 4] = *b"PK\x06\x06";
pub(crate) const END64_LEN: u64 = 56;

/// Bytes of the longest comment that can follow the end record.
const COMMENT: u64 = u16::MAX as u64;

/// The contents of the end records.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) count: u64,
    pub(crate) start: u64,
    pub(crate) size: u64,
}

impl End {
    /// Finds the records at the end of a file. The directory they point to must precede them.
    ///
    /// # Errors
    /// Malformed or Unsupported, with the offset.
    pub(crate) fn find(source: &dyn Source, file: FileId, limits: &Limits) -> Result<End> {
        let len = source.len(file)?;
        let (at, record) = find_record(source, file, len, limits)?;
        let [disk, directory_disk, here, count] = [4, 6, 8, 10].map(|n| u64::from(u16_at(&record, n)));
        let mut end = End { count, start: u32_at(&record, 16), size: u32_at(&record, 12) };
        let mut disks = [disk, directory_disk, here.abs_diff(count)];
        let mut limit = at;
        if let Some(locator_at) = at.checked_sub(LOCATOR_LEN) {
            let locator = read(source, file, locator_at, LOCATOR_LEN, limits)?;
            if locator.starts_with(&LOCATOR) {
                limit = u64_at(&locator, 8);
                if limit.checked_add(END64_LEN).is_none_or(|end| end > locator_at) {
                    let message = format!("the ZIP64 end record starts at {limit}, past its locator");
                    return Err(Error::malformed(message).at(locator_at));
                }
                let record = read(source, file, limit, END64_LEN, limits)?;
                if !record.starts_with(&END64) {
                    let message = "the locator points to this offset, but there is no ZIP64 end record";
                    return Err(Error::malformed(message).at(limit));
                }
                let here = u64_at(&record, 24);
                let count = u64_at(&record, 32);
                let long = End { count, start: u64_at(&record, 48), size: u64_at(&record, 40) };
                // Some tools read the short record, some the ZIP64 one.
                if !agrees(end.count, long.count, 0xffff)
                    || !agrees(end.start, long.start, 0xffff_ffff)
                    || !agrees(end.size, long.size, 0xffff_ffff)
                {
                    let message = "the end record and the ZIP64 end record do not match";
                    return Err(Error::malformed(message).at(limit));
                }
                end = long;
                disks = [u32_at(&record, 16), u32_at(&record, 20), here.abs_diff(count)];
            }
        }
        if disks != [0; 3] {
            return Err(Error::unsupported("the archive is split across several disks").at(at));
        }
        match end.start.checked_add(end.size) {
            Some(directory_end) if directory_end <= limit => Ok(end),
            _ => {
                let End { start, size, .. } = end;
                let message =
                    format!("a central directory of {size} bytes at {start} extends past its end record");
                Err(Error::malformed(message).at(limit))
            }
        }
    }

    /// One past the central directory's last byte; [`End::find`] has checked that it is inside the file.
    pub(crate) fn directory_end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }

    /// Equivalent end records for a file that ends with its central directory; always in the ZIP64 form.
    pub(crate) fn records(&self) -> Vec<u8> {
        let mut out = end64_records(self.count, self.start, self.size);
        out.extend_from_slice(&end_record(u64::MAX, u64::MAX, u64::MAX));
        out
    }
}

/// Returns whether a number of the short record, `most` if it does not fit there, is that of the ZIP64 one.
fn agrees(short: u64, long: u64, most: u64) -> bool {
    short == most || short == long
}

/// The ZIP64 end record of a directory, followed by its locator.
pub(crate) fn end64_records(count: u64, start: u64, size: u64) -> Vec<u8> {
    let mut out = END64.to_vec();
    out.extend_from_slice(&(END64_LEN - 12).to_le_bytes());
    for version in [45u16, 45] {
        out.extend_from_slice(&version.to_le_bytes());
    }
    out.extend_from_slice(&[0; 8]); // disks
    for number in [count, count, size, start] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&LOCATOR);
    out.extend_from_slice(&[0; 4]); // disk
    out.extend_from_slice(&start.saturating_add(size).to_le_bytes());
    out.extend_from_slice(&1u32.to_le_bytes()); // disks
    out
}

/// The end record; values that do not fit are all ones and found in the ZIP64 record.
pub(crate) fn end_record(count: u64, start: u64, size: u64) -> Vec<u8> {
    let mut out = END.to_vec();
    out.extend_from_slice(&[0; 4]); // disks
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    for count in [count, count] {
        out.extend_from_slice(&count.to_le_bytes());
    }
    for number in [size, start] {
        out.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    }
    out.extend_from_slice(&[0; 2]); // comment
    out
}

/// The last end record whose comment ends with the file, and its offset. A comment can contain what looks
/// like an end record, and then tools disagree about which one counts.
fn find_record(source: &dyn Source, file: FileId, len: u64, limits: &Limits) -> Result<(u64, Vec<u8>)> {
    for window in [END_LEN, END_LEN + COMMENT] {
        let window = window.min(len);
        let tail = read(source, file, len - window, window, limits)?;
        for (at, _) in tail.windows(END.len()).enumerate().rev() {
            let record = &tail[at..];
            if !record.starts_with(&END) || (record.len() as u64) < END_LEN {
                continue;
            }
            let at = len - record.len() as u64;
            let comment = u64::from(u16_at(record, 20));
            if comment + END_LEN == record.len() as u64 {
                return Ok((at, record.to_vec()));
            }
            let left = record.len() as u64 - END_LEN;
            let message = format!("the end record states that {comment} bytes follow it, but {left} do");
            let error = Error::malformed(message).at(at);
            return Err(error.hint("get the file again: it is truncated, or has extra data at its end"));
        }
    }
    let error = Error::malformed("the file does not end with the end record of a ZIP archive").at(len);
    Err(error.hint("get the file again: it is truncated, or has extra data at its end"))
}

pub(crate) fn read(source: &dyn Source, file: FileId, at: u64, len: u64, limits: &Limits) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| Error::limit("too long").at(at))?];
    source.read_at(file, at, &mut bytes)?;
    limits.budget.earn(len);
    Ok(bytes)
}

/// The number at `at`; 0 past the end, although callers only pass complete records.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    number(bytes, at).map_or(0, u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at).map_or(0, |raw| u32::from_le_bytes(raw).into())
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at).map_or(0, u64::from_le_bytes)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
