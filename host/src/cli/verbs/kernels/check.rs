//! `apr kernels check`: does a device compute what it should?

use super::DeviceArgs;
use super::blocks::Packing;
use super::rows::aligned;
use super::verdicts::{Counts, Row};
use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_inference::check::cases;
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// Compare every operation of a device with plain 64-bit arithmetic
///
/// Each operation runs as a program of its own over random data, with every type
/// of weights that it takes. Weights are compared as stored: what remains is the
/// rounding of the device's arithmetic and of its activations, for which there
/// is a bound. Exit 5 if an error exceeds its bound.
///
/// Examples:
///   apr kernels check
///   apr kernels check --backend-option level=avx2
///   apr kernels check --json | jq '.cases[] | select(.share > 0.5)'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Which device.
    #[command(flatten)]
    device: DeviceArgs,
    /// Check only operations whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// The findings. JSON: `backend`, `device` (its name), and `cases`, each with `operation`, `type`, `form`, the largest
/// `error` relative to its bound, that `bound`, `share` of both, and `result`: `right`, `wrong`, `unsupported` with its
/// `reason`, or `failed` with it; `counts` has the number of each.
#[derive(Debug, Serialize)]
pub struct Checked {
    backend: String,
    device: String,
    counts: Counts,
    cases: Vec<Row>,
}

/// Runs all cases.
///
/// # Errors
/// As opening the device; InvalidArgument if `--only` leaves nothing; Cancelled.
pub fn run(args: &Args, context: &Context) -> Result<Checked> {
    let host = context.host();
    let opened = args.device.open(&host)?;
    let mut chosen = cases(&Packing::of(&host.registry))?;
    if let Some(text) = &args.only {
        chosen.retain(|case| case.operation.contains(text.as_str()));
    }
    if chosen.is_empty() {
        return Err(Error::invalid_argument("no operation has this in its name")
            .hint("run `apr kernels check` to see all names"));
    }
    let mut rows = Vec::new();
    for case in &chosen {
        host.check_cancelled()?;
        rows.push(Row::of(opened.device.as_ref(), &opened.team, case));
    }
    let counts = Counts::of(&rows);
    Ok(Checked { backend: opened.backend, device: opened.info.name, counts, cases: rows })
}

impl Report for Checked {
    fn json(&self) -> Result<Json> {
        with_schema("apr.kernels.check/1", self)
    }

    fn quiet(&self) -> String {
        String::new()
    }

    fn verdict(&self) -> Result<()> {
        let bad = self.counts.bad();
        if bad == 0 {
            return Ok(());
        }
        let all = self.counts.supported();
        Err(Error::failed(format!("{bad} of {all} checks failed on {}", escape(&self.device, 80)))
            .hint("do not trust results from this device; report the output of `apr kernels check --json`"))
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2e}"))
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["operation", "type", "form", "max error", "bound", "result"].map(str::to_owned);
        let mut lines = vec![head];
        for row in &self.cases {
            lines.push([
                row.operation.to_owned(),
                row.dtype.clone(),
                row.form.clone(),
                number(row.error),
                number(row.bound),
                row.in_words(),
            ]);
        }
        f.write_str(&aligned(&lines))?;
        writeln!(f, "{}, on {} ({})", self.counts, self.backend, escape(&self.device, 80))
    }
}
