//! Typed metadata values. A value is its type and its wire bytes: little-endian scalars; strings as u64
//! length and bytes; arrays as u32 element type, u64 count and items. So a value crosses the plugin boundary,
//! and often enters the file, unchanged.

use crate::{Bytes, Error, Limits, Result};

/// The type of a metadata value, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueType(pub u32);

macro_rules! value_types {
    ($($(#[$doc:meta])* $name:ident = $n:literal, $word:literal, $size:literal;)*) => {
        impl ValueType {
            $($(#[$doc])* pub const $name: ValueType = ValueType($n);)*
            /// Every type: number, name, size of a scalar in bytes (0 for strings and arrays).
            pub const ALL: &'static [(ValueType, &'static str, u64)] = &[$((ValueType($n), $word, $size)),*];
        }
    };
}

value_types! {
    /// Unsigned, 1 byte.
    U8 = 0, "u8", 1;
    /// Signed, 1 byte.
    I8 = 1, "i8", 1;
    /// Unsigned, 2 bytes.
    U16 = 2, "u16", 2;
    /// Signed, 2 bytes.
    I16 = 3, "i16", 2;
    /// Unsigned, 4 bytes.
    U32 = 4, "u32", 4;
    /// Signed, 4 bytes.
    I32 = 5, "i32", 4;
    /// Float, 4 bytes.
    F32 = 6, "f32", 4;
    /// One byte, 0 or 1.
    BOOL = 7, "bool", 1;
    /// Bytes, usually UTF-8, preceded by a u64 length.
    STRING = 8, "str", 0;
    /// u32 element type, u64 count, then the items.
    ARRAY = 9, "arr", 0;
    /// Unsigned, 8 bytes.
    U64 = 10, "u64", 8;
    /// Signed, 8 bytes.
    I64 = 11, "i64", 8;
    /// Float, 8 bytes.
    F64 = 12, "f64", 8;
}

impl ValueType {
    /// The type's name (`u32`, `str`, `arr`), or `None` for an unknown number.
    pub fn name(self) -> Option<&'static str> {
        ValueType::ALL.iter().find(|t| t.0 == self).map(|t| t.1)
    }

    /// Looks up a type by its name (`u32`, `str`, `arr`).
    pub fn from_name(name: &str) -> Option<ValueType> {
        ValueType::ALL.iter().find(|t| t.1 == name).map(|t| t.0)
    }

    /// Size of a scalar in bytes; `None` for strings, arrays and unknown numbers.
    pub fn scalar_len(self) -> Option<u64> {
        ValueType::ALL.iter().find(|t| t.0 == self).map(|t| t.2).filter(|&n| n > 0)
    }

    /// The fewest bytes that an item of this type takes on the wire; 0 for unknown numbers.
    pub fn min_len(self) -> u64 {
        match self {
            ValueType::STRING => 8,
            ValueType::ARRAY => 12,
            other => other.scalar_len().unwrap_or(0),
        }
    }
}

/// A metadata value: its type and its wire bytes, in memory or in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The type of the value.
    pub kind: ValueType,
    /// The wire bytes: a little-endian scalar; u64 length and bytes; or u32 element type, u64 count and items.
    pub bytes: Bytes,
}

macro_rules! scalars {
    ($($from:ident $as_:ident $type:ty = $kind:ident;)*) => {
        $(#[doc = concat!("A value of type `", stringify!($type), "`.")]
        pub fn $from(value: $type) -> Value {
            Value { kind: ValueType::$kind, bytes: Bytes::from(value.to_le_bytes().as_slice()) }
        }
        #[doc = concat!("The value, if it is of type `", stringify!($type), "` exactly.")]
        pub fn $as_(&self) -> Option<$type> {
            if self.kind != ValueType::$kind { return None; }
            self.bytes.inline()?.try_into().ok().map(<$type>::from_le_bytes)
        })*
    };
}

impl Value {
    scalars! {
        from_u8 as_u8 u8 = U8;
        from_i8 as_i8 i8 = I8;
        from_u16 as_u16 u16 = U16;
        from_i16 as_i16 i16 = I16;
        from_u32 as_u32 u32 = U32;
        from_i32 as_i32 i32 = I32;
        from_f32 as_f32 f32 = F32;
        from_u64 as_u64 u64 = U64;
        from_i64 as_i64 i64 = I64;
        from_f64 as_f64 f64 = F64;
    }

    /// Creates a `bool`: one byte, 0 or 1.
    pub fn from_bool(value: bool) -> Value {
        Value { kind: ValueType::BOOL, bytes: Bytes::from([u8::from(value)].as_slice()) }
    }

    /// The value of a bool in memory; any byte but 0 is true.
    pub fn as_bool(&self) -> Option<bool> {
        if self.kind != ValueType::BOOL { None } else { self.bytes.inline()?.first().map(|&b| b != 0) }
    }

    /// Creates a string, which need not be UTF-8.
    pub fn from_string(text: impl AsRef<[u8]>) -> Value {
        let text = text.as_ref();
        let mut bytes = Vec::with_capacity(8 + text.len());
        push_string(&mut bytes, text);
        Value { kind: ValueType::STRING, bytes: bytes.into() }
    }

    /// The bytes of a string in memory.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        if self.kind != ValueType::STRING { None } else { self.bytes.inline()?.get(8..) }
    }

    /// The text of a string in memory, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()?).ok()
    }

    /// Any non-negative integer in memory as u64, whatever its width.
    pub fn as_unsigned(&self) -> Option<u64> {
        match self.kind {
            ValueType::U8 => self.as_u8().map(u64::from),
            ValueType::U16 => self.as_u16().map(u64::from),
            ValueType::U32 => self.as_u32().map(u64::from),
            ValueType::U64 => self.as_u64(),
            ValueType::I8 => self.as_i8().and_then(|n| u64::try_from(n).ok()),
            ValueType::I16 => self.as_i16().and_then(|n| u64::try_from(n).ok()),
            ValueType::I32 => self.as_i32().and_then(|n| u64::try_from(n).ok()),
            ValueType::I64 => self.as_i64().and_then(|n| u64::try_from(n).ok()),
            _ => None,
        }
    }

    /// Creates an array of strings.
    pub fn from_strings<T: AsRef<[u8]>>(items: &[T]) -> Value {
        let mut bytes = array_head(ValueType::STRING, items.len() as u64);
        for item in items {
            push_string(&mut bytes, item.as_ref());
        }
        Value { kind: ValueType::ARRAY, bytes: bytes.into() }
    }

    /// Creates an array of `count` items of type `kind` from their wire bytes. [`Value::check`] tells whether
    /// they fit.
    pub fn from_items(kind: ValueType, count: u64, items: &[u8]) -> Value {
        let mut bytes = array_head(kind, count);
        bytes.extend_from_slice(items);
        Value { kind: ValueType::ARRAY, bytes: bytes.into() }
    }

    /// Element type and count of an array in memory.
    pub fn array_head(&self) -> Option<(ValueType, u64)> {
        if self.kind != ValueType::ARRAY {
            return None;
        }
        let bytes = self.bytes.inline()?;
        let kind = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        let count = u64::from_le_bytes(bytes.get(4..12)?.try_into().ok()?);
        Some((ValueType(kind), count))
    }

    /// The items of an array in memory, as values. Empty for anything else.
    pub fn items(&self) -> Vec<Value> {
        let Some((kind, count)) = self.array_head() else { return Vec::new() };
        let mut rest = self.bytes.inline().and_then(|b| b.get(12..)).unwrap_or_default();
        let mut items = Vec::new();
        for _ in 0..count {
            let Ok(len) = wire_len(kind, rest, 0) else { break };
            let (item, after) = rest.split_at(len);
            items.push(Value { kind, bytes: Bytes::from(item) });
            rest = after;
        }
        items
    }

    /// Checks that wire bytes in memory are exactly one value of the claimed type. Bytes in a file are not
    /// checked.
    ///
    /// # Errors
    /// Malformed, with the reason.
    pub fn check(&self) -> Result<()> {
        let Some(bytes) = self.bytes.inline() else { return Ok(()) };
        let len = wire_len(self.kind, bytes, 0)?;
        if len == bytes.len() {
            return Ok(());
        }
        Err(Error::malformed(format!(
            "a metadata value has {} bytes, but its type requires {len}",
            bytes.len()
        )))
    }
}

fn array_head(kind: ValueType, count: u64) -> Vec<u8> {
    let mut bytes = kind.0.to_le_bytes().to_vec();
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes
}

fn push_string(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
    bytes.extend_from_slice(text);
}

/// The count or length at byte `at` of `bytes`.
fn wire_count(bytes: &[u8], at: usize) -> Result<u64> {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes).ok_or_else(cut_off)
}

pub(crate) fn cut_off() -> Error {
    Error::malformed("a metadata value is truncated")
}

/// Number of `bytes` that one value of type `kind` takes up.
fn wire_len(kind: ValueType, bytes: &[u8], depth: u32) -> Result<usize> {
    if depth > Limits::default().nesting {
        return Err(Error::limit(format!(
            "metadata arrays are nested more than {} levels deep",
            Limits::default().nesting
        )));
    }
    if let Some(len) = kind.scalar_len() {
        return usize::try_from(len).ok().filter(|&n| n <= bytes.len()).ok_or_else(cut_off);
    }
    match kind {
        ValueType::STRING => {
            let len = usize::try_from(wire_count(bytes, 0)?).ok().and_then(|n| n.checked_add(8));
            len.filter(|len| *len <= bytes.len()).ok_or_else(cut_off)
        }
        ValueType::ARRAY => {
            let item = bytes.get(..4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
            let item = ValueType(item.ok_or_else(cut_off)?);
            let count = wire_count(bytes, 4)?;
            if item.name().is_none() {
                return Err(Error::malformed(format!("metadata array of unknown element type {}", item.0)));
            }
            if let Some(each) = item.scalar_len() {
                let len = count
                    .checked_mul(each)
                    .and_then(|n| n.checked_add(12))
                    .and_then(|n| usize::try_from(n).ok());
                return len.filter(|&n| n <= bytes.len()).ok_or_else(cut_off);
            }
            let mut at = 12;
            for _ in 0..count {
                at += wire_len(item, bytes.get(at..).ok_or_else(cut_off)?, depth + 1)?;
            }
            Ok(at)
        }
        other => Err(Error::malformed(format!("metadata value of unknown type {}", other.0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_and_strings_keep_their_type() {
        assert_eq!(Value::from_u32(7).as_u32(), Some(7));
        assert_eq!(Value::from_u32(7).as_u64(), None);
        assert_eq!(Value::from_i8(-1).as_unsigned(), None);
        assert_eq!(Value::from_string([0xff]).as_bytes(), Some([0xff].as_slice()));
        assert_eq!(Value::from_string("é").as_str(), Some("é"));
    }

    #[test]
    fn arrays_nest_and_are_checked() {
        let inner = Value::from_strings(&["a", "bc"]);
        let mut items = inner.bytes.inline().unwrap().to_vec();
        items.extend_from_slice(Value::from_items(ValueType::U8, 0, &[]).bytes.inline().unwrap());
        let outer = Value::from_items(ValueType::ARRAY, 2, &items);
        outer.check().unwrap();
        assert_eq!(outer.items()[0].items()[1].as_str(), Some("bc"));
        assert!(Value::from_items(ValueType::U16, 3, &[0; 5]).check().is_err());
        assert!(Value::from_items(ValueType::U16, u64::MAX, &[0; 5]).check().is_err());
        assert!(Value::from_items(ValueType(99), 0, &[]).check().is_err());
    }

    #[test]
    fn nesting_is_bounded() {
        let mut value = Value::from_items(ValueType::U8, 0, &[]);
        for _ in 0..20 {
            value = Value::from_items(ValueType::ARRAY, 1, value.bytes.inline().unwrap());
        }
        assert!(value.check().is_err());
    }
}
