//! Values and blocks: what comes back, and that it depends on nothing but the row.

use super::Subject;
use super::subject::{Encoded, ROWS, about};
use crate::subject::guarded;
use crate::{Random, Verdict};
use apr_sdk::{DTypeInfo, Error, Result};

/// Blocks that no encoder made are decoded without a panic, wholly, and the same each time.
pub(super) fn any_bytes(subject: &Subject<'_>) -> Result<Verdict> {
    let mut n_blocks = 0;
    for of in &subject.listed {
        let len = Subject::bytes(of, ROWS);
        for blocks in [vec![0; len], vec![0xff; len], Random::new(7).bytes(len), Random::new(8).bytes(len)] {
            let values = subject.decode(of, &blocks)?;
            if values.contains(&f32::MIN) {
                return Err(about(of)(Error::failed("decoding leaves values unwritten")));
            }
            if !is_same(&values, &subject.decode(of, &blocks)?) {
                return Err(about(of)(Error::failed(
                    "decoding the same blocks twice gives different values",
                )));
            }
            n_blocks += len / of.block_bytes as usize;
        }
    }
    passed(subject, n_blocks, "blocks")
}

/// What is encoded and decoded is nearer to the values than zeros are.
pub(super) fn round_trip(subject: &Subject<'_>) -> Result<Verdict> {
    let mut n_values = 0;
    for Encoded { of, rows, blocks } in subject.encoded()? {
        let back = subject.decode(of, &blocks)?;
        let square = |value: f32| f64::from(value) * f64::from(value);
        let whole: f64 = rows.iter().map(|value| square(*value)).sum();
        let lost: f64 = rows.iter().zip(&back).map(|(value, back)| square(value - back)).sum();
        if lost.is_nan() || lost >= whole {
            let share = 100.0 * lost / whole;
            let message =
                format!("encoding and decoding loses {share:.0} % of the energy: zeros would be as near");
            return Err(about(of)(Error::failed(message)));
        }
        n_values += rows.len();
    }
    passed(subject, n_values, "values")
}

/// A row gives the same bytes and values alone and among others, and each time.
pub(super) fn row_by_row(subject: &Subject<'_>) -> Result<Verdict> {
    let mut n_rows = 0;
    for Encoded { of, rows, blocks } in subject.encoded()? {
        let values = subject.decode(of, &blocks)?;
        let (row_len, row_bytes) = (Subject::row_len(of), Subject::bytes(of, 1));
        if subject.encode(of, &rows)?.map_err(about(of))? != blocks {
            return Err(about(of)(Error::failed("encoding the same rows twice gives different blocks")));
        }
        for n in 0..ROWS {
            let row = &rows[n * row_len..][..row_len];
            let alone = subject.encode(of, row)?.map_err(about(of))?;
            let among = &blocks[n * row_bytes..][..row_bytes];
            let same_values = is_same(&subject.decode(of, among)?, &values[n * row_len..][..row_len]);
            if alone != among || !same_values {
                return Err(about(of)(Error::failed(format!(
                    "row {n} alone differs from the same row among others"
                ))));
            }
            n_rows += 1;
        }
    }
    passed(subject, n_rows, "rows")
}

/// Rows with values that are not finite, or as large as can be, are refused or encoded, the same each time.
pub(super) fn not_finite(subject: &Subject<'_>) -> Result<Verdict> {
    let mut refused = 0;
    let mut n_rows = 0;
    for of in &subject.listed {
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, f32::MIN_POSITIVE / 4.0] {
            for places in [0..1, 0..Subject::row_len(of)] {
                let mut row = Subject::rows(of, 1);
                row[places].fill(odd);
                let [first, second] = [subject.encode(of, &row)?, subject.encode(of, &row)?];
                match (first, second) {
                    (Ok(first), Ok(second)) if first == second => drop(subject.decode(of, &first)?),
                    (Err(_), Err(_)) => refused += 1,
                    _ => {
                        let message = format!("a row with {odd} is not treated the same twice");
                        return Err(about(of)(Error::failed(message)));
                    }
                }
                n_rows += 1;
            }
        }
    }
    passed(subject, n_rows, &format!("rows, {refused} refused"))
}

/// Blocks that are said to convert without loss do.
pub(super) fn repacks(subject: &Subject<'_>) -> Result<Verdict> {
    let pairs = guarded(|| subject.quantizer.repacks())??;
    let encoded = subject.encoded()?;
    for (from, to) in &pairs {
        let (Some(from), Some(to)) = (from.info(), to.info()) else {
            return Err(Error::failed("it repacks a type with an unknown number"));
        };
        let Some(Encoded { blocks, .. }) = encoded.iter().find(|encoded| encoded.of == from) else {
            continue;
        };
        // So many rows are whole blocks of both types.
        let row_bytes = Subject::bytes(from, 1);
        let many = blocks.repeat(to.block_elements as usize);
        let elements = many.len() / row_bytes * Subject::row_len(from);
        let mut out = vec![0; elements / to.block_elements as usize * to.block_bytes as usize];
        let (from_type, to_type) = (from.dtype, to.dtype);
        let repacked = guarded(|| subject.quantizer.repack(from_type, to_type, &many, &mut out))?;
        if repacked.is_err() {
            // Refused for these values.
            continue;
        }
        let [before, after] =
            [(from, &many), (to, &out)].map(|(of, blocks)| decoded(subject, of, blocks, elements));
        if !is_same(&before?, &after?) {
            return Err(about(from)(Error::failed(format!("repacked as {} it has other values", to.name))));
        }
    }
    match pairs.len() {
        0 => Verdict::skipped("it repacks nothing"),
        n => Verdict::passed(format!("{n} pairs of types")),
    }
}

/// The values of blocks as a single row.
fn decoded(subject: &Subject<'_>, of: &DTypeInfo, blocks: &[u8], elements: usize) -> Result<Vec<f32>> {
    let mut out = vec![0.0; elements];
    let dtype = of.dtype;
    guarded(|| subject.quantizer.decode(dtype, blocks, elements as u64, &mut out))?.map_err(about(of))?;
    Ok(out)
}

/// Compares bits, so that NaN equals itself.
fn is_same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
}

fn passed(subject: &Subject<'_>, n: usize, what: &str) -> Result<Verdict> {
    match subject.listed.len() {
        0 => Verdict::skipped("it has no block types"),
        n_types => Verdict::passed(format!("{n} {what} of {n_types} types")),
    }
}
