//! The schemes of a quantizer, named and guarded.

use super::Owned;
use apr_sdk::{
    DType, Error, HeldRows, PackedRows, PartRange, Quantizer, Result, Schemes, StoredModel, Understood,
};
use std::ops::Range;

impl Owned<dyn Quantizer> {
    fn schemes_of(&self) -> Result<&dyn Schemes> {
        self.object.schemes().ok_or_else(|| Error::plugin("does not support packed weights"))
    }
}

impl Schemes for Owned<dyn Quantizer> {
    fn understand(&self, model: &StoredModel) -> Result<Understood> {
        self.owner.call("looking for packed weights", || self.schemes_of()?.understand(model))
    }

    fn ranges(&self, packed: &PackedRows, rows: Range<u64>) -> Result<Vec<PartRange>> {
        self.owner.call("finding packed rows", || self.schemes_of()?.ranges(packed, rows))
    }

    fn unpack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        out: &mut [f32],
    ) -> Result<()> {
        self.owner.call("unpacking rows", || self.schemes_of()?.unpack(packed, held, rows, out))
    }

    fn column_unit(&self, packed: &PackedRows) -> Result<u64> {
        self.owner.call("listing row parts", || self.schemes_of()?.column_unit(packed))
    }

    fn unpack_columns(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        columns: Range<u64>,
        out: &mut [f32],
    ) -> Result<()> {
        self.owner
            .call("unpacking columns", || self.schemes_of()?.unpack_columns(packed, held, rows, columns, out))
    }

    fn holds(&self, packed: &PackedRows, held: &HeldRows<'_>, dtype: DType) -> Result<bool> {
        self.owner.call("checking a type", || self.schemes_of()?.holds(packed, held, dtype))
    }

    fn repack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        dtype: DType,
        out: &mut [u8],
    ) -> Result<()> {
        self.owner.call("repacking rows", || self.schemes_of()?.repack(packed, held, rows, dtype, out))
    }
}
