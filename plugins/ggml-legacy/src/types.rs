//! Interprets a tensor's type number, which depends on the version of the block layouts.

use crate::blocks::Layout;
use apr_sdk::{DType, Error, Result};

/// The versions of ggml's block layouts. The same type number is other bytes in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Neighbours share a byte (until 12 May 2023; `GGML_QNT_VERSION` 0).
    Pairs,
    /// A byte holds elements half a block apart, scales are f32 (until 19 May 2023; version 1).
    Halves,
    /// Today's, with f16 scales (version 2).
    Today,
}

/// How a tensor is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// As today.
    Plain(DType),
    /// In blocks of an older layout.
    Old(Layout),
}

/// The names of types that have existed, for refusing them by name.
const NAMES: &[(u32, &str)] = &[
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (12, "Q4_K"),
    (13, "Q5_K"),
    (14, "Q6_K"),
    (15, "Q8_K"),
    (16, "I8"),
    (17, "I16"),
    (18, "I32"),
];

/// The type of this number in files of a generation.
///
/// # Errors
/// Unsupported for a number that no program wrote into such files.
pub fn stored(number: u32, generation: Generation) -> Result<Stored> {
    use Generation::{Halves, Pairs, Today};
    Ok(match (number, generation) {
        (0, _) => Stored::Plain(DType::F32),
        (1, _) => Stored::Plain(DType::F16),
        (2, Today) => Stored::Plain(DType::Q4_0),
        (3, Today) => Stored::Plain(DType::Q4_1),
        (8, Today) => Stored::Plain(DType::Q8_0),
        // Their scales were f16 from the start, so only the order of elements ever changed.
        (6, Halves | Today) => Stored::Plain(DType::Q5_0),
        (7, Halves | Today) => Stored::Plain(DType::Q5_1),
        (2, Pairs) => Stored::Old(Layout::Q4_0_PAIRS),
        (3, Pairs) => Stored::Old(Layout::Q4_1_PAIRS),
        (4, Pairs) => Stored::Old(Layout::Q4_2),
        (5, Pairs) => Stored::Old(Layout::Q4_3),
        (6, Pairs) => Stored::Old(Layout::Q5_0_PAIRS),
        (7, Pairs) => Stored::Old(Layout::Q5_1_PAIRS),
        (2, Halves) => Stored::Old(Layout::Q4_0_HALVES),
        (3, Halves) => Stored::Old(Layout::Q4_1_HALVES),
        (8, Pairs | Halves) => Stored::Old(Layout::Q8_0_F32),
        (10, Today) => Stored::Plain(DType::Q2_K),
        (11, Today) => Stored::Plain(DType::Q3_K),
        (12, Today) => Stored::Plain(DType::Q4_K),
        (13, Today) => Stored::Plain(DType::Q5_K),
        (14, Today) => Stored::Plain(DType::Q6_K),
        (4, _) => return Err(gone("Q4_2")),
        (5, _) => return Err(gone("Q4_3")),
        _ => return Err(unknown(number)),
    })
}

fn gone(name: &str) -> Error {
    Error::unsupported(format!("type {name} was removed before this version of the format"))
}

fn unknown(number: u32) -> Error {
    let named = NAMES.iter().find(|(n, _)| *n == number).map(|(_, name)| format!(" ({name})"));
    let named = named.unwrap_or_default();
    Error::unsupported(format!("type {number}{named} does not occur in this version of the format"))
}
