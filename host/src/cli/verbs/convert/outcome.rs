//! The result of a conversion, for people.

use crate::cli::verbs::convert::Detail;
use apr_engine::convert::verify::EncodedPayload;
use apr_engine::values::loss::Measured;
use apr_host::convert::Converted;
use apr_host::sizes::{show_number_of, show_share, show_size};
use apr_sdk::escape;
use std::fmt;

/// The result of a conversion, for people.
pub struct Shown<'a>(pub &'a Converted, pub Detail);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(done, detail) = *self;
        let tensors = show_number_of(done.tensors, "tensor");
        let seconds = show_seconds(done.seconds);
        match &done.files[..] {
            [file] => {
                let size = show_size(file.bytes);
                writeln!(f, "wrote {}: {size}, {tensors}, {seconds}", escape(&file.path, 400))?;
            }
            files => {
                for file in files {
                    writeln!(f, "wrote {}: {}", escape(&file.path, 400), show_size(file.bytes))?;
                }
                let number = show_number_of(files.len(), "file");
                writeln!(f, "total: {number}, {}, {tensors}, {seconds}", show_size(done.bytes))?;
            }
        }
        if !done.verified.is_empty() {
            writeln!(f, "verified: {}", done.verified.join(", "))?;
        }
        if let Some(quantized) = done.quantized.as_ref().filter(|quantized| !quantized.tensors.is_empty()) {
            writeln!(f, "{}", show_loss(quantized.tensors.len(), &quantized.total))?;
        }
        if let Some(EncodedPayload { tensors, bytes, raw_bytes }) = done.compressed {
            let sizes = format!("{} in {}", show_size(raw_bytes), show_size(bytes));
            let tensors = show_number_of(tensors, "tensor");
            writeln!(f, "compressed: {tensors}, {sizes} ({})", show_share(bytes, raw_bytes))?;
        }
        done.notes.iter().try_for_each(|note| writeln!(f, "note: {}", escape(note, 1000)))?;
        if detail == Detail::All {
            for finding in &done.looked.findings {
                let name = escape(&finding.tensor, 120);
                let message = escape(&finding.message, 1000);
                writeln!(f, "finding: {name}: {message} [{}]", finding.code)?;
            }
            done.coverage.lines().try_for_each(|line| writeln!(f, "{}", escape(&line, 1000)))?;
        }
        Ok(())
    }
}

/// The effect of quantization on all tensors together.
fn show_loss(tensors: usize, total: &Measured) -> String {
    let Measured { rmse, max_abs_error, snr_db, cosine, bits_per_weight, not_finite, .. } = total;
    let tensors = show_number_of(tensors, "tensor");
    let mut line = format!("quantized: {tensors}, {bits_per_weight:.2} bits per weight, RMSE {rmse:.3e}");
    line += &format!(", max error {max_abs_error:.3e}");
    line += &match snr_db {
        Some(snr) => format!(", SNR {snr:.1} dB"),
        None if *not_finite == 0 => ", lossless".to_owned(),
        None => String::new(),
    };
    if *not_finite > 0 {
        line += &format!(
            ", {} non-finite",
            show_number_of(usize::try_from(*not_finite).unwrap_or(usize::MAX), "value")
        );
    }
    line + &cosine.map_or(String::new(), |cosine| format!(", cosine {cosine:.6}"))
}

/// `0.04 s`, `3 m 12 s`, `2 h 5 m`.
fn show_seconds(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.2} s");
    }
    let whole = std::time::Duration::from_secs_f64(seconds).as_secs();
    match whole / 3600 {
        0 => format!("{} m {} s", whole / 60, whole % 60),
        hours => format!("{hours} h {} m", whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::show_seconds;

    #[test]
    fn times_are_short() {
        assert_eq!(
            [0.042, 59.0, 192.4, 7500.0].map(show_seconds),
            ["0.04 s", "59.00 s", "3 m 12 s", "2 h 5 m"]
        );
    }
}
