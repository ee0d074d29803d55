//! Lengths that do not fit each other are refused, not read or written beyond.

use super::Subject;
use super::subject::about;
use crate::Verdict;
use crate::subject::guarded;
use apr_sdk::{Error, ErrorKind, Result};

/// Rows that are no whole blocks, and buffers of another length, are InvalidArgument.
pub(super) fn lengths(subject: &Subject<'_>) -> Result<Verdict> {
    let mut n_refused = 0;
    for of in &subject.listed {
        let (row, block, dtype) = (Subject::row_len(of), of.block_elements as usize, of.dtype);
        let (bytes, block_bytes) = (Subject::bytes(of, 1), of.block_bytes as usize);
        for (elements, row_len, bytes, what) in [
            (row, 0, bytes, "rows of no elements"),
            (row, row + 1, bytes, "fewer elements than a row has"),
            (row * 2, row + block, bytes * 2, "elements that are no whole rows"),
            (row, row, bytes - 1, "a byte too little"),
            (row, row, bytes + 1, "a byte too much"),
            (row, row, bytes + block_bytes, "a block too much"),
            (row, row, 0, "no bytes"),
            (0, row, bytes, "no elements"),
            (row, usize::MAX, bytes, "rows longer than all memory"),
        ] {
            let mut values = vec![0.5f32; elements];
            let mut blocks = vec![0u8; bytes];
            let row_len = row_len as u64;
            let encoded = guarded(|| subject.quantizer.encode(dtype, &values, row_len, None, &mut blocks))?;
            let decoded = guarded(|| subject.quantizer.decode(dtype, &blocks, row_len, &mut values))?;
            for (call, result) in [("encode", encoded), ("decode", decoded)] {
                match result {
                    Err(error) if error.kind() == ErrorKind::InvalidArgument => n_refused += 1,
                    Err(error) if call == "encode" && error.kind() == ErrorKind::Unsupported => {}
                    Err(error) => {
                        let message =
                            format!("{call} refuses {what} as {:?}, not as InvalidArgument", error.kind());
                        return Err(about(of)(Error::failed(message)));
                    }
                    Ok(()) => return Err(about(of)(Error::failed(format!("{call} accepts {what}")))),
                }
            }
        }
    }
    match subject.listed.len() {
        0 => Verdict::skipped("it has no block types"),
        n_types => Verdict::passed(format!("{n_refused} calls for {n_types} types refused")),
    }
}

/// Importance of any values, and of a wrong length, is used, ignored or refused.
pub(super) fn importance(subject: &Subject<'_>) -> Result<Verdict> {
    let mut refused = 0;
    let mut n_calls = 0;
    for of in &subject.listed {
        let (row_len, dtype) = (Subject::row_len(of), of.dtype);
        let rows = Subject::rows(of, 2);
        for (len, value) in [
            (row_len, 1.0),
            (row_len, 0.0),
            (row_len, -1.0),
            (row_len, f32::NAN),
            (row_len, f32::MAX),
            (row_len + 1, 1.0),
            (0, 1.0),
        ] {
            let mut out = vec![0; Subject::bytes(of, 2)];
            let importance = vec![value; len];
            let result = guarded(|| {
                subject.quantizer.encode(dtype, &rows, row_len as u64, Some(&importance), &mut out)
            })?;
            refused += usize::from(result.is_err());
            n_calls += 1;
        }
    }
    match subject.listed.len() {
        0 => Verdict::skipped("it has no block types"),
        _ => Verdict::passed(format!("{n_calls} calls, {refused} refused")),
    }
}
