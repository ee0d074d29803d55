//! How operators of onnxruntime pack codes into bytes, by the attributes of their nodes.

use crate::derived::Describer;
use crate::origin::{Origin, Place};
use apr_sdk::{DType, DerivedPacking, DerivedWeight};

impl Describer<'_> {
    /// How MatMulNBits packs its weight, `[K, N]` by its attributes.
    pub(crate) fn matrix(
        &self,
        node: usize,
        place: Place,
        weight: &mut DerivedWeight,
    ) -> std::result::Result<(), String> {
        let whole = |name: &str| self.graphs.whole(node, place, name);
        if whole("weight_prepacked").is_some_and(|how| how != 0) {
            return Err("they are packed for one kind of device".to_owned());
        }
        if self.graphs.of_input(node, G_IDX, place) != Origin::Nothing {
            return Err("rows are assigned to groups by a deprecated input".to_owned());
        }
        let size =
            |name: &str| whole(name).and_then(|size| u64::try_from(size).ok()).filter(|size| *size > 0);
        let missing = |name: &str| format!("the attribute `{name}` is missing or not a valid size");
        let (rows, columns) =
            (size("K").ok_or_else(|| missing("K"))?, size("N").ok_or_else(|| missing("N"))?);
        let block = size("block_size").ok_or_else(|| missing("block_size"))?;
        let codes = of_bits(whole("bits"))?;
        let stored = rows.div_ceil(block).checked_mul(block).ok_or_else(|| missing("K"))?;
        weight.axis = Some(-1);
        weight.block = Some(block);
        weight.packing =
            Some(DerivedPacking { codes, shape: vec![columns, rows], stored, is_transposed: true });
        Ok(())
    }

    /// How GatherBlockQuantized stores its table: in blocks along an axis, and bytes hold several codes.
    pub(crate) fn table(
        &self,
        node: usize,
        place: Place,
        codes: usize,
        is_single: bool,
        weight: &mut DerivedWeight,
    ) -> std::result::Result<(), String> {
        let whole = |name: &str| self.graphs.whole(node, place, name);
        let tensor = &self.tensors[codes];
        let axis = whole("quantize_axis").unwrap_or(1);
        match whole("block_size").unwrap_or(128) {
            0 if is_single => return Ok(()),
            0 => return Err("blocks are as long as the axis".to_owned()),
            block => weight.block = Some(u64::try_from(block).unwrap_or(0)),
        }
        weight.axis = Some(axis);
        if tensor.dtype != DType::U8 {
            return Ok(());
        }
        let codes = of_bits(whole("bits"))?;
        let each =
            8 / codes.info().map_or(8, |info| info.block_bytes as u64 * 8 / u64::from(info.block_elements));
        let mut shape = tensor.shape.clone();
        let last = shape.last_mut().ok_or("they have no dimensions")?;
        *last = last.checked_mul(each).ok_or("they are too many")?;
        let stored = *last;
        weight.packing = Some(DerivedPacking { codes, shape, stored, is_transposed: false });
        Ok(())
    }
}

/// The input of MatMulNBits that assigns rows to groups.
const G_IDX: usize = 4;

/// The type of packed codes of so many bits; 4 if the node does not say.
fn of_bits(bits: Option<i64>) -> std::result::Result<DType, String> {
    match bits.unwrap_or(4) {
        2 => Ok(DType::U2),
        4 => Ok(DType::U4),
        8 => Ok(DType::U8),
        bits => Err(format!("they have {bits} bits, which is not supported")),
    }
}

/// The code in the middle of all of a type.
pub(crate) fn middle(codes: DType) -> f64 {
    match codes {
        DType::U2 => 2.0,
        DType::U4 => 8.0,
        _ => 128.0,
    }
}
