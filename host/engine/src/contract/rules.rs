//! The rules of the layout contract: stable codes, limits, and checks. Both the converter and whatever loads
//! a tensor judge by this one list.

use super::statistics::Statistics;
pub use crate::values::rule_codes::*;
use apr_sdk::Tensor;

/// Percentage of zeros at which an embedding is refused.
const EMBEDDING_ZEROS: u64 = 50;
/// Percentage of zeros at which a weight is refused.
const WEIGHT_ZEROS: u64 = 80;
/// Percentage of dead rows at which an embedding is refused.
const EMBEDDING_DEAD_ROWS: u64 = 25;
/// The smallest L2 norm of a tensor.
const LEAST_L2: f64 = 1e-6;

/// The class that the rules give a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One row per token.
    Embedding,
    /// Any other tensor with two or more dimensions.
    Weight,
    /// One dimension, or none.
    Vector,
}

impl Kind {
    /// The kind for this role; without a role, the shape decides.
    pub fn of(role: Option<&str>, tensor: &Tensor) -> Kind {
        match (role, tensor.shape.len()) {
            (Some("embedding"), 2) => Kind::Embedding,
            (_, 0 | 1) => Kind::Vector,
            _ => Kind::Weight,
        }
    }
}

/// A rule that a tensor breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The rule's stable code.
    pub code: &'static str,
    /// The measured value and the expected one.
    pub what: String,
}

/// The rules of `F-DATA-QUALITY` that a tensor of this kind breaks, most serious first.
pub fn judge(kind: Kind, statistics: &Statistics) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut say = |code, what: String| broken.push(Broken { code, what });
    let values = statistics.values;
    if let Some(bad) = statistics.bad_scales {
        if bad > 0 {
            say(FINITE, format!("{bad} NaN or infinite scales in its {values} blocks, expected none"));
        }
        return broken;
    }
    if statistics.nans + statistics.infs > 0 {
        let Statistics { nans, infs, .. } = statistics;
        say(FINITE, format!("{nans} NaN and {infs} infinite of its {values} values, expected none"));
    }
    if kind == Kind::Vector || values == 0 {
        return broken;
    }
    let most = if kind == Kind::Embedding { EMBEDDING_ZEROS } else { WEIGHT_ZEROS };
    if at_least(statistics.zeros, values, most) {
        let percent = percent(statistics.zeros, values);
        say(DENSITY, format!("{percent} of its {values} values are zero, expected less than {most} %"));
    }
    let l2 = statistics.l2.unwrap_or(0.0);
    if l2 <= LEAST_L2 {
        let l2 = if l2 == 0.0 { "0".to_owned() } else { format!("{l2:.3e}") };
        say(DISTRIBUTION, format!("its L2 norm is {l2}, expected more than {LEAST_L2:e}"));
    } else if !statistics.vary() {
        say(
            DISTRIBUTION,
            format!("all its {values} values are {}, expected them to vary", statistics.min.unwrap_or(0.0)),
        );
    }
    if let Some(rows) = statistics.rows.as_ref().filter(|_| kind == Kind::Embedding) {
        if at_least(rows.dead, rows.count, EMBEDDING_DEAD_ROWS) {
            let percent = percent(rows.dead, rows.count);
            let most = EMBEDDING_DEAD_ROWS;
            say(
                DEAD_ROWS,
                format!("{percent} of its {} rows are zero, expected less than {most} %", rows.count),
            );
        }
        if !rows.dead_spots.is_empty() {
            let spots: Vec<String> = rows.dead_spots.iter().map(u64::to_string).collect();
            let message = format!(
                "of the rows at 10, 50 and 90 %, row {} is all zeros, expected none",
                spots.join(", ")
            );
            say(SPOT, message);
        }
    }
    broken
}

/// Returns whether `part` is at least `percent` percent of `whole`, without rounding.
fn at_least(part: u64, whole: u64, percent: u64) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

fn percent(part: u64, whole: u64) -> String {
    let tenths = u128::from(part) * 1000 / u128::from(whole.max(1));
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// The payload size that a kernel expects: rows times blocks per row times bytes per block
/// (F-LAYOUT-CONTRACT-004); `None` if it overflows, or if the type packs bits across rows.
pub fn kernel_bytes(tensor: &Tensor) -> Option<u64> {
    let info = tensor.dtype.info().filter(|info| info.packing == apr_sdk::Packing::Row)?;
    let (row, rows) = match tensor.shape.split_last() {
        Some((row, outer)) => (*row, outer.iter().try_fold(1u64, |n, size| n.checked_mul(*size))?),
        None => (1, 1),
    };
    let blocks = row.div_ceil(u64::from(info.block_elements));
    rows.checked_mul(blocks)?.checked_mul(u64::from(info.block_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::statistics::Rows;

    fn statistics(values: u64, zeros: u64) -> Statistics {
        let known = Statistics { min: Some(-1.0), max: Some(1.0), l2: Some(3.0), ..Statistics::default() };
        Statistics { values, zeros, ..known }
    }

    fn rows(dead: u64, dead_spots: Vec<u64>) -> Statistics {
        Statistics { rows: Some(Rows { count: 8, dead, dead_spots }), ..statistics(64, 0) }
    }

    fn codes(kind: Kind, statistics: &Statistics) -> Vec<&'static str> {
        judge(kind, statistics).iter().map(|broken| broken.code).collect()
    }

    #[test]
    fn the_limits_are_those_of_the_contract() {
        let none: [&str; 0] = [];
        assert_eq!(codes(Kind::Embedding, &statistics(1000, 499)), none);
        assert_eq!(codes(Kind::Embedding, &statistics(1000, 500)), [DENSITY]);
        assert_eq!(codes(Kind::Weight, &statistics(1000, 799)), none);
        assert_eq!(codes(Kind::Weight, &statistics(1000, 800)), [DENSITY]);
        assert_eq!(codes(Kind::Vector, &statistics(1000, 1000)), none);
        let flat = Statistics { min: Some(1.0), ..statistics(1000, 0) };
        assert_eq!(codes(Kind::Weight, &flat), [DISTRIBUTION]);
        assert_eq!(
            codes(Kind::Weight, &Statistics { l2: Some(1e-6), ..statistics(1000, 0) }),
            [DISTRIBUTION]
        );
        assert_eq!(codes(Kind::Vector, &Statistics { nans: 1, ..statistics(10, 0) }), [FINITE]);
        assert_eq!(codes(Kind::Vector, &Statistics { infs: 1, ..statistics(10, 0) }), [FINITE]);
        assert_eq!(
            codes(Kind::Weight, &Statistics { bad_scales: Some(1), ..Statistics::default() }),
            [FINITE]
        );
        assert_eq!(codes(Kind::Embedding, &rows(1, vec![])), none);
        assert_eq!(codes(Kind::Embedding, &rows(2, vec![])), [DEAD_ROWS]);
        assert_eq!(codes(Kind::Embedding, &rows(1, vec![4])), [SPOT]);
        assert_eq!(codes(Kind::Weight, &rows(8, vec![0])), none);
    }
}
