//! Writes the same protocol 2 pickle as `torch.save`: CPython's pickler, opcode by opcode, with its memo and
//! its batches.

mod tensors;
mod values;

use crate::tree::Tree;
use apr_sdk::{Error, Model, Result, Value};
use std::collections::HashMap;

const ORDERED_DICT: &str = "collections\nOrderedDict";

/// What the pickle is made from.
pub struct Source<'m> {
    /// The tensors.
    pub model: &'m Model,
    /// The numbers of those that are written, by name.
    pub numbers: &'m HashMap<&'m str, usize>,
    /// The values, by key.
    pub values: &'m HashMap<String, Value>,
}

/// A pickle being written.
pub struct PickleWriter<'m> {
    source: &'m Source<'m>,
    out: Vec<u8>,
    memo: u32,
    /// Memo places of names and of the texts that torch's own code uses again and again.
    known: HashMap<String, u32>,
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
    fn once(&mut self, what: &str, push: impl FnOnce(&mut Self)) {
        if let Some(&place) = self.known.get(what) {
            return self.get(place);
        }
        push(self);
        let place = self.put();
        self.known.insert(what.to_owned(), place);
    }

    /// A name, as `module\nname`.
    fn global(&mut self, name: &str) {
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
        let number = i64::try_from(number).map_err(|_| Error::unsupported("a size exceeds 2^63"))?;
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

    /// Writes a tuple of `count` items, which `items` pushes.
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
}
