//! Quantizers: puts a plugin's on the wire, and presents the wire's to the host.

use super::error::result;
use super::importance_sums::{from_sums, to_sums};
use super::model_sink::{bytes_from_wire, bytes_to_wire};
use super::packed_weights;
use super::request::{
    from_assignments, from_dtype, from_facts, from_model_facts, to_assignments, to_facts, to_model_facts,
};
use super::source::{FromWireSource, ToWireSource};
use crate::guard::{Guarded, host_wire, plugin_wire};
use crate::wire::pairs::{from_options, push, read, text, to_options};
use crate::wire::{
    DTypeNumber, ImportanceSinkMut, QuantizerObject, R, SourceRef, WireBytes, WireHeldRows,
    WireImportanceSink, WireImportanceSink_TO, WirePackedRows, WireQuantizer, WireRows,
};
use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::RMut;
use abi_stable::std_types::{RNone, RSlice, RSliceMut, RSome, RStr, RVec};
use apr_sdk::{
    Assignment, DType, Error, ImportanceSink, ImportanceSums, ModelFacts, Options, Quantizer, RecipeDecl,
    Record, Result, Schemes, Source, TensorFacts, Value, ValueType, escape,
};

/// Puts a plugin's quantizer on the wire.
pub struct ToWireQuantizer(Guarded<dyn Quantizer>);

impl ToWireQuantizer {
    /// Wraps `quantizer`, guarding its calls and its drop.
    pub fn new(quantizer: Box<dyn Quantizer>) -> ToWireQuantizer {
        ToWireQuantizer(Guarded::new(quantizer, "dropping its quantizer", None))
    }
}

impl WireQuantizer for ToWireQuantizer {
    fn dtypes(&self) -> R<RVec<DTypeNumber>> {
        plugin_wire("listing its types", || {
            Ok(self.0.dtypes()?.into_iter().map(|dtype| DTypeNumber(dtype.0)).collect())
        })
    }

    fn decode(
        &self,
        dtype: DTypeNumber,
        blocks: RSlice<'_, u8>,
        row_len: u64,
        mut out: RSliceMut<'_, f32>,
    ) -> R<()> {
        plugin_wire("decoding rows", || {
            self.0.decode(DType(dtype.0), blocks.as_slice(), row_len, out.as_mut_slice())
        })
    }

    fn encode(&self, dtype: DTypeNumber, rows: &WireRows<'_>, mut out: RSliceMut<'_, u8>) -> R<()> {
        plugin_wire("encoding rows", || {
            let importance = rows.importance.map(|importance| importance.as_slice()).into_option();
            let values = rows.values.as_slice();
            self.0.encode(DType(dtype.0), values, rows.row_len, importance, out.as_mut_slice())
        })
    }

    fn repacks(&self) -> R<RVec<DTypeNumber>> {
        plugin_wire("listing its repackings", || {
            let pairs = self.0.repacks()?.into_iter().flat_map(|(from, to)| [from, to]);
            Ok(pairs.map(|dtype| DTypeNumber(dtype.0)).collect())
        })
    }

    fn repack(
        &self,
        from: DTypeNumber,
        to: DTypeNumber,
        blocks: RSlice<'_, u8>,
        mut out: RSliceMut<'_, u8>,
    ) -> R<()> {
        plugin_wire("repacking blocks", || {
            self.0.repack(DType(from.0), DType(to.0), blocks.as_slice(), out.as_mut_slice())
        })
    }

    fn recipes(&self) -> R<RVec<u8>> {
        plugin_wire("listing its recipes", || {
            let mut out = Vec::new();
            for recipe in self.0.recipes()? {
                push(&mut out, &recipe.name, recipe.about.as_bytes());
            }
            Ok(out.into())
        })
    }

    fn assign(
        &self,
        recipe: RStr<'_>,
        facts: RSlice<'_, u8>,
        model: RSlice<'_, u8>,
        options: RSlice<'_, u8>,
    ) -> R<RVec<u8>> {
        plugin_wire("choosing types", || {
            let facts = to_facts(facts.as_slice())?;
            let model = to_model_facts(model.as_slice())?;
            let options = to_options(options.as_slice())?;
            let assigned = self.0.assign(recipe.as_str(), &facts, &model, &options)?;
            Ok(from_assignments(&assigned).into())
        })
    }

    fn records(&self, recipe: RStr<'_>) -> R<RVec<u8>> {
        plugin_wire("recording a recipe", || {
            let mut out = Vec::new();
            for (format, key, value) in self.0.records(recipe.as_str())? {
                let Some(bytes) = value.bytes.inline() else {
                    let message = format!("the record `{}` must be held", escape(&key, 80));
                    return Err(Error::unsupported(message));
                };
                push(&mut out, &format, key.as_bytes());
                push(&mut out, &value.kind.0.to_string(), bytes);
            }
            Ok(out.into())
        })
    }

    fn importance(&self, source: &SourceRef<'_>, sink: &mut ImportanceSinkMut<'_>) -> R<()> {
        plugin_wire("reading an importance matrix", || {
            self.0.importance(&FromWireSource(source), &mut FromWireImportanceSink(sink))
        })
    }

    fn importance_sums(&self, source: &SourceRef<'_>) -> R<RVec<u8>> {
        plugin_wire("reading an importance matrix", || {
            Ok(from_sums(&self.0.importance_sums(&FromWireSource(source))?).into())
        })
    }

    fn importance_file(&self, sums: RSlice<'_, u8>, file: RStr<'_>, form: RStr<'_>) -> R<RVec<u8>> {
        plugin_wire("writing an importance matrix", || {
            let form = Some(form.as_str()).filter(|form| !form.is_empty());
            Ok(self.0.importance_file(&to_sums(sums.as_slice())?, file.as_str(), form)?.into())
        })
    }

    fn has_schemes(&self) -> R<bool> {
        plugin_wire("naming its schemes", || Ok(self.0.schemes().is_some()))
    }

    fn understand(&self, model: RSlice<'_, u8>) -> R<RVec<u8>> {
        plugin_wire("looking for packed weights", || {
            let model = packed_weights::to_model(model.as_slice())?;
            Ok(packed_weights::from_understood(&packed_weights::schemes(&*self.0)?.understand(&model)?)
                .into())
        })
    }

    fn ranges(&self, rows: &WirePackedRows<'_>, first: u64, end: u64) -> R<RVec<u64>> {
        plugin_wire("finding packed rows", || {
            let ranges =
                packed_weights::schemes(&*self.0)?.ranges(&packed_weights::to_rows(rows), first..end)?;
            Ok(packed_weights::from_ranges(&ranges).into())
        })
    }

    fn unpack(
        &self,
        rows: &WirePackedRows<'_>,
        held: &WireHeldRows<'_>,
        mut out: RSliceMut<'_, f32>,
    ) -> R<()> {
        plugin_wire("unpacking rows", || {
            let schemes = packed_weights::schemes(&*self.0)?;
            packed_weights::with_held(held, |held, wanted| {
                schemes.unpack(&packed_weights::to_rows(rows), held, wanted, out.as_mut_slice())
            })
        })
    }

    fn holds(&self, rows: &WirePackedRows<'_>, held: &WireHeldRows<'_>, dtype: DTypeNumber) -> R<bool> {
        plugin_wire("checking a type", || {
            let schemes = packed_weights::schemes(&*self.0)?;
            packed_weights::with_held(held, |held, _| {
                schemes.holds(&packed_weights::to_rows(rows), held, DType(dtype.0))
            })
        })
    }

    fn repack_rows(
        &self,
        rows: &WirePackedRows<'_>,
        held: &WireHeldRows<'_>,
        dtype: DTypeNumber,
        mut out: RSliceMut<'_, u8>,
    ) -> R<()> {
        plugin_wire("repacking rows", || {
            let schemes = packed_weights::schemes(&*self.0)?;
            packed_weights::with_held(held, |held, wanted| {
                schemes.repack(
                    &packed_weights::to_rows(rows),
                    held,
                    wanted,
                    DType(dtype.0),
                    out.as_mut_slice(),
                )
            })
        })
    }

    fn column_unit(&self, rows: &WirePackedRows<'_>) -> R<u64> {
        plugin_wire("listing row parts", || {
            packed_weights::schemes(&*self.0)?.column_unit(&packed_weights::to_rows(rows))
        })
    }

    fn unpack_columns(
        &self,
        rows: &WirePackedRows<'_>,
        held: &WireHeldRows<'_>,
        first: u64,
        end: u64,
        mut out: RSliceMut<'_, f32>,
    ) -> R<()> {
        plugin_wire("unpacking columns", || {
            let schemes = packed_weights::schemes(&*self.0)?;
            packed_weights::with_held(held, |held, wanted| {
                schemes.unpack_columns(
                    &packed_weights::to_rows(rows),
                    held,
                    wanted,
                    first..end,
                    out.as_mut_slice(),
                )
            })
        })
    }
}

/// Presents the wire's quantizer to the host.
pub struct FromWireQuantizer {
    pub(crate) object: QuantizerObject,
    pub(crate) has_schemes: bool,
}

impl Quantizer for FromWireQuantizer {
    fn dtypes(&self) -> Result<Vec<DType>> {
        Ok(result(self.object.dtypes())?.into_iter().map(|number| DType(number.0)).collect())
    }

    fn decode(&self, dtype: DType, blocks: &[u8], row_len: u64, out: &mut [f32]) -> Result<()> {
        result(self.object.decode(from_dtype(Some(dtype)), blocks.into(), row_len, out.into()))
    }

    fn encode(
        &self,
        dtype: DType,
        rows: &[f32],
        row_len: u64,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()> {
        let importance = importance.map_or(RNone, |importance| RSome(importance.into()));
        let rows = WireRows { values: rows.into(), importance, row_len, reserved: [0; 2] };
        result(self.object.encode(from_dtype(Some(dtype)), &rows, out.into()))
    }

    fn repacks(&self) -> Result<Vec<(DType, DType)>> {
        let numbers = result(self.object.repacks())?;
        let pairs = numbers.chunks(2).map(|pair| match pair {
            [from, to] => Ok((DType(from.0), DType(to.0))),
            _ => Err(Error::plugin("states only one of the two types of a repacking")),
        });
        pairs.collect()
    }

    fn repack(&self, from: DType, to: DType, blocks: &[u8], out: &mut [u8]) -> Result<()> {
        let [from, to] = [from, to].map(|dtype| DTypeNumber(dtype.0));
        result(self.object.repack(from, to, blocks.into(), out.into()))
    }

    fn recipes(&self) -> Result<Vec<RecipeDecl>> {
        let recipes = result(self.object.recipes())?;
        let recipes = read(&recipes)?
            .into_iter()
            .map(|(name, about)| Ok(RecipeDecl { name: name.to_owned(), about: text(about)?.to_owned() }));
        recipes.collect()
    }

    fn assign(
        &self,
        recipe: &str,
        tensors: &[TensorFacts],
        model: &ModelFacts,
        options: &Options,
    ) -> Result<Vec<Assignment>> {
        let facts = from_facts(tensors);
        let model = from_model_facts(model);
        let options = from_options(options);
        let [facts, model, options] = [&facts, &model, &options].map(|bytes| RSlice::from(bytes.as_slice()));
        let assigned = to_assignments(&result(self.object.assign(recipe.into(), facts, model, options))?)?;
        if assigned.len() != tensors.len() {
            let message = format!("chose {} types for {} tensors", assigned.len(), tensors.len());
            return Err(Error::plugin(message));
        }
        Ok(assigned)
    }

    fn records(&self, recipe: &str) -> Result<Vec<Record>> {
        let records = result(self.object.records(recipe.into()))?;
        let records = read(&records)?;
        let records = records.chunks(2).map(|pair| {
            let [(format, key), (kind, bytes)] = pair else { return Err(broken_record()) };
            let kind = ValueType(kind.parse().map_err(|_| broken_record())?);
            Ok(((*format).to_owned(), text(key)?.to_owned(), Value { kind, bytes: (*bytes).into() }))
        });
        records.collect()
    }

    fn importance(&self, source: &dyn Source, sink: &mut dyn ImportanceSink) -> Result<()> {
        let source = ToWireSource(source);
        let mut sink = ToWireImportanceSink(sink);
        let mut sink = WireImportanceSink_TO::from_ptr(RMut::new(&mut sink), TD_Opaque);
        result(self.object.importance(&source.object(), &mut sink))
    }

    fn importance_sums(&self, source: &dyn Source) -> Result<ImportanceSums> {
        let source = ToWireSource(source);
        to_sums(&result(self.object.importance_sums(&source.object()))?)
    }

    fn importance_file(&self, sums: &ImportanceSums, file: &str, form: Option<&str>) -> Result<Vec<u8>> {
        let sums = from_sums(sums);
        let form = form.unwrap_or_default();
        Ok(result(self.object.importance_file(sums.as_slice().into(), file.into(), form.into()))?.into())
    }

    fn schemes(&self) -> Option<&dyn Schemes> {
        self.has_schemes.then_some(self)
    }
}

fn broken_record() -> Error {
    Error::plugin("returned a record without its kind or value")
}

/// Puts the host's importance sink on the wire.
struct ToWireImportanceSink<'a>(&'a mut dyn ImportanceSink);

impl WireImportanceSink for ToWireImportanceSink<'_> {
    fn tensor(&mut self, dialect: RStr<'_>, name: RStr<'_>, values: RSlice<'_, f32>) -> R<()> {
        host_wire("taking importance", || self.0.tensor(dialect.as_str(), name.as_str(), values.as_slice()))
    }

    fn record(&mut self, format: RStr<'_>, key: RStr<'_>, kind: u32, bytes: WireBytes<'_>) -> R<()> {
        host_wire("taking a record", || {
            let value = Value { kind: ValueType(kind), bytes: bytes_from_wire(&bytes) };
            self.0.record(format.as_str(), key.as_str(), value)
        })
    }
}

/// Presents the wire's importance sink to a plugin.
struct FromWireImportanceSink<'a, 'b>(&'a mut ImportanceSinkMut<'b>);

impl ImportanceSink for FromWireImportanceSink<'_, '_> {
    fn tensor(&mut self, dialect: &str, name: &str, values: &[f32]) -> Result<()> {
        result(self.0.tensor(dialect.into(), name.into(), values.into()))
    }

    fn record(&mut self, format: &str, key: &str, value: Value) -> Result<()> {
        result(self.0.record(format.into(), key.into(), value.kind.0, bytes_to_wire(&value.bytes)))
    }
}
