//! Block types that no version's table has: a quantizer's manifest declares them, and a file that holds such tensors
//! states their sizes. One text serves both, and crosses to plugins: `32 18 0:f16` is 32 elements in 18 bytes, which begin
//! with a scale.

use crate::{DType, Error, Result, ScaleField, ScaleKind, SwapField, escape};
use std::fmt;

/// The most elements of a block: values are read 512 at a time.
const MOST_ELEMENTS: u32 = 512;
/// The most bytes of an element: two numbers of 64 bits.
const MOST_BYTES_EACH: u32 = 16;
/// The most elements in a byte: a quarter of a bit each. A block takes memory for its values before they are known.
const MOST_ELEMENTS_A_BYTE: u32 = 32;
/// The most groups of fields. 16: the widest of ggml's blocks has two.
const MOST_FIELDS: usize = 16;
/// The most bytes of a name.
const LONGEST_NAME: usize = 64;

/// A block type: its name, its sizes, and what of its bytes is a number of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockType {
    name: String,
    elements: u32,
    bytes: u32,
    fields: Vec<Field>,
}

/// Numbers of one kind that follow one another in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Field {
    offset: u16,
    kind: FieldKind,
    count: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FieldKind {
    F16,
    F32,
    E8M0,
    Ue4M3,
    U16,
    U32,
    U64,
}

/// Each kind with its word, its bytes, and the scale that it is. Codes narrower than 16 bits need no field.
const KINDS: &[(FieldKind, &str, u16, Option<ScaleKind>)] = &[
    (FieldKind::F16, "f16", 2, Some(ScaleKind::F16)),
    (FieldKind::F32, "f32", 4, Some(ScaleKind::F32)),
    (FieldKind::E8M0, "e8m0", 1, Some(ScaleKind::E8M0)),
    (FieldKind::Ue4M3, "ue4m3", 1, Some(ScaleKind::UE4M3)),
    (FieldKind::U16, "u16", 2, None),
    (FieldKind::U32, "u32", 4, None),
    (FieldKind::U64, "u64", 8, None),
];

impl FieldKind {
    fn row(self) -> (&'static str, u16, Option<ScaleKind>) {
        let found = KINDS.iter().find(|(kind, ..)| *kind == self);
        found.map_or(("", 1, None), |(_, word, width, scale)| (*word, *width, *scale))
    }
}

impl Field {
    /// Parses `OFFSET:KIND` or `OFFSET:KINDxCOUNT`.
    fn parse(word: &str) -> Option<Field> {
        let (offset, rest) = word.split_once(':')?;
        let (kind, count) = match rest.split_once('x') {
            Some((kind, count)) => (kind, number(count)?),
            None => (rest, 1),
        };
        let kind = KINDS.iter().find(|(_, known, ..)| *known == kind)?.0;
        (count > 0).then_some(Field { offset: number(offset)?, kind, count })
    }

    fn end(self) -> u32 {
        u32::from(self.offset) + u32::from(self.kind.row().1) * u32::from(self.count)
    }
}

/// A number in the one way that it is written: no sign, no leading zero.
fn number<N: std::str::FromStr + ToString>(text: &str) -> Option<N> {
    text.parse().ok().filter(|number: &N| number.to_string() == text)
}

impl BlockType {
    /// Parses `ELEMENTS BYTES [OFFSET:KIND[xCOUNT]]...`, of the block type called `name`. KIND is `f16`, `f32`, `e8m0` or
    /// `ue4m3` for scales, which are judged where blocks are not decoded, and `u16`, `u32` or `u64` for other numbers whose
    /// bytes have an order.
    ///
    /// # Errors
    /// Malformed for a name or sizes that no block type can have, and for a name that this version's table has.
    pub fn parse(name: &str, text: &str) -> Result<BlockType> {
        let shown = escape(name, LONGEST_NAME);
        let wrong = |why: String| Error::malformed(format!("block type `{shown}`: {why}"));
        let begins = name.bytes().next().is_some_and(|b| b.is_ascii_uppercase());
        let fits = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        if !begins || !fits || name.len() > LONGEST_NAME {
            return Err(wrong(format!(
                "a name must be 1 to {LONGEST_NAME} of A-Z, 0-9 and _, starting with a letter"
            )));
        }
        if DType::ALL.iter().any(|row| row.name == name) {
            return Err(wrong("the name is that of a built-in type".to_owned()));
        }
        let mut words = text.split_whitespace();
        let sizes = words.next().and_then(number).zip(words.next().and_then(number));
        let fields: Option<Vec<Field>> = words.map(Field::parse).collect();
        let ((elements, bytes), fields) = sizes.zip(fields).ok_or_else(|| {
            wrong(format!("expected ELEMENTS BYTES [OFFSET:KIND[xCOUNT]]..., found `{}`", escape(text, 80)))
        })?;
        let block = BlockType { name: name.to_owned(), elements, bytes, fields };
        block.check().map_err(wrong)?;
        Ok(block)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let BlockType { elements, bytes, fields, .. } = self;
        if !elements.is_power_of_two() || *elements > MOST_ELEMENTS {
            return Err(format!(
                "a block has {elements} elements, which is not a power of two up to {MOST_ELEMENTS}"
            ));
        }
        let (least, most) = (elements.div_ceil(MOST_ELEMENTS_A_BYTE), elements * MOST_BYTES_EACH);
        if !(least..=most).contains(bytes) {
            return Err(format!("{elements} elements take {least} to {most} bytes, not {bytes}"));
        }
        if fields.len() > MOST_FIELDS {
            return Err(format!("{} groups of fields, more than the limit of {MOST_FIELDS}", fields.len()));
        }
        let mut free = 0;
        for field in fields {
            if u32::from(field.offset) < free {
                return Err(format!("its fields overlap or are out of order at byte {}", field.offset));
            }
            free = field.end();
            if free > *bytes {
                return Err(format!("a field ends at byte {free} of a block of {bytes}"));
            }
        }
        Ok(())
    }

    /// Its name: the identity across programs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Elements per block.
    pub fn elements(&self) -> u32 {
        self.elements
    }

    /// Bytes per block.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Its fields of several bytes.
    pub(crate) fn swap(&self) -> Vec<SwapField> {
        let fields = self.fields.iter().map(|field| {
            let (_, width, _) = field.kind.row();
            SwapField { offset: field.offset, width, count: field.count }
        });
        fields.filter(|field| field.width > 1).collect()
    }

    /// Its scales.
    pub(crate) fn scales(&self) -> Vec<ScaleField> {
        let fields = self.fields.iter().filter_map(|field| {
            let (.., scale) = field.kind.row();
            scale.map(|kind| ScaleField { offset: field.offset, kind, count: field.count })
        });
        fields.collect()
    }
}

/// The sizes and fields, as [`BlockType::parse`] takes them.
impl fmt::Display for BlockType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.elements, self.bytes)?;
        for Field { offset, kind, count } in &self.fields {
            write!(f, " {offset}:{}", kind.row().0)?;
            if *count > 1 {
                write!(f, "x{count}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checked_payload_len;

    #[test]
    fn a_text_comes_back() {
        for text in ["32 18 0:f16", "1 2", "512 16", "64 40 0:e8m0 2:f32x2 10:u16 16:u64x3", "1 16 0:u64x2"] {
            assert_eq!(BlockType::parse("X", text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_type_that_cannot_be_is_refused_with_the_reason() {
        for (name, text, why) in [
            ("x", "32 18", "A-Z"),
            ("", "32 18", "A-Z"),
            ("9X", "32 18", "A-Z"),
            ("Q4_K", "256 144", "built-in"),
            ("F32", "1 4", "built-in"),
            ("X", "", "expected ELEMENTS"),
            ("X", "32", "expected ELEMENTS"),
            ("X", "032 18", "expected ELEMENTS"),
            ("X", "+32 18", "expected ELEMENTS"),
            ("X", "32 18 0:f15", "expected ELEMENTS"),
            ("X", "32 18 0:f16x0", "expected ELEMENTS"),
            ("X", "32 18 70000:f16", "expected ELEMENTS"),
            ("X", "0 18", "not a power of two"),
            ("X", "48 18", "not a power of two"),
            ("X", "1024 18", "not a power of two"),
            ("X", "32 0", "take 1 to 512 bytes"),
            ("X", "32 513", "take 1 to 512 bytes"),
            ("X", "512 15", "take 16 to 8192 bytes"),
            ("X", "32 4294967295", "take 1 to 512 bytes"),
            ("X", "32 18 17:f16", "ends at byte 19"),
            ("X", "32 18 0:f16x65535", "ends at byte"),
            ("X", "32 18 0:f32 2:f16", "overlap"),
        ] {
            let error = BlockType::parse(name, text).unwrap_err();
            assert!(error.message().contains(why), "{name} {text}: {error}");
        }
        let long = "X".repeat(65);
        BlockType::parse(&long, "32 18").unwrap_err();
        BlockType::parse("X", &format!("512 512{}", " 0:u16".repeat(17))).unwrap_err();
    }

    #[test]
    fn a_provided_type_is_a_row_of_the_table() {
        let of = BlockType::parse("ROW_OF_A_TEST", "32 20 0:f16x2").unwrap();
        assert_eq!(DType::from_name("ROW_OF_A_TEST"), None);
        let dtype = of.provide().unwrap();
        assert_eq!(of.provide().unwrap(), dtype);
        assert_eq!(DType::from_name("ROW_OF_A_TEST"), Some(dtype));
        assert!((0x1_0000..0x7fff_ffff).contains(&dtype.0), "{}", dtype.0);
        let info = dtype.info().unwrap();
        assert_eq!((info.name, info.block_elements, info.block_bytes), ("ROW_OF_A_TEST", 32, 20));
        assert!(dtype.is_block() && dtype.to_string() == "ROW_OF_A_TEST");
        assert_eq!(info.swap, [SwapField { offset: 0, width: 2, count: 2 }]);
        assert_eq!(dtype.scales().unwrap()[0].kind, ScaleKind::F16);
        assert_eq!(checked_payload_len(dtype, &[2, 64]).unwrap(), 80);
        assert!(DType(dtype.0 + 60_000).info().is_none());
        let other = BlockType::parse("ROW_OF_A_TEST", "32 18").unwrap();
        let error = other.provide().unwrap_err();
        assert!(error.message().contains("`32 20 0:f16x2`"), "{error}");
        assert!(other.state().unwrap_err().message().contains("`32 20 0:f16x2` in the plugin"));
        assert_eq!(of.state().unwrap(), dtype);
    }

    #[test]
    fn types_that_only_files_state_never_take_a_name() {
        let [one, other] = ["32 18", "32 20"].map(|text| BlockType::parse("STATED_BY_A_TEST", text).unwrap());
        let (a, b) = (one.state().unwrap(), other.state().unwrap());
        assert_ne!(a, b);
        assert_eq!((a.name(), b.name(), one.state().unwrap()), ("STATED_BY_A_TEST", "STATED_BY_A_TEST", a));
        assert_eq!(DType::from_name("STATED_BY_A_TEST"), None);
        assert_eq!(other.provide().unwrap(), b);
        assert_eq!(DType::from_name("STATED_BY_A_TEST"), Some(b));
    }
}
