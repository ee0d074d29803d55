//! Stage 2: the vector of every token of the text is there: finite, and not zero.

use super::origins::Origins;
use super::sites::Sites;
use super::{Finding, root_mean_square};
use crate::tapped::Tapped;
use apr_sdk::{Operation, Result, RowIndex};

pub(super) fn judge(model: &mut Tapped<'_>, _: &Sites, _: &Origins) -> Result<Finding> {
    let mut finding = Finding::default();
    for operation in &model.built.program.operations {
        let Operation::Embed(embed) = operation else { continue };
        if embed.index != RowIndex::TOKEN {
            continue;
        }
        finding.judged += 1;
        let name = model.tensor(embed.table).unwrap_or_default();
        let rows = model.read(&embed.out)?;
        let mut empty = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            let size = root_mean_square(row);
            finding.smallest("smallest RMS of a vector", size, name);
            if size == 0.0 {
                empty.push(number.to_string());
            }
        }
        if let Some(first) = empty.first() {
            let count = empty.len();
            finding.faults.push(format!(
                "`{name}` has only zeros for {count} of {} tokens of the text, the first at position {first}",
                rows.count()
            ));
        }
    }
    Ok(finding)
}
