//! Metadata in MessagePack: a map from text to any values.

use crate::keys::Keys;
use apr_sdk::{Error, Limits, Result, Value};
use rmp::Marker;

/// Nesting of maps and arrays: metadata that programs write nests 4 deep.
const DEPTH: u32 = 64;

/// Adds the entries of the map in `bytes`, which are at `offset`, to `keys`.
///
/// # Errors
/// Malformed for anything but a map, for lengths past the end and bytes behind it; LimitExceeded.
pub fn read(bytes: &[u8], offset: u64, limits: &Limits, keys: &mut Keys) -> Result<()> {
    let mut parser = Parser { bytes, at: 0, offset };
    let count = match parser.marker()? {
        Marker::FixMap(count) => u64::from(count),
        Marker::Map16 => parser.number(2)?,
        Marker::Map32 => parser.number(4)?,
        _ => return Err(Error::malformed("the metadata is not a map in MessagePack").at(offset)),
    };
    parser.check_count(count, 2)?;
    for _ in 0..count {
        let at = parser.place();
        let marker = parser.marker()?;
        let Some(len) = parser.text_len(marker)? else {
            return Err(Error::malformed("a metadata key is not a text").at(at));
        };
        let key = parser.text(len)?.to_owned();
        let value = parser.value()?;
        keys.add(key, value, limits).map_err(|e| e.at(at))?;
    }
    match parser.left() {
        0 => Ok(()),
        left => {
            Err(Error::malformed(format!("{left} bytes of metadata are left after its map"))
                .at(parser.place()))
        }
    }
}

/// A parser that knows where it is in the file.
struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    offset: u64,
}

impl<'a> Parser<'a> {
    fn place(&self) -> u64 {
        self.offset + self.at as u64
    }

    fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        let taken = end.and_then(|end| self.bytes.get(self.at..end)).ok_or_else(|| {
            let message =
                format!("the metadata ends in a value: expected {len} bytes, {} are left", self.left());
            Error::malformed(message).at(self.place())
        })?;
        self.at += taken.len();
        Ok(taken)
    }

    fn marker(&mut self) -> Result<Marker> {
        Ok(Marker::from_u8(self.take(1)?[0]))
    }

    /// A big-endian number of so many bytes.
    fn number(&mut self, len: u64) -> Result<u64> {
        Ok(self.take(len)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Fails if so many items of so many bytes are not left.
    fn check_count(&self, count: u64, min_item: u64) -> Result<()> {
        if count * min_item <= self.left() {
            return Ok(());
        }
        let message = format!("the metadata states {count} items, but only {} bytes are left", self.left());
        Err(Error::malformed(message).at(self.place()))
    }

    /// The length of a text; `None` if the value is something else.
    fn text_len(&mut self, marker: Marker) -> Result<Option<u64>> {
        Ok(Some(match marker {
            Marker::FixStr(len) => u64::from(len),
            Marker::Str8 => self.number(1)?,
            Marker::Str16 => self.number(2)?,
            Marker::Str32 => self.number(4)?,
            _ => return Ok(None),
        }))
    }

    fn text(&mut self, len: u64) -> Result<&'a str> {
        let at = self.place();
        let bytes = self.take(len)?;
        std::str::from_utf8(bytes).map_err(|_| Error::malformed("a metadata text is not valid UTF-8").at(at))
    }

    /// A value with its type. Nil, an array or a map has none: it becomes a list of one string, its JSON.
    fn value(&mut self) -> Result<Value> {
        let start = self.at;
        let marker = self.marker()?;
        if let Some(len) = self.text_len(marker)? {
            return Ok(Value::from_string(self.text(len)?));
        }
        Ok(match marker {
            Marker::True | Marker::False => Value::from_bool(marker == Marker::True),
            Marker::F32 => Value::from_f32(self.float()?),
            Marker::F64 => Value::from_f64(f64::from_bits(self.number(8)?)),
            _ => match self.integer(marker)? {
                Some(Integer::Unsigned(whole)) => Value::from_u64(whole),
                Some(Integer::Signed(whole)) => Value::from_i64(whole),
                None => {
                    self.at = start;
                    let mut json = String::new();
                    self.json(DEPTH, &mut json)?;
                    Value::from_strings(&[json])
                }
            },
        })
    }

    fn float(&mut self) -> Result<f32> {
        Ok(f32::from_bits(u32::try_from(self.number(4)?).unwrap_or_default()))
    }

    fn integer(&mut self, marker: Marker) -> Result<Option<Integer>> {
        // Widened by its sign.
        let signed = |number: u64, len: u32| {
            Integer::Signed((number << (64 - 8 * len)).cast_signed() >> (64 - 8 * len))
        };
        Ok(Some(match marker {
            Marker::FixPos(whole) => Integer::Unsigned(whole.into()),
            Marker::FixNeg(whole) => Integer::Signed(whole.into()),
            Marker::U8 => Integer::Unsigned(self.number(1)?),
            Marker::U16 => Integer::Unsigned(self.number(2)?),
            Marker::U32 => Integer::Unsigned(self.number(4)?),
            Marker::U64 => Integer::Unsigned(self.number(8)?),
            Marker::I8 => signed(self.number(1)?, 1),
            Marker::I16 => signed(self.number(2)?, 2),
            Marker::I32 => signed(self.number(4)?, 4),
            Marker::I64 => signed(self.number(8)?, 8),
            _ => return Ok(None),
        }))
    }

    /// Appends the next value as JSON.
    fn json(&mut self, depth: u32, out: &mut String) -> Result<()> {
        let at = self.place();
        let marker = self.marker()?;
        if let Some(len) = self.text_len(marker)? {
            push_text(out, self.text(len)?);
            return Ok(());
        }
        match marker {
            Marker::Null => out.push_str("null"),
            Marker::True => out.push_str("true"),
            Marker::False => out.push_str("false"),
            Marker::F32 => push_float(out, self.float()?.into()),
            Marker::F64 => push_float(out, f64::from_bits(self.number(8)?)),
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => {
                let count = self.count(marker)?;
                self.items(count, inner(depth, at)?, out)?;
            }
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => {
                let count = self.count(marker)?;
                self.entries(count, inner(depth, at)?, out)?;
            }
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                let len = self.count(marker)?;
                let bytes: Vec<_> = self.take(len)?.iter().map(u8::to_string).collect();
                out.push_str(&format!("[{}]", bytes.join(",")));
            }
            _ => match self.integer(marker)? {
                Some(Integer::Unsigned(whole)) => out.push_str(&whole.to_string()),
                Some(Integer::Signed(whole)) => out.push_str(&whole.to_string()),
                None => return Err(Error::malformed("the metadata has a value of no known type").at(at)),
            },
        }
        Ok(())
    }

    /// The number of items of an array or a map, or of bytes.
    fn count(&mut self, marker: Marker) -> Result<u64> {
        match marker {
            Marker::FixArray(count) | Marker::FixMap(count) => Ok(count.into()),
            Marker::Bin8 => self.number(1),
            Marker::Array16 | Marker::Map16 | Marker::Bin16 => self.number(2),
            _ => self.number(4),
        }
    }

    fn items(&mut self, count: u64, depth: u32, out: &mut String) -> Result<()> {
        self.check_count(count, 1)?;
        out.push('[');
        for n in 0..count {
            out.push_str(if n > 0 { "," } else { "" });
            self.json(depth, out)?;
        }
        out.push(']');
        Ok(())
    }

    fn entries(&mut self, count: u64, depth: u32, out: &mut String) -> Result<()> {
        self.check_count(count, 2)?;
        out.push('{');
        for n in 0..count {
            out.push_str(if n > 0 { "," } else { "" });
            let at = self.place();
            let marker = self.marker()?;
            let Some(len) = self.text_len(marker)? else {
                return Err(Error::malformed("a metadata key is not a text").at(at));
            };
            push_text(out, self.text(len)?);
            out.push(':');
            self.json(depth, out)?;
        }
        out.push('}');
        Ok(())
    }
}

enum Integer {
    Unsigned(u64),
    Signed(i64),
}

fn inner(depth: u32, at: u64) -> Result<u32> {
    depth.checked_sub(1).ok_or_else(|| Error::limit(format!("metadata nests more than {DEPTH} deep")).at(at))
}

fn push_text(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// Appends a number; one that JSON cannot say is text.
fn push_float(out: &mut String, value: f64) {
    match serde_json::Number::from_f64(value) {
        Some(number) => out.push_str(&number.to_string()),
        None => push_text(out, &value.to_string()),
    }
}
