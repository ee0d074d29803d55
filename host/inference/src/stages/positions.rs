//! Stage 3: positions are told apart: rotations are those that the model states, tables of positions differ.

use super::origins::Origins;
use super::sites::{Sites, result_name};
use super::{Finding, root_mean_square};
use crate::check::reference::rotated;
use crate::tapped::Tapped;
use apr_sdk::{Embed, Operation, Result, Rope, RowIndex, escape};

/// Error of a rotated row, relative to its size, that the rounding of angles may cause.
const BOUND: f64 = 1e-3;
/// Angle in radians per position below which nothing rotates: not even the longest text turns it by a degree.
const STILL: f32 = 1e-9;

pub(super) fn judge(model: &mut Tapped<'_>, _: &Sites, origins: &Origins) -> Result<Finding> {
    let built = model.built;
    let mut finding = Finding::default();
    let mut found = false;
    for operation in &built.program.operations {
        match operation {
            Operation::Rope(rope) => {
                found = true;
                rotation(model, rope, origins, result_name(built, operation), &mut finding)?;
            }
            Operation::Embed(embed) if embed.index == RowIndex::POSITION => {
                found = true;
                table(model, embed, &mut finding)?;
            }
            Operation::Attention(attention) if !attention.slopes.is_empty() => {
                found = true;
                finding.judged += 1;
                let name = result_name(built, operation);
                let least = attention.slopes.iter().copied().fold(f32::INFINITY, f32::min);
                finding.smallest("smallest slope of a head", f64::from(least), name);
                if attention.slopes.iter().all(|slope| *slope == 0.0) {
                    finding.faults.push(format!("every slope of `{}` is zero", escape(name, 80)));
                }
            }
            _ => {}
        }
    }
    if !found {
        finding.absent = Some("the model encodes no positions".to_owned());
    }
    Ok(finding)
}

/// Compares a rotation with that of the model's own angles, in F64.
fn rotation(
    model: &mut Tapped<'_>,
    rope: &Rope,
    origins: &Origins,
    name: &str,
    finding: &mut Finding,
) -> Result<()> {
    let name = escape(name, 80);
    let fastest = rope.frequencies.iter().copied().fold(0.0f32, f32::max);
    let slowest = rope.frequencies.iter().copied().fold(f32::INFINITY, f32::min);
    if fastest < STILL {
        finding.judged += 1;
        finding.faults.push(format!("`{name}` rotates by no angle: its largest is {fastest:e} per position"));
        return Ok(());
    }
    if rope.frequencies.len() > 1 && fastest <= slowest * (1.0 + 1e-6) {
        finding.judged += 1;
        finding
            .faults
            .push(format!("`{name}` rotates all pairs by the same angle, {fastest:e} per position"));
        return Ok(());
    }
    if !origins.are_finite(&[rope.x]) {
        finding.unjudged += 1;
        return Ok(());
    }
    finding.judged += 1;
    let before = model.read(&rope.x)?;
    let after = model.read(&rope.out)?;
    let heads = usize::try_from(rope.heads).unwrap_or(1).max(1);
    let first = usize::try_from(rope.first).unwrap_or(usize::MAX);
    let frequencies: Vec<f64> = rope.frequencies.iter().copied().map(f64::from).collect();
    let width = (before.width / heads).max(1);
    let mut worst = (0.0f64, 0);
    for (position, (before, after)) in (0u32..).zip(before.iter().zip(after.iter())) {
        for (before, after) in before.chunks_exact(width).zip(after.chunks_exact(width)) {
            let head: Vec<f64> = before.iter().copied().map(f64::from).collect();
            let magnitude = f64::from(rope.magnitude);
            let expected = rotated(rope.style, &head, first, &frequencies, position, magnitude);
            let pairs = expected.iter().zip(after);
            let square: f64 = pairs.map(|(expected, after)| (expected - f64::from(*after)).powi(2)).sum();
            let size: f64 = expected.iter().map(|element| element.powi(2)).sum();
            let error = if square == 0.0 { 0.0 } else { (square / size).sqrt() };
            if error > worst.0 || error.is_nan() {
                worst = (error, position);
            }
        }
    }
    finding.largest("largest error of a rotation, relative", worst.0, &name);
    if worst.0.is_nan() || worst.0 > BOUND {
        finding.faults.push(format!(
            "`{name}` is not the rotation that the model states: error {:.1e} at position {}",
            worst.0, worst.1
        ));
    }
    Ok(())
}

/// Compares the vectors of neighbouring positions.
fn table(model: &mut Tapped<'_>, embed: &Embed, finding: &mut Finding) -> Result<()> {
    finding.judged += 1;
    let name = model.tensor(embed.table).unwrap_or_default();
    let rows = model.read(&embed.out)?;
    let rows: Vec<&[f32]> = rows.iter().collect();
    for (number, pair) in rows.windows(2).enumerate() {
        let difference: Vec<f32> = pair[0].iter().zip(pair[1]).map(|(one, next)| next - one).collect();
        let size = root_mean_square(&difference);
        finding.smallest("smallest distance between positions", size, name);
        if size == 0.0 {
            finding.faults.push(format!(
                "`{}` has the same vector for positions {number} and {}",
                escape(name, 120),
                number + 1
            ));
            break;
        }
    }
    Ok(())
}
