//! The rows of a page's tables: layers, and the tensors of each.

use crate::report::MOST_TENSORS;
use crate::report::histogram::Histogram;
use crate::report::numbers::{percent, show};
use crate::sizes::{show_count, show_number_of, show_size};
use apr_engine::contract::Statistics;
use apr_engine::survey::{Layer, LayerSide, Status, Survey, SurveyedSide, SurveyedTensor};
use apr_sdk::escape;
use serde::Serialize;
use std::collections::BTreeMap;

/// A layer as a row.
#[derive(Debug, Serialize)]
pub struct LayerRow {
    id: usize,
    name: Option<String>,
    tensors: String,
    parameters: String,
    bytes: String,
    types: String,
    figures: Figures,
    /// Size and types in b.
    b: Option<(String, String)>,
    error: Option<String>,
}

/// The tensors of a layer.
#[derive(Debug, Serialize)]
pub struct Group {
    id: usize,
    name: Option<String>,
    about: String,
    tensors: Vec<TensorRow>,
}

/// A tensor as a row.
#[derive(Debug, Serialize)]
struct TensorRow {
    name: String,
    dtype: String,
    shape: String,
    bytes: String,
    figures: Figures,
    histogram: Option<Histogram>,
    b: Option<SideB>,
    /// Comparison of both.
    error: Option<String>,
    status: &'static str,
}

/// The tensor in b.
#[derive(Debug, Serialize)]
struct SideB {
    dtype: String,
    histogram: Option<Histogram>,
}

/// Statistics as cells.
#[derive(Debug, Serialize)]
struct Figures {
    min: String,
    max: String,
    mean: String,
    rms: String,
    zeros: String,
    odd: String,
    /// True if some are not finite.
    is_odd: bool,
}

impl Figures {
    fn new(of: Option<&Statistics>, rms: Option<f64>) -> Figures {
        let odd = of.map(|of| of.nans + of.infs);
        Figures {
            min: show(of.and_then(|of| of.min)),
            max: show(of.and_then(|of| of.max)),
            mean: show(of.and_then(|of| of.mean)),
            rms: show(rms),
            zeros: count(of.map(|of| of.zeros)),
            odd: count(odd),
            is_odd: odd.is_some_and(|n| n > 0),
        }
    }
}

/// A name that a file gives, safe to show.
pub fn name(text: &str) -> String {
    escape(text, 300)
}

/// A layer's row.
pub fn layer_row(id: usize, layer: &Layer) -> LayerRow {
    let LayerSide { tensors, parameters, bytes, types, statistics, rms } =
        if layer.a.tensors > 0 { &layer.a } else { &layer.b };
    let b = (layer.b.tensors > 0).then(|| (show_size(layer.b.bytes), show_types(&layer.b.types)));
    LayerRow {
        id,
        name: layer.layer.as_deref().map(name),
        tensors: show_count((*tensors).into()),
        parameters: show_count((*parameters).into()),
        bytes: show_size(*bytes),
        types: show_types(types),
        figures: Figures::new(Some(statistics).filter(|of| of.values > 0), *rms),
        b,
        error: layer.relative_error.map(percent),
    }
}

/// `Q4_K 12, F32 2`.
fn show_types(types: &BTreeMap<&'static str, u64>) -> String {
    let mut types: Vec<_> = types.iter().collect();
    types.sort_by(|one, two| two.1.cmp(one.1).then(one.0.cmp(two.0)));
    types.iter().map(|(dtype, n)| format!("{dtype} {n}")).collect::<Vec<_>>().join(", ")
}

/// The tensors that are listed, by layer, in the order of the layers.
pub fn groups(survey: &Survey) -> Vec<Group> {
    let mut listed: BTreeMap<&Option<String>, Vec<TensorRow>> = BTreeMap::new();
    for tensor in survey.tensors.iter().take(MOST_TENSORS) {
        listed.entry(&tensor.layer).or_default().push(tensor_row(tensor));
    }
    let mut groups = Vec::new();
    for (id, layer) in survey.layers.iter().enumerate() {
        let Some(tensors) = listed.remove(&layer.layer) else { continue };
        let side = if layer.a.tensors > 0 { &layer.a } else { &layer.b };
        let n = show_number_of(usize::try_from(side.tensors).unwrap_or(usize::MAX), "tensor");
        let parameters = show_count(side.parameters.into());
        let about = format!("{n}, {parameters} parameters, {}", show_size(side.bytes));
        groups.push(Group { id, name: layer.layer.as_deref().map(name), about, tensors });
    }
    groups
}

fn count(n: Option<u64>) -> String {
    n.map_or("–".to_owned(), |n| show_count(n.into()))
}

fn histogram(side: &SurveyedSide) -> Option<Histogram> {
    side.histogram.as_ref().map(Histogram::new)
}

fn tensor_row(tensor: &SurveyedTensor) -> TensorRow {
    let side = tensor.a.as_ref().or(tensor.b.as_ref());
    let b = tensor.b.as_ref().map(|b| SideB { dtype: b.dtype.to_owned(), histogram: histogram(b) });
    TensorRow {
        name: name(&tensor.name),
        dtype: tensor.a.as_ref().map_or("–", |a| a.dtype).to_owned(),
        shape: side.map_or_else(String::new, |side| shape(&side.shape)),
        bytes: side.map_or_else(String::new, |side| show_size(side.bytes)),
        figures: Figures::new(side.and_then(|side| side.statistics.as_ref()), side.and_then(|side| side.rms)),
        histogram: tensor.a.as_ref().and_then(histogram),
        b,
        error: tensor.error.as_ref().and_then(|error| error.relative).map(percent),
        status: match tensor.status {
            Some(Status::Identical) => "identical",
            Some(Status::Equal) => "equal",
            Some(Status::Shape) => "different shape",
            Some(Status::NotCompared) => "not compared",
            Some(Status::OnlyInA) => "only in A",
            Some(Status::OnlyInB) => "only in B",
            Some(Status::Different) | None => "",
        },
    }
}

/// `4096 × 11008`; one element has no dimensions.
fn shape(shape: &[u64]) -> String {
    if shape.is_empty() {
        return "scalar".to_owned();
    }
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(" × ")
}
