//! What a tensor of the planned model is made of, as pure data: the only way in which a value is ever moved or changed
//! (design section 3). A closed set of nodes, each in a file of its own with what it needs and how it is evaluated.
//!
//! *Normal form*, which the constructors keep: a `Concat` is outermost; a `Region` stands only over
//! a `Source` or a `Spool`; types follow each other in one order, `Source` to floats (`Cast`, `Decode`) to changed
//! floats (`Affine`) to the type that is written (`Cast`, `Encode`, `RowCodes`, `RowScales`, `Repack`). So every
//! part of a `Concat` has one leaf, whose bytes lie in the order of the result.

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

pub use concat::concat;
pub use encode::{ColumnImportance, is_all_zero};
pub use evaluate::granule::Granule;
pub use evaluate::measure::{Measure, measure};
pub use planned_tensor::PlannedTensor;
pub use region::merged;
pub use source::{Access, unit};
pub use spool::{SPOOL, Spools};

pub(crate) use source::Source;

use affine::Affine;
use cast::Cast;
use decode::Decode;
use encode::Encode;
use fill::Fill;
use region::Region;
use repack::Repack;
use row_codes::RowCodes;
use row_scales::RowScales;
use spool::Spool;

use crate::registry::Registry;
use apr_sdk::{DType, Error, Result, Tensor, checked_payload_len};

/// Bytes of a tile, where nothing forces another size.
pub const TILE: u64 = 1 << 20;

/// What a tensor is made of: its bytes, row-major and little-endian.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expression {
    /// Stored bytes, as they lie.
    Source(Source),
    /// Bytes that were computed.
    Fill(Fill),
    /// Some of the elements of another, in any order.
    Region(Box<Region>),
    /// Several one after another.
    Concat(Vec<Expression>),
    /// Each element as a float of another type.
    Cast(Box<Cast>),
    /// Floats multiplied and added to, in F32.
    Affine(Box<Affine>),
    /// Blocks as F32.
    Decode(Box<Decode>),
    /// F32 as blocks.
    Encode(Box<Encode>),
    /// Blocks as blocks of another type, without loss.
    Repack(Box<Repack>),
    /// F32 as integers, whose rows have a scale each.
    RowCodes(Box<RowCodes>),
    /// The scales of such rows.
    RowScales(Box<RowScales>),
    /// Another, written to scratch first.
    Spool(Box<Spool>),
}

impl Expression {
    /// All of tensor number `number` of the source.
    ///
    /// # Errors
    /// Unsupported for a dtype that is unknown, or a payload of an unknown kind.
    pub fn of(number: usize, tensor: &Tensor) -> Result<Expression> {
        source::of(number, tensor)
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

    /// What its values are taken from, of one that is no `Concat`: a source, a region, a fill, a spool.
    pub fn leaf(&self) -> &Expression {
        let mut at = self;
        while let Some(operand) = at.operand() {
            at = operand;
        }
        at
    }

    /// The same of another leaf.
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

    /// Whether it is stored bytes as they lie, or regions of them, and no value is changed.
    pub fn is_leaf(&self) -> bool {
        self.operand().is_none()
    }

    /// The parts that are one after another.
    pub fn parts(&self) -> &[Expression] {
        match self {
            Expression::Concat(parts) => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// The same, taken apart.
    pub fn into_parts(self) -> Vec<Expression> {
        match self {
            Expression::Concat(parts) => parts,
            one => vec![one],
        }
    }

    /// The same of each part, of which it is told how many elements are before it.
    fn each_part(self, mut change: impl FnMut(Expression, u64) -> Expression) -> Expression {
        let Expression::Concat(parts) = self else { return change(self, 0) };
        let mut before = 0u64;
        let changed = parts.into_iter().map(|part| {
            let elements = part.elements();
            let one = change(part, before);
            before = before.saturating_add(elements);
            one
        });
        Expression::Concat(changed.collect())
    }

    /// The number of elements; 0 if unknown.
    fn elements(&self) -> u64 {
        let of = |info: &apr_sdk::DTypeInfo| {
            Some(self.byte_len().ok()? / u64::from(info.block_bytes) * u64::from(info.block_elements))
        };
        self.dtype().info().and_then(of).unwrap_or(0)
    }

    /// The type of what is stored, before any value is changed.
    pub fn stored_dtype(&self) -> DType {
        self.parts().first().map_or(DType::U8, |part| part.leaf().dtype())
    }

    /// Whether some of it is read from scratch.
    pub fn is_spooled(&self) -> bool {
        let mut is_spooled = false;
        self.below(&mut |below| is_spooled |= matches!(below, Expression::Spool(_)));
        is_spooled
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

    /// The source tensor that its leaf is of, if it is of one; of one that is no `Concat`.
    pub fn source_tensor(&self) -> Option<usize> {
        match self.leaf() {
            Expression::Source(source) => source.tensor,
            Expression::Region(region) => region.of.source_tensor(),
            Expression::Spool(spool) => spool.of.source_tensor(),
            _ => None,
        }
    }

    /// Every source that it takes bytes from.
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
            Expression::Affine(affine) => {
                affine.of.below(tell);
                affine.factor.iter().for_each(|factor| factor.of.below(tell));
            }
            other => other.operand().into_iter().for_each(|operand| operand.below(tell)),
        }
    }

    /// Changes every expression in it, the innermost first.
    fn each_mut(&mut self, change: &mut dyn FnMut(&mut Expression)) {
        match self {
            Expression::Source(_) | Expression::Fill(_) => {}
            Expression::Concat(parts) => parts.iter_mut().for_each(|part| part.each_mut(change)),
            Expression::Region(region) => region.of.each_mut(change),
            Expression::Spool(spool) => spool.of.each_mut(change),
            Expression::Cast(cast) => cast.of.each_mut(change),
            Expression::Affine(affine) => {
                affine.of.each_mut(change);
                affine.factor.iter_mut().for_each(|factor| factor.of.each_mut(change));
            }
            Expression::Decode(decode) => decode.of.each_mut(change),
            Expression::Encode(encode) => encode.of.each_mut(change),
            Expression::Repack(repack) => repack.of.each_mut(change),
            Expression::RowCodes(codes) => codes.of.each_mut(change),
            Expression::RowScales(scales) => scales.of.each_mut(change),
        }
        change(self);
    }

    /// The same of the tensors that `numbers` has, in its order, where the sources are counted among those.
    pub fn renumber(&mut self, numbers: &[usize]) {
        self.each_mut(&mut |below| {
            if let Expression::Source(Source { tensor: Some(tensor), .. }) = below
                && let Some(&number) = numbers.get(*tensor)
            {
                *tensor = number;
            }
        });
    }

    /// Bytes of it; `u64::MAX` for more than a number can say.
    ///
    /// # Errors
    /// Unsupported for a dtype that is unknown, or rows that are no whole blocks.
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

    /// Checks that it makes all of `planned`, and that there is a way to each type.
    ///
    /// # Errors
    /// Plugin, with what does not fit: only a wrong architecture table makes such a thing. Unsupported for a cast that there
    /// is not, a type that no quantizer knows, or parts of rows where rows are needed whole.
    pub fn check(&self, planned: &Tensor, registry: &Registry) -> Result<()> {
        let wrong = |what: String| Err(Error::plugin(what).tensor(&planned.name));
        let mut made = 0u64;
        let stored = self.stored_dtype();
        for part in self.parts() {
            let own = part.stored_dtype();
            if own != stored {
                return wrong(format!("it is made of {stored} and of {own}"));
            }
            if part.dtype() != planned.dtype {
                let (have, want) = (part.dtype(), planned.dtype);
                return wrong(format!("it is made of {have}, and planned as {want}"));
            }
            if !part.is_leaf() {
                let granule = Granule::of(part)?;
                part.check_ways(registry)?;
                if granule.is_row && !part.leaf().byte_len()?.is_multiple_of(granule.before.max(1)) {
                    let message = "it is made of parts of rows, which cannot be quantized at once";
                    return Err(
                        Error::unsupported(message).hint("convert it first, then quantize the result")
                    );
                }
            }
            made = made.saturating_add(part.byte_len()?);
        }
        let want = checked_payload_len(planned.dtype, &planned.shape)?;
        if made != want {
            return wrong(format!("it is made of {made} bytes of {}, and needs {want}", planned.dtype));
        }
        Ok(())
    }

    /// Fails if there is no way from one of its types to the next.
    fn check_ways(&self, registry: &Registry) -> Result<()> {
        let (mut at, mut has_factor) = (self, false);
        while let Some(operand) = at.operand() {
            match at {
                Expression::Cast(cast) => cast.check(has_factor)?,
                Expression::Affine(affine) => affine.check()?,
                Expression::Decode(_) => drop(registry.quantizer_of(operand.dtype())?),
                Expression::Encode(encode) => drop(registry.quantizer_of(encode.to)?),
                Expression::Repack(repack) => repack.check(registry)?,
                Expression::RowCodes(codes) => codes.check()?,
                _ => {}
            }
            has_factor = at.has_factor();
            at = operand;
        }
        Ok(())
    }

    /// Whether it multiplies each row by a factor of its own.
    fn has_factor(&self) -> bool {
        matches!(self, Expression::Affine(affine) if affine.factor.is_some())
    }

    /// Whether making it loses what a type with fewer values cannot say, which is measured as it is made.
    pub fn is_quantized(&self) -> bool {
        matches!(self, Expression::Encode(_) | Expression::Repack(_) | Expression::RowCodes(_))
    }

    /// Whether values become blocks.
    pub fn is_encoded(&self) -> bool {
        self.parts().iter().any(|part| matches!(part, Expression::Encode(_)))
    }

    /// Computed bytes, row-major and little-endian.
    pub fn fill(dtype: DType, bytes: &[u8]) -> Expression {
        Expression::Fill(Fill { dtype, bytes: bytes.into() })
    }

    /// What changes its values, in words; empty if nothing does.
    pub fn words(&self) -> Vec<String> {
        let Some(part) = self.parts().first() else { return Vec::new() };
        let mut words = Vec::new();
        let mut at = part;
        while let Some(operand) = at.operand() {
            if let Expression::Affine(affine) = at {
                words.extend(affine.add.map(|c| format!("add {}", c.get())));
            }
            at = operand;
        }
        let (from, to) = (at.dtype(), part.dtype());
        let word = match part {
            Expression::RowScales(_) => "scales of rows",
            Expression::RowCodes(_) => "quantize",
            _ if part.any(&Expression::has_factor) => "dequantize",
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

    /// Whether one of the expressions that change its values is such a one.
    fn any(&self, is_one: &dyn Fn(&Expression) -> bool) -> bool {
        is_one(self) || self.operand().is_some_and(|operand| operand.any(is_one))
    }
}
