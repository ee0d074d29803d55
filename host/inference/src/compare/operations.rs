//! The results of every operation, on two devices.

use super::{Compared, Side};
use crate::program::{Built, residual};
use apr_sdk::{Error, Result, Slice};
use std::collections::HashMap;

/// An operation's error is explained by what it reads if it is at most so many times as large: a softmax or a norm of values
/// that nearly cancel makes errors larger without being wrong.
const HANDED_ON: f64 = 4.0;

/// Compares operations, and remembers the errors in what states hold.
pub(super) struct Operations {
    bound: f64,
    /// The largest error of what was ever stored in each state.
    states: HashMap<u32, f64>,
    /// The names of values.
    names: HashMap<u32, String>,
}

impl Operations {
    pub(super) fn new(built: &Built, bound: f64) -> Operations {
        let names = built.taps.iter().map(|(name, value)| (*value, name.clone())).collect();
        Operations { bound, states: HashMap::new(), names }
    }

    /// Compares all results of the step that both sides ran last, which had so many rows, all of them with an output.
    pub(super) fn compare(&mut self, sides: &mut [Side<'_>; 2], rows: usize) -> Result<Vec<Compared>> {
        let built = sides[0].built;
        // One value at a time is held, and a residual beside it.
        let mut held = Held::default();
        let mut beside = Held::default();
        let mut known: Vec<(Slice, f64)> = Vec::new();
        let mut all = Vec::new();
        for (number, operation) in built.program.operations.iter().enumerate() {
            let residual = residual(operation);
            let mut of_values = 0.0f64;
            for read in operation.reads().into_iter().filter(|slice| Some(*slice) != residual) {
                for (_, error) in known.iter().filter(|(written, _)| meets(written, &read)) {
                    of_values = of_values.max(*error);
                }
            }
            let of_state =
                operation.state().and_then(|state| self.states.get(&state).copied()).unwrap_or(0.0);
            let writes = operation.writes();
            let mut error = 0.0f64;
            for slice in &writes {
                held.read(sides, slice.value, rows)?;
                known.push((*slice, held.error(slice, None)));
                // What an operation adds to a residual may be small beside it: it is compared by itself.
                let of_slice = match &residual {
                    None => held.error(slice, None),
                    Some(residual) => {
                        beside.read(sides, residual.value, rows)?;
                        held.error(slice, Some((&beside, residual)))
                    }
                };
                error = error.max(of_slice);
            }
            if let (Some(state), true) = (operation.state(), writes.is_empty()) {
                let stored = self.states.entry(state).or_default();
                *stored = stored.max(of_values);
            }
            let before = of_values.max(if writes.is_empty() { 0.0 } else { of_state });
            all.push(Compared {
                number,
                operation: operation.code().0.name(),
                result: self.name(&writes),
                error: if writes.is_empty() { of_values } else { error },
                before,
                departs: error > self.bound && error > HANDED_ON * before,
            });
        }
        Ok(all)
    }

    /// The name of an operation's results.
    fn name(&self, writes: &[Slice]) -> String {
        let mut names: Vec<&str> = Vec::new();
        for name in writes.iter().filter_map(|slice| self.names.get(&slice.value)) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names.join(", ")
    }
}

fn meets(a: &Slice, b: &Slice) -> bool {
    a.value == b.value
        && a.first < b.first.saturating_add(b.width)
        && b.first < a.first.saturating_add(a.width)
}

/// A value of both sides.
#[derive(Default)]
struct Held {
    value: Option<u32>,
    width: usize,
    rows: [Vec<f32>; 2],
}

impl Held {
    /// Reads a value, unless it is the one that is held.
    fn read(&mut self, sides: &mut [Side<'_>; 2], value: u32, rows: usize) -> Result<()> {
        if self.value == Some(value) {
            return Ok(());
        }
        self.value = None;
        let specs = &sides[0].built.program.values;
        let spec = usize::try_from(value).ok().and_then(|number| specs.get(number));
        let spec = spec.ok_or_else(|| Error::plugin("a program writes a value that does not exist"))?;
        self.width = usize::try_from(spec.width).unwrap_or(usize::MAX);
        for (side, held) in sides.iter_mut().zip(&mut self.rows) {
            held.resize(rows.saturating_mul(self.width), 0.0);
            side.runner.read(value, held)?;
        }
        self.value = Some(value);
        Ok(())
    }

    /// A part of each row of one side.
    fn part(&self, side: usize, slice: &Slice) -> Vec<f32> {
        let [first, width] = [slice.first, slice.width].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let rows = self.rows[side].chunks_exact(self.width.max(1));
        let parts = rows.map(|row| row.get(first..first.saturating_add(width)).unwrap_or_default());
        parts.flatten().copied().collect()
    }

    /// The relative error of a part of each row, or of what it is more than a part of another value.
    fn error(&self, slice: &Slice, than: Option<(&Held, &Slice)>) -> f64 {
        let [a, b] = [0, 1].map(|side| {
            let mut part = self.part(side, slice);
            if let Some((other, slice)) = than {
                part.iter_mut().zip(other.part(side, slice)).for_each(|(sum, one)| *sum -= one);
            }
            part
        });
        relative(&a, &b)
    }
}

/// √(Σ(a − b)² / Σb²), in F64. Infinities and NaN that are the same on both sides are equal.
fn relative(a: &[f32], b: &[f32]) -> f64 {
    let mut square = 0.0f64;
    let mut of_reference = 0.0f64;
    for (a, b) in a.iter().zip(b) {
        if a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) {
            of_reference += if b.is_finite() { f64::from(*b).powi(2) } else { 0.0 };
            continue;
        }
        let difference = f64::from(*a) - f64::from(*b);
        if !difference.is_finite() {
            return f64::INFINITY;
        }
        square += difference.powi(2);
        of_reference += f64::from(*b).powi(2);
    }
    if square > 0.0 { (square / of_reference).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_the_reference() {
        assert_eq!(relative(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert_eq!(relative(&[3.0, 9.0], &[3.0, 4.0]), 1.0);
        assert_eq!(relative(&[1.0], &[0.0]), f64::INFINITY);
        assert_eq!(relative(&[f32::NAN], &[1.0]), f64::INFINITY);
        assert_eq!(relative(&[f32::NAN, 1.0], &[f32::NAN, 1.0]), 0.0);
        assert_eq!(relative(&[0.0], &[0.0]), 0.0);
    }

    #[test]
    fn parts_meet_where_they_share_an_element() {
        let slice = Slice { value: 1, first: 0, width: 4 };
        assert!(meets(&slice, &Slice { first: 3, width: 1, ..slice }));
        assert!(!meets(&slice, &Slice { first: 4, width: 1, ..slice }));
        assert!(!meets(&slice, &Slice { value: 2, ..slice }));
    }
}
