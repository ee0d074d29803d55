//! What is done to the elements of a tensor on their way: a cast, element by element, or whole rows that quantizers decode,
//! encode, or both. Values pass through F32 between the two.

use crate::expression::making::RowScale;
use crate::expression::work::TILE;
use crate::registry::Registry;
use crate::values::cast::{Cast, Changes};
use crate::values::integers;
use crate::values::loss::Loss;
use apr_sdk::{DType, Error, Quantizer, Result, checked_payload_len};
use std::fmt;
use std::sync::Arc;

/// What is done to the elements of a tensor.
#[derive(Clone, Debug)]
pub enum Transcode {
    /// Each is cast.
    Cast(Cast),
    /// Each row is decoded, encoded, or both.
    Rows(RowTranscode),
}

/// What is done to rows of which one side is blocks.
#[derive(Clone)]
pub struct RowTranscode {
    /// The type before.
    pub from: DType,
    /// The type after.
    pub to: DType,
    row_len: u64,
    /// Bytes of a row before and after.
    row_bytes: [u64; 2],
    decode: Side,
    encode: Side,
    importance: Option<Arc<[f32]>>,
    add: Option<f32>,
    /// Makes blocks of blocks without any loss.
    repack: Option<Arc<dyn Quantizer>>,
}

/// What lies between rows and F32.
#[derive(Clone)]
enum Side {
    /// Nothing: they are F32.
    Same,
    /// A cast.
    Cast(Cast),
    /// Blocks.
    Blocks(Arc<dyn Quantizer>),
    /// Integers of so many bits; their rows' scales are elsewhere, and known here where integers become floats.
    Integers { bits: u32, scales: Option<Arc<[f32]>> },
    /// The scales of rows that become integers of at most this.
    Scales { most: f32 },
}

/// What a tensor is to become.
pub struct Wanted {
    /// The types before and after.
    pub dtypes: (DType, DType),
    /// Elements of a row.
    pub row_len: u64,
    /// Added to each value.
    pub add: Option<f32>,
    /// The importance of a row's columns.
    pub importance: Option<Arc<[f32]>>,
    /// What is done with rows whose scale is a tensor of its own.
    pub row_scale: Option<RowScale>,
}

impl fmt::Debug for RowTranscode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RowTranscode { from, to, row_len, .. } = self;
        write!(f, "RowTranscode({from} -> {to}, rows of {row_len})")
    }
}

/// What one thread keeps between calls.
#[derive(Default)]
pub struct Rows {
    values: Vec<f32>,
    again: Vec<f32>,
}

impl Transcode {
    /// What is done to get from one type to another, in rows of `row_len`; `None` if that is nothing.
    ///
    /// # Errors
    /// Unsupported for types between which there is no way, or rows that are not whole blocks.
    pub fn new(wanted: Wanted, registry: &Registry) -> Result<Option<Transcode>> {
        let Wanted { dtypes: (from, to), row_len, add, importance, row_scale } = wanted;
        if from == to && add.is_none() && row_scale.is_none() {
            return Ok(None);
        }
        if !from.is_block() && !to.is_block() && row_scale.is_none() {
            return Ok(Cast::new(from, to, add)?.map(Transcode::Cast));
        }
        // Rows of nothing are cut as if they were of some block: there is no byte to be cut.
        let row_len = match row_len {
            0 => u64::from(from.require()?.block_elements) * u64::from(to.require()?.block_elements),
            row_len => row_len,
        };
        let side = |dtype: DType, cast: Result<Option<Cast>>| {
            if dtype.is_block() {
                return registry.quantizer_of(dtype).map(Side::Blocks);
            }
            Ok(cast?.map_or(Side::Same, Side::Cast))
        };
        // What a cast to F32 can add needs no pass of its own.
        let decode = match &row_scale {
            Some(RowScale::Undone { scales, .. }) => integers(from, Some(Arc::clone(scales)), row_len)?,
            _ => side(from, Cast::new(from, DType::F32, add))?,
        };
        let mut after = [row_len];
        let encode = match row_scale {
            Some(RowScale::Codes) => integers(to, None, row_len)?,
            Some(RowScale::Scales { most, .. }) => {
                after = [1];
                Side::Scales { most: f32::from(most) }
            }
            _ => side(to, Cast::new(DType::F32, to, None))?,
        };
        let add = add.filter(|_| !matches!(decode, Side::Cast(_)));
        let row_bytes = [checked_payload_len(from, &[row_len])?, checked_payload_len(to, &after)?];
        let repack = match from.is_block() && to.is_block() && add.is_none() {
            true => registry.repacker((from, to)),
            false => None,
        };
        let rows = RowTranscode { from, to, row_len, row_bytes, decode, encode, importance, add, repack };
        Ok(Some(Transcode::Rows(rows)))
    }

    /// The types before and after.
    pub fn dtypes(&self) -> (DType, DType) {
        match self {
            Transcode::Cast(cast) => (cast.from, cast.to),
            Transcode::Rows(rows) => (rows.from, rows.to),
        }
    }

    /// Whether it needs whole rows.
    pub fn needs_rows(&self) -> bool {
        matches!(self, Transcode::Rows(_))
    }

    /// Bytes before for so many bytes after, which are whole elements or rows.
    pub fn before(&self, after: u64) -> u64 {
        match self {
            Transcode::Cast(cast) => cast.before(after),
            Transcode::Rows(rows) => after / rows.row_bytes[1] * rows.row_bytes[0],
        }
    }

    /// Bytes after for so many bytes before, which are whole elements or rows.
    pub fn after(&self, before: u64) -> u64 {
        match self {
            Transcode::Cast(cast) => cast.after(before),
            Transcode::Rows(rows) => before / rows.row_bytes[0] * rows.row_bytes[1],
        }
    }

    /// How many elements so many bytes after are.
    pub fn elements(&self, after: u64) -> u64 {
        match self {
            Transcode::Cast(cast) => after / cast.widths[1],
            Transcode::Rows(rows) => after / rows.row_bytes[1] * rows.row_len,
        }
    }

    /// Bytes of a tile after: whole elements, or whole rows whose F32 are at most a tile's bytes, or one row.
    pub fn tile_len(&self) -> u64 {
        match self {
            Transcode::Cast(cast) => TILE / cast.widths[0].max(cast.widths[1]) * cast.widths[1],
            Transcode::Rows(rows) => (TILE / rows.widest()).max(1) * rows.row_bytes[1],
        }
    }

    /// The most memory that a thread needs for it beside the tile, in bytes.
    pub fn memory(&self) -> u64 {
        match self {
            Transcode::Cast(_) => TILE,
            // Bytes before and after, and the values twice: before, and as they are decoded again.
            Transcode::Rows(rows) => 4 * TILE.max(rows.widest()),
        }
    }

    /// Fills `to`, which lies at `at` of the result, with the elements of `from`, which are as many; tells what that did to them, and with blocks how far
    /// they are from what they were.
    ///
    /// # Errors
    /// What the quantizers raise.
    pub fn apply(
        &self,
        from: &[u8],
        (at, to): (u64, &mut [u8]),
        rows: &mut Rows,
    ) -> Result<(Changes, Option<Loss>)> {
        match self {
            Transcode::Cast(cast) => Ok((cast.apply(from, to), None)),
            Transcode::Rows(transcode) => transcode.apply(from, (at / transcode.row_bytes[1], to), rows),
        }
    }

    /// The first element of `from` that is not finite or does not stay so: its number, and what it is and becomes.
    pub fn first_bad(&self, from: &[u8], rows: &mut Rows) -> Option<(u64, String)> {
        let transcode = match self {
            Transcode::Cast(cast) => return cast.first_bad(from),
            Transcode::Rows(transcode) => transcode,
        };
        if let Side::Cast(cast) = &transcode.decode
            && let Some(bad) = cast.first_bad(from)
        {
            return Some(bad);
        }
        transcode.decode(from, 0, rows).ok()?;
        let bad = (0u64..).zip(&rows.values).find(|(_, value)| !value.is_finite());
        if let Some((number, value)) = bad {
            return Some((number, format!("{value:e}, not finite")));
        }
        match &transcode.encode {
            Side::Cast(cast) => cast.first_bad(bytemuck::cast_slice(&rows.values)),
            // As they were decoded again.
            Side::Blocks(_) => {
                let pairs = (0u64..).zip(rows.values.iter().zip(&rows.again));
                let mut lost = pairs.filter(|(_, (_, after))| !after.is_finite());
                lost.next()
                    .map(|(number, (value, _))| (number, format!("{value:e}, more than its block can hold")))
            }
            _ => None,
        }
    }
}

/// Integers whose rows have scales.
fn integers(dtype: DType, scales: Option<Arc<[f32]>>, row_len: u64) -> Result<Side> {
    let info = dtype.require()?;
    let bits = info.block_bytes * 8 / info.block_elements;
    if !row_len.is_multiple_of(u64::from(info.block_elements)) {
        return Err(Error::unsupported(format!("rows of {row_len} are not whole bytes of {dtype}")));
    }
    Ok(Side::Integers { bits, scales })
}

impl RowTranscode {
    /// Bytes of the widest form of a row.
    fn widest(&self) -> u64 {
        self.row_len.saturating_mul(4).max(self.row_bytes[0]).max(self.row_bytes[1])
    }

    /// Makes `rows.values` of the bytes before.
    fn decode(&self, from: &[u8], row: u64, rows: &mut Rows) -> Result<Changes> {
        let elements = (from.len() as u64 / self.row_bytes[0]).checked_mul(self.row_len);
        let elements = elements.and_then(|n| usize::try_from(n).ok());
        rows.values.resize(elements.ok_or_else(|| Error::limit("a row does not fit memory"))?, 0.0);
        let changes = match &self.decode {
            Side::Same => {
                bytemuck::cast_slice_mut(&mut rows.values).copy_from_slice(from);
                Changes::default()
            }
            Side::Cast(cast) => cast.apply(from, bytemuck::cast_slice_mut(&mut rows.values)),
            Side::Blocks(quantizer) => {
                quantizer.decode(self.from, from, self.row_len, &mut rows.values)?;
                Changes::default()
            }
            Side::Integers { bits, scales } => {
                let row = usize::try_from(row).unwrap_or(usize::MAX);
                let scales = scales.as_deref().and_then(|scales| scales.get(row..)).unwrap_or_default();
                integers::decode(*bits, from, scales, self.row_elements(), &mut rows.values);
                Changes::default()
            }
            Side::Scales { .. } => Changes::default(),
        };
        if let Some(c) = self.add {
            rows.values.iter_mut().for_each(|value| *value += c);
        }
        Ok(changes)
    }

    fn row_elements(&self) -> usize {
        usize::try_from(self.row_len).unwrap_or(usize::MAX)
    }

    fn apply(
        &self,
        from: &[u8],
        (row, to): (u64, &mut [u8]),
        rows: &mut Rows,
    ) -> Result<(Changes, Option<Loss>)> {
        rows.again.clear();
        let mut changes = self.decode(from, row, rows)?;
        let values = &rows.values;
        if !matches!(self.decode, Side::Cast(_)) {
            changes.nonfinite += values.iter().map(|value| u64::from(!value.is_finite())).sum::<u64>();
        }
        let mut loss = None;
        match &self.encode {
            Side::Same => to.copy_from_slice(bytemuck::cast_slice(values)),
            Side::Cast(cast) => changes += cast.apply(bytemuck::cast_slice(values), to),
            // What is not finite is answered by the caller, unless it is allowed: then it is encoded as it comes.
            Side::Blocks(quantizer) => {
                match &self.repack {
                    Some(repacker) => repacker.repack(self.from, self.to, from, to)?,
                    None => {
                        quantizer.encode(self.to, values, self.row_len, self.importance.as_deref(), to)?
                    }
                }
                rows.again.resize(values.len(), 0.0);
                quantizer.decode(self.to, to, self.row_len, &mut rows.again)?;
                let became = |(before, after): (&f32, &f32)| before.is_finite() && !after.is_finite();
                let infinite = values.iter().zip(&rows.again).filter(|(x, y)| became((x, y))).count();
                changes.overflowed += infinite as u64;
                loss = Some(Loss::between(values, &rows.again));
            }
            Side::Integers { bits, .. } => {
                rows.again.resize(values.len(), 0.0);
                integers::encode(*bits, values, self.row_elements(), to, &mut rows.again);
                loss = Some(Loss::between(values, &rows.again));
            }
            Side::Scales { most } => integers::scales(*most, values, self.row_elements(), to),
        }
        Ok((changes, loss))
    }
}
