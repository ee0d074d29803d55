//! Findings about the models of a survey: what opening said, what breaks the rules for a tensor's values and shape, and where
//! two models are not the same.

use super::measure::Together;
use super::{Status, SurveyedSide, SurveyedTensor};
use crate::architecture::{TensorSpec, TensorSpecs, incomplete, tensor_specs};
use crate::contract::{self, Kind, Quality, Severity, judge_layout, judge_tensor};
use crate::diff::sides::Sides;
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::wording::n_of;
use apr_sdk::{ErrorKind, Result, escape};
use serde::Serialize;

/// One thing that is odd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The model that it is about, `a` or `b`; absent if it is about both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'static str>,
    /// The tensor's name there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// The rule's stable code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// The figure and what should be.
    pub message: String,
}

impl Finding {
    fn new(model: Option<&'static str>, message: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, model, tensor: None, code: None, message: message.into() }
    }

    fn of(self, tensor: &str) -> Finding {
        Finding { tensor: Some(tensor.to_owned()), ..self }
    }

    fn judged(model: &'static str, finding: contract::Finding) -> Finding {
        let contract::Finding { tensor, code, severity, message, .. } = finding;
        Finding { severity, model: Some(model), tensor: Some(tensor), code: Some(code), message }
    }
}

/// Everything that is odd: about both models, about each, and about tensors in their order.
pub fn findings(
    engine: &Engine,
    models: [Option<&OpenedModel>; 2],
    sides: &Sides<'_>,
    pairs: &[Together],
    tensors: &[SurveyedTensor],
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    if models[1].is_some() {
        findings.extend(compared(tensors));
    }
    let mut specs = [TensorSpecs::default(), TensorSpecs::default()];
    for ((opened, word), specs) in models.into_iter().zip(["a", "b"]).zip(&mut specs) {
        let Some(opened) = opened else { continue };
        let messages = opened.warnings.iter().chain(&opened.model.notes);
        findings.extend(messages.map(|message| Finding::new(Some(word), message)));
        findings.extend(incomplete(engine, opened, None).map(|message| Finding::new(Some(word), message)));
        match tensor_specs(engine, &opened.model, None) {
            Ok(known) => *specs = known,
            Err(error) if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Io) => return Err(error),
            // Values can be judged without its table.
            Err(error) => findings.push(Finding::new(Some(word), error.message())),
        }
        let odd = judge_layout(&opened.model, specs, &|_| None, Quality::default());
        findings.extend(odd.into_iter().map(|finding| Finding::judged(word, finding)));
    }
    for (tensor, pair) in tensors.iter().zip(pairs) {
        for (word, at, side) in [("a", 0, &tensor.a), ("b", 1, &tensor.b)] {
            let of = if at == 0 { &sides.a } else { &sides.b };
            if let Some((number, side)) = pair[at].zip(side.as_ref()) {
                // What a table expects, it expects of the values as they lie.
                let nothing = TensorSpec::default();
                let spec = if of.is_translated() { &nothing } else { specs[at].of(number) };
                let kind = Kind::of(spec.role.as_deref(), of.tensor(number));
                findings.extend(judged(word, of.own_name(number), kind, spec, side));
            }
        }
        findings.extend(between(tensor));
    }
    Ok(findings)
}

/// Problems with the values of a tensor.
fn judged(
    model: &'static str,
    name: &str,
    kind: Kind,
    spec: &TensorSpec,
    side: &SurveyedSide,
) -> Vec<Finding> {
    let Some(statistics) = &side.statistics else {
        let message = format!("no quantizer plugin can decode {}, so its values were not read", side.dtype);
        return vec![Finding::new(Some(model), message).of(name)];
    };
    let judged = judge_tensor(name, kind, spec, false, statistics, Quality::default());
    let mut findings: Vec<_> = judged.into_iter().map(|finding| Finding::judged(model, finding)).collect();
    // The rules leave out vectors, of which a bias may well be zero.
    if findings.is_empty() && statistics.values > 1 && statistics.zeros == statistics.values {
        let message = format!("all its {} values are 0", statistics.values);
        findings.push(Finding::new(Some(model), message).of(name));
    }
    findings
}

/// Differences of a tensor between both models, unless in its values alone.
fn between(tensor: &SurveyedTensor) -> Vec<Finding> {
    let sides = [tensor.a.as_ref(), tensor.b.as_ref()];
    let mut messages = Vec::new();
    match tensor.status {
        Some(Status::OnlyInA) => messages.push("only in a".to_owned()),
        Some(Status::OnlyInB) => messages.push("only in b".to_owned()),
        Some(Status::Shape) => {
            let [a, b] = sides.map(|side| side.map_or(&[][..], |side| &side.shape));
            messages.push(format!("its shape is {a:?} in a and {b:?} in b: values were not compared"));
        }
        Some(Status::NotCompared) => {
            let [a, b] = sides.map(|side| side.map_or("", |side| side.dtype));
            messages.push(format!("its values ({a} in a, {b} in b) were not compared"));
        }
        _ => {}
    }
    if let Some(error) = tensor.error.as_ref().filter(|error| error.mismatched > 0) {
        let n = usize::try_from(error.mismatched).unwrap_or(usize::MAX);
        messages.push(format!("NaN or infinity at different positions: {}", n_of(n, "value")));
    }
    messages.into_iter().map(|message| Finding::new(None, message).of(&tensor.name)).collect()
}

/// The number of tensors that differ in value, and which differs the most.
fn compared(tensors: &[SurveyedTensor]) -> Option<Finding> {
    let errors = tensors.iter().filter_map(|tensor| Some((tensor, tensor.error.as_ref()?)));
    let n = errors.clone().count();
    let differing = errors.clone().filter(|(_, error)| error.differing > 0).count();
    if differing == 0 {
        return None;
    }
    let mut most: Option<(&str, f64)> = None;
    for (tensor, error) in errors {
        let Some(relative) = error.relative.filter(|relative| !relative.is_nan()) else { continue };
        if most.is_none_or(|(_, most)| relative > most) {
            most = Some((&tensor.name, relative));
        }
    }
    let mut message = format!("{differing} of {} compared differ in value", n_of(n, "tensor"));
    if let Some((name, relative)) = most {
        message += &format!("; {} differs most: by {:.2} % of its norm", escape(name, 300), relative * 100.0);
    }
    Some(Finding { severity: Severity::Ok, ..Finding::new(None, message) })
}
