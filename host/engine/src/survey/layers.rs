//! The tensors of a survey by layer and by kind, as their names say: what comes before the first number is the layer, what
//! follows is the kind.

use super::{SurveyedSide, SurveyedTensor, relative};
use crate::contract::Statistics;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The most kinds that a heat map has.
const MOST_KINDS: usize = 40;

/// The tensors of a layer, together.
#[derive(Clone, Debug, Serialize)]
pub struct Layer {
    /// The prefix of their names; `None` for those outside of layers.
    pub layer: Option<String>,
    /// In a.
    pub a: LayerSide,
    /// In b.
    pub b: LayerSide,
    /// Distance of the values of b from those of a, as [`ValueError::relative`](super::ValueError::relative) over all of them.
    pub relative_error: Option<f64>,
}

/// The tensors of a layer in one model.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LayerSide {
    /// Number of tensors.
    pub tensors: u64,
    /// Number of elements.
    pub parameters: u64,
    /// Bytes of their payload.
    pub bytes: u64,
    /// Number of tensors of each type.
    pub types: BTreeMap<&'static str, u64>,
    /// Statistics over all values of those whose values are known.
    pub statistics: Statistics,
    /// The root of their mean square.
    pub rms: Option<f64>,
}

/// Distances between two models.
#[derive(Clone, Debug, Serialize)]
pub struct HeatMap {
    /// The kinds of tensors in layers: those with the most elements, in a's order.
    pub kinds: Vec<String>,
    /// Number of kinds left out.
    pub left_out: usize,
    /// A row for each layer.
    pub rows: Vec<HeatRow>,
    /// Tensors outside of layers: the name and the relative error.
    pub outside: Vec<(String, f64)>,
}

/// The tensors of a layer in a heat map.
#[derive(Clone, Debug, Serialize)]
pub struct HeatRow {
    /// The prefix of their names.
    pub layer: String,
    /// The relative error of each kind; `None` where the layer has none, or its values cannot be compared.
    pub relative_errors: Vec<Option<f64>>,
}

/// The layer that a name belongs to, and the kind of tensor that it is.
pub fn place(name: &str) -> (Option<String>, String) {
    let parts: Vec<&str> = name.split('.').collect();
    match parts.iter().position(|part| is_number(part)) {
        // A number at the end counts tensors, not layers.
        Some(at) if at + 1 < parts.len() => {
            let rest = parts[at + 1..].iter().map(|part| if is_number(part) { "*" } else { part });
            (Some(parts[..=at].join(".")), rest.collect::<Vec<_>>().join("."))
        }
        _ => (None, name.to_owned()),
    }
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.len() <= 9 && part.bytes().all(|b| b.is_ascii_digit())
}

/// The layers, those outside of any first.
pub fn layers(tensors: &[SurveyedTensor]) -> Vec<Layer> {
    let mut of: HashMap<Option<&str>, usize> = HashMap::new();
    let mut members: Vec<Vec<&SurveyedTensor>> = Vec::new();
    for tensor in tensors {
        let at = *of.entry(tensor.layer.as_deref()).or_insert(members.len());
        if at == members.len() {
            members.push(Vec::new());
        }
        members[at].push(tensor);
    }
    // Stable: layers stay in the model's order.
    members.sort_by_key(|members| members.first().is_some_and(|tensor| tensor.layer.is_some()));
    let layers = members.iter().map(|members| Layer {
        layer: members.first().and_then(|tensor| tensor.layer.clone()),
        a: LayerSide::new(members.iter().filter_map(|tensor| tensor.a.as_ref())),
        b: LayerSide::new(members.iter().filter_map(|tensor| tensor.b.as_ref())),
        relative_error: error(members.iter().copied()),
    });
    layers.collect()
}

/// The relative error over all values of these tensors; NaN if some differ that are not finite.
fn error<'t>(tensors: impl Iterator<Item = &'t SurveyedTensor>) -> Option<f64> {
    let errors: Vec<_> = tensors.filter_map(|tensor| tensor.error.as_ref()).collect();
    if errors.iter().any(|error| error.mismatched > 0) {
        return Some(f64::NAN);
    }
    let squares = errors.iter().map(|error| error.squares);
    relative(squares.reduce(|sum, of| [0, 1, 2].map(|at| sum[at] + of[at]))?)
}

impl LayerSide {
    fn new<'s>(all: impl Iterator<Item = &'s SurveyedSide>) -> LayerSide {
        let mut layer = LayerSide::default();
        let mut all_equal = true;
        for side in all {
            layer.tensors += 1;
            layer.parameters = layer.parameters.saturating_add(side.parameters);
            layer.bytes = layer.bytes.saturating_add(side.bytes);
            *layer.types.entry(side.dtype).or_default() += 1;
            let Some(of) = &side.statistics else { continue };
            let together = &mut layer.statistics;
            together.values += of.values;
            together.zeros += of.zeros;
            together.nans += of.nans;
            together.infs += of.infs;
            together.min = [together.min, of.min].into_iter().flatten().reduce(f64::min);
            together.max = [together.max, of.max].into_iter().flatten().reduce(f64::max);
            all_equal &= of.finite() == 0.0 || of.std == Some(0.0);
            together.moments.sum += of.moments.sum;
            together.moments.squares += of.moments.squares;
        }
        layer.statistics.derive(all_equal && layer.statistics.min == layer.statistics.max);
        layer.rms = layer.statistics.rms();
        layer
    }
}

/// The heat map; `None` if no values were compared.
pub fn heat_map(tensors: &[SurveyedTensor]) -> Option<HeatMap> {
    let compared: Vec<&SurveyedTensor> = tensors.iter().filter(|tensor| tensor.error.is_some()).collect();
    if compared.is_empty() {
        return None;
    }
    let mut kinds: Vec<(&str, u64)> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    let mut cells: HashMap<(&str, &str), Vec<&SurveyedTensor>> = HashMap::new();
    let mut rows = Vec::new();
    let mut seen = HashSet::new();
    let mut outside = Vec::new();
    for tensor in compared {
        let Some(layer) = tensor.layer.as_deref() else {
            let relative = tensor.error.as_ref().and_then(|error| error.relative);
            outside.extend(relative.map(|relative| (tensor.name.clone(), relative)));
            continue;
        };
        let at = *known.entry(&tensor.kind).or_insert(kinds.len());
        if at == kinds.len() {
            kinds.push((&tensor.kind, 0));
        }
        kinds[at].1 += tensor.a.as_ref().map_or(0, |side| side.parameters);
        cells.entry((layer, &tensor.kind)).or_default().push(tensor);
        if seen.insert(layer) {
            rows.push(layer);
        }
    }
    let mut largest: Vec<u64> = kinds.iter().map(|(_, parameters)| *parameters).collect();
    largest.sort_unstable_by(|one, two| two.cmp(one));
    let n_kinds = kinds.len();
    if let Some(&least) = largest.get(MOST_KINDS) {
        kinds.retain(|(_, parameters)| *parameters > least);
    }
    let mut heat_rows = Vec::with_capacity(rows.len());
    for layer in rows {
        let errors = kinds.iter().map(|(kind, _)| error(cells.get(&(layer, *kind))?.iter().copied()));
        heat_rows.push(HeatRow { layer: layer.to_owned(), relative_errors: errors.collect() });
    }
    let left_out = n_kinds - kinds.len();
    let kinds = kinds.into_iter().map(|(kind, _)| kind.to_owned()).collect();
    Some(HeatMap { kinds, left_out, rows: heat_rows, outside })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_of_a_name_is_its_layers() {
        for (name, layer, kind) in [
            ("blk.12.attn_q.weight", Some("blk.12"), "attn_q.weight"),
            ("model.layers.0.mlp.experts.17.w1", Some("model.layers.0"), "mlp.experts.*.w1"),
            ("output_norm.weight", None, "output_norm.weight"),
            ("list.3", None, "list.3"),
            ("v1.bias", None, "v1.bias"),
            ("a..b", None, "a..b"),
            ("", None, ""),
            ("x.99999999999.y", None, "x.99999999999.y"),
        ] {
            assert_eq!(place(name), (layer.map(str::to_owned), kind.to_owned()));
        }
    }
}
