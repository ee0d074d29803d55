//! `apr diff`: are these two models the same?

use crate::cli::context::Context;
use crate::cli::flags::mapping::read_mapping;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::metadata;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::diff::{
    Counts, Diff, DiffOptions, Fact, FactKind, FactValue, Status, TensorDiff, Values, diff,
};
use apr_engine::open::{OpenedModel, check_options};
use apr_host::sizes::{show_count, show_number_of};
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;

/// Compare two models, in the same format or different ones
///
/// Tensors are paired by name and compared value by value, whatever the two
/// formats are; a tensor with another name but the same content is a rename.
/// Two models are the same if the names, types, shapes and bytes of all tensors
/// are the same, their metadata and tokenizers too. What only one of the two
/// formats can hold is listed and does not count. With --tolerance only values
/// count, and a different type is no difference.
///
/// Models in two dialects, such as a folder and the GGUF converted from it, are
/// compared with the names, rows and values of one of them, if a table
/// translates them. Equal values of another type are then no difference, nor
/// are values rounded to the nearest of a narrower float; both are counted.
///
/// Distances: max and mean of |a - b|; l2, the root of the sum of squares;
/// relative, l2 over the larger norm of the two; cosine; ulp, the largest
/// number of representable values between two floats of the same type. NaN
/// and infinity are counted separately, and are equal to themselves.
///
/// Examples:
///   apr diff model.gguf model.apr
///   apr diff f32.safetensors f16.safetensors --tolerance 0.001
///   apr diff old.gguf new.gguf --json | jq '.tensors | first'
///   apr diff a/ b.safetensors --tensor-mapping names.toml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// First model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Second model
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Compare only values, and ignore differences up to ABS
    #[arg(long, value_name = "ABS", value_parser = parse_tolerance, allow_negative_numbers = true)]
    tolerance: Option<f64>,
    /// Pair tensors according to this TOML file: "name in A" = "name in B"
    #[arg(long, value_name = "FILE")]
    tensor_mapping: Option<PathBuf>,
    /// Show at most N differences of each kind, largest first
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Show packed weights as they are stored: codes, scales and tables
    #[arg(long)]
    raw: bool,
    /// How the models are opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

fn parse_tolerance(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("expected a tolerance: a number that is not negative".to_owned()),
    }
}

/// The differences found. JSON: `same`; `a` and `b` (`path`, `format`, `tensors`); `tolerance`; `counts` of tensors by
/// status; `tensors`, all that are not identical, the most different first (`status`, `matters`, `a` and `b` with
/// `name`, `dtype` and `shape`, and `values` or `values_missing`, `rounded_to`); `notes`; `facts`, every other
/// difference (`kind`, `format`, `file`, `key`, `a`, `b`, `matters`). `matters` says whether it makes the models
/// different; `--top` cuts the text only.
#[derive(Debug, Serialize)]
pub struct Compared {
    same: bool,
    a: ModelSide,
    b: ModelSide,
    tolerance: Option<f64>,
    counts: Counts,
    tensors: Vec<TensorDiff>,
    facts: Vec<FactRow>,
    notes: Vec<String>,
    warnings: Vec<String>,
    #[serde(skip)]
    top: usize,
}

#[derive(Debug, Serialize)]
struct ModelSide {
    path: String,
    format: String,
    tensors: usize,
}

/// One difference besides the tensors, ready to be shown.
#[derive(Debug, Serialize)]
struct FactRow {
    kind: FactKind,
    #[serde(skip_serializing_if = "String::is_empty")]
    format: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    file: String,
    key: String,
    a: Json,
    b: Json,
    matters: bool,
    #[serde(skip)]
    shown: [Option<String>; 2],
}

/// Opens both models and compares them.
///
/// # Errors
/// What opening and reading raised; InvalidArgument for a mapping that does not fit. That the models differ is the
/// report's verdict.
pub fn run(args: &Args, context: &Context) -> Result<Compared> {
    let mapping = args.tensor_mapping.as_deref().map_or(Ok(Vec::new()), read_mapping)?;
    let host = context.host();
    let open = args.open.shown(args.raw);
    let a = open.open(&host, &args.a)?;
    let b = open.open(&host, &args.b)?;
    let formats = [host.registry.format(&a.format)?, host.registry.format(&b.format)?];
    check_options(&host.registry, &formats, &args.open.options)?;
    let options = DiffOptions { mapping, tolerance: args.tolerance, unrounded: false };
    let Diff { same, counts, tensors, facts, notes } = diff(&host, &a, &b, &options)?;
    let n_items = context.settings.number("inspect.max_tokens_display");
    let facts = facts.iter().map(|fact| row(&a, &b, fact, n_items)).collect::<Result<_>>()?;
    Ok(Compared {
        same,
        a: side(&a),
        b: side(&b),
        tolerance: args.tolerance,
        counts,
        tensors,
        facts,
        notes,
        warnings: a.warnings.iter().chain(&b.warnings).cloned().collect(),
        top: args.top,
    })
}

fn side(opened: &OpenedModel) -> ModelSide {
    ModelSide {
        path: opened.path.display().to_string(),
        format: opened.format.clone(),
        tensors: opened.model.tensors.len(),
    }
}

fn row(a: &OpenedModel, b: &OpenedModel, fact: &Fact, n_items: usize) -> Result<FactRow> {
    let (one, text_a) = json_and_text(a, fact.a.as_ref(), n_items)?;
    let (two, text_b) = json_and_text(b, fact.b.as_ref(), n_items)?;
    Ok(FactRow {
        kind: fact.kind,
        format: fact.format.clone(),
        file: fact.file.clone(),
        key: fact.key.clone(),
        a: one,
        b: two,
        matters: fact.matters,
        shown: [text_a, text_b],
    })
}

fn json_and_text(
    opened: &OpenedModel,
    value: Option<&FactValue>,
    n_items: usize,
) -> Result<(Json, Option<String>)> {
    Ok(match value {
        None => (Json::Null, None),
        Some(FactValue::Text(text)) => (Json::from(text.as_str()), Some(escape(text, 200))),
        Some(FactValue::Json(json)) => (json.clone(), Some(escape(&json.to_string(), 100))),
        Some(FactValue::Bytes(len)) => {
            (serde_json::json!({ "bytes": len }), Some(format!("{} bytes", show_count(u128::from(*len)))))
        }
        Some(FactValue::Typed(value)) => {
            let shown = metadata::shown(opened, value, n_items)?;
            (shown.json, Some(format!("{} {}", shown.kind, shown.text)))
        }
    })
}

impl Report for Compared {
    fn json(&self) -> Result<Json> {
        with_schema("apr.diff/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn quiet(&self) -> String {
        String::new()
    }

    fn verdict(&self) -> Result<()> {
        if self.same {
            return Ok(());
        }
        let c = &self.counts;
        let equal = self.tensors.iter().filter(|t| t.status == Status::Equal && t.matters).count() as u64;
        let tensors = c.different + c.shape + c.dtype + c.renamed + c.only_in_a + c.only_in_b + equal;
        let facts = self.facts.iter().filter(|fact| fact.matters).count();
        let mut what = Vec::new();
        if tensors > 0 {
            what.push(show_number_of(usize::try_from(tensors).unwrap_or(usize::MAX), "tensor"));
        }
        if facts > 0 {
            what.push(show_number_of(facts, "other difference"));
        }
        Err(Error::failed(format!("the models differ: {}", what.join(", "))))
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, side) in [("a", &self.a), ("b", &self.b)] {
            let tensors = show_number_of(side.tensors, "tensor");
            writeln!(f, "{word}: {} ({}), {tensors}", escape(&side.path, 400), side.format)?;
        }
        let c = &self.counts;
        let counts = [
            (c.identical, "identical"),
            (c.equal, "equal in value"),
            (c.rounded, "equal after rounding"),
            (c.within_tolerance, "within the tolerance"),
            (c.different, "different"),
            (c.shape, "of different shape"),
            (c.dtype, "of different type"),
            (c.renamed, "renamed"),
            (c.only_in_a, "only in a"),
            (c.only_in_b, "only in b"),
        ];
        let shown: Vec<_> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", show_count(u128::from(*count))))
            .collect();
        writeln!(f, "tensors: {}", if shown.is_empty() { "none".to_owned() } else { shown.join(", ") })?;
        for status in STATUSES {
            let all: Vec<&TensorDiff> = self.tensors.iter().filter(|t| t.status == *status).collect();
            self.list(f, &all, |f, tensor| show_tensor(f, tensor))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {}", escape(note, 400)))?;
        for matters in [true, false] {
            let all: Vec<&FactRow> = self.facts.iter().filter(|fact| fact.matters == matters).collect();
            if !all.is_empty() {
                writeln!(f, "{}", if matters { "also different" } else { "not counted" })?;
            }
            self.list(f, &all, |f, fact| show_fact(f, fact))?;
        }
        match (self.same, self.rounded_to()) {
            (true, Some(types)) => writeln!(f, "the same except for rounding to {types}"),
            (true, None) => writeln!(f, "the same"),
            (false, _) => writeln!(f, "different"),
        }
    }
}

/// The order in which they are told.
const STATUSES: &[Status] = &[
    Status::OnlyInA,
    Status::OnlyInB,
    Status::Renamed,
    Status::Shape,
    Status::Dtype,
    Status::Different,
    Status::WithinTolerance,
    Status::Rounded,
    Status::Equal,
];

impl Compared {
    /// The types that values were rounded to, in words.
    fn rounded_to(&self) -> Option<String> {
        let mut types: Vec<&str> = self.tensors.iter().filter_map(|t| t.rounded_to.as_deref()).collect();
        types.sort_unstable();
        types.dedup();
        (!types.is_empty()).then(|| types.join(" and "))
    }

    fn list<T>(
        &self,
        f: &mut fmt::Formatter<'_>,
        all: &[T],
        show: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
    ) -> fmt::Result {
        all.iter().take(self.top).try_for_each(|one| show(f, one))?;
        if all.len() > self.top {
            writeln!(f, "  … {} more (--top shows more)", show_count((all.len() - self.top) as u128))?;
        }
        Ok(())
    }
}

fn show_tensor(f: &mut fmt::Formatter<'_>, tensor: &TensorDiff) -> fmt::Result {
    let sides = [&tensor.a, &tensor.b].map(Option::as_ref);
    let [name_a, name_b] = sides.map(|side| side.map(|side| escape(&side.name, 400)).unwrap_or_default());
    let [kind_a, kind_b] =
        sides.map(|side| side.map(|side| format!("{} {:?}", side.dtype, side.shape)).unwrap_or_default());
    let names = if name_a == name_b { name_a.clone() } else { format!("{name_a} -> {name_b}") };
    let kinds = if kind_a == kind_b { kind_a.clone() } else { format!("{kind_a} and {kind_b}") };
    match tensor.status {
        Status::OnlyInA => write!(f, "  only in a  {name_a}  {kind_a}")?,
        Status::OnlyInB => write!(f, "  only in b  {name_b}  {kind_b}")?,
        Status::Renamed => write!(f, "  renamed    {names}  {kinds}")?,
        Status::Shape => write!(f, "  shape      {names}  {kinds}")?,
        Status::Dtype => write!(f, "  type       {names}  {kinds}")?,
        Status::Different => write!(f, "  different  {names}  {kinds}")?,
        Status::WithinTolerance => write!(f, "  tolerated  {names}  {kinds}")?,
        Status::Rounded => write!(f, "  rounded    {names}  {kinds}")?,
        Status::Equal => write!(f, "  equal      {names}  {kinds}")?,
    }
    if let Some(dtype) = &tensor.rounded_to {
        write!(f, "  every value is rounded to the nearest {dtype}")?;
    }
    if let Some(values) = &tensor.values {
        show_values(f, values)?;
    }
    if let Some(reason) = &tensor.values_missing {
        write!(f, "  {reason}")?;
    }
    writeln!(f)
}

fn show_values(f: &mut fmt::Formatter<'_>, values: &Values) -> fmt::Result {
    write!(f, "\n             ")?;
    if values.finite == 0 {
        write!(f, "no pair of finite values")?;
    } else {
        show_distances(f, values)?;
    }
    let differing = show_count(u128::from(values.differing));
    write!(f, "  differing {differing} of {}", show_count(u128::from(values.count)))?;
    for (counts, what) in [(values.nans, "nans"), (values.infs, "infs")] {
        if counts != [0, 0] {
            write!(f, "  {what} {} and {}", counts[0], counts[1])?;
        }
    }
    Ok(())
}

fn show_distance(distance: f64) -> String {
    match distance.is_finite() {
        true => format!("{distance:.4e}"),
        false => format!("over {:.4e}", f64::MAX),
    }
}

fn show_distances(f: &mut fmt::Formatter<'_>, values: &Values) -> fmt::Result {
    write!(f, "max {} at {:?}", show_distance(values.max_abs), values.max_at)?;
    write!(f, "  mean {}  l2 {}", show_distance(values.mean_abs), show_distance(values.l2))?;
    write!(f, "  relative {:.4e}", values.relative)?;
    if let Some(cosine) = values.cosine {
        write!(f, "  cosine {cosine:.6}")?;
    }
    if let Some(ulp) = values.max_ulp {
        write!(f, "  ulp {}", show_count(u128::from(ulp)))?;
    }
    Ok(())
}

fn show_fact(f: &mut fmt::Formatter<'_>, fact: &FactRow) -> fmt::Result {
    let kind = match fact.kind {
        FactKind::Dialect => "dialect",
        FactKind::Recipe => "recipe",
        FactKind::Architecture => "architecture",
        FactKind::Config => "config",
        FactKind::Tokenizer => "tokenizer",
        FactKind::Asset => "asset",
        FactKind::Metadata => "metadata",
        FactKind::Order => return writeln!(f, "  tensor order"),
    };
    write!(f, "  {kind}")?;
    let place: Vec<_> = [&fact.format, &fact.file]
        .into_iter()
        .filter(|word| !word.is_empty())
        .map(|w| escape(w, 200))
        .collect();
    if !place.is_empty() {
        write!(f, " ({})", place.join(", "))?;
    }
    if !fact.key.is_empty() {
        write!(f, " {}", escape(&fact.key, 200))?;
    }
    match &fact.shown {
        [Some(a), Some(b)] => writeln!(f, ": {a} and {b}"),
        [Some(a), None] => writeln!(f, ": {a}, only in a"),
        [None, Some(b)] => writeln!(f, ": {b}, only in b"),
        [None, None] => writeln!(f),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances_are_numbers_that_are_not_negative() {
        assert_eq!(parse_tolerance("1e-3"), Ok(0.001));
        for bad in ["-1", "nan", "inf", "x", ""] {
            assert!(parse_tolerance(bad).is_err(), "{bad}");
        }
    }
}
