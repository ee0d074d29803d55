//! What is unusual in a recording: values that are not finite, spikes, results far larger than those of other layers, and dead
//! neurons.
//!
//! Nothing is judged by an absolute bound: models differ by orders of magnitude. A row is compared with the other rows of its
//! result, a layer with the other layers. Position 0 is not compared: attention uses the first token as a place to rest, and its
//! values are hundreds of times larger than all others in many sound models.

use super::recording::{Recording, Row, Traced, TracedResult};

/// A row's largest magnitude over the median of all rows that makes it a spike. 32: a sound model of 270M parameters
/// was seen to reach 21.
const SPIKE: f32 = 32.0;
/// Rows that a median is taken of at least.
const FEWEST_ROWS: usize = 8;
/// A layer's root mean square over the median of all layers that makes it an outlier.
const OUTLIER: f64 = 100.0;
/// Layers that a median is taken of at least.
const FEWEST_LAYERS: usize = 4;
/// The share of columns without any value that makes them dead. A tenth: pruned models have more, others next to none.
const DEAD: f64 = 0.1;
/// Rows that are looked at before a column is called dead.
const ROWS_OF_DEAD: usize = 16;

/// Something unusual.
#[derive(Clone, Debug, PartialEq)]
pub struct Anomaly {
    /// The operation's place in the program.
    pub operation: usize,
    /// Name of the result.
    pub result: String,
    /// The fault.
    pub fault: Fault,
    /// The positions where it shows; empty if it shows at all of them.
    pub positions: Vec<u32>,
}

/// The kind of an anomaly.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Elements that are NaN or infinite, in the first operation that gave any.
    NotFinite {
        /// Number of elements.
        count: u64,
        /// The column of the first; `None` unless values were looked at.
        column: Option<u32>,
        /// Number of operations behind it that have some too.
        behind: usize,
    },
    /// Rows whose largest magnitude is far above that of the others.
    Spike {
        /// The largest magnitude.
        peak: f32,
        /// The median over all rows.
        usual: f32,
        /// The column of the largest; `None` unless values were looked at.
        column: Option<u32>,
    },
    /// A result far larger than the same of other layers.
    Outlier {
        /// The median of its rows' root mean squares.
        rms: f64,
        /// The median over all layers.
        usual: f64,
    },
    /// Columns that are zero in every row.
    Dead {
        /// Number of columns.
        columns: usize,
        /// Number of all columns.
        of: usize,
        /// The first of them.
        first: usize,
    },
}

/// The anomalies in a recording, in the order of the program.
pub fn anomalies(recording: &Recording) -> Vec<Anomaly> {
    let mut found = Vec::new();
    let odd = recording.operations.iter().filter(|operation| operation.figures().not_finite > 0);
    let odd: Vec<&Traced> = odd.collect();
    if let Some(first) = odd.first() {
        found.extend(first.results.iter().filter_map(|result| not_finite(first, result, odd.len() - 1)));
    }
    for operation in &recording.operations {
        for result in &operation.results {
            found.extend(spike(operation, result));
            found.extend(outlier(recording, operation, result));
            found.extend(dead(operation, result));
        }
    }
    found.sort_by_key(|anomaly| anomaly.operation);
    found
}

fn not_finite(operation: &Traced, result: &TracedResult, behind: usize) -> Option<Anomaly> {
    let count = result.figures.not_finite;
    let rows = result.rows.iter().filter(|row| row.figures.not_finite > 0);
    let rows: Vec<&Row> = rows.collect();
    let column = rows.first().and_then(|row| row.peak);
    (count > 0).then(|| Anomaly {
        operation: operation.number,
        result: result.name.clone(),
        fault: Fault::NotFinite { count, column, behind },
        positions: rows.iter().map(|row| row.position).collect(),
    })
}

fn spike(operation: &Traced, result: &TracedResult) -> Option<Anomaly> {
    let rows: Vec<&Row> = result.rows.iter().filter(|row| row.position > 0).collect();
    if rows.len() < FEWEST_ROWS {
        return None;
    }
    let usual = median(rows.iter().map(|row| row.figures.peak()).collect(), f32::total_cmp)?;
    let spikes = rows.into_iter().filter(|row| usual > 0.0 && row.figures.peak() > SPIKE * usual);
    let spikes: Vec<&Row> = spikes.collect();
    let highest = spikes.iter().max_by(|a, b| a.figures.peak().total_cmp(&b.figures.peak()))?;
    Some(Anomaly {
        operation: operation.number,
        result: result.name.clone(),
        fault: Fault::Spike { peak: highest.figures.peak(), usual, column: highest.peak },
        positions: spikes.iter().map(|row| row.position).collect(),
    })
}

fn outlier(recording: &Recording, operation: &Traced, result: &TracedResult) -> Option<Anomaly> {
    let role = role_of(&result.name)?;
    let all = recording.operations.iter().flat_map(|one| &one.results);
    let same = all.filter(|one| role_of(&one.name) == Some(role)).filter_map(usual_rms);
    let same: Vec<f64> = same.collect();
    if same.len() < FEWEST_LAYERS {
        return None;
    }
    let usual = median(same, f64::total_cmp)?;
    let rms = usual_rms(result)?;
    (usual > 0.0 && rms > OUTLIER * usual).then(|| Anomaly {
        operation: operation.number,
        result: result.name.clone(),
        fault: Fault::Outlier { rms, usual },
        positions: Vec::new(),
    })
}

fn dead(operation: &Traced, result: &TracedResult) -> Option<Anomaly> {
    let of = result.alive.len();
    let columns = result.alive.iter().filter(|alive| !**alive).count();
    let first = result.alive.iter().position(|alive| !*alive)?;
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    let share = columns as f64 / of.max(1) as f64;
    (share >= DEAD && result.rows.len() >= ROWS_OF_DEAD).then(|| Anomaly {
        operation: operation.number,
        result: result.name.clone(),
        fault: Fault::Dead { columns, of, first },
        positions: Vec::new(),
    })
}

/// A result's name without its layer.
fn role_of(name: &str) -> Option<&str> {
    let (_, role) = name.strip_prefix("layer.")?.split_once('.')?;
    Some(role)
}

/// The median of the root mean squares of a result's rows.
fn usual_rms(result: &TracedResult) -> Option<f64> {
    let rows = result.rows.iter().filter(|row| row.position > 0 || result.rows.len() == 1);
    median(rows.filter_map(|row| row.figures.rms()).collect(), f64::total_cmp)
}

fn median<T: Copy>(mut values: Vec<T>, order: fn(&T, &T) -> std::cmp::Ordering) -> Option<T> {
    values.sort_by(order);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Figures;

    /// A result of some rows.
    fn result(name: &str, rows: &[&[f32]]) -> TracedResult {
        let width = rows[0].len();
        let mut figures = Figures::default();
        let mut all = Vec::new();
        let mut alive = vec![false; width];
        for (position, row) in (0u32..).zip(rows) {
            figures.add(&Figures::of(row));
            all.push(Row { position, figures: Figures::of(row), peak: Some(1) });
            alive.iter_mut().zip(*row).for_each(|(alive, x)| *alive |= *x != 0.0);
        }
        let name = name.to_owned();
        let width = u32::try_from(width).unwrap();
        TracedResult { name, width, figures, rows: all, alive, sample: Vec::new() }
    }

    fn recording(results: Vec<TracedResult>) -> Recording {
        let mut recording = Recording::default();
        for (number, result) in results.into_iter().enumerate() {
            recording.operations.push(Traced {
                number,
                kind: "norm".to_owned(),
                layer: None,
                name: result.name.clone(),
                results: vec![result],
                nanoseconds: 0,
                bytes: 0,
            });
        }
        recording
    }

    #[test]
    fn the_first_row_may_be_as_large_as_it_likes_and_no_other() {
        let usual: &[f32] = &[1.0, -2.0];
        let mut rows = vec![usual; 20];
        rows[0] = &[500.0, 0.0];
        assert_eq!(anomalies(&recording(vec![result("a", &rows)])), []);
        rows[7] = &[0.0, -70.0];
        let found = anomalies(&recording(vec![result("a", &rows)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].positions, [7]);
        assert_eq!(found[0].fault, Fault::Spike { peak: 70.0, usual: 2.0, column: Some(1) });
    }

    #[test]
    fn the_first_operation_with_a_nan_is_named() {
        let sound = result("a", &[&[1.0, 2.0]]);
        let odd = result("b", &[&[1.0, 2.0], &[f32::NAN, 2.0]]);
        let found = anomalies(&recording(vec![sound, odd.clone(), odd]));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].operation, &found[0].positions[..]), (1, &[1][..]));
        assert_eq!(found[0].fault, Fault::NotFinite { count: 1, column: Some(1), behind: 1 });
    }

    #[test]
    fn a_layer_is_compared_with_the_others() {
        let mut results: Vec<_> = (0..5).map(|n| result(&format!("layer.{n}.x"), &[&[1.0, 1.0]])).collect();
        assert_eq!(anomalies(&recording(results.clone())), []);
        results[3] = result("layer.3.x", &[&[101.0, 101.0]]);
        let found = anomalies(&recording(results));
        assert_eq!(found[0].operation, 3);
        assert!(matches!(found[0].fault, Fault::Outlier { rms, usual } if rms > 100.0 && usual == 1.0));
    }

    #[test]
    fn columns_without_a_value_are_dead_once_enough_rows_were_seen() {
        let row: &[f32] = &[1.0, 0.0, 1.0, 1.0];
        assert_eq!(anomalies(&recording(vec![result("a", &vec![row; 15])])), []);
        let found = anomalies(&recording(vec![result("a", &vec![row; 16])]));
        assert_eq!(found[0].fault, Fault::Dead { columns: 1, of: 4, first: 1 });
    }
}
