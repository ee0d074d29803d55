//! The members of any tar archive, as Python's `tarfile` finds them.

use crate::legacy_tar::{BLOCK, NAME, SIZE, TYPE, looks_like_tar};
use apr_sdk::{Error, Extent, FileId, Limits, Result, Source};

/// The longest name or extended header that is read.
const LONGEST: u64 = 1 << 20;

/// What a member's header costs in memory, besides its name.
const COST: u64 = 64;

/// A regular file in a tar.
#[derive(Debug)]
pub struct Member {
    /// Its name, for messages.
    pub name: String,
    /// Where its bytes are.
    pub extent: Extent,
}

/// What headers say of the member behind them.
#[derive(Default)]
struct Said {
    name: Option<String>,
    size: Option<u64>,
}

/// Pushes the regular files of a tar, also those behind its end mark, until something is wrong.
///
/// # Errors
/// Malformed for what is no header, or reaches beyond the file; Unsupported for sparse files; any error from the source.
pub fn members(source: &dyn Source, file: FileId, limits: &Limits, found: &mut Vec<Member>) -> Result<()> {
    let len = source.len(file)?;
    let (mut at, mut said) = (0, Said::default());
    while at + BLOCK <= len {
        let mut header = [0; 512];
        source.read_at(file, at, &mut header)?;
        limits.budget.earn(BLOCK);
        let start = at + BLOCK;
        if header.iter().all(|&byte| byte == 0) {
            at = start;
            continue;
        }
        if !looks_like_tar(&header) {
            return Err(Error::malformed("a tar header is damaged").at(at));
        }
        let own = text(&header[NAME]);
        let kind = header[TYPE];
        let is_folder = kind == b'5' || kind == 0 && own.ends_with('/');
        // Python reads no data behind links, devices and folders, whatever size they state.
        let stated = match kind {
            _ if is_folder => Some(0),
            b'1'..=b'6' => Some(0),
            _ => number(&header[SIZE]),
        };
        let is_extension = matches!(kind, b'L' | b'K' | b'x' | b'X' | b'g');
        let size = said.size.filter(|_| !is_extension && stated != Some(0)).or(stated);
        let size = size.ok_or_else(|| Error::malformed("a tar member has no valid size").at(at))?;
        let end = start.checked_add(size).filter(|&end| end <= len);
        let end =
            end.ok_or_else(|| Error::malformed("a tar member extends past the end of the file").at(at))?;
        match kind {
            b'L' | b'K' | b'x' | b'X' | b'g' => {
                extend(source, Extent::new(file, start, size), kind, limits, &mut said)?
            }
            b'S' => return Err(Error::unsupported("a tar member is a sparse file").at(at)),
            _ if is_folder || (b'1'..=b'6').contains(&kind) => said = Said::default(),
            _ => {
                let name = said.name.take().unwrap_or(own);
                said = Said::default();
                limits.budget.charge(name.len() as u64 + COST)?;
                found.push(Member { name, extent: Extent::new(file, start, size) });
            }
        }
        at = end.checked_next_multiple_of(BLOCK).unwrap_or(len);
    }
    Ok(())
}

/// Takes what an extended header says of the member behind it.
fn extend(source: &dyn Source, extent: Extent, kind: u8, limits: &Limits, said: &mut Said) -> Result<()> {
    let wrong = |message: &str| Err(Error::unsupported(message.to_owned()).at(extent.offset));
    if extent.len > LONGEST {
        return wrong("a tar header is too long");
    }
    limits.budget.charge(extent.len)?;
    let mut bytes = vec![0; usize::try_from(extent.len).unwrap_or(0)];
    source.read_at(extent.file, extent.offset, &mut bytes)?;
    limits.budget.earn(extent.len);
    match kind {
        b'L' => said.name = Some(text(&bytes)),
        b'K' => {}
        _ => {
            let mut rest = &bytes[..];
            while let Some(record) = next_record(&mut rest) {
                let Some((key, value)) = record.split_once('=') else { continue };
                match key {
                    "path" if kind != b'g' => said.name = Some(value.to_owned()),
                    "size" if kind != b'g' => said.size = value.trim().parse().ok(),
                    "path" | "size" => return wrong("a tar header states names or sizes for all members"),
                    key if key.starts_with("GNU.sparse") => return wrong("a tar member is a sparse file"),
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

/// The next `key=value` of `LENGTH key=value\n`.
fn next_record(rest: &mut &[u8]) -> Option<String> {
    let space = rest.iter().position(|&byte| byte == b' ')?;
    let len: usize = std::str::from_utf8(&rest[..space]).ok()?.parse().ok()?;
    let record = rest.get(space + 1..len)?;
    let text = String::from_utf8_lossy(record.strip_suffix(b"\n").unwrap_or(record)).into_owned();
    *rest = &rest[len..];
    Some(text)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A number in octal digits, or in binary behind a mark.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] == 0x80 {
        let (high, low) = field.split_at(field.len() - 8);
        let is_small = high[1..].iter().all(|&byte| byte == 0);
        return low.try_into().ok().map(u64::from_be_bytes).filter(|_| is_small);
    }
    let digits = std::str::from_utf8(field).ok()?.split('\0').next()?.trim();
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}
