//! The roofline: how fast tests computed, against how much they compute for each byte that is read. A test cannot lie above
//! the slope, which is the speed of memory.

use super::measure::Test;
use super::table::Model;
use std::fmt::Write;

/// The picture's size, and its margins left, right, above and below, in pixels.
const SIZE: (f64, f64) = (640.0, 420.0);
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const ABOVE: f64 = 40.0;
const BELOW: f64 = 52.0;

/// A test in the picture.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    label: String,
    /// Operations for each byte.
    intensity: f64,
    /// Operations per second.
    speed: f64,
}

/// A picture of tests under a roof.
#[derive(Clone, Debug)]
pub struct Roofline {
    title: String,
    /// Bytes per second.
    floor: f64,
    points: Vec<Point>,
}

impl Roofline {
    /// The picture of these tests of a model.
    pub fn of(model: &Model, tests: &[Test], floor: f64) -> Roofline {
        let points = tests.iter().map(|test| Point {
            label: format!("{}: {:.1} tokens/s", test.test, test.tokens_per_second),
            intensity: f64::from(test.together()) * model.operations() / model.bytes_read().max(1.0),
            speed: test.tokens_per_second * model.operations(),
        });
        Roofline { title: model.title(), floor, points: points.collect() }
    }

    /// The picture as a file of its own.
    pub fn svg(&self) -> String {
        let (width, height) = SIZE;
        let bottom = height - BELOW;
        let right = width - RIGHT;
        let axes = Axes::new(self);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\" fill=\"currentColor\">\n  \
             <title>Roofline of {0}</title>\n  <text x=\"{LEFT}\" y=\"22\" font-size=\"14\">{0}</text>\n",
            markup(&self.title)
        );
        for power in axes.x0..=axes.x1 {
            let at = axes.x(10f64.powi(power));
            let _ = write!(
                svg,
                "  <path d=\"M{at:.1} {ABOVE}V{bottom}\" stroke=\"currentColor\" stroke-opacity=\"0.15\"/>\n  \
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                bottom + 18.0,
                plain(10f64.powi(power))
            );
        }
        for power in axes.y0..=axes.y1 {
            let at = axes.y(10f64.powi(power));
            let _ = write!(
                svg,
                "  <path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"currentColor\" stroke-opacity=\"0.15\"/>\n  \
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                LEFT - 6.0,
                at + 4.0,
                plain(10f64.powi(power - 9))
            );
        }
        let _ = write!(
            svg,
            "  <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">operations per byte of weights read</text>\n  \
             <text x=\"{LEFT}\" y=\"{:.1}\" text-anchor=\"end\">GFLOP/s</text>\n",
            (LEFT + right) / 2.0,
            height - 12.0,
            ABOVE - 8.0
        );
        self.slope(&mut svg, &axes);
        for point in self.points.iter().filter(|point| point.speed > 0.0 && point.intensity > 0.0) {
            let at = axes.x(point.intensity);
            let up = axes.y(point.speed);
            let (anchor, shift) = if at > width / 2.0 { ("end", -8.0) } else { ("start", 8.0) };
            let _ = write!(
                svg,
                "  <circle cx=\"{at:.1}\" cy=\"{up:.1}\" r=\"4\"/>\n  \
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>\n",
                at + shift,
                up + 16.0,
                markup(&point.label)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Draws the bandwidth of memory: a line on which speed is intensity times bytes per second, as far as the picture goes.
    fn slope(&self, svg: &mut String, axes: &Axes) {
        if self.floor <= 0.0 {
            return;
        }
        let from = 10f64.powi(axes.x0).max(10f64.powi(axes.y0) / self.floor);
        let to = 10f64.powi(axes.x1).min(10f64.powi(axes.y1) / self.floor);
        if from < to {
            let _ = write!(
                svg,
                "  <path d=\"M{:.1} {:.1}L{:.1} {:.1}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\"/>\n  \
                 <text x=\"{:.1}\" y=\"{:.1}\">memory: {:.1} GB/s</text>\n",
                axes.x(from),
                axes.y(from * self.floor),
                axes.x(to),
                axes.y(to * self.floor),
                axes.x(from) + 10.0,
                (axes.y(from * self.floor) - 8.0).max(ABOVE + 12.0),
                self.floor / 1e9
            );
        }
    }
}

/// The decades that both axes show: from and to, as powers of ten.
struct Axes {
    x0: i32,
    x1: i32,
    y0: i32,
    y1: i32,
}

impl Axes {
    fn new(of: &Roofline) -> Axes {
        let [x0, x1] = decades(of.points.iter().map(|point| point.intensity).chain([1.0]));
        let [y0, y1] = decades(of.points.iter().map(|point| point.speed).chain([of.floor]));
        Axes { x0, x1, y0, y1 }
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.x0)) / f64::from((self.x1 - self.x0).max(1));
        LEFT + (SIZE.0 - LEFT - RIGHT) * share
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.y0)) / f64::from((self.y1 - self.y0).max(1));
        SIZE.1 - BELOW - (SIZE.1 - ABOVE - BELOW) * share
    }
}

fn decades(values: impl Iterator<Item = f64>) -> [i32; 2] {
    let values: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 { [0, 1] } else { [whole(least.log10().floor()), whole(most.log10().floor()) + 1] }
}

/// A power of ten as people write it.
fn plain(value: f64) -> String {
    if (0.001..1e6).contains(&value) { format!("{value}") } else { format!("{value:e}") }
}

/// A whole number of a few digits.
fn whole(value: f64) -> i32 {
    #[allow(clippy::cast_possible_truncation, reason = "a power of ten of a finite number has three digits")]
    let whole = value as i32;
    whole
}

/// Text as XML has it.
fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roofline(points: &[(f64, f64)], floor: f64) -> Roofline {
        let points =
            points.iter().map(|&(intensity, speed)| Point { label: "tg<1>".to_owned(), intensity, speed });
        Roofline { title: "a & b".to_owned(), floor, points: points.collect() }
    }

    #[test]
    fn points_lie_on_the_decades() {
        let svg = roofline(&[(1.0, 1e9), (100.0, 1e11)], 1e10).svg();
        // Intensity from 10^0 to 10^3 over 552 pixels from 64 on: 100 is two thirds.
        assert!(svg.contains("cx=\"64.0\"") && svg.contains("cx=\"432.0\""), "{svg}");
        assert!(
            svg.contains("a &amp; b") && svg.contains("tg&lt;1&gt;") && svg.contains("memory: 10.0 GB/s")
        );
    }

    #[test]
    fn nothing_can_be_drawn() {
        for svg in [roofline(&[], 0.0).svg(), roofline(&[(0.0, 0.0)], 1e9).svg()] {
            assert!(svg.starts_with("<svg") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
