//! A GGUF file as its keys and tensors, each as it lies: to change their order and values, and to name differences.

use std::collections::HashMap;

/// A key with its type and value.
#[derive(Clone, PartialEq)]
pub struct RawKey {
    pub name: String,
    /// Type and value.
    bytes: Vec<u8>,
}

/// A tensor with its payload and padding.
#[derive(Clone, PartialEq)]
pub struct RawTensor {
    pub name: String,
    dims: Vec<u64>,
    kind: u32,
    pub payload: Vec<u8>,
}

impl RawTensor {
    /// Bits of an element, and of its exponent, of a tensor of floats.
    pub fn float_bits(&self) -> Option<(u32, u32)> {
        [(0, (32, 8)), (1, (16, 5)), (30, (16, 8))]
            .iter()
            .find(|(kind, _)| *kind == self.kind)
            .map(|one| one.1)
    }

    pub fn elements(&self) -> usize {
        usize::try_from(self.dims.iter().product::<u64>()).unwrap()
    }
}

/// A file.
#[derive(Clone)]
pub struct RawGguf {
    version: u32,
    pub keys: Vec<RawKey>,
    pub tensors: Vec<RawTensor>,
}

/// Alignment of payloads, which no golden model states otherwise.
const ALIGNMENT: usize = 32;

struct Cursor<'a>(&'a [u8], usize);

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        self.1 += n;
        &self.0[self.1 - n..self.1]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn size(&mut self) -> usize {
        usize::try_from(self.u64()).unwrap()
    }

    fn text(&mut self) -> String {
        let length = self.size();
        String::from_utf8(self.take(length).to_vec()).unwrap()
    }

    fn skip_value(&mut self, kind: u32) {
        match kind {
            0 | 1 | 7 => drop(self.take(1)),
            2 | 3 => drop(self.take(2)),
            4..=6 => drop(self.take(4)),
            10..=12 => drop(self.take(8)),
            8 => drop(self.text()),
            9 => {
                let (of, count) = (self.u32(), self.u64());
                (0..count).for_each(|_| self.skip_value(of));
            }
            other => panic!("type {other}"),
        }
    }
}

impl RawGguf {
    pub fn parse(bytes: &[u8]) -> RawGguf {
        let mut cursor = Cursor(bytes, 0);
        assert_eq!(cursor.take(4), b"GGUF");
        let version = cursor.u32();
        let (n_tensors, n_keys) = (cursor.u64(), cursor.u64());
        let mut keys = Vec::new();
        for _ in 0..n_keys {
            let name = cursor.text();
            let begin = cursor.1;
            let kind = cursor.u32();
            cursor.skip_value(kind);
            keys.push(RawKey { name, bytes: bytes[begin..cursor.1].to_vec() });
        }
        let mut tensors = Vec::new();
        let mut offsets = Vec::new();
        for _ in 0..n_tensors {
            let name = cursor.text();
            let n_dims = cursor.u32();
            let dims = (0..n_dims).map(|_| cursor.u64()).collect();
            let kind = cursor.u32();
            offsets.push(cursor.size());
            tensors.push(RawTensor { name, dims, kind, payload: Vec::new() });
        }
        let begin = cursor.1.next_multiple_of(ALIGNMENT);
        let mut sorted = offsets.clone();
        sorted.push(bytes.len() - begin);
        sorted.sort_unstable();
        for (tensor, offset) in tensors.iter_mut().zip(&offsets) {
            let end = sorted[sorted.partition_point(|other| other <= offset)];
            tensor.payload = bytes[begin + offset..begin + end].to_vec();
        }
        RawGguf { version, keys, tensors }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        let text = |out: &mut Vec<u8>, text: &str| {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.bytes());
        };
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for key in &self.keys {
            text(&mut out, &key.name);
            out.extend(&key.bytes);
        }
        let mut offset = 0u64;
        for tensor in &self.tensors {
            text(&mut out, &tensor.name);
            out.extend(u32::try_from(tensor.dims.len()).unwrap().to_le_bytes());
            tensor.dims.iter().for_each(|n| out.extend(n.to_le_bytes()));
            out.extend(tensor.kind.to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset += tensor.payload.len().next_multiple_of(ALIGNMENT) as u64;
        }
        for tensor in &self.tensors {
            out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
            out.extend(&tensor.payload);
        }
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        out
    }

    /// What `back` has otherwise, a line each.
    pub fn differences(&self, back: &RawGguf) -> Vec<String> {
        let mut lines = Vec::new();
        let keys = |file: &RawGguf| file.keys.iter().map(|key| key.name.clone()).collect::<Vec<_>>();
        let tensors = |file: &RawGguf| file.tensors.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        lines.extend(order("keys", &keys(self), &keys(back)));
        lines.extend(order("tensors", &tensors(self), &tensors(back)));
        let theirs: HashMap<&str, &RawKey> = back.keys.iter().map(|key| (key.name.as_str(), key)).collect();
        let other = self.keys.iter().filter(|key| theirs.get(key.name.as_str()).is_some_and(|t| *t != *key));
        lines.extend(other.map(|key| format!("key {}: another value", key.name)));
        let theirs: HashMap<&str, &RawTensor> =
            back.tensors.iter().map(|one| (one.name.as_str(), one)).collect();
        for tensor in &self.tensors {
            let Some(other) = theirs.get(tensor.name.as_str()).filter(|other| **other != tensor) else {
                continue;
            };
            lines.push(format!("{}: {}", tensor.name, difference(tensor, other)));
        }
        lines
    }
}

fn order(what: &str, was: &[String], is: &[String]) -> Vec<String> {
    if was == is {
        return Vec::new();
    }
    let lacks: Vec<_> = was.iter().filter(|name| !is.contains(name)).collect();
    let more: Vec<_> = is.iter().filter(|name| !was.contains(name)).collect();
    if lacks.is_empty() && more.is_empty() {
        let first = was.iter().zip(is).position(|(a, b)| a != b).unwrap_or(0);
        return vec![format!(
            "another order of {what}: from number {first}, {} before {}",
            is[first], was[first]
        )];
    }
    vec![format!("{what}: lacks {lacks:?}, has {more:?}")]
}

fn difference(was: &RawTensor, is: &RawTensor) -> String {
    if (was.kind, &was.dims) != (is.kind, &is.dims) {
        return format!("type {} {:?}, now {} {:?}", was.kind, was.dims, is.kind, is.dims);
    }
    let width = was.float_bits().map_or(1, |(bits, _)| bits as usize / 8);
    let pairs = was.payload.chunks(width).zip(is.payload.chunks(width));
    let wrong = pairs.filter(|(a, b)| a != b).count();
    format!("{wrong} of {} values are others", was.elements())
}
