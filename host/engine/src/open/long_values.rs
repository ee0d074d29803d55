//! Long metadata values, which stay unread in their file: opening trusts their type. Before such a value is
//! written to another file it is walked once, so that damage is blamed on the source and not found by verify.

use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::open::source::{CallSource, Root};
use apr_sdk::{Bytes, Cursor, Error, Extent, Limits, Model, Result, ValueType, escape};

/// Walks every long value of `model`, whose extents refer to files of `source`.
///
/// # Errors
/// Malformed, with key, file and offset, for bytes that are not one value of the claimed type; any error from
/// reading.
pub fn check(engine: &Engine, source: &OpenedModel, model: &Model) -> Result<()> {
    for (key, value) in model.foreign.iter().flat_map(|f| &f.files).flat_map(|f| &f.typed) {
        let Bytes::Extent(extent) = value.bytes else { continue };
        walk(engine, source, extent, value.kind).map_err(|e| {
            let message = format!("metadata key `{}`: {}", escape(key, 120), e.message());
            let mut keyed = Error::new(e.kind(), message);
            if let Some(offset) = e.offset() {
                keyed = keyed.at(offset);
            }
            let name = source.files.get(extent.file).map(|f| f.name.clone()).unwrap_or_default();
            source.files.show(keyed.in_file(name))
        })?;
    }
    Ok(())
}

fn walk(engine: &Engine, source: &OpenedModel, extent: Extent, kind: ValueType) -> Result<()> {
    let limits = Limits::default();
    let call = CallSource::new(&source.files, Root::WHOLE, &limits.budget, engine.progress.as_ref());
    let end =
        extent.end().ok_or_else(|| Error::malformed("its data extends past 2^64 bytes").at(extent.offset))?;
    let mut cursor = Cursor::with_end(&call, extent.file, extent.offset, end, &limits)?;
    step(&mut cursor, kind, 0)?;
    match cursor.left() {
        0 => Ok(()),
        left => {
            Err(cursor.error_at(cursor.position(), format!("{left} bytes are left over after the value")))
        }
    }
}

/// Skips one value.
fn step(cursor: &mut Cursor<'_>, kind: ValueType, depth: u32) -> Result<()> {
    let at = cursor.position();
    if depth > cursor.limits().nesting {
        let message = format!("arrays are nested more than {} levels deep", cursor.limits().nesting);
        return Err(cursor.place(Error::limit(message), at));
    }
    match kind {
        ValueType::STRING => {
            let len = cursor.u64()?;
            cursor.skip(len).map_err(|_| too_long(cursor, at, len))
        }
        ValueType::ARRAY => {
            let item = ValueType(cursor.u32()?);
            let count = cursor.u64()?;
            if let Some(each) = item.scalar_len() {
                let len = count.saturating_mul(each);
                return cursor.skip(len).map_err(|_| too_long(cursor, at, len));
            }
            if item.name().is_none() {
                return Err(cursor.error_at(at, format!("unknown array type {}", item.0)));
            }
            // Every item takes up at least its minimum length, so the count cannot outlast the bytes.
            cursor.count("the array's length", at, count, u64::MAX, item.min_len())?;
            (0..count).try_for_each(|_| step(cursor, item, depth + 1))
        }
        other => match other.scalar_len() {
            Some(len) => cursor.skip(len),
            None => Err(cursor.error_at(at, format!("unknown type {}", other.0))),
        },
    }
}

fn too_long(cursor: &Cursor<'_>, at: u64, len: u64) -> Error {
    cursor.error_at(at, format!("its length is {len} bytes, but only {} are left", cursor.left()))
}
