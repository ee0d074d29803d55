//! Packed weights: a model's tensors and what schemes find among them as pairs, and a plugin's schemes for the host.

use super::error::result;
use super::quantizer::FromWireQuantizer;
use crate::wire::pairs::{number, push, read, text};
use crate::wire::{DTypeNumber, WireHeldRows, WirePackedRows};
use abi_stable::std_types::RSlice;
use apr_sdk::{
    Announced, DType, Error, ExactType, FactoredType, HeldRows, PackedRows, PackedTensor, PartBox, PartRange,
    Quantizer, Result, Schemes, StoredModel, StoredTensor, Understood,
};
use std::ops::Range;

/// A plugin's schemes.
pub fn schemes(quantizer: &dyn Quantizer) -> Result<&dyn Schemes> {
    quantizer.schemes().ok_or_else(|| Error::plugin("does not support packed weights"))
}

/// Encodes a model's tensors as pairs.
fn from_model(model: &StoredModel) -> Vec<u8> {
    let mut out = Vec::new();
    for tensor in &model.tensors {
        let mut record = Vec::new();
        push(&mut record, "name", tensor.name.as_bytes());
        push_number(&mut record, "dtype", tensor.dtype.0.into());
        tensor.shape.iter().for_each(|size| push_number(&mut record, "dim", *size));
        push(&mut out, "tensor", &record);
    }
    for announced in &model.announced {
        let mut record = Vec::new();
        push(&mut record, "file", announced.file.as_bytes());
        push(&mut record, "key", announced.key.as_bytes());
        push(&mut record, "json", announced.json.as_bytes());
        push(&mut out, "announced", &record);
    }
    if let Some(dtype) = model.dtype {
        push_number(&mut out, "dtype", dtype.0.into());
    }
    for (tensor, bytes) in &model.contents {
        push_number(&mut out, "contents_of", *tensor as u64);
        push(&mut out, "contents", bytes);
    }
    out
}

/// Decodes a model's tensors from pairs.
///
/// # Errors
/// Plugin for bytes that are not a model.
pub fn to_model(bytes: &[u8]) -> Result<StoredModel> {
    let mut model = StoredModel::default();
    let mut contents_of = 0;
    for (name, value) in read(bytes)? {
        match name {
            "tensor" => {
                let mut name = String::new();
                let mut dtype = DType::U8;
                let mut shape = Vec::new();
                for (key, value) in read(value)? {
                    match key {
                        "name" => text(value)?.clone_into(&mut name),
                        "dtype" => dtype = to_dtype(value)?,
                        "dim" => shape.push(number(value)?),
                        _ => {}
                    }
                }
                model.tensors.push(StoredTensor { name, dtype, shape });
            }
            "announced" => {
                let mut announced =
                    Announced { file: String::new(), key: String::new(), json: String::new() };
                for (key, value) in read(value)? {
                    match key {
                        "file" => text(value)?.clone_into(&mut announced.file),
                        "key" => text(value)?.clone_into(&mut announced.key),
                        "json" => text(value)?.clone_into(&mut announced.json),
                        _ => {}
                    }
                }
                model.announced.push(announced);
            }
            "dtype" => model.dtype = Some(to_dtype(value)?),
            "contents_of" => contents_of = to_index(value)?,
            "contents" => model.contents.push((contents_of, value.to_vec())),
            _ => {}
        }
    }
    Ok(model)
}

/// Encodes what schemes found as pairs.
pub fn from_understood(understood: &Understood) -> Vec<u8> {
    let mut out = Vec::new();
    for weight in &understood.packed {
        let mut record = Vec::new();
        push(&mut record, "name", weight.name.as_bytes());
        weight.shape.iter().for_each(|size| push_number(&mut record, "dim", *size));
        weight.strides.iter().for_each(|stride| push_number(&mut record, "stride", *stride));
        push_number(&mut record, "dtype", weight.dtype.0.into());
        push(&mut record, "about", weight.about.as_bytes());
        push(&mut record, "scheme", weight.rows.scheme.as_bytes());
        weight.rows.numbers.iter().for_each(|n| push_number(&mut record, "number", *n));
        push_number(&mut record, "rows", weight.rows.rows);
        push_number(&mut record, "row_len", weight.rows.row_len);
        for (tensor, what) in &weight.parts {
            push_number(&mut record, "part", *tensor as u64);
            push(&mut record, "part_is", what.as_bytes());
        }
        push_number(&mut record, "panel", weight.panel);
        for exact in &weight.exact {
            push_number(&mut record, "exact", exact.dtype.0.into());
            exact.evidence.iter().for_each(|part| push_number(&mut record, "evidence", *part as u64));
        }
        push(&mut out, "packed", &record);
    }
    for (tensor, what) in &understood.unused {
        push_number(&mut out, "unused", *tensor as u64);
        push(&mut out, "unused_is", what.as_bytes());
    }
    for factored in &understood.factored {
        let mut record = Vec::new();
        push_number(&mut record, "weight", factored.weight as u64);
        push_number(&mut record, "dtype", factored.dtype.0.into());
        push(&mut record, "scheme", factored.rows.scheme.as_bytes());
        factored.rows.numbers.iter().for_each(|number| push_number(&mut record, "number", *number));
        push_number(&mut record, "rows", factored.rows.rows);
        push_number(&mut record, "row_len", factored.rows.row_len);
        factored.evidence.iter().for_each(|part| push_number(&mut record, "evidence", *part as u64));
        // A tensor's number, and in the lowest bit whether it is a divisor.
        let scales = [("factor", Some(factored.factor)), ("input", factored.input)];
        for (key, scale) in scales {
            let Some((tensor, is_divisor)) = scale else { continue };
            push_number(&mut record, key, (tensor as u64) << 1 | u64::from(is_divisor));
        }
        push(&mut out, "factored", &record);
    }
    let wide = understood.wide_activations.iter();
    wide.for_each(|weight| push_number(&mut out, "wide_activations", *weight as u64));
    understood.wanted.iter().for_each(|tensor| push_number(&mut out, "wanted", *tensor as u64));
    understood.notes.iter().for_each(|note| push(&mut out, "note", note.as_bytes()));
    out
}

/// Decodes what schemes found from pairs.
fn to_understood(bytes: &[u8]) -> Result<Understood> {
    let mut understood = Understood::default();
    let mut unused = 0;
    for (name, value) in read(bytes)? {
        match name {
            "packed" => understood.packed.push(to_weight(value)?),
            "unused" => unused = to_index(value)?,
            "unused_is" => understood.unused.push((unused, text(value)?.to_owned())),
            "wanted" => understood.wanted.push(to_index(value)?),
            "note" => understood.notes.push(text(value)?.to_owned()),
            "factored" => understood.factored.push(to_factored(value)?),
            "wide_activations" => understood.wide_activations.push(to_index(value)?),
            _ => {}
        }
    }
    Ok(understood)
}

fn to_factored(bytes: &[u8]) -> Result<FactoredType> {
    let mut factored = FactoredType {
        weight: 0,
        dtype: DType::F32,
        rows: PackedRows::default(),
        evidence: Vec::new(),
        factor: (0, false),
        input: None,
    };
    for (key, value) in read(bytes)? {
        match key {
            "weight" => factored.weight = to_index(value)?,
            "dtype" => factored.dtype = to_dtype(value)?,
            "scheme" => text(value)?.clone_into(&mut factored.rows.scheme),
            "number" => factored.rows.numbers.push(number(value)?),
            "rows" => factored.rows.rows = number(value)?,
            "row_len" => factored.rows.row_len = number(value)?,
            "evidence" => factored.evidence.push(to_index(value)?),
            "factor" => factored.factor = to_factor(value)?,
            "input" => factored.input = Some(to_factor(value)?),
            _ => {}
        }
    }
    Ok(factored)
}

fn to_weight(bytes: &[u8]) -> Result<PackedTensor> {
    let mut weight = PackedTensor {
        name: String::new(),
        shape: Vec::new(),
        strides: Vec::new(),
        dtype: DType::F32,
        about: String::new(),
        rows: PackedRows::default(),
        parts: Vec::new(),
        panel: 1,
        exact: Vec::new(),
    };
    let mut part = 0;
    for (key, value) in read(bytes)? {
        match key {
            "name" => text(value)?.clone_into(&mut weight.name),
            "dim" => weight.shape.push(number(value)?),
            "stride" => weight.strides.push(number(value)?),
            "dtype" => weight.dtype = to_dtype(value)?,
            "about" => text(value)?.clone_into(&mut weight.about),
            "scheme" => text(value)?.clone_into(&mut weight.rows.scheme),
            "number" => weight.rows.numbers.push(number(value)?),
            "rows" => weight.rows.rows = number(value)?,
            "row_len" => weight.rows.row_len = number(value)?,
            "part" => part = to_index(value)?,
            "part_is" => weight.parts.push((part, text(value)?.to_owned())),
            "panel" => weight.panel = number(value)?,
            "exact" => weight.exact.push(ExactType { dtype: to_dtype(value)?, evidence: Vec::new() }),
            "evidence" => {
                let exact = weight.exact.last_mut();
                let exact = exact.ok_or_else(|| Error::plugin("gives evidence for no type"))?;
                exact.evidence.push(to_index(value)?);
            }
            _ => {}
        }
    }
    Ok(weight)
}

fn push_number(out: &mut Vec<u8>, name: &str, number: u64) {
    push(out, name, &number.to_le_bytes());
}

fn to_index(value: &[u8]) -> Result<usize> {
    usize::try_from(number(value)?).map_err(|_| Error::plugin("a tensor number is too large"))
}

/// A tensor's number, and in the lowest bit whether it is a divisor.
fn to_factor(value: &[u8]) -> Result<(usize, bool)> {
    let number = number(value)?;
    let tensor = usize::try_from(number >> 1).map_err(|_| Error::plugin("a tensor number is too large"))?;
    Ok((tensor, number & 1 == 1))
}

fn to_dtype(value: &[u8]) -> Result<DType> {
    let number = u32::try_from(number(value)?);
    number.map(DType).map_err(|_| Error::plugin("a type number is too large"))
}

/// Encodes where rows lie in each part; the form is that of `WireQuantizer::ranges`.
pub fn from_ranges(ranges: &[PartRange]) -> Vec<u64> {
    let mut out = Vec::new();
    for range in ranges {
        let PartRange::Boxes(boxes) = range else {
            out.push(0);
            continue;
        };
        out.push(boxes.len() as u64 + 1);
        for one in boxes {
            out.extend([one.start, one.dims.len() as u64]);
            out.extend(one.dims.iter().flat_map(|&(size, stride)| [size, stride]));
        }
    }
    out
}

/// Decodes where rows lie in each part.
fn to_ranges(numbers: &[u64]) -> Result<Vec<PartRange>> {
    let mut numbers = numbers.iter().copied();
    let mut ranges = Vec::new();
    while let Some(count) = numbers.next() {
        if count == 0 {
            ranges.push(PartRange::Whole);
            continue;
        }
        let mut next =
            || numbers.next().ok_or_else(|| Error::plugin("the list of row positions is truncated"));
        let mut boxes = Vec::new();
        for _ in 1..count {
            let start = next()?;
            let n_dims = next()?;
            let mut dims = Vec::new();
            for _ in 0..n_dims {
                dims.push((next()?, next()?));
            }
            boxes.push(PartBox { start, dims });
        }
        ranges.push(PartRange::Boxes(boxes));
    }
    Ok(ranges)
}

/// Takes packed rows off the wire.
pub fn to_rows(rows: &WirePackedRows<'_>) -> PackedRows {
    PackedRows {
        scheme: rows.scheme.as_str().to_owned(),
        numbers: rows.numbers.to_vec(),
        rows: rows.rows,
        row_len: rows.row_len,
    }
}

fn from_rows(rows: &PackedRows) -> WirePackedRows<'_> {
    WirePackedRows {
        scheme: rows.scheme.as_str().into(),
        numbers: rows.numbers.as_slice().into(),
        rows: rows.rows,
        row_len: rows.row_len,
        reserved: [0; 2],
    }
}

/// Calls `then` with rows held in memory, and those that are wanted.
pub fn with_held<T>(
    held: &WireHeldRows<'_>,
    then: impl FnOnce(&HeldRows<'_>, Range<u64>) -> Result<T>,
) -> Result<T> {
    let parts: Vec<&[u8]> = held.parts.iter().map(|part| part.as_slice()).collect();
    then(&HeldRows { rows: held.held_first..held.held_end, parts: &parts }, held.first..held.end)
}

/// Puts rows held in memory on the wire.
fn on_wire<T>(
    held: &HeldRows<'_>,
    wanted: &Range<u64>,
    then: impl FnOnce(&WireHeldRows<'_>) -> Result<T>,
) -> Result<T> {
    let parts: Vec<RSlice<'_, u8>> = held.parts.iter().map(|part| RSlice::from(*part)).collect();
    then(&WireHeldRows {
        held_first: held.rows.start,
        held_end: held.rows.end,
        first: wanted.start,
        end: wanted.end,
        parts: parts.as_slice().into(),
        reserved: [0; 2],
    })
}

impl Schemes for FromWireQuantizer {
    fn understand(&self, model: &StoredModel) -> Result<Understood> {
        to_understood(&result(self.object.understand(from_model(model).as_slice().into()))?)
    }

    fn ranges(&self, packed: &PackedRows, rows: Range<u64>) -> Result<Vec<PartRange>> {
        to_ranges(&result(self.object.ranges(&from_rows(packed), rows.start, rows.end))?)
    }

    fn unpack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        out: &mut [f32],
    ) -> Result<()> {
        on_wire(held, &rows, |held| result(self.object.unpack(&from_rows(packed), held, out.into())))
    }

    fn column_unit(&self, packed: &PackedRows) -> Result<u64> {
        result(self.object.column_unit(&from_rows(packed)))
    }

    fn unpack_columns(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        columns: Range<u64>,
        out: &mut [f32],
    ) -> Result<()> {
        let first = columns.start;
        let end = columns.end;
        on_wire(held, &rows, |held| {
            result(self.object.unpack_columns(&from_rows(packed), held, first, end, out.into()))
        })
    }

    fn holds(&self, packed: &PackedRows, held: &HeldRows<'_>, dtype: DType) -> Result<bool> {
        let wanted = held.rows.clone();
        let dtype = DTypeNumber(dtype.0);
        on_wire(held, &wanted, |held| result(self.object.holds(&from_rows(packed), held, dtype)))
    }

    fn repack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        dtype: DType,
        out: &mut [u8],
    ) -> Result<()> {
        let dtype = DTypeNumber(dtype.0);
        on_wire(held, &rows, |held| {
            result(self.object.repack_rows(&from_rows(packed), held, dtype, out.into()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_schemes_see_and_find_survives() {
        let tensor =
            StoredTensor { name: "a.weight".to_owned(), dtype: DType::F8_E4M3, shape: vec![3, 5, 7] };
        let announced = Announced { file: "f".to_owned(), key: "k".to_owned(), json: "{}".to_owned() };
        let mut model = StoredModel::default();
        model.tensors = vec![tensor.clone(), StoredTensor { shape: Vec::new(), ..tensor }];
        model.announced = vec![announced];
        model.dtype = Some(DType::BF16);
        model.contents = vec![(1, vec![1, 2, 3]), (7, Vec::new())];
        let back = to_model(&from_model(&model)).unwrap_or_default();
        assert_eq!((&back.tensors, &back.announced), (&model.tensors, &model.announced));
        assert_eq!((back.dtype, &back.contents), (model.dtype, &model.contents));
        let weight = PackedTensor {
            name: "a".to_owned(),
            shape: vec![5, 3],
            strides: vec![1, 5],
            dtype: DType::F16,
            about: "é".to_owned(),
            rows: PackedRows { scheme: "s".to_owned(), numbers: vec![1, u64::MAX], rows: 3, row_len: 5 },
            parts: vec![(9, "codes".to_owned()), (4, String::new())],
            panel: 1024,
            exact: vec![
                ExactType { dtype: DType::Q4_0, evidence: vec![1, 2] },
                ExactType { dtype: DType::BF16, evidence: Vec::new() },
            ],
        };
        let understood = Understood {
            packed: vec![weight],
            unused: vec![(3, "a scale".to_owned())],
            wanted: vec![5, 6],
            notes: vec!["n".to_owned()],
            factored: vec![FactoredType {
                weight: 0,
                dtype: DType::NVFP4,
                rows: PackedRows { scheme: "t".to_owned(), numbers: vec![2], rows: 3, row_len: 5 },
                evidence: vec![1],
                factor: (4, true),
                input: Some((8, false)),
            }],
            wide_activations: vec![0, 7],
        };
        assert_eq!(to_understood(&from_understood(&understood)).ok(), Some(understood));
        let ranges = vec![
            PartRange::Whole,
            PartRange::Boxes(vec![PartBox::run(3, 4), PartBox { start: 9, dims: vec![(2, 8), (3, 1)] }]),
            PartRange::Boxes(Vec::new()),
        ];
        let numbers = from_ranges(&ranges);
        assert_eq!(to_ranges(&numbers).ok(), Some(ranges));
        assert!(to_ranges(&numbers[..numbers.len() - 2]).is_err());
    }
}
