//! Reads one metadata value: walks and checks it, and keeps it in wire form, or passes its extent if the file
//! already has that form.

use crate::header::{Header, length};
use apr_sdk::{Bytes, Cursor, Endian, Error, Extent, Limits, Result, Value, ValueType};

/// Bytes charged to the budget before they are read. 1 MiB: what reading earns pays for the next piece.
const PIECE: u64 = 1 << 20;

/// Reads a value of type `kind` at the cursor.
///
/// # Errors
/// Malformed for an unknown type, a length past the end; LimitExceeded for arrays nested too deep.
pub fn read(cursor: &mut Cursor<'_>, header: &Header, kind: ValueType) -> Result<Value> {
    let start = cursor.position();
    let mut walk = Walk { header, held: Some(Vec::new()) };
    walk.item(cursor, kind, 0)?;
    let bytes = match walk.held {
        Some(held) => Bytes::from(held),
        None => Bytes::from(Extent::new(0, start, cursor.position() - start)),
    };
    Ok(Value { kind, bytes })
}

/// A walk over one value that collects its wire form, as long as that is short enough to keep.
struct Walk<'a> {
    header: &'a Header,
    /// `None` once the value will be passed as an extent.
    held: Option<Vec<u8>>,
}

impl Walk<'_> {
    fn item(&mut self, cursor: &mut Cursor<'_>, kind: ValueType, depth: u32) -> Result<()> {
        let at = cursor.position();
        match kind {
            ValueType::STRING => self.string(cursor, at),
            ValueType::ARRAY => self.array(cursor, at, depth),
            other => match other.scalar_len() {
                Some(len) => self.scalars(cursor, len, len),
                None => Err(cursor.error_at(at, format!("a value of unknown type {}", other.0))),
            },
        }
    }

    fn string(&mut self, cursor: &mut Cursor<'_>, at: u64) -> Result<()> {
        let len = length(cursor, self.header.widths())?;
        if len > cursor.left() {
            let message = format!("a string has {len} bytes, but only {} are left", cursor.left());
            return Err(cursor.error_at(at, message));
        }
        self.push(&len.to_le_bytes());
        self.take(cursor, len)
    }

    fn array(&mut self, cursor: &mut Cursor<'_>, at: u64, depth: u32) -> Result<()> {
        let Limits { nesting, .. } = cursor.limits();
        if depth > *nesting {
            let message = format!("arrays are nested more than {nesting} levels deep");
            return Err(cursor.place(Error::limit(message), at));
        }
        let kind = ValueType(cursor.u32()?);
        if kind.name().is_none() {
            return Err(cursor.error_at(at, format!("an array of unknown element type {}", kind.0)));
        }
        let widths = self.header.widths();
        let count = length(cursor, widths)?;
        let min_len = match kind {
            ValueType::STRING => widths.length,
            ValueType::ARRAY => 4 + widths.length,
            scalar => scalar.min_len(),
        };
        cursor.count("the array's length", at, count, u64::MAX, min_len)?;
        self.push(&kind.0.to_le_bytes());
        self.push(&count.to_le_bytes());
        match kind.scalar_len() {
            // Cannot overflow: that many bytes are left in the file.
            Some(len) => self.scalars(cursor, len, count * len),
            None => (0..count).try_for_each(|_| self.item(cursor, kind, depth + 1)),
        }
    }

    /// Reads `total` bytes of scalars, `len` bytes each.
    fn scalars(&mut self, cursor: &mut Cursor<'_>, len: u64, total: u64) -> Result<()> {
        let start = self.held.as_ref().map_or(0, Vec::len);
        self.take(cursor, total)?;
        if self.header.endian == Endian::Big
            && let Some(held) = &mut self.held
        {
            let len = usize::try_from(len).unwrap_or(1);
            held[start..].chunks_exact_mut(len).for_each(<[u8]>::reverse);
        }
        Ok(())
    }

    fn push(&mut self, bytes: &[u8]) {
        if let Some(held) = &mut self.held {
            held.extend_from_slice(bytes);
        }
    }

    /// Collects the next `len` bytes, or skips them.
    fn take(&mut self, cursor: &mut Cursor<'_>, len: u64) -> Result<()> {
        let Some(held) = &mut self.held else { return cursor.skip(len) };
        if self.header.is_wire_form() && (held.len() as u64).saturating_add(len) > Bytes::INLINE_LIMIT {
            self.held = None;
            return cursor.skip(len);
        }
        let mut left = len;
        while left > 0 {
            let piece = left.min(PIECE);
            let at = cursor.position();
            cursor.limits().budget.charge(piece).map_err(|e| cursor.place(e, at))?;
            let start = held.len();
            held.resize(start + usize::try_from(piece).unwrap_or(0), 0);
            cursor.fill(&mut held[start..])?;
            left -= piece;
        }
        Ok(())
    }
}
