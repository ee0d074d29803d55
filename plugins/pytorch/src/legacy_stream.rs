//! The layout of torch 0.1.10 to 1.5: five pickles in sequence, then each storage's element count and bytes.

use crate::checkpoint::{Checkpoint, Layout};
use crate::layout::{LEGACY_MAGIC, LEGACY_PROTOCOL};
use crate::pickle::machine::{Rules, run};
use crate::pickle::persistent::Persistent;
use crate::pickle::value::{Arena, Id, Node};
use crate::storage::Located;
use apr_sdk::{Cursor, Endian, Error, Extent, FileId, Limits, Result, Source, escape};
use std::collections::HashMap;

/// Whether a file begins with the first pickle of a legacy stream, in any protocol from 2 on.
pub fn is_stream(head: &[u8]) -> bool {
    let head = &head[..head.len().min(32)];
    head.first() == Some(&0x80) && head.windows(LEGACY_MAGIC.len()).any(|run| run == LEGACY_MAGIC)
}

/// Opens a legacy stream.
///
/// # Errors
/// Malformed, Unsupported, LimitExceeded, with file and offset.
pub fn open(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Checkpoint> {
    let mut cursor = Cursor::new(source, file, 0, limits)?;
    let mut arena = Arena::default();
    let plain = Rules { script: false, persistent: Persistent::None };
    let magic = run(&mut cursor, &mut arena, plain)?;
    match arena.node(magic) {
        Node::Big(span) if arena.bytes(*span) == LEGACY_MAGIC => {}
        _ => return Err(cursor.error_at(0, "the first pickle is not a checkpoint's magic number")),
    }
    let at = cursor.position();
    let protocol = run(&mut cursor, &mut arena, plain)?;
    if arena.int_of(protocol) != Some(LEGACY_PROTOCOL) {
        let message = format!("the stream's protocol is not {LEGACY_PROTOCOL}");
        return Err(cursor.place(Error::unsupported(message), at));
    }
    let at = cursor.position();
    let info = run(&mut cursor, &mut arena, plain)?;
    let endian = byte_order(&arena, info).map_err(|e| cursor.place(e, at))?;
    let object_at = cursor.position();
    let rules = Rules { script: false, persistent: Persistent::Legacy };
    let root = run(&mut cursor, &mut arena, rules)?;
    let at = cursor.position();
    let keys = run(&mut cursor, &mut arena, plain)?;
    let places = walk(source, file, &mut cursor, &arena, keys, at)?;
    let mut located = Vec::with_capacity(arena.storages.len());
    for storage in &arena.storages {
        let key = arena.str(storage.key);
        let Some(extent) = places.get(key) else {
            let message =
                format!("the pickle refers to the storage `{}`, which is not in the stream", escape(key, 80));
            return Err(cursor.error_at(storage.at, message));
        };
        limits.budget.charge(64)?;
        located.push(Located::Raw(*extent));
    }
    let notes = match cursor.left() {
        0 => Vec::new(),
        left => vec![format!("{left} bytes after the last storage are left out")],
    };
    Ok(Checkpoint { file, at: object_at, arena, root, located, endian, layout: Layout::Stream, notes })
}

fn byte_order(arena: &Arena, info: Id) -> Result<Endian> {
    let Node::Dict(info) = arena.node(info) else {
        return Err(Error::malformed("the system information is not a dict"));
    };
    let little = info.entries.iter().find(|(key, _)| arena.is(*key, "little_endian"));
    match little.map(|(_, value)| arena.node(*value)) {
        Some(Node::Bool(true)) => Ok(Endian::Little),
        Some(Node::Bool(false)) => Ok(Endian::Big),
        _ => Err(Error::malformed("the system information does not state the byte order")),
    }
}

/// Steps from storage to storage, in the order of the keys.
fn walk(
    source: &dyn Source,
    file: FileId,
    cursor: &mut Cursor<'_>,
    arena: &Arena,
    keys: Id,
    at: u64,
) -> Result<HashMap<String, Extent>> {
    let keys = match arena.node(keys) {
        Node::List(keys) => keys,
        _ => return Err(cursor.error_at(at, "the list of storages is not a list")),
    };
    let named: HashMap<&str, usize> =
        arena.storages.iter().enumerate().map(|(n, storage)| (arena.str(storage.key), n)).collect();
    let mut places = HashMap::new();
    for &key in keys {
        let text = arena.text_of(key).unwrap_or_default();
        let storage = named.get(text).and_then(|&n| arena.storages.get(n)).ok_or_else(|| {
            cursor
                .error_at(at, format!("storage `{}` is listed, but no tensor refers to it", escape(text, 80)))
        })?;
        let (count_at, limits) = (cursor.position(), cursor.limits());
        let mut raw = [0; 8];
        let wrong = |cursor: &Cursor<'_>, message: String| cursor.error_at(count_at, message);
        if cursor.left() < 8 {
            return Err(wrong(cursor, format!("storage `{}` is missing", escape(text, 80)))
                .hint("get the file again: it is truncated"));
        }
        // Not through the cursor, which would read the payload behind it.
        source.read_at(file, count_at, &mut raw).map_err(|e| cursor.place(e, count_at))?;
        limits.budget.earn(8);
        let count = u64::from_le_bytes(raw);
        let width = match storage.dtype {
            Some(dtype) => u64::from(dtype.require()?.block_bytes),
            None => 1,
        };
        if count != storage.numel {
            let text = escape(text, 80);
            return Err(wrong(
                cursor,
                format!("storage `{text}` has {count} elements, but the pickle states {}", storage.numel),
            ));
        }
        let len = count.checked_mul(width).filter(|&len| len <= cursor.left() - 8);
        let len = len.ok_or_else(|| {
            let left = cursor.left() - 8;
            wrong(
                cursor,
                format!(
                    "storage `{}` has {count} elements of {width} bytes, but only {left} bytes are left",
                    escape(text, 80)
                ),
            )
            .hint("get the file again: it is truncated")
        })?;
        limits.budget.charge(128 + text.len() as u64)?;
        cursor.skip(8 + len)?;
        if places.insert(text.to_owned(), Extent::new(file, count_at + 8, len)).is_some() {
            return Err(wrong(cursor, format!("duplicate storage `{}`", escape(text, 80))));
        }
    }
    Ok(places)
}
