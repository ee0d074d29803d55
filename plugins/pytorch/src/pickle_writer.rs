//! Writes the pickle of protocol 2 that `torch.save` writes for the same value: CPython's pickler, opcode by opcode, with
//! its memo and its batches.

use crate::layout::{dtype_name, storage_of};
use crate::tree::{Inline, Tree};
use apr_sdk::{DType, Error, Model, Result, Value, checked_elements};
use std::collections::HashMap;

/// Items of one APPENDS or SETITEMS.
const BATCH: usize = 1000;

const ORDERED_DICT: &str = "collections\nOrderedDict";

/// What the pickle is made from.
pub struct Source<'m> {
    /// The tensors.
    pub model: &'m Model,
    /// Their numbers, by name.
    pub numbers: HashMap<&'m str, usize>,
    /// The values, by key.
    pub values: &'m HashMap<String, Value>,
}

/// A pickle being written.
pub struct PickleWriter<'m> {
    source: &'m Source<'m>,
    out: Vec<u8>,
    memo: u32,
    /// Memo places of names and of the texts that torch's own code uses again and again.
    known: HashMap<&'static str, u32>,
    /// The numbers of the tensors whose storages were named, in the order of their keys.
    storages: Vec<usize>,
}

/// The pickle of `tree`, and the numbers of its tensors in the order of their storages' keys.
///
/// # Errors
/// Unsupported for a dtype that torch does not have.
pub fn write(source: &Source<'_>, tree: &Tree) -> Result<(Vec<u8>, Vec<usize>)> {
    let mut writer =
        PickleWriter { source, out: vec![0x80, 2], memo: 0, known: HashMap::new(), storages: Vec::new() };
    writer.tree(tree)?;
    writer.out.push(b'.');
    Ok((writer.out, writer.storages))
}

impl PickleWriter<'_> {
    fn push(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// BINPUT.
    fn put(&mut self) -> u32 {
        let place = self.memo;
        self.memo += 1;
        match u8::try_from(place) {
            Ok(place) => self.push(&[b'q', place]),
            Err(_) => {
                self.push(b"r");
                self.push(&place.to_le_bytes());
            }
        }
        place
    }

    /// BINGET.
    fn get(&mut self, place: u32) {
        match u8::try_from(place) {
            Ok(place) => self.push(&[b'h', place]),
            Err(_) => {
                self.push(b"j");
                self.push(&place.to_le_bytes());
            }
        }
    }

    /// A name, or a text of torch's own: from the memo the second time.
    fn once(&mut self, what: &'static str, push: impl FnOnce(&mut Self)) {
        if let Some(&place) = self.known.get(what) {
            return self.get(place);
        }
        push(self);
        let place = self.put();
        self.known.insert(what, place);
    }

    /// `module\nname`.
    fn global(&mut self, name: &'static str) {
        self.once(name, |writer| {
            writer.push(b"c");
            writer.push(name.as_bytes());
            writer.push(b"\n");
        });
    }

    fn constant(&mut self, text: &'static str) {
        self.once(text, |writer| writer.raw_text(text.as_bytes()));
    }

    fn raw_text(&mut self, text: &[u8]) {
        // A text of 4 GiB does not fit the budget it was read under.
        self.push(b"X");
        self.push(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.push(text);
    }

    fn text(&mut self, text: &str) {
        self.raw_text(text.as_bytes());
        self.put();
    }

    fn int(&mut self, number: i64) {
        if let Ok(byte) = u8::try_from(number) {
            self.push(&[b'K', byte]);
        } else if let Ok(short) = u16::try_from(number) {
            self.push(b"M");
            self.push(&short.to_le_bytes());
        } else if let Ok(word) = i32::try_from(number) {
            self.push(b"J");
            self.push(&word.to_le_bytes());
        } else {
            let mut bytes = number.to_le_bytes().to_vec();
            // The shortest two's complement that keeps the sign.
            while let [.., before, last] = bytes[..] {
                let spare = (last == 0 && before < 0x80) || (last == 0xff && before >= 0x80);
                if !spare {
                    break;
                }
                bytes.pop();
            }
            self.long(&bytes);
        }
    }

    fn long(&mut self, bytes: &[u8]) {
        match u8::try_from(bytes.len()) {
            Ok(len) => self.push(&[0x8a, len]),
            Err(_) => {
                self.push(&[0x8b]);
                self.push(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
            }
        }
        self.push(bytes);
    }

    fn count(&mut self, number: u64) -> Result<()> {
        let number = i64::try_from(number).map_err(|_| Error::unsupported("a size above 2^63"))?;
        self.int(number);
        Ok(())
    }

    fn float(&mut self, number: f64) {
        self.push(b"G");
        self.push(&number.to_be_bytes());
    }

    fn truth(&mut self, value: bool) {
        self.push(if value { b"\x88" } else { b"\x89" });
    }

    /// REDUCE of what is on the stack.
    fn reduce(&mut self) {
        self.push(b"R");
        self.put();
    }

    /// A tuple of `count` items, which `items` pushes.
    fn tuple(&mut self, count: usize, items: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        match count {
            0 => self.push(b")"),
            1..=3 => {
                items(self)?;
                self.push(&[[0x85, 0x86, 0x87][count - 1]]);
                self.put();
            }
            _ => {
                self.push(b"(");
                items(self)?;
                self.push(b"t");
                self.put();
            }
        }
        Ok(())
    }

    fn counts(&mut self, numbers: &[u64]) -> Result<()> {
        self.tuple(numbers.len(), |writer| numbers.iter().try_for_each(|&n| writer.count(n)))
    }

    fn ordered_dict(&mut self) {
        self.global(ORDERED_DICT);
        self.push(b")");
        self.reduce();
    }

    fn tree(&mut self, tree: &Tree) -> Result<()> {
        match tree {
            Tree::Tensor { name, parameter, requires_grad } => self.named(name, *parameter, *requires_grad),
            Tree::Inline(inline) => self.inline(inline),
            Tree::Value(key) => {
                let value = self.source.values.get(key).and_then(plain);
                self.inline(&value.unwrap_or(Inline::None))
            }
            Tree::Values(key, tuple) => {
                let items = self.source.values.get(key).map(Value::items).unwrap_or_default();
                let items: Vec<_> =
                    items.iter().map(|item| Tree::Inline(plain(item).unwrap_or(Inline::None))).collect();
                self.tree(&if *tuple { Tree::Tuple(items) } else { Tree::List(items) })
            }
            Tree::List(items) => self.list(items),
            Tree::Tuple(items) => {
                self.tuple(items.len(), |writer| items.iter().try_for_each(|item| writer.tree(item)))
            }
            Tree::Set(items) => {
                self.global("__builtin__\nset");
                self.tuple(1, |writer| writer.list(items))?;
                self.reduce();
                Ok(())
            }
            Tree::Map(ordered, entries, attributes) => self.map(*ordered, entries, attributes.as_deref()),
        }
    }

    fn list(&mut self, items: &[Tree]) -> Result<()> {
        self.push(b"]");
        self.put();
        if let [one] = items {
            self.tree(one)?;
            self.push(b"a");
            return Ok(());
        }
        for batch in items.chunks(BATCH) {
            self.push(b"(");
            batch.iter().try_for_each(|item| self.tree(item))?;
            self.push(b"e");
        }
        Ok(())
    }

    fn map(&mut self, ordered: bool, entries: &[(Tree, Tree)], attributes: Option<&Tree>) -> Result<()> {
        if ordered {
            self.ordered_dict();
        } else {
            self.push(b"}");
            self.put();
        }
        for batch in entries.chunks(BATCH) {
            // A map that is iterated has its last entry alone; one that is walked over only if it has no other.
            let alone = batch.len() == 1 && (ordered || entries.len() == 1);
            self.push(if alone { b"" } else { b"(" });
            for (key, value) in batch {
                self.tree(key)?;
                self.tree(value)?;
            }
            self.push(if alone { b"s" } else { b"u" });
        }
        if let Some(attributes) = attributes {
            self.tree(attributes)?;
            self.push(b"b");
        }
        Ok(())
    }

    fn inline(&mut self, inline: &Inline) -> Result<()> {
        match inline {
            Inline::None => self.push(b"N"),
            Inline::Bool(value) => self.truth(*value),
            Inline::Int(number) => self.int(*number),
            Inline::Big(bytes) => self.long(bytes),
            Inline::Float(number) => self.float(*number),
            Inline::Text(text) => self.text(text),
            Inline::Bytes(bytes) if bytes.is_empty() => {
                self.global("__builtin__\nbytes");
                self.push(b")");
                self.reduce();
            }
            Inline::Bytes(bytes) => {
                self.global("_codecs\nencode");
                let text: String = bytes.iter().copied().map(char::from).collect();
                self.tuple(2, |writer| {
                    writer.text(&text);
                    writer.constant("latin1");
                    Ok(())
                })?;
                self.reduce();
            }
            Inline::Complex(real, imaginary) => {
                self.global("__builtin__\ncomplex");
                self.tuple(2, |writer| {
                    writer.float(*real);
                    writer.float(*imaginary);
                    Ok(())
                })?;
                self.reduce();
            }
            Inline::Name(name) => match known_name(name) {
                Some(global) => self.global(global),
                None => self.push(b"N"),
            },
        }
        Ok(())
    }

    /// A tensor under its name, as a parameter or not, quantized or not.
    fn named(&mut self, name: &str, parameter: bool, requires_grad: bool) -> Result<()> {
        let number = self.source.numbers.get(name).copied();
        let number = number
            .ok_or_else(|| Error::plugin("a tensor of the nesting is not in the model").tensor(name))?;
        if !parameter {
            return self.tensor(number, requires_grad);
        }
        self.global("torch._utils\n_rebuild_parameter");
        self.tuple(3, |writer| {
            writer.tensor(number, false)?;
            writer.truth(requires_grad);
            writer.ordered_dict();
            Ok(())
        })?;
        self.reduce();
        Ok(())
    }

    fn value(&self, name: &str, key: &str) -> Option<&Value> {
        self.source.values.get(&format!("{name}.{key}"))
    }

    fn tensor(&mut self, number: usize, requires_grad: bool) -> Result<()> {
        let tensor = &self.source.model.tensors[number];
        let scheme = self.value(&tensor.name, "q_scheme").and_then(Value::as_str).and_then(known_scheme);
        let quantized = scheme.filter(|_| storage_of(tensor.dtype, true).is_some());
        let class = storage_of(tensor.dtype, quantized.is_some());
        let function = match (quantized, class) {
            (Some(_), _) => "torch._utils\n_rebuild_qtensor",
            (None, Some(_)) => "torch._utils\n_rebuild_tensor_v2",
            (None, None) => "torch._utils\n_rebuild_tensor_v3",
        };
        self.global(function);
        self.push(b"(");
        self.storage(number)?;
        self.int(0);
        self.counts(&tensor.shape)?;
        self.counts(&strides(&tensor.shape))?;
        if let Some(scheme) = quantized {
            self.quantizer(&tensor.name, scheme)?;
        }
        self.truth(requires_grad);
        self.ordered_dict();
        if class.is_none() {
            self.global(torch_name(tensor.dtype)?);
        }
        self.push(b"t");
        self.put();
        self.reduce();
        Ok(())
    }

    /// `("storage", class, key, "cpu", elements)`, and BINPERSID.
    fn storage(&mut self, number: usize) -> Result<()> {
        let tensor = &self.source.model.tensors[number];
        let quantized = self.value(&tensor.name, "q_scheme").is_some();
        let class = storage_of(tensor.dtype, quantized).or_else(|| storage_of(tensor.dtype, false));
        let elements = match class {
            Some(_) => checked_elements(&tensor.shape)?,
            None => tensor.payload_len()?,
        };
        let key = self.storages.len().to_string();
        self.storages.push(number);
        self.push(b"(");
        self.constant("storage");
        self.global(match class {
            Some(class) => storage_name(class.name),
            None => "torch.storage\nUntypedStorage",
        });
        self.text(&key);
        self.constant("cpu");
        self.count(elements)?;
        self.push(b"t");
        self.put();
        self.push(b"Q");
        Ok(())
    }

    fn quantizer(&mut self, name: &str, scheme: &'static str) -> Result<()> {
        let extra = |key: &str| self.source.numbers.get(format!("{name}.{key}").as_str()).copied();
        let (scales, zero_points) = (extra("q_scales"), extra("q_zero_points"));
        let number = |key: &str| self.value(name, key).and_then(Value::as_i64).unwrap_or_default();
        if let (Some(scales), Some(zero_points)) = (scales, zero_points) {
            let axis = number("q_axis");
            return self.tuple(4, |writer| {
                writer.global(scheme);
                writer.tensor(scales, false)?;
                writer.tensor(zero_points, false)?;
                writer.int(axis);
                Ok(())
            });
        }
        let scale = self.value(name, "q_scale").and_then(Value::as_f64).unwrap_or_default();
        let zero_point = number("q_zero_point");
        self.tuple(3, |writer| {
            writer.global(scheme);
            writer.float(scale);
            writer.int(zero_point);
            Ok(())
        })
    }
}

/// A plain value; `None` for other types.
pub fn plain(value: &Value) -> Option<Inline> {
    if let Some(flag) = value.as_bool() {
        return Some(Inline::Bool(flag));
    }
    if let Some(number) = value.as_i64() {
        return Some(Inline::Int(number));
    }
    if let Some(number) = value.as_f64() {
        return Some(Inline::Float(number));
    }
    value.as_str().map(|text| Inline::Text(text.to_owned()))
}

/// Row-major strides, in elements, as torch states them: an empty dimension counts as one.
fn strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1u64; shape.len()];
    for n in (1..shape.len()).rev() {
        strides[n - 1] = strides[n].saturating_mul(shape[n].max(1));
    }
    strides
}

/// A name as a constant: those that are written are few.
fn constant_of(found: impl Iterator<Item = &'static str>, wanted: &str) -> Option<&'static str> {
    found.into_iter().find(|name| name.split('\n').nth(1) == Some(wanted))
}

#[rustfmt::skip] // a table
const TORCH_NAMES: [&str; 42] = [
    "torch\nfloat64", "torch\nfloat32", "torch\nfloat16", "torch\nbfloat16", "torch\nint64", "torch\nint32",
    "torch\nint16", "torch\nint8", "torch\nuint8", "torch\nuint16", "torch\nuint32", "torch\nuint64", "torch\nbool",
    "torch\ncomplex64", "torch\ncomplex128", "torch\ncomplex32", "torch\nfloat8_e4m3fn", "torch\nfloat8_e5m2",
    "torch\nfloat8_e4m3fnuz", "torch\nfloat8_e5m2fnuz", "torch\nfloat8_e8m0fnu", "torch\nqint8", "torch\nquint8",
    "torch\nqint32", "torch\nper_tensor_affine", "torch\nper_tensor_symmetric", "torch\nper_channel_affine",
    "torch\nDoubleStorage", "torch\nFloatStorage", "torch\nHalfStorage", "torch\nBFloat16Storage",
    "torch\nLongStorage", "torch\nIntStorage", "torch\nShortStorage", "torch\nCharStorage", "torch\nByteStorage",
    "torch\nBoolStorage", "torch\nComplexDoubleStorage", "torch\nComplexFloatStorage", "torch\nQInt8Storage",
    "torch\nQUInt8Storage", "torch\nQInt32Storage",
];

fn known_name(name: &str) -> Option<&'static str> {
    constant_of(TORCH_NAMES.into_iter(), name)
}

fn storage_name(class: &str) -> &'static str {
    known_name(class).unwrap_or("torch.storage\nUntypedStorage")
}

/// A scheme that is written with the values kept of it.
fn known_scheme(name: &str) -> Option<&'static str> {
    known_name(name).filter(|name| name.starts_with("torch\nper_"))
}

fn torch_name(dtype: DType) -> Result<&'static str> {
    let name = dtype_name(dtype).and_then(known_name);
    name.ok_or_else(|| Error::unsupported(format!("torch has no type like {dtype}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{DTYPES, STORAGES};

    #[test]
    fn everything_that_is_written_has_its_constant() {
        for (_, dtype) in DTYPES {
            torch_name(dtype).unwrap();
        }
        for class in STORAGES.iter().filter(|class| class.dtype.is_some()) {
            assert_eq!(storage_name(class.name), format!("torch\n{}", class.name));
        }
    }

    #[test]
    fn strides_are_those_of_torch() {
        assert_eq!(strides(&[2, 3, 4]), [12, 4, 1]);
        assert_eq!(strides(&[2, 0, 3]), [3, 3, 1]);
        assert_eq!(strides(&[]), [0u64; 0]);
    }
}
