//! The output of `apr imatrix`.

use super::sums_so_far::SumsSoFar;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::wording::n_of;
use apr_host::running::Facts;
use apr_host::sizes::show_size;
use apr_sdk::{ImportanceSums, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::time::Duration;

/// The file that was written. JSON: `output`, `bytes`, `tensors`, `chunks` (windows that the file covers now), `chunk_size`,
/// `datasets`, `without_data` (tensors with experts that no token chose: `tensor`, `matrices` of which `missing`); and unless
/// files were only merged, `run`: `architecture`, `type`, `backend`, `device`, `windows` and `tokens` that ran now, `seconds`,
/// `tokens_per_second`.
#[derive(Debug, Serialize)]
pub struct Collected {
    output: String,
    bytes: usize,
    tensors: usize,
    chunks: u32,
    chunk_size: u32,
    datasets: Vec<String>,
    without_data: Vec<Missing>,
    run: Option<Run>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Missing {
    tensor: String,
    matrices: usize,
    missing: usize,
}

/// What ran.
#[derive(Debug, Serialize)]
pub struct Run {
    architecture: String,
    #[serde(rename = "type")]
    dtype: String,
    backend: String,
    device: String,
    windows: usize,
    tokens: u64,
    seconds: f64,
    tokens_per_second: f64,
}

impl Run {
    /// So many windows that ran in this time.
    pub fn new(facts: &Facts, windows: usize, window: u32, time: Duration) -> Run {
        let tokens = windows as u64 * u64::from(window);
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let rate = tokens as f64 / time.as_secs_f64();
        Run {
            architecture: facts.architecture.clone(),
            dtype: facts.dtype.to_string(),
            backend: facts.backend.clone(),
            device: facts.device.clone(),
            windows,
            tokens,
            seconds: time.as_secs_f64(),
            tokens_per_second: rate,
        }
    }
}

impl Collected {
    /// The report of a file that was written.
    pub fn new(
        file: &SumsSoFar<'_>,
        sums: &ImportanceSums,
        run: Option<Run>,
        mut warnings: Vec<String>,
    ) -> Collected {
        let mut without_data = Vec::new();
        for tensor in &sums.tensors {
            let missing = tensor.counts.iter().filter(|count| **count == 0).count();
            if missing > 0 {
                let matrices = tensor.counts.len();
                without_data.push(Missing { tensor: tensor.name.clone(), matrices, missing });
            }
        }
        if let Some(first) = without_data.first() {
            warnings.push(format!(
                "{} without data for all experts, such as `{}` for {} of {}: use a longer text, or expect these \
                 experts to be quantized as if all their columns were alike",
                n_of(without_data.len(), "tensor"),
                escape(&first.tensor, 80),
                first.missing,
                first.matrices
            ));
        }
        Collected {
            output: file.path().display().to_string(),
            bytes: file.bytes.unwrap_or(0),
            tensors: sums.tensors.len(),
            chunks: sums.chunks,
            chunk_size: sums.chunk_size,
            datasets: sums.datasets.clone(),
            without_data,
            run,
            warnings,
        }
    }
}

impl Report for Collected {
    fn json(&self) -> Result<Json> {
        with_schema("apr.imatrix/1", self)
    }

    fn quiet(&self) -> String {
        String::new()
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn done(&self) -> Option<&'static str> {
        Some("the importance matrix was written")
    }
}

impl fmt::Display for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(run) = &self.run {
            writeln!(
                f,
                "{} {} on {} ({}): {} of {} tokens in {:.1} s, {:.0} tokens/s",
                escape(&run.architecture, 40),
                run.dtype,
                run.backend,
                escape(&run.device, 80),
                n_of(run.windows, "window"),
                self.chunk_size,
                run.seconds,
                run.tokens_per_second
            )?;
        }
        writeln!(
            f,
            "{}: {}, {} of {} tokens, {}",
            escape(&self.output, 200),
            n_of(self.tensors, "tensor"),
            n_of(usize::try_from(self.chunks).unwrap_or(usize::MAX), "window"),
            self.chunk_size,
            show_size(self.bytes as u64)
        )
    }
}
