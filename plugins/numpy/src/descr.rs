//! Element types by their spelling, `descr`: supported ones, and unsupported ones by name.

use crate::layout::DTYPES;
use crate::literal::Descr;
use apr_sdk::{DType, Endian, Error, Options, Result, escape};

/// An element type as a file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// The type of what is read.
    pub dtype: DType,
    /// The bytes of one nameless element that is read as several bytes: the last dimension.
    pub opaque: Option<u64>,
    /// The byte order.
    pub endian: Endian,
    /// Whether the file leaves the order to the machine that wrote it.
    pub native: bool,
}

/// Elements of so many nameless bytes, and the option that gives them a type.
struct Nameless {
    kind: &'static str,
    option: &'static str,
    width: u64,
    types: &'static [(&'static str, DType)],
}

const NAMELESS: [Nameless; 2] = [
    Nameless {
        kind: "V1",
        option: "void1",
        width: 1,
        types: &[
            ("f8_e4m3", DType::F8_E4M3),
            ("f8_e5m2", DType::F8_E5M2),
            ("f8_e4m3fnuz", DType::F8_E4M3FNUZ),
            ("f8_e5m2fnuz", DType::F8_E5M2FNUZ),
            ("f8_e8m0", DType::F8_E8M0),
        ],
    },
    Nameless { kind: "V2", option: "void2", width: 2, types: &[("bf16", DType::BF16)] },
];

impl Element {
    /// The type that a header spells.
    ///
    /// # Errors
    /// Unsupported, with the type's name; Malformed for what is no type.
    pub fn parse(descr: &Descr<'_>, options: &Options) -> Result<Element> {
        let Descr::Simple(text) = descr else {
            return Err(Error::unsupported("an array of records (a structured type) is not a tensor")
                .hint("save each field as a separate array"));
        };
        let order = text.bytes().next().filter(|byte| b"<>=|".contains(byte));
        let kind = text.get(usize::from(order.is_some())..).unwrap_or_default();
        // Where a file does not say it, nearly every machine is little-endian.
        let endian = if order == Some(b'>') { Endian::Big } else { Endian::Little };
        let plain = |dtype| Element { dtype, opaque: None, endian, native: false };
        if let Some((_, dtype)) = DTYPES.iter().find(|(known, _)| known.get(1..) == Some(kind)) {
            let wide = dtype.info().is_some_and(|row| !row.swap.is_empty());
            return Ok(Element { native: wide && !matches!(order, Some(b'<' | b'>')), ..plain(*dtype) });
        }
        // So ml_dtypes saves its float8_e5m2, and no other type.
        if kind == "f1" {
            return Ok(plain(DType::F8_E5M2));
        }
        if let Some(nameless) = NAMELESS.iter().find(|nameless| nameless.kind == kind) {
            let chosen = options.get(nameless.option);
            let chosen = nameless.types.iter().find(|(known, _)| Some(*known) == chosen);
            return Ok(match chosen {
                Some((_, dtype)) => plain(*dtype),
                None => Element { opaque: Some(nameless.width), endian: Endian::Little, ..plain(DType::U8) },
            });
        }
        Err(refuse(text, kind))
    }
}

fn refuse(text: &str, kind: &str) -> Error {
    let (letter, width) = kind.split_at_checked(1).unwrap_or_default();
    let what = match (letter, width) {
        ("O", _) => "Python objects, which are pickled: nothing was executed",
        ("U" | "S" | "a" | "T", _) => "strings",
        ("M" | "m", _) => "dates or times",
        ("V", _) => "raw bytes, which are only supported with 1 or 2 bytes",
        ("f", "12" | "16") | ("c", "24" | "32") => "long doubles, whose format differs between machines",
        ("b" | "i" | "u" | "f" | "c", _) if !width.is_empty() => "numbers of an unsupported width",
        _ => {
            let message = format!("`{}` is not an element type", escape(text, 80));
            return Error::malformed(message);
        }
    };
    Error::unsupported(format!("its elements (`{}`) are {what}", escape(text, 80)))
        .hint("save it as an array of numbers: array.astype(...)")
}
