//! The computation of a planned tensor, as pure data: the only way in which a value is ever moved or changed.
//! A closed set of nodes; each has its own file with its operands and its evaluation.
//!
//! *Normal form*, maintained by the constructors: a `Concat` is outermost; a `Region` applies only to a
//! `Source` or a `Spool`; conversions are in a fixed order, from `Source` to floats (`Cast`, `Decode`) to
//! changed floats (`Affine`) to the type that is written (`Cast`, `Encode`, `RowCodes`, `RowScales`,
//! `Repack`). So every part of a `Concat` has one leaf, whose bytes are in the order of the result.

mod affine;
mod cast;
mod concat;
mod decode;
mod encode;
pub mod evaluate;
mod fill;
pub mod gather;
mod planned_tensor;
mod region;
mod repack;
mod row_codes;
mod row_scales;
mod source;
mod spool;
mod unpack;

pub use concat::concat;
pub use encode::{ColumnImportance, is_all_zero};
pub use evaluate::access::Access;
pub use evaluate::granule::Granule;
pub use evaluate::measure::{Measure, measure, measure_levels};
pub use planned_tensor::{PlannedTensor, row_len};
pub use region::merged;
pub use source::unit;
pub use spool::{SPOOL, Spools};
pub use unpack::{Packed, Panel, Panels, Unpack, part_bytes};

pub(crate) use source::Source;

pub use affine::{Constant, Levels, Map};

use affine::Affine;
use cast::Cast;
use decode::Decode;
use encode::Encode;
use fill::Fill;
use region::Region;
use repack::Repack;
use row_codes::RowCodes;
use row_scales::RowScales;
pub use row_scales::scales_len;
use source::Storage;
use spool::Spool;

use crate::registry::Registry;
use apr_sdk::{Codec, DType, Endian, Error, Payload, Result, Tensor, checked_payload_len};

/// Bytes per tile, unless something demands another size.
pub const TILE: u64 = 1 << 20;

/// The computation of a tensor's bytes, row-major and little-endian.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expression {
    /// Stored bytes, unchanged.
    Source(Source),
    /// Computed bytes.
    Fill(Fill),
    /// Some elements of another expression, in any order.
    Region(Box<Region>),
    /// Several expressions in sequence.
    Concat(Vec<Expression>),
    /// Each element converted to another float type.
    Cast(Box<Cast>),
    /// Floats multiplied and added to, in F32.
    Affine(Box<Affine>),
    /// Blocks decoded to F32.
    Decode(Box<Decode>),
    /// F32 encoded as blocks.
    Encode(Box<Encode>),
    /// Blocks converted losslessly to blocks of another type.
    Repack(Box<Repack>),
    /// F32 as integers with one scale per row.
    RowCodes(Box<RowCodes>),
    /// The scales of such rows.
    RowScales(Box<RowScales>),
    /// Another expression, written to scratch first.
    Spool(Box<Spool>),
}

impl Expression {
    /// All of tensor number `number` of the source.
    ///
    /// # Errors
    /// Unsupported for an unknown dtype or kind of payload.
    pub fn of(number: usize, tensor: &Tensor) -> Result<Expression> {
        tensor.dtype.require()?;
        let (len, storage) = match &tensor.payload {
            Payload::Extent { extent, view } => {
                let endian = view.as_ref().map_or(Endian::Little, |view| view.endian);
                (extent.len, Storage::Extent { extent: *extent, endian })
            }
            Payload::Blocks { codec } => (tensor.payload_len()?, Storage::Blocks(Box::new(codec.clone()))),
            Payload::Sequential => (tensor.payload_len()?, Storage::Sequential),
            Payload::Packed(weight) => return unpack::of(number, weight, tensor.dtype),
            _ => return Err(Error::unsupported("unknown kind of payload")),
        };
        let source = Expression::Source(Source { tensor: Some(number), dtype: tensor.dtype, len, storage });
        match &tensor.payload {
            Payload::Extent { view: Some(view), .. } if !view.strides.is_empty() => {
                let dims: Vec<_> = tensor.shape.iter().copied().zip(view.strides.iter().copied()).collect();
                Region::over(source, view.start, &dims)
            }
            _ => Ok(source),
        }
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        match self {
            Expression::Source(source) => source.dtype,
            Expression::Fill(fill) => fill.dtype,
            Expression::Region(region) => region.of.dtype(),
            Expression::Concat(parts) => parts.first().map_or(DType::U8, Expression::dtype),
            Expression::Cast(cast) => cast.to,
            Expression::Affine(_) | Expression::Decode(_) | Expression::RowScales(_) => DType::F32,
            Expression::Encode(encode) => encode.to,
            Expression::Repack(repack) => repack.to,
            Expression::RowCodes(codes) => codes.to,
            Expression::Spool(spool) => spool.of.dtype(),
        }
    }

    /// The operand whose values it changes; `None` for a node that only moves or holds bytes.
    pub fn operand(&self) -> Option<&Expression> {
        match self {
            Expression::Cast(cast) => Some(&cast.of),
            Expression::Affine(affine) => Some(&affine.of),
            Expression::Decode(decode) => Some(&decode.of),
            Expression::Encode(encode) => Some(&encode.of),
            Expression::Repack(repack) => Some(&repack.of),
            Expression::RowCodes(codes) => Some(&codes.of),
            Expression::RowScales(scales) => Some(&scales.of),
            _ => None,
        }
    }

    /// The origin of the values of an expression other than a `Concat`: a source, a region, a fill, or a
    /// spool.
    pub fn leaf(&self) -> &Expression {
        let mut at = self;
        while let Some(operand) = at.operand() {
            at = operand;
        }
        at
    }

    /// Replaces the leaf.
    fn set_leaf(&mut self, leaf: Expression) {
        match self {
            Expression::Cast(cast) => cast.of.set_leaf(leaf),
            Expression::Affine(affine) => affine.of.set_leaf(leaf),
            Expression::Decode(decode) => decode.of.set_leaf(leaf),
            Expression::Encode(encode) => encode.of.set_leaf(leaf),
            Expression::Repack(repack) => repack.of.set_leaf(leaf),
            Expression::RowCodes(codes) => codes.of.set_leaf(leaf),
            Expression::RowScales(scales) => scales.of.set_leaf(leaf),
            own => *own = leaf,
        }
    }

    /// Returns whether it is stored bytes, or regions of them, with unchanged values.
    pub fn is_leaf(&self) -> bool {
        self.operand().is_none()
    }

    /// The parts of a `Concat`; otherwise the expression itself.
    pub fn parts(&self) -> &[Expression] {
        match self {
            Expression::Concat(parts) => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// Like [`Expression::parts`], by value.
    pub fn into_parts(self) -> Vec<Expression> {
        match self {
            Expression::Concat(parts) => parts,
            one => vec![one],
        }
    }

    /// Applies `change` to each part, along with the number of elements before it.
    fn each_part(self, mut change: impl FnMut(Expression, u64) -> Expression) -> Expression {
        let Expression::Concat(parts) = self else { return change(self, 0) };
        let mut before = 0u64;
        let parts = parts.into_iter().map(|part| {
            let elements = part.elements();
            let changed = change(part, before);
            before = before.saturating_add(elements);
            changed
        });
        Expression::Concat(parts.collect())
    }

    /// The number of elements; 0 if unknown.
    fn elements(&self) -> u64 {
        let Some(info) = self.dtype().info() else { return 0 };
        let Ok(len) = self.byte_len() else { return 0 };
        len / u64::from(info.block_bytes) * u64::from(info.block_elements)
    }

    /// The stored dtype, before any value is changed.
    pub fn stored_dtype(&self) -> DType {
        self.parts().first().map_or(DType::U8, |part| part.leaf().dtype())
    }

    /// Returns whether any of it is read from scratch.
    pub fn is_spooled(&self) -> bool {
        let mut is_spooled = false;
        self.below(&mut |below| is_spooled |= matches!(below, Expression::Spool(_)));
        is_spooled
    }

    /// The method that its bytes are compressed with, if they are those of a source tensor, unchanged.
    pub fn source_codec(&self) -> Option<&Codec> {
        match self {
            Expression::Source(Source { storage: Storage::Blocks(codec), .. }) => Some(codec),
            _ => None,
        }
    }

    /// The expression to read in place of a spooled leaf.
    fn without_spool(&self) -> &Expression {
        match self {
            Expression::Region(region) if matches!(region.of, Expression::Spool(_)) => {
                region.of.without_spool()
            }
            Expression::Spool(spool) => &spool.of,
            other => other,
        }
    }

    /// The source tensor that the leaf belongs to, if there is one; for an expression other than a `Concat`.
    pub fn source_tensor(&self) -> Option<usize> {
        match self.leaf() {
            Expression::Source(source) => source.tensor,
            Expression::Region(region) => region.of.source_tensor(),
            Expression::Spool(spool) => spool.of.source_tensor(),
            _ => None,
        }
    }

    /// Calls `tell` with every source that bytes come from.
    pub fn sources<'e>(&'e self, tell: &mut dyn FnMut(&'e Source)) {
        self.below(&mut |below| {
            if let Expression::Source(source) = below {
                tell(source);
            }
        });
    }

    fn below<'e>(&'e self, tell: &mut dyn FnMut(&'e Expression)) {
        tell(self);
        match self {
            Expression::Concat(parts) => parts.iter().for_each(|part| part.below(tell)),
            Expression::Region(region) => region.of.below(tell),
            Expression::Spool(spool) => spool.of.below(tell),
            other => other.operand().into_iter().for_each(|operand| operand.below(tell)),
        }
    }

    /// Calls `change` with every expression in it, innermost first.
    fn each_mut(&mut self, change: &mut dyn FnMut(&mut Expression)) {
        match self {
            Expression::Source(_) | Expression::Fill(_) => {}
            Expression::Concat(parts) => parts.iter_mut().for_each(|part| part.each_mut(change)),
            Expression::Region(region) => region.of.each_mut(change),
            Expression::Spool(spool) => spool.of.each_mut(change),
            Expression::Cast(cast) => cast.of.each_mut(change),
            Expression::Affine(affine) => affine.of.each_mut(change),
            Expression::Decode(decode) => decode.of.each_mut(change),
            Expression::Encode(encode) => encode.of.each_mut(change),
            Expression::Repack(repack) => repack.of.each_mut(change),
            Expression::RowCodes(codes) => codes.of.each_mut(change),
            Expression::RowScales(scales) => scales.of.each_mut(change),
        }
        change(self);
    }

    /// Renumbers sources that are indices into `numbers` to the tensors listed there.
    pub fn renumber(&mut self, numbers: &[usize]) {
        self.each_mut(&mut |below| {
            if let Expression::Source(Source { tensor: Some(tensor), .. }) = below
                && let Some(&number) = numbers.get(*tensor)
            {
                *tensor = number;
            }
        });
    }

    /// Length in bytes; `u64::MAX` on overflow.
    ///
    /// # Errors
    /// Unsupported for an unknown dtype, or rows that are not whole blocks.
    pub fn byte_len(&self) -> Result<u64> {
        match self {
            Expression::Source(source) => Ok(source.len),
            Expression::Fill(fill) => Ok(fill.bytes.len() as u64),
            Expression::Region(region) => region.byte_len(),
            Expression::Spool(spool) => spool.of.byte_len(),
            Expression::Concat(parts) => {
                parts.iter().try_fold(0u64, |sum, part| Ok(sum.saturating_add(part.byte_len()?)))
            }
            changed => Ok(Granule::of(changed)?.after(changed.leaf().byte_len()?)),
        }
    }

    /// Checks that it computes all of `planned`, and that every conversion exists.
    ///
    /// # Errors
    /// Plugin, with the mismatch, which only a wrong architecture table can cause. Unsupported for a missing
    /// cast, a type that no quantizer knows, or parts of rows where whole rows are needed.
    pub fn check(&self, planned: &Tensor, registry: &Registry) -> Result<()> {
        let mut made = 0u64;
        let stored = self.stored_dtype();
        for part in self.parts() {
            let own = part.stored_dtype();
            if own != stored {
                return Err(mismatch(planned, format!("it is made of both {stored} and {own}")));
            }
            let have = part.dtype();
            let want = planned.dtype;
            if have != want {
                return Err(mismatch(planned, format!("it is made of {have}, but planned as {want}")));
            }
            if !part.is_leaf() {
                let granule = Granule::of(part)?;
                part.check_ways(registry)?;
                if granule.is_row && !part.leaf().byte_len()?.is_multiple_of(granule.before.max(1)) {
                    let message = "it is made of parts of rows, which cannot be quantized in the same step";
                    return Err(
                        Error::unsupported(message).hint("convert it first, then quantize the result")
                    );
                }
            }
            made = made.saturating_add(part.byte_len()?);
        }
        let want = checked_payload_len(planned.dtype, &planned.shape)?;
        if made != want {
            let message = format!("it is made of {made} bytes of {}, but needs {want}", planned.dtype);
            return Err(mismatch(planned, message));
        }
        Ok(())
    }

    /// Fails if one of its conversions does not exist.
    fn check_ways(&self, registry: &Registry) -> Result<()> {
        let mut at = self;
        while let Some(operand) = at.operand() {
            match at {
                Expression::Cast(cast) => cast.check()?,
                Expression::Affine(affine) => affine.check()?,
                Expression::Decode(_) => drop(registry.quantizer_of(operand.dtype())?),
                Expression::Encode(encode) => drop(registry.quantizer_of(encode.to)?),
                Expression::Repack(repack) => repack.check(registry)?,
                Expression::RowCodes(codes) => codes.check()?,
                _ => {}
            }
            at = operand;
        }
        Ok(())
    }

    /// Returns whether values are changed by a function or an addition.
    pub fn is_affine(&self) -> bool {
        self.parts().iter().any(|part| part.any(&|node| matches!(node, Expression::Affine(_))))
    }

    /// Returns whether it converts to a type with fewer values, so that the loss is measured along the way.
    pub fn is_quantized(&self) -> bool {
        matches!(self, Expression::Encode(_) | Expression::Repack(_) | Expression::RowCodes(_))
    }

    /// Returns whether values are encoded as blocks.
    pub fn is_encoded(&self) -> bool {
        self.parts().iter().any(|part| matches!(part, Expression::Encode(_)))
    }

    /// Computed bytes, row-major and little-endian.
    pub fn fill(dtype: DType, bytes: &[u8]) -> Expression {
        Expression::Fill(Fill { dtype, bytes: bytes.into() })
    }

    /// The operations that change its values, in words; empty if there are none.
    pub fn words(&self) -> Vec<String> {
        let Some(part) = self.parts().first() else { return Vec::new() };
        let mut words = Vec::new();
        let mut at = part;
        while let Some(operand) = at.operand() {
            if let Expression::Affine(affine) = at {
                words.extend(affine.map.map(|map| map.to_string()));
                words.extend(affine.add.map(|c| format!("add {}", c.get())));
            }
            at = operand;
        }
        let from = at.dtype();
        let to = part.dtype();
        let word = match part {
            Expression::RowScales(_) => "scales of rows",
            Expression::RowCodes(_) => "quantize",
            _ => match (from.is_block(), to.is_block()) {
                (false, true) => "quantize",
                (true, false) => "dequantize",
                (true, true) => "requantize",
                (false, false) => "cast",
            },
        };
        words.extend((from != to).then(|| format!("{word} {from} -> {to}")));
        words
    }

    /// Returns whether any of the expressions that change its values satisfies `is_one`.
    fn any(&self, is_one: &dyn Fn(&Expression) -> bool) -> bool {
        is_one(self) || self.operand().is_some_and(|operand| operand.any(is_one))
    }
}

/// An error about an expression that computes something else than what is planned.
fn mismatch(planned: &Tensor, message: String) -> Error {
    Error::plugin(message).tensor(&planned.name)
}
