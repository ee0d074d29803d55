//! `apr derives`: a quantized model held against its original.

use crate::cli::context::Context;
use crate::cli::flags::remote_args::RemoteArgs;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::diff::derivation::{Derivation, Derived, DerivedTensor, Verdict};
use apr_engine::types::quantize::NearestRecipe;
use apr_host::sizes::show_number_of;
use apr_host::storage::staged_file::temporary_scratch;
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;

/// Check that a quantized model was made from another model
///
/// Every tensor of QUANTIZED is made again: ORIGINAL gets its types, tensor by
/// tensor, without the importance matrix and, if one is given, with it, and the
/// blocks are compared. A tensor is `identical`, or differs by `rounding` only (at
/// least 99.9 % of its blocks are equal, and no value is further off than one step
/// of its block), or is `different`, or could not be judged. Exit 0 if all are
/// identical or differ by rounding, and none of ORIGINAL is absent, else 5.
///
/// A step is the least distance between two of the values near a value, as made
/// again. Metadata is not judged. Nothing is written.
///
/// Examples:
///   apr derives model-Q4_K_M.gguf --from model/
///   apr derives model-IQ2_M.gguf --from model-F16.gguf --imatrix imatrix.gguf
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Quantized model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "QUANTIZED")]
    quantized: PathBuf,
    /// Model that it is said to be made from
    #[arg(long = "from", value_name = "ORIGINAL")]
    original: PathBuf,
    /// Importance matrix that it was made with (GGUF or .dat)
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Architecture of the original; `none` keeps all names and rows unchanged
    #[arg(long, value_name = "ID")]
    arch: Option<String>,
    /// Where models that are elsewhere come from.
    #[command(flatten)]
    pub remote: RemoteArgs,
}

/// The judgement. JSON: `quantized`, `original`, `derives`, `counts` of tensors by verdict, `recipe` (`recipe`,
/// `with_importance`, `compared` and `differing` tensors) or null, `tensors` (each `name`, `dtype`, `verdict`,
/// `with_importance`, `blocks`, `equal`, `steps`, `reason`), `absent`, the names of tensors that only the original has.
#[derive(Debug, Serialize)]
pub struct Judged {
    quantized: String,
    original: String,
    derives: bool,
    counts: Counts,
    #[serde(flatten)]
    derived: Derived,
    /// True if every tensor is listed, not only those that are not identical.
    #[serde(skip)]
    all: bool,
}

/// Number of tensors with each verdict.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
struct Counts {
    identical: usize,
    rounding: usize,
    different: usize,
    not_judged: usize,
}

/// Makes the tensors again and compares.
///
/// # Errors
/// As [`Derivation::judge`]; a judgement of "no" is the report's verdict.
pub fn run(args: &Args, context: &Context) -> Result<Judged> {
    let host = context.host();
    let derivation = Derivation {
        quantized: args.quantized.clone(),
        original: args.original.clone(),
        importance: args.imatrix.clone(),
        arch: args.arch.clone(),
    };
    let derived = derivation.judge(&host, &temporary_scratch)?;
    let mut counts = Counts::default();
    for tensor in &derived.tensors {
        match tensor.verdict {
            Verdict::Identical => counts.identical += 1,
            Verdict::Rounding => counts.rounding += 1,
            Verdict::Different => counts.different += 1,
            Verdict::NotJudged => counts.not_judged += 1,
        }
    }
    Ok(Judged {
        quantized: args.quantized.display().to_string(),
        original: args.original.display().to_string(),
        derives: counts.different == 0 && counts.not_judged == 0 && derived.absent.is_empty(),
        counts,
        derived,
        all: context.terminal.verbose > 0,
    })
}

impl Report for Judged {
    fn json(&self) -> Result<Json> {
        with_schema("apr.derivation/1", self)
    }

    fn quiet(&self) -> String {
        String::new()
    }

    fn verdict(&self) -> Result<()> {
        let message = match self.counts {
            _ if self.derives => return Ok(()),
            Counts { different: 0, not_judged: 0, .. } => {
                let first = self.derived.absent.first().map_or("", String::as_str);
                let absent = show_number_of(self.derived.absent.len(), "tensor");
                format!("it lacks {absent} of the original, such as `{}`", escape(first, 120))
            }
            Counts { different: 0, not_judged, .. } => {
                format!("{} could not be judged", show_number_of(not_judged, "tensor"))
            }
            Counts { different, .. } => {
                let original = escape(&self.original, 400);
                format!("it was not made so from {original}: {} differ", show_number_of(different, "tensor"))
            }
        };
        let error = Error::failed(message).in_file(&self.quantized);
        Err(error.hint("`apr diff` of both shows by how much they differ"))
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.derived.recipe {
            Some(NearestRecipe { recipe, differing: 0, .. }) => writeln!(f, "types    those of {recipe}")?,
            Some(NearestRecipe { recipe, differing, compared, .. }) => {
                writeln!(f, "types    nearest to {recipe}: {differing} of {compared} tensors have others")?;
            }
            None => writeln!(f, "types    those of no recipe")?,
        }
        for tensor in &self.derived.tensors {
            if self.all || tensor.verdict != Verdict::Identical {
                show(f, tensor)?;
            }
        }
        if !self.derived.absent.is_empty() {
            writeln!(
                f,
                "absent     {} of the original",
                show_number_of(self.derived.absent.len(), "tensor")
            )?;
        }
        let Counts { identical, rounding, different, not_judged } = self.counts;
        writeln!(
            f,
            "{}: {identical} identical, {rounding} by rounding, {different} different, {not_judged} not judged",
            show_number_of(self.derived.tensors.len(), "tensor")
        )
    }
}

/// Writes a tensor's line.
fn show(f: &mut fmt::Formatter<'_>, tensor: &DerivedTensor) -> fmt::Result {
    let word = match tensor.verdict {
        Verdict::Identical => "identical",
        Verdict::Rounding => "rounding",
        Verdict::Different => "different",
        Verdict::NotJudged => "not judged",
    };
    write!(f, "{word:10} {} {}", tensor.dtype, escape(&tensor.name, 200))?;
    if let Some(reason) = &tensor.reason {
        return writeln!(f, ": {}", escape(reason, 400));
    }
    write!(f, ": {} of {} blocks equal", tensor.equal, tensor.blocks)?;
    if let Some(steps) = tensor.steps {
        write!(f, ", at most {steps:.1} steps off")?;
    }
    let with = if tensor.with_importance { ", with the importance matrix" } else { "" };
    writeln!(f, "{with}")
}
