//! Judges a tensor by the rules and by its table's expectations.

use super::finding::{Finding, Severity};
use super::policy::Quality;
use super::rules::{BYTES, Broken, DISTRIBUTION, FINITE, Kind, LOSS, RANGE, judge, kernel_bytes, shape_rule};
use super::statistics::Statistics;
use crate::architecture::{Expected, Figure, TensorSpec, TensorSpecs};
use crate::hints::shape_mismatch;
use apr_sdk::{Model, Tensor};

/// Problems with a tensor's values. `is_cast` says that apr computed them, so that none may be infinite or
/// NaN.
pub fn judge_tensor(
    name: &str,
    kind: Kind,
    spec: &TensorSpec,
    is_cast: bool,
    statistics: &Statistics,
    quality: Quality,
) -> Vec<Finding> {
    let rules = judge(kind, statistics).into_iter().map(|broken| {
        let grave = is_cast && broken.code == FINITE;
        (broken, grave)
    });
    let ranges = spec
        .expected
        .iter()
        .flat_map(|expected| outside(expected, statistics).into_iter().map(|broken| (broken, expected.must)));
    let all = rules.chain(ranges);
    all.map(|(broken, grave)| {
        let passes = quality.allow_nonfinite && broken.code == FINITE;
        let severity = quality.severity(grave, passes);
        Finding::new(name, spec, broken, severity)
    })
    .collect()
}

/// The finding for a tensor that had non-zero values, all of which became zero in its new type; `l2` is the
/// norm it had.
pub fn judge_vanished(tensor: &Tensor, spec: &TensorSpec, l2: f64, quality: Quality) -> Finding {
    let what = format!("its L2 norm was {l2:.3e}, but as {} all its values are 0", tensor.dtype);
    let broken = Broken { code: DISTRIBUTION, what };
    Finding::new(&tensor.name, spec, broken, quality.severity(true, false))
}

/// The finding for a tensor ruined by quantization: its signal-to-noise ratio and the minimum, in decibels,
/// and the root mean square error.
pub fn judge_ruined(
    tensor: &Tensor,
    spec: &TensorSpec,
    snr: f64,
    least: f64,
    rmse: f64,
    quality: Quality,
) -> Finding {
    let dtype = tensor.dtype;
    let what =
        format!("as {dtype} its SNR is {snr:.1} dB (RMSE {rmse:.3e}), expected at least {least:.1} dB");
    Finding::new(&tensor.name, spec, Broken { code: LOSS, what }, quality.severity(false, false))
}

/// The finding for a tensor with values that were not finite, or did not stay finite, but were let through.
pub fn judge_nonfinite(
    tensor: &Tensor,
    spec: &TensorSpec,
    [were, became, values]: [u64; 3],
    quality: Quality,
) -> Finding {
    let dtype = tensor.dtype;
    let what = format!(
        "as {dtype}, {became} of its {values} values overflowed and {were} were already not finite, \
         expected none"
    );
    let severity = quality.severity(true, quality.allow_nonfinite);
    Finding::new(&tensor.name, spec, Broken { code: FINITE, what }, severity)
}

/// The expected ranges that the statistics are outside of.
fn outside(expected: &Expected, statistics: &Statistics) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (figure, [low, high]) in &expected.ranges {
        let value = match figure {
            Figure::Mean => statistics.mean,
            Figure::Std => statistics.std,
            Figure::Min => statistics.min,
            Figure::Max => statistics.max,
        };
        let Some(value) = value.filter(|value| value < low || value > high) else { continue };
        let name = figure.name();
        let source = &expected.source;
        broken.push(Broken {
            code: RANGE,
            what: format!("its {name} is {value:.4}, outside the range {low} to {high} ({source})"),
        });
    }
    broken
}

/// Problems with the shapes and sizes of a model's tensors; `bytes_of` returns the stored size of each.
pub fn judge_layout(
    model: &Model,
    specs: &TensorSpecs,
    bytes_of: &dyn Fn(usize) -> Option<u64>,
    quality: Quality,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, tensor) in model.tensors.iter().enumerate() {
        let spec = specs.of(number);
        if let Some(want) = spec.shape.as_ref().filter(|want| **want != tensor.shape) {
            let what = shape_mismatch(spec.role.as_deref(), &tensor.shape, want);
            let code = shape_rule(spec.role.as_deref(), want.len());
            findings.push(Finding::new(
                &tensor.name,
                spec,
                Broken { code, what },
                quality.severity(false, false),
            ));
        }
        findings.extend(wrong_size(tensor, bytes_of(number)).map(|broken| {
            // No user option makes such a file readable.
            Finding::new(&tensor.name, spec, broken, Severity::Error)
        }));
    }
    findings
}

fn wrong_size(tensor: &Tensor, have: Option<u64>) -> Option<Broken> {
    let have = have?;
    let want = kernel_bytes(tensor)?;
    if have == want {
        return None;
    }
    let what = format!(
        "it has {have} bytes, but {want} are needed for {} values of {:?}",
        tensor.dtype, tensor.shape
    );
    Some(Broken { code: BYTES, what })
}
