//! Stage 4: queries, keys and values differ from token to token, as what they are made of does.

use super::origins::Origins;
use super::sites::{Sites, result_name};
use super::{Finding, root_mean_square};
use crate::tapped::{Rows, Tapped};
use apr_sdk::{Operation, Result, escape};

/// Deviation between tokens, relative to the size of values, below which a projection has collapsed.
const COLLAPSED: f64 = 1e-6;

pub(super) fn judge(model: &mut Tapped<'_>, sites: &Sites, origins: &Origins) -> Result<Finding> {
    let built = model.built;
    let mut finding = Finding::default();
    for (number, operation) in built.program.operations.iter().enumerate() {
        let Operation::Linear(linear) = operation else { continue };
        if sites.at(number).stage != 4 {
            continue;
        }
        let input = model.read(&linear.x)?;
        if !origins.are_finite(&[linear.x]) || (input.count() > 1 && deviation(&input) <= COLLAPSED) {
            finding.unjudged += 1;
            continue;
        }
        finding.judged += 1;
        for part in &linear.parts {
            let rows = model.read(&part.out)?;
            let name = model.tensor(part.weight).unwrap_or_else(|| result_name(built, operation));
            let is_empty = root_mean_square(&rows.elements) == 0.0;
            // One token alone differs from nothing.
            let differs = if rows.count() > 1 { deviation(&rows) } else { f64::from(u8::from(!is_empty)) };
            finding.smallest("smallest deviation between tokens, relative", differs, name);
            if is_empty || differs <= COLLAPSED {
                let what = if is_empty { "zero" } else { "the same" };
                finding.faults.push(format!(
                    "what `{}` makes is {what} for every token, although its input differs",
                    escape(name, 120)
                ));
            }
        }
    }
    if finding.judged + finding.unjudged == 0 {
        finding.absent = Some("the model has no projections for attention".to_owned());
    }
    Ok(finding)
}

/// Deviation of rows from their mean, relative to the root mean square of all.
fn deviation(rows: &Rows) -> f64 {
    let count = rows.count().max(1) as f64;
    let mut means = vec![0.0f64; rows.width];
    for row in rows.iter() {
        means.iter_mut().zip(row).for_each(|(mean, element)| *mean += f64::from(*element) / count);
    }
    let mut squares = 0.0;
    for row in rows.iter() {
        squares += row.iter().zip(&means).map(|(e, mean)| (f64::from(*e) - mean).powi(2)).sum::<f64>();
    }
    let size = root_mean_square(&rows.elements);
    let spread = (squares / rows.elements.len().max(1) as f64).sqrt();
    if size == 0.0 { 0.0 } else { spread / size }
}
