//! Plots error against hops: as text for a terminal, as a picture, as a page.

use crate::report::{LineChart, Mark, chart_page};
use crate::rosetta::growth::{Growth, Verdict};
use crate::rosetta::hops::{Chain, Hop};
use apr_sdk::Result;

/// Columns of the longest bar.
const BAR: f64 = 40.0;

/// One bar per hop, and the fitted growth.
pub fn text(chain: &Chain) -> String {
    let most = largest(chain);
    let mut text = String::from("hop  max error\n");
    for (number, hop) in chain.hops.iter().enumerate() {
        let share = if most > 0.0 && most.is_finite() { hop.max_abs_diff / most } else { 0.0 };
        let bar: String = (0u32..).take_while(|n| f64::from(*n) + 0.5 <= share * BAR).map(|_| '#').collect();
        let line = format!("{:3}  {:<13e} {:12} {bar}", number + 1, hop.max_abs_diff, hop.to);
        text += &format!("{}\n", line.trim_end());
    }
    text + &growth(chain.growth) + "\n"
}

/// The fitted growth in words.
pub fn growth(growth: Growth) -> String {
    let exponent = growth.exponent.map(|n| format!("error ~ hops^{n:.2}: ")).unwrap_or_default();
    let verdict = match growth.verdict {
        Verdict::None => "no error at any hop",
        Verdict::TooFew => "too few hops with an error to fit its growth",
        Verdict::Bounded => "slower than linear",
        Verdict::Linear => "linear or faster: a systematic error",
    };
    format!("{exponent}{verdict}")
}

/// The SVG: points joined by a line.
pub fn svg(chain: &Chain) -> String {
    chart(chain).svg()
}

/// A page with that picture and its numbers.
///
/// # Errors
/// As [`chart_page`].
pub fn html(chain: &Chain) -> Result<String> {
    let heading = format!("{} along {} hops", chain.input, chain.hops.len());
    chart_page(&heading, &growth(chain.growth), ["To", "Max error"], &chart(chain))
}

fn chart(chain: &Chain) -> LineChart {
    let title =
        format!("max error after each hop, {:e} at the top; {}", largest(chain), growth(chain.growth));
    let marks = chain.hops.iter().map(|hop: &Hop| Mark { label: hop.to.clone(), value: hop.max_abs_diff });
    LineChart::new(&title, marks.collect())
}

fn largest(chain: &Chain) -> f64 {
    chain.hops.iter().map(|hop| hop.max_abs_diff).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rosetta::growth::fit;

    fn of(errors: &[f64]) -> Chain {
        let hops = errors.iter().map(|error| Hop {
            to: "x".into(),
            bytes: 1,
            identical: 0,
            tensors: 1,
            max_abs_diff: *error,
            findings: Vec::new(),
            notes: Vec::new(),
        });
        Chain { input: "a".into(), from: "x".into(), hops: hops.collect(), growth: fit(errors) }
    }

    #[test]
    fn a_line_is_seen_as_one() {
        let text = text(&of(&[0.1, 0.2, 0.3, 0.4]));
        let bars: Vec<usize> = text.lines().map(|line| line.matches('#').count()).collect();
        assert_eq!(bars, [0, 10, 20, 30, 40, 0]);
        assert!(text.ends_with("error ~ hops^1.00: linear or faster: a systematic error\n"), "{text}");
        let page = html(&of(&[0.1, 0.2, 0.3, 0.4])).unwrap();
        assert!(
            page.contains("144.0,201.0 240.0,150.0 336.0,99.0 432.0,48.0")
                && page.contains("a systematic error"),
            "{page}"
        );
    }

    #[test]
    fn nothing_is_drawn_where_there_is_no_error() {
        let text = text(&of(&[0.0, 0.0]));
        assert!(!text.contains('#') && text.ends_with("no error at any hop\n"), "{text}");
        assert!(svg(&of(&[])).starts_with("<svg"));
        assert!(svg(&of(&[f64::INFINITY])).matches("inf").count() > 0);
    }
}
