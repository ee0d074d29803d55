//! `apr imatrix show`: what is in an importance matrix?

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::kernels::rows::aligned;
use apr_engine::types::quantize::read_sums;
use apr_engine::wording::n_of;
use apr_inference::importance::{Statistics, layer_of, rescale, statistics};
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Tokens of a window where the file does not say it.
const WINDOW: u32 = 512;

/// Show statistics of an importance matrix
///
/// Prints for each tensor what llama-imatrix --show-statistics prints: sum, minimum,
/// maximum, mean and standard deviation of the mean squares of its columns, the
/// share of columns above 1e-5, the entropy of their shares (in bits, and of what
/// equal columns would have), the share of columns more than a standard deviation
/// above the mean (ZD), and the cosine with the same tensor of the layer before.
/// The second table has means over the tensors of each layer, weighted by their
/// columns.
///
/// Examples:
///   apr imatrix show imatrix.gguf
///   apr imatrix show imatrix.dat --json | jq '.tensors[] | select(.similarity < 0.5)'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Importance matrix
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The statistics. JSON: `file`, `chunks`, `chunk_size` (0 if the file does not say it), `datasets`; `tensors`, each with
/// `name`, `layer` (or null), `columns`, `matrices`, `with_data` (matrices that have data), `count` (rows of the matrix that
/// has most), `sum`, `min`, `max`, `mean`, `std`, `active`, `entropy`, `entropy_share`, `zd`, `similarity` (null without a
/// layer before); `layers`, each with `layer`, `sum`, `zd`, `similarity`; `without_data`, names of tensors.
#[derive(Debug, Serialize)]
pub struct Shown {
    file: String,
    chunks: u32,
    chunk_size: u32,
    datasets: Vec<String>,
    tensors: Vec<Row>,
    layers: Vec<Layer>,
    without_data: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    layer: Option<u64>,
    columns: usize,
    matrices: usize,
    with_data: usize,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    mean: f64,
    std: f64,
    active: f64,
    entropy: f64,
    entropy_share: f64,
    zd: f64,
    similarity: Option<f64>,
}

impl From<Statistics> for Row {
    fn from(one: Statistics) -> Row {
        Row {
            layer: layer_of(&one.name).0,
            name: one.name,
            columns: one.columns,
            matrices: one.matrices,
            with_data: one.with_data,
            count: one.count,
            sum: one.total,
            min: one.min,
            max: one.max,
            mean: one.mean,
            std: one.deviation,
            active: one.active,
            entropy: one.entropy,
            entropy_share: one.entropy_share,
            zd: one.outliers,
            similarity: one.similarity,
        }
    }
}

/// Means over the tensors of a layer, weighted by their columns with data.
#[derive(Debug, Serialize)]
struct Layer {
    layer: u64,
    sum: f64,
    zd: f64,
    similarity: f64,
}

/// Reads the file and computes.
///
/// # Errors
/// As [`read_sums`]; Malformed for a file without data.
pub fn run(args: &Args, context: &Context) -> Result<Shown> {
    let host = context.host();
    let file = args.file.display().to_string();
    let mut sums = read_sums(&host, &args.file)?;
    let chunk_size = sums.chunk_size;
    rescale(&mut sums, WINDOW);
    let rows: Vec<Row> = statistics(&sums.tensors).into_iter().map(Row::from).collect();
    if rows.is_empty() {
        let error = Error::malformed("the importance matrix has no data: all its counts are 0");
        return Err(error.in_file(file).hint("collect it again over a text"));
    }
    let has_none = |counts: &[u64]| counts.iter().all(|count| *count == 0);
    let without_data = sums.tensors.iter().filter(|tensor| has_none(&tensor.counts));
    Ok(Shown {
        file,
        chunks: sums.chunks,
        chunk_size,
        datasets: sums.datasets,
        layers: layers(&rows),
        without_data: without_data.map(|tensor| tensor.name.clone()).collect(),
        tensors: rows,
    })
}

fn layers(rows: &[Row]) -> Vec<Layer> {
    let mut all: BTreeMap<u64, [f64; 4]> = BTreeMap::new();
    for row in rows {
        let Some(layer) = row.layer else { continue };
        #[allow(clippy::cast_precision_loss, reason = "columns are far below 2^53")]
        let weight = (row.columns * row.with_data) as f64;
        let sums = all.entry(layer).or_default();
        for (sum, value) in sums.iter_mut().zip([1.0, row.sum, row.zd, row.similarity.unwrap_or(0.0)]) {
            *sum += weight * value;
        }
    }
    let layers = all.into_iter().map(|(layer, [weight, sum, zd, similarity])| Layer {
        layer,
        sum: sum / weight,
        zd: zd / weight,
        similarity: similarity / weight,
    });
    layers.collect()
}

impl Report for Shown {
    fn json(&self) -> Result<Json> {
        with_schema("apr.imatrix.show/1", self)
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", escape(&self.file, 200), n_of(self.tensors.len(), "tensor"))?;
        if self.chunks > 0 {
            write!(f, ", {}", n_of(usize::try_from(self.chunks).unwrap_or(usize::MAX), "window"))?;
        }
        if self.chunk_size > 0 {
            write!(f, " of {} tokens", self.chunk_size)?;
        }
        let texts: Vec<String> = self.datasets.iter().map(|name| escape(name, 80)).collect();
        if !texts.is_empty() {
            write!(f, " of {}", texts.join(", "))?;
        }
        f.write_str("\n\n")?;
        let head = [
            "layer", "tensor", "sum", "min", "max", "mean", "std", "active", "columns", "count", "entropy",
            "of equal", "ZD", "cosine",
        ];
        let mut lines = vec![head.map(str::to_owned)];
        for row in &self.tensors {
            let columns = match row.matrices {
                1 => row.columns.to_string(),
                _ => format!("{}×{}", row.with_data, row.columns),
            };
            lines.push([
                row.layer.map_or("-".to_owned(), |layer| layer.to_string()),
                escape(layer_of(&row.name).1, 60),
                format!("{:.2}", row.sum),
                format!("{:.4}", row.min),
                format!("{:.4}", row.max),
                format!("{:.4}", row.mean),
                format!("{:.4}", row.std),
                format!("{:.2}%", row.active * 100.0),
                columns,
                row.count.to_string(),
                format!("{:.4}", row.entropy),
                format!("{:.2}%", row.entropy_share * 100.0),
                format!("{:.2}%", row.zd * 100.0),
                row.similarity.map_or("-".to_owned(), |cosine| format!("{cosine:.4}")),
            ]);
        }
        f.write_str(&aligned(&lines))?;
        if !self.layers.is_empty() {
            let mut lines = vec![["layer", "sum", "ZD", "cosine"].map(str::to_owned)];
            for layer in &self.layers {
                lines.push([
                    layer.layer.to_string(),
                    format!("{:.2}", layer.sum),
                    format!("{:.4}%", layer.zd * 100.0),
                    format!("{:.4}", layer.similarity),
                ]);
            }
            write!(f, "\n{}", aligned(&lines))?;
        }
        match self.without_data.split_first() {
            None => Ok(()),
            Some((first, rest)) => {
                let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
                writeln!(f, "\nwithout data: {}{more}", escape(first, 80))
            }
        }
    }
}
