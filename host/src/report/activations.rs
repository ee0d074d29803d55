//! The part of a page about activations: how large the result of each operation is, layer by layer.

use crate::report::heat::{Cell, Scale};
use crate::report::numbers::show;
use crate::sizes::show_number_of;
use apr_inference::trace::{Recording, TracedResult};
use apr_sdk::escape;
use serde::Serialize;

/// Root mean squares of the results of a traced prompt. JSON: `tokens`, `kinds` of results, `layers`, each with its `layer` and an
/// `rms` for each kind, null if it has none; `outside`, each with its `result` and `rms`; `not_finite`, values that are NaN or
/// infinite.
#[derive(Debug, Serialize)]
pub struct Activations {
    tokens: usize,
    kinds: Vec<String>,
    layers: Vec<Layer>,
    outside: Vec<Outside>,
    not_finite: u64,
}

/// A layer.
#[derive(Debug, Serialize)]
struct Layer {
    layer: u32,
    rms: Vec<Option<f64>>,
}

/// A result outside of all layers.
#[derive(Debug, Serialize)]
struct Outside {
    result: String,
    rms: Option<f64>,
}

impl Activations {
    /// Those of a recording.
    pub fn of(recording: &Recording) -> Activations {
        let mut all = Activations {
            tokens: recording.ids.len(),
            kinds: Vec::new(),
            layers: Vec::new(),
            outside: Vec::new(),
            not_finite: recording.not_finite(),
        };
        for operation in &recording.operations {
            for result in &operation.results {
                match operation.layer {
                    Some(layer) => all.add(layer, result),
                    None => all.outside.push(Outside { result: result.name.clone(), rms: rms_of(result) }),
                }
            }
        }
        let kinds = all.kinds.len();
        all.layers.iter_mut().for_each(|row| row.rms.resize(kinds, None));
        all
    }

    fn add(&mut self, layer: u32, result: &TracedResult) {
        let kind = result.name.splitn(3, '.').nth(2).unwrap_or(&result.name);
        let at = self.kinds.iter().position(|known| known == kind).unwrap_or_else(|| {
            self.kinds.push(kind.to_owned());
            self.kinds.len() - 1
        });
        if self.layers.last().is_none_or(|last| last.layer != layer) {
            self.layers.push(Layer { layer, rms: Vec::new() });
        }
        if let Some(row) = self.layers.last_mut() {
            row.rms.resize(row.rms.len().max(at + 1), None);
            row.rms[at] = rms_of(result);
        }
    }

    /// The same as a page shows it.
    pub(super) fn view(&self) -> View {
        let inside = self.layers.iter().flat_map(|row| row.rms.iter().flatten());
        let scale = Scale::of(inside.copied().chain(self.outside.iter().filter_map(|outside| outside.rms)));
        let cell = |rms: &Option<f64>| scale.cell_of(*rms, |rms| show(Some(rms)));
        View {
            lead: format!(
                "{}; {} NaN or infinite",
                show_number_of(self.tokens, "token"),
                show_number_of(usize::try_from(self.not_finite).unwrap_or(usize::MAX), "value")
            ),
            kinds: self.kinds.iter().map(|kind| escape(kind, 80)).collect(),
            rows: self
                .layers
                .iter()
                .map(|row| (row.layer.to_string(), row.rms.iter().map(cell).collect()))
                .collect(),
            outside: self
                .outside
                .iter()
                .map(|outside| (escape(&outside.result, 80), cell(&outside.rms)))
                .collect(),
        }
    }
}

/// The root mean square of a result; NaN if it has a value that is not finite.
fn rms_of(result: &TracedResult) -> Option<f64> {
    if result.figures.not_finite > 0 { Some(f64::NAN) } else { result.figures.rms() }
}

/// The activations as the template takes them.
#[derive(Debug, Serialize)]
pub(super) struct View {
    lead: String,
    kinds: Vec<String>,
    rows: Vec<(String, Vec<Cell>)>,
    outside: Vec<(String, Cell)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_inference::trace::{Figures, Traced};

    fn operation(number: usize, layer: Option<u32>, name: &str, values: &[f32]) -> Traced {
        let result = TracedResult {
            name: name.to_owned(),
            width: 1,
            figures: Figures::of(values),
            rows: Vec::new(),
            alive: Vec::new(),
            sample: Vec::new(),
        };
        let kind = "norm".to_owned();
        Traced { number, kind, layer, name: name.to_owned(), results: vec![result], nanoseconds: 0, bytes: 0 }
    }

    #[test]
    fn a_layer_is_a_row_and_what_it_lacks_is_empty() {
        let mut recording = Recording::default();
        recording.operations = vec![
            operation(0, None, "hidden", &[3.0]),
            operation(1, Some(0), "layer.0.attention.norm", &[1.0]),
            operation(2, Some(0), "layer.0.branch", &[f32::NAN]),
            operation(3, Some(1), "layer.1.branch", &[2.0]),
        ];
        let all = Activations::of(&recording);
        assert_eq!(all.kinds, ["attention.norm", "branch"]);
        assert_eq!(all.layers[1].rms, [None, Some(2.0)]);
        assert!(all.layers[0].rms[1].is_some_and(f64::is_nan) && all.not_finite == 1);
        let view = serde_json::to_value(all.view()).unwrap();
        assert_eq!(view["rows"][0][1][1]["text"], "NaN");
        assert_eq!(view["rows"][1][1][0]["class"], "none");
    }
}
