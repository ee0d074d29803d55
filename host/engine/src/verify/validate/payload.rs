//! Findings that take reading the payload: stored checksums, encoded tensors, values.

use super::{Finding, warning};
use crate::contract::Severity;
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::open::stored_sums::{StoredSum, decoded};
use crate::verify::checklist::Measured;
use crate::verify::encoded_tensors::{is_of_file, n_encoded, undecodable};
use crate::verify::stats::{RowOptions, each_row_of};
use crate::wording::n_of;
use apr_sdk::{Coding, Error, Extent, Result, escape};
use crc32fast::Hasher;

/// Compares the stored checksums.
///
/// # Errors
/// Any error from reading.
pub fn checksums(engine: &Engine, opened: &OpenedModel, findings: &mut Vec<Finding>) -> Result<Measured> {
    let mut measured = Measured { count: opened.model.checksums.len(), wrong: None };
    if measured.count == 0 {
        let message = format!("checksum: `{}` files store none, so nothing was compared", opened.format);
        findings.push(Finding { severity: Severity::Ok, code: None, message });
    }
    for (number, checksum) in opened.model.checksums.iter().enumerate() {
        let computed = match checksum.coding {
            Coding::Raw => crc32(engine, opened, checksum.covers),
            _ => decoded(engine, opened, number),
        };
        let computed = match computed {
            Err(error) if is_of_file(&error) => {
                let finding = unreadable("checksum", &error);
                measured.wrong.get_or_insert_with(|| finding.message.clone());
                findings.push(finding);
                continue;
            }
            computed => computed?,
        };
        let sum = StoredSum::new(opened, number, computed)?;
        let message = sum.finding();
        let (severity, code) = match sum.is_right() {
            true => (Severity::Ok, None),
            false => {
                measured.wrong.get_or_insert_with(|| message.clone());
                (Severity::Error, Some("E004".to_owned()))
            }
        };
        findings.push(Finding { severity, code, message });
    }
    Ok(measured)
}

fn crc32(engine: &Engine, opened: &OpenedModel, extent: Extent) -> Result<u32> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < extent.len {
        engine.check_cancelled()?;
        let n = usize::try_from((extent.len - at).min(buffer.len() as u64)).unwrap_or(0);
        opened
            .files
            .read_at(extent.file, extent.offset + at, &mut buffer[..n])
            .map_err(|e| opened.files.show(e))?;
        hasher.update(&buffer[..n]);
        at += n as u64;
    }
    Ok(hasher.finalize())
}

/// Decodes the tensors that are compressed or encoded; returns the outcome, and the numbers of those that cannot be.
///
/// # Errors
/// Any error from reading that is not about the file's contents.
pub fn encoded(
    engine: &Engine,
    opened: &OpenedModel,
    findings: &mut Vec<Finding>,
) -> Result<(Measured, Vec<usize>)> {
    let n = n_encoded(opened);
    let wrong = undecodable(engine, opened)?;
    let failed: Vec<Finding> = wrong.iter().map(|(_, error)| unreadable("payload", error)).collect();
    if n > 0 && failed.is_empty() {
        let message =
            format!("payload: {}, decoded to the size that each shape requires", n_of(n, "encoded tensor"));
        findings.push(Finding { severity: Severity::Ok, code: None, message });
    }
    let first = failed.first().map(|finding| finding.message.clone());
    findings.extend(failed);
    Ok((Measured { count: n, wrong: first }, wrong.into_iter().map(|(number, _)| number).collect()))
}

/// The finding for a tensor that cannot be read.
fn unreadable(check: &str, error: &Error) -> Finding {
    let tensor = error.tensor_name().map(|name| format!("`{}`: ", escape(name, 120))).unwrap_or_default();
    let place = error.offset().map(|offset| format!(" (at offset {offset})")).unwrap_or_default();
    Finding {
        severity: Severity::Error,
        code: error.stable_code().map(str::to_owned),
        message: format!("{check}: {tensor}{}{place}", error.message()),
    }
}

/// Looks for values that are not finite; leaves out the tensors in `undecodable`, which ascend and have been
/// found already.
///
/// # Errors
/// As [`encoded`].
pub fn values(
    engine: &Engine,
    opened: &OpenedModel,
    undecodable: &[usize],
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let numbers: Vec<usize> =
        (0..opened.model.tensors.len()).filter(|number| undecodable.binary_search(number).is_err()).collect();
    let n_tensors = numbers.len();
    let mut unread = 0;
    let mut nonfinite = 0;
    let options = RowOptions { sha256: false, stats: true };
    let read = each_row_of(engine, opened, &numbers, options, &mut |row| match &row.stats {
        Some(stats) if stats.nans + stats.infs > 0 => {
            let name = escape(&row.name, 120);
            let message = format!(
                "values: {name} has {} NaN and {} infinite values of {}",
                stats.nans, stats.infs, stats.count
            );
            findings.push(warning(message));
            nonfinite += 1;
        }
        Some(_) => {}
        None => unread += 1,
    });
    match read {
        Err(error) if is_of_file(&error) => {
            findings.push(unreadable("values", &error));
            return Ok(());
        }
        read => read?,
    }
    let mut message = format!("values: {} tensors read", n_tensors - unread);
    if unread > 0 {
        message += &format!(", {unread} not read: no quantizer plugin can decode their types");
    }
    if nonfinite > 0 {
        message += &format!(", {} of them without NaN or infinity", n_tensors - unread - nonfinite);
    }
    findings.push(Finding { severity: Severity::Ok, code: None, message });
    Ok(())
}
