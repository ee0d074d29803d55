//! Reads the values of keys, in memory or in the file, without creating a value for each array item.

use crate::metadata::Key;
use apr_sdk::{Bytes, Cursor, Error, FileId, Limits, Result, Source, Value, ValueType};

/// Bytes read at once: what reading earns pays for the next piece.
const PIECE: u64 = 1 << 20;

/// The keys of a file, with access to long values.
pub struct Scan<'a> {
    pub keys: &'a [Key],
    pub source: &'a dyn Source,
    /// The file with the keys and their long values.
    pub file: FileId,
    pub limits: &'a Limits,
}

impl Scan<'_> {
    /// The value of `key`, if it is there.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.keys.iter().find(|k| k.name == key).map(|k| &k.value)
    }

    /// The value of a short string key.
    ///
    /// # Errors
    /// Malformed for another type.
    pub fn text(&self, key: &str) -> Result<Option<String>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        if value.kind != ValueType::STRING {
            return Err(odd(key, "a string"));
        }
        let bytes = self.fetch(value)?;
        let text = bytes.get(8..).and_then(|text| String::from_utf8(text.to_vec()).ok());
        text.map(Some).ok_or_else(|| odd(key, "UTF-8"))
    }

    /// The value of a boolean key, if it is there.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).and_then(Value::as_bool)
    }

    /// The value of an integer key below 2^32.
    pub fn number(&self, key: &str) -> Option<u32> {
        self.get(key).and_then(Value::as_unsigned).and_then(|n| u32::try_from(n).ok())
    }

    /// The value of an array of strings.
    ///
    /// # Errors
    /// Malformed for anything else, naming the item.
    pub fn strings(&self, key: &str) -> Result<Option<Vec<String>>> {
        let Some((kind, count, items)) = self.array(key)? else { return Ok(None) };
        if kind != ValueType::STRING {
            return Err(odd(key, "an array of strings"));
        }
        let mut rest = items.as_slice();
        let mut texts = Vec::new();
        for n in 0..count {
            let item = take(&mut rest).ok_or_else(|| odd(key, "whole"))?;
            let text = std::str::from_utf8(item).map_err(|_| {
                Error::malformed(format!("metadata key `{key}`: item {n} is not valid UTF-8"))
            })?;
            texts.push(text.to_owned());
        }
        Ok(Some(texts))
    }

    /// The value of an array of numbers, each as f64.
    ///
    /// # Errors
    /// Malformed for anything else.
    pub fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>> {
        let Some((kind, _, items)) = self.array(key)? else { return Ok(None) };
        let words = items.as_chunks::<4>().0.iter();
        match kind {
            ValueType::F32 => Ok(Some(words.map(|w| f64::from(f32::from_le_bytes(*w))).collect())),
            ValueType::I32 => Ok(Some(words.map(|w| f64::from(i32::from_le_bytes(*w))).collect())),
            ValueType::U32 => Ok(Some(words.map(|w| f64::from(u32::from_le_bytes(*w))).collect())),
            ValueType::F64 => {
                Ok(Some(items.as_chunks::<8>().0.iter().map(|word| f64::from_le_bytes(*word)).collect()))
            }
            _ => Err(odd(key, "an array of numbers")),
        }
    }

    /// The value of an array of integers below 2^32.
    ///
    /// # Errors
    /// Malformed for anything else.
    pub fn ids(&self, key: &str) -> Result<Option<Vec<u32>>> {
        match self.array(key)? {
            None => Ok(None),
            Some((ValueType::U32, _, items)) => {
                Ok(Some(items.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()))
            }
            Some(_) => Err(odd(key, "an array of u32")),
        }
    }

    /// The value of an array of bytes.
    ///
    /// # Errors
    /// Malformed for anything else.
    pub fn bytes(&self, key: &str) -> Result<Option<Vec<u8>>> {
        match self.array(key)? {
            None => Ok(None),
            Some((ValueType::U8 | ValueType::I8, _, items)) => Ok(Some(items)),
            Some(_) => Err(odd(key, "an array of bytes")),
        }
    }

    fn array(&self, key: &str) -> Result<Option<(ValueType, u64, Vec<u8>)>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        if value.kind != ValueType::ARRAY {
            return Err(odd(key, "an array"));
        }
        let mut bytes = self.fetch(value)?;
        let (Some(kind), Some(count)) = (word::<4>(&bytes, 0), word::<8>(&bytes, 4)) else {
            return Err(odd(key, "whole"));
        };
        bytes.drain(..12);
        Ok(Some((ValueType(u32::from_le_bytes(kind)), u64::from_le_bytes(count), bytes)))
    }

    /// A value's wire bytes, read if necessary.
    fn fetch(&self, value: &Value) -> Result<Vec<u8>> {
        let extent = match &value.bytes {
            Bytes::Inline(bytes) => return Ok(bytes.to_vec()),
            Bytes::Extent(extent) => *extent,
        };
        let mut cursor = Cursor::new(self.source, self.file, extent.offset, self.limits)?;
        let mut bytes = Vec::new();
        let mut left = extent.len;
        while left > 0 {
            let piece = left.min(PIECE);
            bytes.extend_from_slice(&cursor.bytes(piece)?);
            left -= piece;
        }
        Ok(bytes)
    }
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(u64::from_le_bytes(word(rest, 0)?)).ok()?;
    let item = rest.get(8..8usize.checked_add(len)?)?;
    *rest = rest.get(8 + len..)?;
    Some(item)
}

fn odd(key: &str, what: &str) -> Error {
    Error::malformed(format!("metadata key `{key}` is not {what}"))
}
