//! NumPy's types, scalars and small arrays (`numpy/_core/src/multiarray`: `descriptor.c`, `scalarapi.c`, `methods.c`).

use super::decoder::Step;
use super::machine::Machine;
use super::value::{DictKind, Id, Node};
use apr_sdk::Result;
use apr_sdk::half::from_f16;

/// The longest array that is taken as a value. 64 KiB: states of random generators have a twentieth. Longer ones are
/// weights, and belong into tensors.
const LONGEST_ARRAY: usize = 64 << 10;

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumpyType {
    /// `b`, `i`, `u`, `f`, `c`, `U` or `S`.
    kind: u8,
    /// Bytes of an element, or characters of a text.
    width: usize,
    /// Whether its highest byte comes first.
    big: bool,
}

impl NumpyType {
    /// A type by its code, `f4`.
    pub fn parse(code: &str) -> Option<NumpyType> {
        let code = code.trim_start_matches(['<', '=', '|']);
        let kind = *code.as_bytes().first().filter(|kind| b"biufcUS".contains(kind))?;
        let width = code.get(1..)?.parse().ok()?;
        Some(NumpyType { kind, width, big: false })
    }

    /// As NumPy writes it, `<f4`.
    pub fn code(self) -> String {
        let order = match (self.big, self.width) {
            (true, _) => '>',
            (false, 1) => '|',
            (false, _) => '<',
        };
        format!("{order}{}{}", char::from(self.kind), self.width)
    }

    fn bytes(self) -> Option<usize> {
        self.width.checked_mul(if self.kind == b'U' { 4 } else { 1 })
    }
}

impl Machine<'_, '_, '_> {
    /// `(version, order, ...)`: the state of a type.
    pub(super) fn set_numpy_type(&mut self, step: &Step, to: Id, state: Id) -> Result<()> {
        let order = self.arena.items_of(state).and_then(|items| self.arena.short_text_of(*items.get(1)?));
        let big = match order {
            Some("<" | "|" | "=") => false,
            Some(">") => true,
            _ => return Err(self.wrong(step, "a NumPy type without a byte order")),
        };
        if let Some(Node::NumpyType(dtype)) = self.arena.nodes.get_mut(to as usize) {
            dtype.big = big;
        }
        Ok(())
    }

    /// `(version, shape, type, is_fortran, bytes)`: the state of an array. It becomes a map of them.
    pub(super) fn set_numpy_array(&mut self, step: &Step, to: Id, state: Id) -> Result<()> {
        let Some(&[_, shape, dtype, fortran, data]) = self.arena.items_of(state) else {
            return Err(self.wrong(step, "the state of an array does not have five values"));
        };
        let (Node::NumpyType(dtype), &Node::Bool(fortran)) =
            (self.arena.node(dtype), self.arena.node(fortran))
        else {
            return Err(self.wrong(step, "an array has no type or order"));
        };
        let (code, width) = (dtype.code(), dtype.bytes());
        let sizes = self.arena.items_of(shape).unwrap_or_default();
        self.charge(4 * sizes.len() as u64)?;
        let sizes = sizes.iter().map(|&n| usize::try_from(self.arena.int_of(n)?).ok());
        let len = sizes.fold(width, |len, size| len?.checked_mul(size?));
        // An empty array of Python 2 may have text here.
        let held = self.raw(data).map(<[u8]>::len);
        let (Some(len), Some(held)) = (len, held) else {
            let what = self.arena.what(data);
            return Err(self.wrong(step, format!("an array of {what}, expected bytes")));
        };
        if len != held {
            return Err(self.wrong(step, format!("an array of {len} bytes, but it has {held}")));
        }
        if len > LONGEST_ARRAY {
            let what = format!("a NumPy array of {len} bytes, which is not a plain value");
            return Err(self.not_plain(&what, "save it as a tensor: `torch.from_numpy(array)`"));
        }
        let code = self.text_node(&code)?;
        let order = self.text_node(if fortran { "F" } else { "C" })?;
        let (code, order) = (self.make(code)?, self.make(order)?);
        let mut entries = Vec::new();
        for (key, value) in [("dtype", code), ("shape", shape), ("order", order), ("data", data)] {
            let key = self.text_node(key)?;
            entries.push((self.make(key)?, value));
        }
        match self.arena.nodes.get_mut(to as usize) {
            Some(Node::Dict(dict)) if dict.kind == DictKind::Array && dict.entries.is_empty() => {
                dict.entries = entries;
                Ok(())
            }
            _ => Err(self.wrong(step, "an array is filled twice")),
        }
    }

    /// Rebuilds a NumPy scalar: `scalar(dtype, bytes)`.
    pub(super) fn numpy_scalar(&mut self, step: &Step, dtype: Id, bytes: Id) -> Result<Node> {
        let Node::NumpyType(dtype) = *self.arena.node(dtype) else {
            return Err(self.wrong(step, "a NumPy scalar without a plain type"));
        };
        let bytes = self.raw(bytes).filter(|bytes| Some(bytes.len()) == dtype.bytes());
        let bytes = bytes.ok_or_else(|| self.wrong(step, "a NumPy scalar without its bytes"))?.to_vec();
        self.charge(bytes.len() as u64)?;
        let part = |at: usize, len: usize| {
            let mut raw = [0; 8];
            if let (Some(part), Some(raw)) = (bytes.get(at..at + len), raw.get_mut(..len)) {
                raw.copy_from_slice(part);
                if dtype.big {
                    raw.reverse();
                }
            }
            u64::from_le_bytes(raw)
        };
        let float = |at: usize, len: usize| match len {
            2 => u16::try_from(part(at, 2)).map_or(f64::NAN, |bits| f64::from(from_f16(bits))),
            4 => u32::try_from(part(at, 4)).map_or(f64::NAN, |bits| f64::from(f32::from_bits(bits))),
            _ => f64::from_bits(part(at, 8)),
        };
        Ok(match (dtype.kind, dtype.width) {
            (b'b', 1) => Node::Bool(bytes.iter().any(|&byte| byte != 0)),
            (b'f', len @ (2 | 4 | 8)) => Node::Float(float(0, len)),
            (b'c', len @ (8 | 16)) => Node::Complex(Box::new((float(0, len / 2), float(len / 2, len / 2)))),
            (b'i', len @ (1 | 2 | 4 | 8)) => {
                let unused = 64 - 8 * len;
                Node::Int((part(0, len).cast_signed() << unused) >> unused)
            }
            (b'u', len @ (1 | 2 | 4 | 8)) => match i64::try_from(part(0, len)) {
                Ok(number) => Node::Int(number),
                Err(_) => {
                    let mut number = part(0, len).to_le_bytes().to_vec();
                    number.push(0);
                    Node::Big(self.store(&number)?)
                }
            },
            (b'U', len) => {
                let codes = (0..len).map(|n| u32::try_from(part(4 * n, 4)).unwrap_or(u32::MAX));
                let text: Option<String> = codes.map(char::from_u32).collect();
                let text = text.ok_or_else(|| self.wrong(step, "an invalid NumPy string"))?;
                self.text_node(text.trim_end_matches('\0'))?
            }
            (b'S', _) => Node::Bytes(self.store(&bytes)?),
            _ => return Err(self.wrong(step, format!("a NumPy scalar of type {}", dtype.code()))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_codes() {
        assert_eq!(NumpyType::parse("f4").unwrap().code(), "<f4");
        assert_eq!(NumpyType::parse("|b1").unwrap().code(), "|b1");
        for odd in ["", "f", "O8", "M8", "V3", "f-1", "é4"] {
            assert_eq!(NumpyType::parse(odd), None, "{odd}");
        }
    }
}
