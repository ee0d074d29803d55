//! A line through points, one for each mark along the way: a picture of its own, or part of a page.

use apr_sdk::escape;
use std::fmt::Write;

/// The picture's size and margin, in pixels.
const SIZE: (f64, f64, f64) = (480.0, 300.0, 48.0);

/// A point.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The text below it.
    pub label: String,
    /// Its height, from 0 on.
    pub value: f64,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct LineChart {
    title: String,
    marks: Vec<Mark>,
}

impl LineChart {
    /// A chart of these points; the title says what it shows.
    pub fn new(title: &str, mut marks: Vec<Mark>) -> LineChart {
        for mark in &mut marks {
            mark.label = escape(&mark.label, 80);
        }
        LineChart { title: escape(title, 400), marks }
    }

    /// The points, their labels made safe to show.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// The picture as a file of its own.
    pub fn svg(&self) -> String {
        self.drawn("xmlns=\"http://www.w3.org/2000/svg\" ")
    }

    /// The picture as part of a page, in the colour of the text around it.
    pub fn inline(&self) -> String {
        self.drawn("")
    }

    fn drawn(&self, space: &str) -> String {
        let (width, height, margin) = SIZE;
        let finite = self.marks.iter().map(|mark| mark.value).filter(|value| value.is_finite());
        let most = finite.fold(0.0, f64::max);
        let count: f64 = self.marks.iter().map(|_| 1.0).sum();
        let mut points = Vec::new();
        let mut labels = String::new();
        for (number, mark) in (1u32..).zip(&self.marks) {
            let x = margin + (width - 2.0 * margin) * (f64::from(number) / count.max(1.0));
            let share = match mark.value {
                value if !value.is_finite() => 1.0,
                value if most > 0.0 => value / most,
                _ => 0.0,
            };
            let y = height - margin - (height - 2.0 * margin) * share;
            points.push(format!("{x:.1},{y:.1}"));
            let _ = write!(
                labels,
                "  <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>\n  <text x=\"{x:.1}\" y=\"{:.1}\">{}</text>\n",
                height - margin + 16.0,
                markup(&mark.label)
            );
        }
        format!(
            "<svg {space}role=\"img\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"11\" text-anchor=\"middle\" fill=\"currentColor\">\n  \
             <title>{}</title>\n  \
             <path d=\"M{margin} {margin}V{}H{}\" fill=\"none\" stroke=\"currentColor\"/>\n  \
             <polyline points=\"{}\" fill=\"none\" stroke=\"currentColor\"/>\n{labels}</svg>\n",
            markup(&self.title),
            height - margin,
            width - margin,
            points.join(" ")
        )
    }
}

/// Text as XML has it.
fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> LineChart {
        let marks = values.iter().map(|value| Mark { label: "x".to_owned(), value: *value });
        LineChart::new("t", marks.collect())
    }

    #[test]
    fn points_lie_where_their_share_of_the_highest_is() {
        let svg = of(&[0.1, 0.2, 0.3, 0.4]).svg();
        // 480 by 300 with a margin of 48: quarters of 384 across, of 204 up.
        assert!(svg.contains("\"144.0,201.0 240.0,150.0 336.0,99.0 432.0,48.0\""), "{svg}");
    }

    #[test]
    fn nothing_and_infinity_can_be_drawn() {
        assert!(of(&[]).svg().starts_with("<svg"));
        assert!(of(&[1.0, f64::INFINITY]).svg().contains("\"240.0,48.0 432.0,48.0\""));
        assert!(!of(&[1.0]).inline().contains("http"));
    }
}
