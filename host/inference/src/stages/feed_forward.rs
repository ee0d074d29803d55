//! Stage 6: the feed-forward network of every layer changes what goes through it.

use super::Finding;
use super::origins::Origins;
use super::sites::{Sites, result_name};
use crate::tapped::Tapped;
use apr_sdk::{Operation, Result, Slice, escape};

pub(super) fn judge(model: &mut Tapped<'_>, sites: &Sites, origins: &Origins) -> Result<Finding> {
    let built = model.built;
    let mut finding = Finding::default();
    // The hidden state before each layer's network: what is added to first.
    let mut before: Option<(usize, Slice)> = None;
    for (number, operation) in built.program.operations.iter().enumerate() {
        let site = sites.at(number);
        let Some(layer) = site.layer.filter(|_| site.stage == 6) else { continue };
        let Some(residual) = residual(operation) else { continue };
        if before.is_none_or(|(known, _)| known != layer) {
            before = Some((layer, residual));
        }
        let name = result_name(built, operation);
        if !name.ends_with("feed_forward.sum") {
            continue;
        }
        let Some((_, input)) = before else { continue };
        let Some(output) = operation.writes().first().copied() else { continue };
        if !origins.are_finite(&[input]) {
            finding.unjudged += 1;
            continue;
        }
        finding.judged += 1;
        let [input, output] = [model.read(&input)?, model.read(&output)?];
        let mut change = 0.0f64;
        let mut size = 0.0f64;
        for (input, output) in input.elements.iter().zip(&output.elements) {
            change += (f64::from(*output) - f64::from(*input)).powi(2);
            size += f64::from(*input).powi(2);
        }
        let relative = if size > 0.0 { (change / size).sqrt() } else { change.sqrt() };
        finding.smallest("smallest change of the hidden state, relative", relative, name);
        if change == 0.0 {
            finding.faults.push(format!(
                "the feed-forward network of layer {layer} changes nothing: `{}` equals what goes in",
                escape(name, 80)
            ));
        }
    }
    if finding.judged + finding.unjudged == 0 {
        finding.absent = Some("the model has no feed-forward network".to_owned());
    }
    Ok(finding)
}

/// The slice that an operation adds its result to.
fn residual(operation: &Operation) -> Option<Slice> {
    match operation {
        Operation::Linear(linear) => linear.residual,
        Operation::Combine(combine) => combine.residual,
        Operation::Binary(binary) => Some(binary.a),
        _ => None,
    }
}
