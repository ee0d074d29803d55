//! The shades of a heat map: steps of equal ratio from the least error to the greatest.

use crate::report::numbers::percent;
use serde::Serialize;

/// Number of shades beside that for no error; the style sheet has a colour for each.
const SHADES: u8 = 8;

/// The shades of the errors of one map.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    least: f64,
    greatest: f64,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// The class of its shade.
    class: String,
    /// Its text.
    text: String,
}

impl Scale {
    /// The scale of these errors.
    pub fn of(errors: impl Iterator<Item = f64>) -> Scale {
        let mut scale = Scale { least: f64::INFINITY, greatest: 0.0 };
        for error in errors.filter(|error| *error > 0.0 && error.is_finite()) {
            (scale.least, scale.greatest) = (scale.least.min(error), scale.greatest.max(error));
        }
        scale
    }

    /// The cell of an error; without one, there is nothing to compare.
    pub fn cell(&self, error: Option<f64>) -> Cell {
        self.cell_of(error, percent)
    }

    /// The same with another text.
    pub fn cell_of(&self, value: Option<f64>, text: impl Fn(f64) -> String) -> Cell {
        match value {
            None => Cell { class: "none".to_owned(), text: String::new() },
            Some(value) => Cell { class: format!("e{}", self.shade(value)), text: text(value) },
        }
    }

    /// 0 for no error, then 1 for the least; what is no number has the last.
    fn shade(&self, error: f64) -> u8 {
        if error <= 0.0 {
            return 0;
        }
        (1..SHADES).find(|shade| error < self.end(*shade)).unwrap_or(SHADES)
    }

    /// The error where a shade ends.
    fn end(&self, shade: u8) -> f64 {
        self.least * (self.greatest / self.least).powf(f64::from(shade) / f64::from(SHADES))
    }

    /// Each shade with the errors that have it.
    pub fn legend(&self) -> Vec<Cell> {
        let mut legend = vec![Cell { class: "e0".to_owned(), text: "0".to_owned() }];
        if self.greatest <= 0.0 {
            return legend;
        }
        if self.greatest == self.least {
            legend.push(self.cell(Some(self.least)));
            return legend;
        }
        legend.extend((1..=SHADES).map(|shade| {
            let from = percent(self.end(shade - 1));
            let to = percent(self.end(shade));
            Cell { class: format!("e{shade}"), text: format!("{from}–{to}") }
        }));
        legend
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_error_has_the_first_shade_and_the_greatest_the_last() {
        let scale = Scale::of([0.0, 0.001, 0.256, f64::INFINITY].into_iter());
        let shades = [0.0, 0.001, 0.0019, 0.0021, 0.127, 0.129, 0.256].map(|error| scale.shade(error));
        assert_eq!(shades, [0, 1, 1, 2, 7, 8, 8]);
        assert_eq!(scale.legend().len(), 9);
        assert_eq!(scale.legend()[8].text, "13–26");
        assert_eq!(scale.cell(None).class, "none");
    }

    #[test]
    fn errors_that_are_all_alike_have_one_shade() {
        let scale = Scale::of([0.05, 0.05].into_iter());
        assert_eq!((scale.shade(0.05), scale.legend().len()), (8, 2));
        let none = Scale::of(std::iter::empty());
        assert_eq!((none.shade(0.0), none.legend().len()), (0, 1));
    }
}
