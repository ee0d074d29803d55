//! Content of the page about a survey, as its template takes it: texts, made safe to print and ready to stand in a cell.

use crate::report::MOST_TENSORS;
use crate::report::activations::{self, Activations};
use crate::report::heat::{Cell, Scale};
use crate::report::inspect_summary;
use crate::report::rows::{Group, LayerRow, groups, layer_row, name};
use crate::sizes::{show_count, show_number_of, show_size};
use apr_engine::contract::Severity;
use apr_engine::survey::{Finding, HeatMap, Survey, SurveyedModel};
use apr_sdk::escape;
use serde::Serialize;

/// The most findings that are shown; the JSON document has all.
const MOST_FINDINGS: usize = 500;

/// The page.
#[derive(Debug, Serialize)]
pub struct View {
    title: String,
    lead: String,
    models: Vec<ModelView>,
    findings: Vec<FindingView>,
    more_findings: Option<String>,
    notes: Vec<String>,
    heat: Option<HeatView>,
    activations: Option<activations::View>,
    both: bool,
    layers: Vec<LayerRow>,
    groups: Vec<Group>,
    more_tensors: Option<String>,
}

/// A model as a whole.
#[derive(Debug, Serialize)]
struct ModelView {
    /// `A` or `B`, where there are two.
    letter: &'static str,
    path: String,
    facts: Vec<(&'static str, String)>,
}

#[derive(Debug, Serialize)]
struct FindingView {
    word: &'static str,
    model: &'static str,
    tensor: Option<String>,
    code: Option<&'static str>,
    message: String,
}

#[derive(Debug, Serialize)]
struct HeatView {
    kinds: Vec<String>,
    rows: Vec<(String, Vec<Cell>)>,
    outside: Vec<(String, Cell)>,
    more_outside: Option<String>,
    legend: Vec<Cell>,
    left_out: Option<String>,
}

impl View {
    /// Of what was measured.
    pub fn new(survey: &Survey, activations: Option<&Activations>) -> View {
        let both = survey.b.is_some();
        let models = [Some(&survey.a), survey.b.as_ref()].into_iter().zip(["A", "B"]);
        let models =
            models.filter_map(|(model, letter)| Some(model_view(model?, if both { letter } else { "" })));
        let title = match &survey.b {
            Some(b) => format!("{} and {}", file(&survey.a), file(b)),
            None => file(&survey.a),
        };
        View {
            title,
            lead: lead(survey),
            models: models.collect(),
            findings: survey.findings.iter().take(MOST_FINDINGS).map(|f| finding_view(f, both)).collect(),
            more_findings: more(survey.findings.len(), MOST_FINDINGS, "finding"),
            notes: survey.notes.iter().map(|note| escape(note, 1000)).collect(),
            heat: survey.heat_map.as_ref().map(heat_view),
            activations: activations.map(Activations::view),
            both,
            layers: survey.layers.iter().enumerate().map(|(at, layer)| layer_row(at, layer)).collect(),
            groups: groups(survey),
            more_tensors: more(survey.tensors.len(), MOST_TENSORS, "tensor"),
        }
    }
}

/// The first sentence: what was looked at, and whether anything is wrong.
fn lead(survey: &Survey) -> String {
    let findings = match survey.odd() {
        0 => "nothing unusual was found".to_owned(),
        count => show_number_of(count, "finding"),
    };
    let both = survey.tensors.iter().filter(|tensor| tensor.a.is_some() && tensor.b.is_some()).count();
    match &survey.b {
        Some(_) => format!("{} in both models; {findings}", show_number_of(both, "tensor")),
        None => format!("{}; {findings}", show_number_of(survey.a.tensors, "tensor")),
    }
}

fn file(model: &SurveyedModel) -> String {
    let file = std::path::Path::new(&model.path).file_name();
    name(&file.map_or_else(|| model.path.clone(), |name| name.to_string_lossy().into()))
}

fn more(n: usize, most: usize, noun: &str) -> Option<String> {
    (n > most).then(|| format!("{} more; pass --json to get all of them", show_number_of(n - most, noun)))
}

fn model_view(model: &SurveyedModel, letter: &'static str) -> ModelView {
    let types = model.types.iter().map(|of| {
        let tensors = show_number_of(usize::try_from(of.tensors).unwrap_or(usize::MAX), "tensor");
        format!("{}: {tensors}, {}", of.dtype, show_size(of.bytes))
    });
    let mut facts = vec![
        ("format", escape(&model.format_name, 80)),
        ("size", show_size(model.bytes)),
        ("tensors", show_count(model.tensors as u128)),
        ("types", types.collect::<Vec<_>>().join("; ")),
    ];
    facts.retain(|(_, text)| !text.is_empty());
    facts.extend(inspect_summary::lines(&model.summary, model.architecture.as_deref()));
    if model.dialect != "none" {
        facts.push(("dialect", escape(&model.dialect, 80)));
    }
    facts.push(("padding", format!("{} between payloads", show_size(model.between_payloads))));
    ModelView { letter, path: escape(&model.path, 400), facts }
}

fn finding_view(finding: &Finding, both: bool) -> FindingView {
    let word = match finding.severity {
        Severity::Ok => "note",
        Severity::Warning | Severity::PassedOver => "warning",
        Severity::Error => "error",
    };
    let model = match finding.model {
        Some("a") if both => "A",
        Some("b") if both => "B",
        _ => "",
    };
    FindingView {
        word,
        model,
        tensor: finding.tensor.as_deref().map(name),
        code: finding.code,
        message: escape(&finding.message, 1000),
    }
}

fn heat_view(map: &HeatMap) -> HeatView {
    /// Tensors outside of layers that are shown.
    const MOST: usize = 200;
    let inside = map.rows.iter().flat_map(|row| row.relative_errors.iter().flatten());
    let scale = Scale::of(inside.copied().chain(map.outside.iter().map(|(_, error)| *error)));
    let outside = map.outside.iter().take(MOST);
    let more = map.outside.len().saturating_sub(MOST);
    HeatView {
        kinds: map.kinds.iter().map(|kind| name(kind)).collect(),
        rows: map
            .rows
            .iter()
            .map(|row| {
                let cells = row.relative_errors.iter().map(|error| scale.cell(*error));
                (name(&row.layer), cells.collect())
            })
            .collect(),
        outside: outside.map(|(of, error)| (name(of), scale.cell(Some(*error)))).collect(),
        more_outside: (more > 0).then(|| show_number_of(more, "more tensor")),
        legend: scale.legend(),
        left_out: (map.left_out > 0).then(|| show_number_of(map.left_out, "smaller kind")),
    }
}
