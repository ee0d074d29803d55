//! Stage 7: norms normalize, by the ε that the model states.
//!
//! The mean square before the gain is ms/(ms + ε) by definition, which is far from 1 in rows of tiny values. It is computed from
//! what the norm gives, divided by its gain.

use super::Finding;
use super::origins::Origins;
use super::sites::{Sites, result_name};
use crate::tapped::Tapped;
use apr_sdk::{Norm, NormKind, Operation, Result, escape};

/// The most by which the mean square may miss.
const BOUND: f64 = 1e-3;

pub(super) fn judge(model: &mut Tapped<'_>, _: &Sites, origins: &Origins) -> Result<Finding> {
    let built = model.built;
    let mut finding = Finding::default();
    for operation in &built.program.operations {
        let Operation::Norm(norm) = operation else { continue };
        let name = result_name(built, operation);
        if !origins.are_finite(&[norm.x]) {
            finding.unjudged += 1;
            continue;
        }
        finding.judged += 1;
        let gain = norm.gain.map(|weight| model.vector(weight)).transpose()?;
        if let (Some(gain), Some(weight)) = (&gain, norm.gain) {
            let zeros = gain.iter().filter(|gain| **gain == 0.0).count();
            if zeros == gain.len() {
                let tensor = model.tensor(weight).unwrap_or(name);
                finding.faults.push(format!("every gain of `{}` is zero", escape(tensor, 120)));
                continue;
            }
        }
        let miss = miss(model, norm, gain.as_deref())?;
        finding.largest("largest error of the mean square before the gain", miss, name);
        if miss.is_nan() || miss > BOUND {
            finding.faults.push(format!(
                "the mean square behind `{}` misses ms/(ms + ε) by {miss:.1e}, with ε = {:e}",
                escape(name, 80),
                norm.epsilon
            ));
        }
    }
    if finding.judged + finding.unjudged == 0 {
        finding.absent = Some("the model has no norms".to_owned());
    }
    Ok(finding)
}

/// The most by which the mean square before the gain misses ms/(ms + ε), over all heads of all rows. Elements whose gain is
/// zero tell nothing and are left out on both sides.
fn miss(model: &mut Tapped<'_>, norm: &Norm, gain: Option<&[f32]>) -> Result<f64> {
    let bias = norm.bias.map(|weight| model.vector(weight)).transpose()?;
    let [x, out] = [model.read(&norm.x)?, model.read(&norm.out)?];
    let heads = usize::try_from(norm.heads).unwrap_or(1).max(1);
    let width = (x.width / heads).max(1);
    let mut worst = 0.0f64;
    for (x, out) in x.iter().zip(out.iter()) {
        for (head, (x, out)) in x.chunks_exact(width).zip(out.chunks_exact(width)).enumerate() {
            // A vector as wide as the row has a part for each head.
            let at = |vector: &[f32], n: usize| vector[(head * width + n) % vector.len()];
            let mean = match norm.kind {
                NormKind::LAYER => x.iter().copied().map(f64::from).sum::<f64>() / width as f64,
                _ => 0.0,
            };
            let square = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / width as f64;
            let (mut found, mut expected) = (0.0, 0.0);
            for (n, (x, out)) in x.iter().zip(out).enumerate() {
                let gain = gain.map_or(1.0, |gain| f64::from(at(gain, n)));
                if gain == 0.0 {
                    continue;
                }
                let bias = bias.as_deref().map_or(0.0, |bias| f64::from(at(bias, n)));
                found += ((f64::from(*out) - bias) / gain).powi(2) / width as f64;
                expected +=
                    (f64::from(*x) - mean).powi(2) / (square + f64::from(norm.epsilon)) / width as f64;
            }
            let miss = (found - expected).abs();
            worst = if miss.is_nan() { miss } else { worst.max(miss) };
        }
    }
    Ok(worst)
}
