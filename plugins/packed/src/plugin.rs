//! The plugin's quantizer: it has no types of its own, only schemes.

use crate::model::{Found, Model};
use crate::scheme::SCHEMES;
use crate::stated::{Stated, refuse_left_out};
use crate::{agreement, layout};
use apr_sdk::{
    DType, HeldRows, PackedRows, PartRange, Quantizer, Result, Schemes, StoredModel, Understood, escape,
};
use std::ops::Range;

/// The quantizer.
pub struct Packed;

impl Quantizer for Packed {
    fn dtypes(&self) -> Result<Vec<DType>> {
        Ok(Vec::new())
    }

    fn schemes(&self) -> Option<&dyn Schemes> {
        Some(self)
    }
}

/// Characters of a message at most.
const LONGEST: usize = 1000;

fn understand(model: &StoredModel) -> Result<Understood> {
    let model = Model::new(model)?;
    let stated = Stated::of(&model)?;
    if matches!(stated, Stated::Unknown) {
        // Another plugin may know it; what looks like a scheme of this one's is none.
        return Ok(Understood::default());
    }
    agreement::check(&model)?;
    let mut found = Found::new(&model);
    for scheme in SCHEMES {
        found.by(scheme.name);
        (scheme.understand)(&model, &mut found)?;
        if found.is_waiting() {
            // The host asks again, with the contents.
            return Ok(found.finish());
        }
        stated.check(&model, &found, scheme)?;
    }
    refuse_left_out(&model, &found)?;
    found.lost_scales(&model)?;
    Ok(found.finish())
}

impl Schemes for Packed {
    fn understand(&self, model: &StoredModel) -> Result<Understood> {
        understand(model).map_err(|error| {
            // Messages quote names and settings, which may hold control characters.
            let message = escape(error.message(), LONGEST);
            error.with_message(message)
        })
    }

    fn ranges(&self, packed: &PackedRows, rows: Range<u64>) -> Result<Vec<PartRange>> {
        layout::of(packed)?.ranges(packed, rows)
    }

    fn unpack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        out: &mut [f32],
    ) -> Result<()> {
        layout::of(packed)?.unpack(packed, held, rows, out)
    }

    fn column_unit(&self, packed: &PackedRows) -> Result<u64> {
        layout::of(packed)?.column_unit(packed)
    }

    fn unpack_columns(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        columns: Range<u64>,
        out: &mut [f32],
    ) -> Result<()> {
        layout::of(packed)?.unpack_columns(packed, held, rows, columns, out)
    }

    fn holds(&self, packed: &PackedRows, held: &HeldRows<'_>, dtype: DType) -> Result<bool> {
        layout::of(packed)?.holds(packed, held, dtype)
    }

    fn repack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        dtype: DType,
        out: &mut [u8],
    ) -> Result<()> {
        layout::of(packed)?.repack(packed, held, rows, dtype, out)
    }
}
