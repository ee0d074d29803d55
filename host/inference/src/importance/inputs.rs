//! The input of one operation, and the sums of its squares.

use super::index;
use apr_sdk::{Error, ExpertLinear, Result, Slice, TensorSums};

/// The input of an operation with matrices.
pub(super) struct Input {
    /// The matrices, each under the name of its tensor.
    names: Vec<String>,
    /// Its place in each row of a value.
    pub x: Slice,
    /// Elements in a row of that value.
    pub width: usize,
    /// The experts, if the matrices are theirs.
    pub chosen: Option<Chosen>,
    /// For each column the sum of the squares; of experts, one after the other.
    sums: Vec<f64>,
    counts: Vec<u64>,
}

/// The experts that each row chooses.
pub(super) struct Chosen {
    /// Their numbers and weights in each row of a value.
    pub route: Slice,
    /// Elements in a row of that value.
    pub route_width: usize,
    experts: usize,
    used: usize,
    /// True if all chosen experts have the same input.
    is_shared: bool,
}

impl Chosen {
    /// The experts of an operation whose route is in a value of `route_width` elements a row.
    pub(super) fn of(linear: &ExpertLinear, route_width: usize) -> Chosen {
        Chosen {
            route: linear.route,
            route_width,
            experts: index(linear.experts),
            used: index(linear.used),
            is_shared: linear.shared_input,
        }
    }
}

impl Input {
    /// The input `x` in a value of `width` elements a row, of matrices with these names.
    pub(super) fn new(names: Vec<String>, x: Slice, width: usize, chosen: Option<Chosen>) -> Input {
        let matrices = chosen.as_ref().map_or(1, |chosen| chosen.experts);
        let parts = chosen.as_ref().map_or(1, |chosen| if chosen.is_shared { 1 } else { chosen.used });
        let columns = index(x.width) / parts.max(1);
        Input {
            names,
            x,
            width,
            chosen,
            sums: vec![0.0; columns.saturating_mul(matrices)],
            counts: vec![0; matrices],
        }
    }

    /// Adds the rows of a step.
    pub(super) fn add(&mut self, values: &[f32]) {
        let first = index(self.x.first);
        for row in values.chunks_exact(self.width.max(1)) {
            self.counts[0] += 1;
            add_squares(&mut self.sums, &row[first..]);
        }
    }

    /// Adds the rows of a step to the experts that each has chosen.
    ///
    /// # Errors
    /// Failed for a number that is no expert's.
    pub(super) fn add_chosen(&mut self, values: &[f32], route: &[f32]) -> Result<()> {
        let Some(chosen) = &self.chosen else { return Ok(()) };
        let columns = self.sums.len() / chosen.experts.max(1);
        let first = index(self.x.first);
        let routes = route.chunks_exact(chosen.route_width.max(1));
        for (row, route) in values.chunks_exact(self.width.max(1)).zip(routes) {
            let route = &route[index(chosen.route.first)..];
            for (place, number) in route.iter().take(chosen.used).enumerate() {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked below")]
                let expert = *number as usize;
                if !number.is_finite() || *number < 0.0 || expert >= chosen.experts {
                    let message = format!("the model chose expert {number} of {}", chosen.experts);
                    return Err(Error::failed(message).tensor(self.names[0].as_str()));
                }
                let start = if chosen.is_shared { first } else { first + place * columns };
                self.counts[expert] += 1;
                add_squares(&mut self.sums[expert * columns..(expert + 1) * columns], &row[start..]);
            }
        }
        Ok(())
    }

    /// Refuses sums that are not finite.
    ///
    /// # Errors
    /// Failed, naming the first tensor.
    pub(super) fn check(&self) -> Result<()> {
        let columns = self.sums.len() / self.counts.len().max(1);
        let Some(at) = self.sums.iter().position(|sum| !sum.is_finite()) else { return Ok(()) };
        let of = match self.counts.len() {
            1 => String::new(),
            _ => format!(" of expert {}", at / columns.max(1)),
        };
        let message = format!("the sum of squares of column {}{of} is not finite", at % columns.max(1));
        Err(Error::failed(message).tensor(self.names[0].as_str()))
    }

    /// The sums of each of the matrices.
    pub(super) fn sums(&self) -> impl Iterator<Item = TensorSums> {
        self.names.iter().map(|name| TensorSums {
            name: name.clone(),
            #[allow(clippy::cast_possible_truncation, reason = "files hold F32")]
            sums: self.sums.iter().map(|sum| *sum as f32).collect(),
            counts: self.counts.clone(),
        })
    }
}

fn add_squares(sums: &mut [f64], row: &[f32]) {
    for (sum, value) in sums.iter_mut().zip(row) {
        *sum += f64::from(*value) * f64::from(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(first: u32, width: u32) -> Slice {
        Slice { value: 0, first, width }
    }

    #[test]
    fn squares_are_added_from_the_slice_alone() {
        let names = vec!["a".to_owned(), "b".to_owned()];
        let mut input = Input::new(names, slice(1, 2), 4, None);
        input.add(&[9.0, 1.0, 2.0, 9.0, 9.0, 3.0, 4.0, 9.0]);
        let sums: Vec<_> = input.sums().collect();
        assert_eq!(sums.len(), 2);
        assert_eq!(
            (&sums[1].name[..], &sums[1].sums[..], &sums[1].counts[..]),
            ("b", &[10.0, 20.0][..], &[2][..])
        );
        assert!(input.check().is_ok());
    }

    fn experts(is_shared: bool, width: u32) -> Input {
        let chosen = Chosen { route: slice(0, 4), route_width: 4, experts: 3, used: 2, is_shared };
        Input::new(vec!["e".to_owned()], slice(0, width), index(width), Some(chosen))
    }

    #[test]
    fn each_expert_has_the_rows_that_chose_it() {
        let mut shared = experts(true, 2);
        shared.add_chosen(&[1.0, 2.0, 3.0, 4.0], &[0.0, 2.0, 0.5, 0.5, 2.0, 0.0, 0.5, 0.5]).unwrap();
        let sums = shared.sums().next().unwrap();
        assert_eq!((sums.counts, sums.sums), (vec![2, 0, 2], vec![10.0, 20.0, 0.0, 0.0, 10.0, 20.0]));
        // Each chosen expert has an input of its own.
        let mut own = experts(false, 4);
        own.add_chosen(&[1.0, 2.0, 3.0, 4.0], &[1.0, 0.0, 0.5, 0.5]).unwrap();
        let sums = own.sums().next().unwrap();
        assert_eq!((sums.counts, sums.sums), (vec![1, 1, 0], vec![9.0, 16.0, 1.0, 4.0, 0.0, 0.0]));
    }

    #[test]
    fn what_is_no_expert_or_no_number_is_told() {
        for number in [3.0, -1.0, f32::NAN] {
            let error = experts(true, 2).add_chosen(&[1.0, 2.0], &[0.0, number, 0.0, 0.0]).unwrap_err();
            assert!(error.message().contains("of 3"), "{error}");
        }
        let mut input = experts(true, 2);
        input.add_chosen(&[1.0, f32::INFINITY], &[1.0, 2.0, 0.5, 0.5]).unwrap();
        let error = input.check().unwrap_err();
        assert!(
            error.message().contains("column 1 of expert 1") && error.tensor_name() == Some("e"),
            "{error:?}"
        );
    }
}
