//! Figures of results: for JSON, and as short numbers.

use apr_inference::trace::Figures;
use serde::Serialize;

/// Figures for JSON. `min`, `max`, `mean` and `rms` are those of finite values, and null if there is none; `zeros` is a share;
/// `nan` counts what is NaN or infinite.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Shown {
    min: Option<f32>,
    max: Option<f32>,
    mean: Option<f64>,
    rms: Option<f64>,
    zeros: f64,
    nan: u64,
}

impl Shown {
    /// Those of some elements.
    pub fn of(figures: &Figures) -> Shown {
        let is_any = figures.finite() > 0;
        Shown {
            min: is_any.then_some(figures.least),
            max: is_any.then_some(figures.greatest),
            mean: figures.mean(),
            rms: figures.rms(),
            zeros: figures.share_of_zeros(),
            nan: figures.not_finite,
        }
    }
}

/// A number in at most 9 characters.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        0.01..10.0 => format!("{value:.4}"),
        10.0..1e5 => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}

/// A number, or a dash where there is none.
pub fn number_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    if share == 0.0 { "0 %".to_owned() } else { format!("{:.1} %", share * 100.0) }
}

/// `1.25 ms`.
pub fn milliseconds(nanoseconds: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    let milliseconds = nanoseconds as f64 / 1e6;
    format!("{milliseconds:.3} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.001_234, -1.5, 123.456, -98_765.4, 1e30].map(number);
        assert_eq!(shown, ["0", "1.23e-3", "-1.5000", "123.46", "-98765.40", "1.00e30"]);
        assert!(shown.iter().all(|text| text.len() <= 9));
        assert_eq!([percent(0.0), percent(0.1234)], ["0 %", "12.3 %"]);
        assert_eq!(milliseconds(1_234_567), "1.235 ms");
    }

    #[test]
    fn what_is_not_finite_has_no_extremes() {
        let shown = Shown::of(&Figures::of(&[f32::NAN]));
        assert_eq!(
            serde_json::to_string(&shown).unwrap(),
            r#"{"min":null,"max":null,"mean":null,"rms":null,"zeros":0.0,"nan":1}"#
        );
    }
}
