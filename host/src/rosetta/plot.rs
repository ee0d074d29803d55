//! Plots error against hops: as text for a terminal, as SVG for a page.

use crate::rosetta::growth::{Growth, Verdict};
use crate::rosetta::hops::Chain;
use std::fmt::Write;

/// Columns of the longest bar.
const BAR: f64 = 40.0;
/// Width, height and margin of the picture in pixels.
const SIZE: (f64, f64, f64) = (480.0, 300.0, 48.0);

/// One bar per hop, and the fitted growth.
pub fn text(chain: &Chain) -> String {
    let most = largest(chain);
    let mut text = String::from("hop  largest error\n");
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
        Verdict::TooFew => "too few hops with an error to say how it grows",
        Verdict::Bounded => "slower than a line",
        Verdict::Linear => "as a line or faster: a systematic error",
    };
    format!("{exponent}{verdict}")
}

/// The SVG: points joined by a line.
pub fn svg(chain: &Chain) -> String {
    let (width, height, margin) = SIZE;
    let most = largest(chain);
    let hops: f64 = chain.hops.iter().map(|_| 1.0).sum();
    let place = |number: f64, error: f64| {
        let x = margin + (width - 2.0 * margin) * (number / hops.max(1.0));
        let share = if most > 0.0 && most.is_finite() { (error / most).min(1.0) } else { 0.0 };
        (x, height - margin - (height - 2.0 * margin) * share)
    };
    let mut points = Vec::new();
    let mut labels = String::new();
    for (number, hop) in (1u32..).zip(&chain.hops) {
        let (x, y) = place(f64::from(number), hop.max_abs_diff);
        points.push(format!("{x:.1},{y:.1}"));
        let _ = write!(
            labels,
            "  <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>\n  <text x=\"{x:.1}\" y=\"{:.1}\">{}</text>\n",
            height - margin + 16.0,
            hop.to
        );
    }
    let (left, bottom) = (margin, height - margin);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\" text-anchor=\"middle\">\n  <title>largest error after each hop, {most:e} at the top; {}</title>\n  \
         <path d=\"M{left} {margin}V{bottom}H{}\" fill=\"none\" stroke=\"black\"/>\n  \
         <polyline points=\"{}\" fill=\"none\" stroke=\"black\"/>\n{labels}</svg>\n",
        growth(chain.growth),
        width - margin,
        points.join(" ")
    )
}

fn largest(chain: &Chain) -> f64 {
    chain.hops.iter().map(|hop| hop.max_abs_diff).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rosetta::growth::fit;
    use crate::rosetta::hops::Hop;

    fn of(errors: &[f64]) -> Chain {
        let hop = |error: &f64| Hop {
            to: "x".into(),
            bytes: 1,
            identical: 0,
            tensors: 1,
            max_abs_diff: *error,
            findings: Vec::new(),
            notes: Vec::new(),
        };
        Chain {
            input: "a".into(),
            from: "x".into(),
            hops: errors.iter().map(hop).collect(),
            growth: fit(errors),
        }
    }

    #[test]
    fn a_line_is_seen_as_one() {
        let text = text(&of(&[0.1, 0.2, 0.3, 0.4]));
        let bars: Vec<usize> = text.lines().map(|line| line.matches('#').count()).collect();
        assert_eq!(bars, [0, 10, 20, 30, 40, 0]);
        assert!(text.ends_with("error ~ hops^1.00: as a line or faster: a systematic error\n"), "{text}");
        let svg = svg(&of(&[0.1, 0.2, 0.3, 0.4]));
        // 480 by 300 with a margin of 48: quarters of 384 across, of 204 up.
        assert!(svg.contains("\"144.0,201.0 240.0,150.0 336.0,99.0 432.0,48.0\""), "{svg}");
    }

    #[test]
    fn nothing_is_drawn_where_there_is_no_error() {
        let text = text(&of(&[0.0, 0.0]));
        assert!(!text.contains('#') && text.ends_with("no error at any hop\n"), "{text}");
        assert!(svg(&of(&[])).starts_with("<svg"));
        assert!(svg(&of(&[f64::INFINITY])).matches("inf").count() > 0);
    }
}
