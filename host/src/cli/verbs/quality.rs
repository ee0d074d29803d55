//! `apr quality`: what a quantized or packed model lost against its original.

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::diff::{DiffOptions, Status, TensorSide, Values, diff};
use apr_engine::open::schemes::scales::pairs;
use apr_engine::open::{OpenedModel, check_options};
use apr_engine::packed::Packed;
use apr_engine::values::double_double::DoubleDouble;
use apr_host::sizes::show_number_of;
use apr_sdk::{DType, Error, Payload, Result, Tensor, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

/// Measure the quantization loss of a quantized or packed model
///
/// Tensors are paired by name, across dialects too, and their values compared:
/// blocks are decoded and packed weights unpacked, to F32. The result has bits
/// per weight in B, the root of the mean squared error (RMSE), the largest error,
/// the signal-to-noise ratio (SNR, in dB: larger is better) and the cosine of
/// the angle between both; the tensors with the largest loss come first. A value
/// that is NaN or infinite in only one of them has no error: such values are
/// counted, and result in exit code 5.
///
/// Examples:
///   apr quality model-bf16/ model-fp8/
///   apr quality model.gguf model-q4_k_m.gguf --top 0
///   apr quality model/ model.gguf --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Original model
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Quantized or packed model
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Show at most N tensors; 0 shows only the total
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// How the models are opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

/// The losses. JSON: `a` and `b`, the paths; `tensors`, those whose values differ, worst first (`name`, `from`, `to`,
/// `shape`, `bits_per_weight` (with the scales), `values`, `not_finite`, how many of those are NaN or infinite on a side, `mismatched`,
/// how many of those differ, and over the rest `rmse`, `max_abs_error`, `snr_db`, `cosine`); `equal`, how many others
/// have equal values; `unpaired`, names without a counterpart of the same shape; `total`, over all that were compared.
#[derive(Debug, Serialize)]
pub struct Measured {
    a: String,
    b: String,
    tensors: Vec<Row>,
    equal: usize,
    unpaired: Vec<String>,
    total: Figures,
    warnings: Vec<String>,
    #[serde(skip)]
    top: usize,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    from: String,
    to: String,
    shape: Vec<u64>,
    #[serde(flatten)]
    figures: Figures,
}

/// Errors over some values.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Figures {
    values: u64,
    /// Pairs of values of which one is not finite: they are in none of the errors.
    not_finite: u64,
    /// Number of those that differ.
    mismatched: u64,
    bits_per_weight: f64,
    /// Absent without a pair of finite values, and beyond the range of a float.
    rmse: Option<f64>,
    max_abs_error: Option<f64>,
    snr_db: Option<f64>,
    cosine: Option<f64>,
}

/// Sums that figures are made of.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    values: u64,
    finite: u64,
    mismatched: u64,
    bytes: u64,
    of_values: apr_engine::diff::Sums,
    greatest: f64,
}

impl Sums {
    /// Of a pair of tensors; `bytes` are those that store the second.
    fn of(values: &Values, bytes: u64) -> Sums {
        let Values { count, finite, mismatched, max_abs, sums: of_values, .. } = *values;
        Sums { values: count, finite, mismatched, bytes, of_values, greatest: max_abs }
    }

    fn add(&mut self, more: Sums) {
        self.values += more.values;
        self.finite += more.finite;
        self.mismatched += more.mismatched;
        self.bytes += more.bytes;
        self.of_values.add(&more.of_values);
        self.greatest = self.greatest.max(more.greatest);
    }

    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    fn figures(self) -> Figures {
        let n = DoubleDouble::count(self.finite.max(1));
        let of = self.of_values;
        let known = |value: f64| Some(value).filter(|value| value.is_finite() && self.finite > 0);
        Figures {
            values: self.values,
            not_finite: self.values - self.finite,
            mismatched: self.mismatched,
            bits_per_weight: self.bytes as f64 * 8.0 / self.values.max(1) as f64,
            rmse: known((of.errors / n).sqrt().value()),
            max_abs_error: known(self.greatest),
            snr_db: known(10.0 * (of.squares[0].log10() - of.errors.log10())),
            cosine: of.cosine().and_then(known),
        }
    }
}

/// Opens both models and measures the second against the first.
///
/// # Errors
/// What opening and reading raised; InvalidArgument if no tensor of the one is in the other.
pub fn run(args: &Args, context: &Context) -> Result<Measured> {
    let host = context.host();
    let mut a = args.open.open(&host, &args.a)?;
    let mut b = args.open.open(&host, &args.b)?;
    let formats = [host.registry.format(&a.format)?, host.registry.format(&b.format)?];
    check_options(&host.registry, &formats, &args.open.options)?;
    // Of packed weights the values that they have, before they are rounded to the type of the rest.
    for tensor in a.model.tensors.iter_mut().chain(&mut b.model.tensors) {
        if matches!(tensor.payload, Payload::Packed(_)) {
            tensor.dtype = DType::F32;
        }
    }
    let differences = diff(&host, &a, &b, &DiffOptions { unrounded: true, ..DiffOptions::default() })?;
    let stored = stored(&b.model.tensors)?;
    let mut rows = Vec::new();
    let mut unpaired = Vec::new();
    let mut warnings: Vec<String> = a.warnings.iter().chain(&b.warnings).cloned().collect();
    let mut total = Sums::default();
    for one in &differences.tensors {
        match (&one.a, &one.b, &one.values) {
            (Some(from), Some(to), Some(values)) => {
                let bytes = stored.get(to.name.as_str()).copied().unwrap_or(0);
                let sums = Sums::of(values, bytes);
                total.add(sums);
                if values.differing > 0 {
                    rows.push(row(&b, from, to, sums));
                }
            }
            // Where only bits of zeros differ, no value is measured.
            (Some(_), Some(_), None) if one.status == Status::Equal => {}
            (Some(side), other, None) if other.is_none() || one.matters => {
                unpaired.push(side.name.clone());
                warnings.extend(one.values_missing.clone().filter(|why| !warnings.contains(why)));
            }
            (None, Some(side), _) => unpaired.push(side.name.clone()),
            _ => {}
        }
    }
    let counts = &differences.counts;
    let equal = usize::try_from(counts.identical + counts.equal + counts.rounded).unwrap_or(usize::MAX);
    if rows.is_empty() && equal == 0 {
        let what = "the models have no tensor with the same name and shape in common";
        let warnings = [&a, &b].into_iter().filter(|model| Packed::of(model).is_some());
        if let Some(warning) = warnings.flat_map(|model| &model.warnings).next() {
            return Err(Error::unsupported(format!("{what}; {warning}")));
        }
        let error = Error::invalid_argument(what);
        return Err(error.in_file(args.b.display().to_string()));
    }
    rows.sort_by(|a, b| a.figures.worse_first(&b.figures));
    Ok(Measured {
        a: args.a.display().to_string(),
        b: args.b.display().to_string(),
        tensors: rows,
        equal,
        unpaired,
        total: total.figures(),
        warnings,
        top: args.top,
    })
}

/// Bytes that each tensor takes, by name: of codes, with those of their scales.
fn stored(tensors: &[Tensor]) -> Result<HashMap<&str, u64>> {
    let mut stored: HashMap<&str, u64> = HashMap::new();
    for tensor in tensors {
        stored.insert(&tensor.name, tensor.stored_len()?);
    }
    for (codes, scales) in pairs(tensors) {
        let scales = tensors[scales].stored_len()?;
        stored.entry(&tensors[codes].name).and_modify(|bytes| *bytes = bytes.saturating_add(scales));
    }
    Ok(stored)
}

fn row(b: &OpenedModel, from: &TensorSide, to: &TensorSide, sums: Sums) -> Row {
    let packed = b.model.tensors.iter().find(|tensor| tensor.name == to.name);
    Row {
        name: from.name.clone(),
        from: from.dtype.clone(),
        to: packed.and_then(|tensor| tensor.packed_as()).unwrap_or(&to.dtype).to_owned(),
        shape: to.shape.clone(),
        figures: sums.figures(),
    }
}

impl Report for Measured {
    fn json(&self) -> Result<Json> {
        with_schema("apr.quality/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn verdict(&self) -> Result<()> {
        let lost = self.tensors.iter().filter(|row| row.figures.mismatched > 0);
        let Some(first) = lost.clone().next() else { return Ok(()) };
        let values = show_number_of(usize::try_from(self.total.mismatched).unwrap_or(usize::MAX), "value");
        let tensors = show_number_of(lost.count(), "tensor");
        let message =
            format!("{values} of {tensors} are NaN or infinite in one model but not equal in the other");
        let error = Error::failed(message).in_file(self.b.clone()).tensor(&first.name);
        Err(error.hint("run `apr tensors FILE --stats` on both models to see which one has them"))
    }
}

impl Figures {
    /// Orders by values that are not finite, then what is too large to be measured, then the ratio of signal to noise.
    fn worse_first(&self, other: &Figures) -> Ordering {
        let [own, others] = [self, other].map(|figures| figures.snr_db.unwrap_or(f64::INFINITY));
        (other.mismatched.cmp(&self.mismatched))
            .then(other.rmse.is_none().cmp(&self.rmse.is_none()))
            .then(own.total_cmp(&others))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} bits per weight", self.bits_per_weight)?;
        for (what, error) in [("RMSE", self.rmse), ("max error", self.max_abs_error)] {
            match error {
                Some(error) => write!(f, "  {what} {error:.3e}")?,
                None => write!(f, "  {what} unknown")?,
            }
        }
        self.snr_db.map_or(Ok(()), |snr| write!(f, "  SNR {snr:.1} dB"))?;
        self.cosine.map_or(Ok(()), |cosine| write!(f, "  cosine {cosine:.6}"))?;
        if self.not_finite == 0 {
            return Ok(());
        }
        write!(
            f,
            "  {} of {} values NaN or infinite in A or B, {} of them different in the two",
            self.not_finite, self.values, self.mismatched
        )
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in self.tensors.iter().take(self.top) {
            let name = escape(&row.name, 200);
            writeln!(f, "{name}  {} -> {}  {:?}", row.from, escape(&row.to, 160), row.shape)?;
            writeln!(f, "    {}", row.figures)?;
        }
        let more = self.tensors.len().saturating_sub(self.top);
        if more > 0 && self.top > 0 {
            writeln!(f, "… {more} more (--top shows more)")?;
        }
        let n = show_number_of(self.tensors.len(), "tensor");
        if self.tensors.is_empty() {
            writeln!(f, "no value differs")?;
        } else {
            writeln!(f, "{n} with different values: {}", self.total)?;
        }
        if self.equal > 0 {
            writeln!(
                f,
                "{} with equal values, or rounded to a narrower float",
                show_number_of(self.equal, "tensor")
            )?;
        }
        match self.unpaired.split_first() {
            None => Ok(()),
            Some((first, rest)) => {
                let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
                writeln!(f, "not compared: `{}`{more}", escape(first, 200))
            }
        }
    }
}
