//! The layout before 0.1.10: a tar of `sys_info`, `storages`, `tensors` and `pickle` (torch's `_legacy_load`).
//!
//! ```text
//! storages: pickle count | pickle (key, location, type) | i64 elements | bytes | ... | pickle of views
//! tensors:  pickle count | pickle (key, storage key, type) | i32 ndim | 4 bytes | sizes | strides | offset | ...
//! pickle:   the object; its persistent ids are the tensors' keys
//! ```

use crate::checkpoint::{Checkpoint, Layout};
use crate::pickle::allow_list::Global;
use crate::pickle::machine::{Rules, run};
use crate::pickle::persistent::Persistent;
use crate::pickle::value::{Arena, Id, Node, Storage, Tensor};
use crate::storage::Located;
use apr_sdk::{Cursor, Endian, Error, Extent, FileId, Limits, Result, Source};
use std::collections::{HashMap, HashSet};

/// A tar's block.
pub const BLOCK: u64 = 512;
/// The name in a header.
pub const NAME: std::ops::Range<usize> = 0..100;
/// The size of the data behind a header.
pub const SIZE: std::ops::Range<usize> = 124..136;
const SUM: std::ops::Range<usize> = 148..156;
/// The kind of member.
pub const TYPE: usize = 156;

/// The most members. 64: torch wrote four.
const MOST_MEMBERS: usize = 64;

/// The members of a checkpoint.
const MEMBERS: [&str; 4] = ["sys_info", "pickle", "tensors", "storages"];

/// The fewest bytes of a storage's or tensor's record.
const MIN_RECORD: u64 = 16;

/// Whether a file begins with a tar's header of one of a checkpoint's members.
pub fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar") && MEMBERS.contains(&name_of(head))
}

/// Whether a file begins with any tar's header, as Python's `tarfile` decides it: by the sum of its bytes. The oldest
/// form has no magic.
pub fn looks_like_tar(head: &[u8]) -> bool {
    let Some(header) = head.get(..512) else { return false };
    let digits = std::str::from_utf8(&header[SUM]).unwrap_or_default().trim_matches(['\0', ' ']);
    let bytes = header.iter().enumerate().map(|(n, byte)| if SUM.contains(&n) { b' ' } else { *byte });
    let sum: u64 = bytes.map(u64::from).sum();
    sum > 0 && (u64::from_str_radix(digits, 8) == Ok(sum) || header.get(257..262) == Some(b"ustar"))
}

fn name_of(header: &[u8]) -> &str {
    let name = header.get(NAME).unwrap_or_default();
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    std::str::from_utf8(&name[..end]).unwrap_or_default()
}

/// Opens a legacy tar.
///
/// # Errors
/// Malformed, Unsupported, LimitExceeded, with file and offset.
pub fn open(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Checkpoint> {
    let members = members(source, file, limits)?;
    let member = |name: &str| {
        let found = members.iter().find(|(n, ..)| n == name);
        found.ok_or_else(|| {
            Error::malformed(format!("the tar has no `{name}`")).at(0).in_file(source.name(file))
        })
    };
    let within = |name: &str| {
        let (_, start, end) = member(name)?;
        Cursor::with_end(source, file, *start, *end, limits)
    };
    let mut arena = Arena::default();
    let mut located = Vec::new();
    let keys = storages(source, &mut within("storages")?, file, &mut arena, &mut located)?;
    let tensors = tensors(&mut within("tensors")?, &mut arena, &keys)?;
    let mut cursor = within("pickle")?;
    let at = cursor.position();
    let rules = Rules { script: false, persistent: Persistent::Tar(&tensors) };
    let root = run(&mut cursor, &mut arena, rules)?;
    Ok(Checkpoint {
        file,
        at,
        arena,
        root,
        located,
        endian: Endian::Little,
        layout: Layout::Tar,
        notes: Vec::new(),
    })
}

/// The members: names, and where their data begins and ends.
///
/// # Errors
/// Malformed; any error from the source.
pub fn members(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Vec<(String, u64, u64)>> {
    let len = source.len(file)?;
    let (mut at, mut found) = (0, Vec::new());
    let mut names = HashSet::new();
    while at + BLOCK <= len {
        let mut header = [0; 512];
        source.read_at(file, at, &mut header)?;
        limits.budget.earn(BLOCK);
        if header.iter().all(|&b| b == 0) {
            break;
        }
        let wrong = |message: &str| Error::malformed(message).at(at).in_file(source.name(file));
        // Links and headers that rename what follows: torch wrote plain files, each once.
        if !matches!(header[TYPE], 0 | b'0') {
            return Err(wrong("a tar member is not a regular file"));
        }
        if found.len() >= MOST_MEMBERS || !names.insert(name_of(&header).to_owned()) {
            return Err(wrong("the tar has duplicate or too many members"));
        }
        let digits = std::str::from_utf8(&header[SIZE]).unwrap_or_default();
        let digits = digits.trim_matches(['\0', ' ']);
        let size = u64::from_str_radix(digits, 8).map_err(|_| wrong("a tar member has no size"))?;
        let start = at + BLOCK;
        let end = start.checked_add(size).filter(|&end| end <= len);
        let end = end.ok_or_else(|| {
            wrong("a tar member extends past the end of the file").hint("get the file again")
        })?;
        limits.budget.charge(256)?;
        found.push((name_of(&header).to_owned(), start, end));
        at = end.checked_next_multiple_of(BLOCK).unwrap_or(len);
    }
    Ok(found)
}

fn count(cursor: &mut Cursor<'_>, arena: &mut Arena, what: &str) -> Result<usize> {
    let at = cursor.position();
    let plain = Rules { script: false, persistent: Persistent::None };
    let value = run(cursor, arena, plain)?;
    let number = arena.int_of(value).and_then(|n| u64::try_from(n).ok());
    let number = number.ok_or_else(|| cursor.error_at(at, format!("{what} is not a valid count")))?;
    cursor.count(what, at, number, cursor.limits().tensors, MIN_RECORD)
}

/// A record `(key, second, type)`.
fn record(cursor: &mut Cursor<'_>, arena: &mut Arena) -> Result<(i64, Id, Id)> {
    let at = cursor.position();
    let plain = Rules { script: false, persistent: Persistent::None };
    let value = run(cursor, arena, plain)?;
    match arena.items_of(value) {
        Some(&[key, second, class]) => Ok((number(cursor, arena, key, at)?, second, class)),
        _ => Err(cursor.error_at(at, "a record is not a tuple of three")),
    }
}

fn number(cursor: &Cursor<'_>, arena: &Arena, id: Id, at: u64) -> Result<i64> {
    let number = arena.int_of(id).or_else(|| arena.text_of(id)?.parse().ok());
    number.ok_or_else(|| cursor.error_at(at, "a key is not a number"))
}

/// The storages and the views of them, by key.
fn storages(
    source: &dyn Source,
    cursor: &mut Cursor<'_>,
    file: FileId,
    arena: &mut Arena,
    located: &mut Vec<Located>,
) -> Result<HashMap<i64, u32>> {
    let mut keys = HashMap::new();
    for _ in 0..count(cursor, arena, "the count of storages")? {
        let at = cursor.position();
        let (key, _, class) = record(cursor, arena)?;
        let Node::Global(Global::Storage(class)) = *arena.node(class) else {
            return Err(cursor.error_at(at, "a storage has no class"));
        };
        let count_at = cursor.position();
        let mut raw = [0; 8];
        if cursor.left() < 8 {
            return Err(cursor.error_at(count_at, "a storage has no size"));
        }
        // Not through the cursor, which would read the payload behind it.
        source.read_at(file, count_at, &mut raw).map_err(|e| cursor.place(e, count_at))?;
        cursor.skip(8)?;
        let numel = u64::from_le_bytes(raw);
        let width =
            class.dtype.map_or(Ok(1), |dtype| dtype.require().map(|row| u64::from(row.block_bytes)))?;
        let len = numel.checked_mul(width).filter(|&len| len <= cursor.left());
        let len = len.ok_or_else(|| {
            let message = format!(
                "a storage has {numel} elements of {width} bytes, but only {} bytes are left",
                cursor.left()
            );
            cursor.error_at(count_at, message).hint("get the file again: it is truncated")
        })?;
        let extent = Extent::new(file, cursor.position(), len);
        cursor.skip(len)?;
        cursor.limits().budget.charge(192)?;
        let number = u32::try_from(arena.storages.len()).map_err(|_| Error::limit("too many storages"))?;
        arena.storages.push(Storage { key: Default::default(), dtype: class.dtype, numel, start: 0, at });
        located.push(Located::Raw(extent));
        if keys.insert(key, number).is_some() {
            return Err(cursor.error_at(at, format!("duplicate storage {key}")));
        }
    }
    views(cursor, arena, located, &mut keys)?;
    Ok(keys)
}

/// `[(key, root key, offset, elements), ...]`.
fn views(
    cursor: &mut Cursor<'_>,
    arena: &mut Arena,
    located: &mut Vec<Located>,
    keys: &mut HashMap<i64, u32>,
) -> Result<()> {
    let at = cursor.position();
    let plain = Rules { script: false, persistent: Persistent::None };
    let list = run(cursor, arena, plain)?;
    let list = arena.items_of(list).ok_or_else(|| cursor.error_at(at, "the views are not a list"))?.to_vec();
    for view in list {
        let wrong = || cursor.error_at(at, "a view is invalid or extends past its storage");
        let items = arena.items_of(view).unwrap_or_default().to_vec();
        let numbers: Option<Vec<i64>> = items.iter().map(|&item| arena.int_of(item)).collect();
        let [key, root, offset, numel] = numbers.unwrap_or_default()[..] else { return Err(wrong()) };
        let root = *keys.get(&root).ok_or_else(wrong)?;
        let (storage, place) = (arena.storages[root as usize], located[root as usize].clone());
        let (offset, numel) =
            (u64::try_from(offset).unwrap_or(u64::MAX), u64::try_from(numel).unwrap_or(u64::MAX));
        if offset.checked_add(numel).is_none_or(|end| end > storage.numel) {
            return Err(wrong());
        }
        cursor.limits().budget.charge(192)?;
        let number = u32::try_from(arena.storages.len()).map_err(|_| Error::limit("too many storages"))?;
        arena.storages.push(Storage { start: offset, ..storage });
        located.push(place);
        keys.insert(key, number);
    }
    Ok(())
}

/// The tensors, by key.
fn tensors(
    cursor: &mut Cursor<'_>,
    arena: &mut Arena,
    storages: &HashMap<i64, u32>,
) -> Result<HashMap<i64, u32>> {
    let mut keys = HashMap::new();
    for _ in 0..count(cursor, arena, "the count of tensors")? {
        let at = cursor.position();
        let (key, storage, _) = record(cursor, arena)?;
        let storage = number(cursor, arena, storage, at)?;
        let storage = *storages.get(&storage).ok_or_else(|| {
            cursor.error_at(at, format!("a tensor refers to storage {storage}, which does not exist"))
        })?;
        let dtype = arena.storages[storage as usize].dtype;
        let dtype =
            dtype.ok_or_else(|| cursor.error_at(at, "a tensor refers to a storage without a type"))?;
        let ndim_at = cursor.position();
        let ndim = cursor.u32()?;
        cursor.skip(4)?;
        if ndim as usize > cursor.limits().dims {
            let message = format!("{ndim} dimensions, more than the limit of {}", cursor.limits().dims);
            return Err(cursor.place(Error::unsupported(message), ndim_at));
        }
        let numbers = (0..2 * ndim).map(|_| cursor.u64()).collect::<Result<Vec<u64>>>()?;
        let (size, stride) = numbers.split_at(ndim as usize);
        let offset = cursor.u64()?;
        cursor.limits().budget.charge(256)?;
        let number = u32::try_from(arena.tensors.len()).map_err(|_| Error::limit("too many tensors"))?;
        arena.tensors.push(Tensor {
            storage,
            dtype,
            offset,
            size: size.into(),
            stride: stride.into(),
            requires_grad: false,
            parameter: false,
            quantizer: None,
            state: None,
            at,
        });
        if keys.insert(key, number).is_some() {
            return Err(cursor.error_at(at, format!("duplicate tensor {key}")));
        }
    }
    Ok(keys)
}
