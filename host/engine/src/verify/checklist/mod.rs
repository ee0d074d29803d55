//! The specification's checklist: points that a file passes or fails, as data, and the verdicts on an opened model.

mod falsified;
mod measure;

pub use falsified::falsified;

use crate::open::OpenedModel;
use apr_sdk::{Error, Result};
use measure::{Condition, Measure};
use serde::{Deserialize, Serialize};

/// A point of the checklist.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Its number in the specification.
    pub number: u8,
    /// Its name in a few words.
    pub title: String,
    /// The way it is measured, in one sentence.
    pub measured: String,
    measure: Measure,
    /// The files that it applies to.
    pub applies: String,
    condition: Option<Condition>,
    /// Codes of errors at opening that may mean that a file fails it.
    errors: Vec<String>,
    /// The way out for a file that fails it.
    pub help: String,
}

/// Every point that there is so far, by number.
///
/// # Errors
/// Plugin, if the table is not as it must be; that is a bug.
pub fn points() -> Result<Vec<Point>> {
    #[derive(Deserialize)]
    struct Table {
        point: Vec<Point>,
    }
    let table: std::result::Result<Table, _> = toml::from_str(include_str!("points.toml"));
    table.map(|table| table.point).map_err(|e| Error::plugin(format!("the table of points: {e}")))
}

/// The verdict on one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The file passes.
    Pass,
    /// The file can be used, but is not as it should be.
    Warn,
    /// The file fails.
    Fail,
    /// The point does not apply to this file.
    NotApplicable,
    /// The point applies, but was not measured.
    NotMeasured,
}

/// A point and the verdict on it.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Its number in the specification.
    pub number: u8,
    /// Its name in a few words.
    pub title: String,
    /// The verdict: `pass`, `warn`, `fail`, `not-applicable` or `not-measured`.
    pub verdict: Verdict,
    /// The reason for the verdict.
    pub reason: String,
    /// The way it is measured.
    pub measured: String,
    /// The way out for a file that fails it.
    pub help: String,
}

/// The verdict that a format's own report gives on a point.
#[derive(Clone, Debug, Deserialize)]
pub struct Stated {
    /// The point's number.
    pub number: u8,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason for it.
    pub reason: String,
}

/// The outcome of a measurement that reads payload.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// How many checksums were compared, or payloads decoded.
    pub count: usize,
    /// The first that was wrong.
    pub wrong: Option<String>,
}

/// What is known of a model when its points are judged.
pub struct Evidence<'a> {
    /// The model.
    pub opened: &'a OpenedModel,
    /// Bytes that were read in order to open it.
    pub header_bytes: u64,
    /// The verdicts of the format's own report.
    pub stated: &'a [Stated],
    /// The stored checksums, if they were compared.
    pub checksums: Option<Measured>,
    /// The encoded payload, if it was decoded.
    pub payload: Option<Measured>,
}

impl Evidence<'_> {
    /// Judges every point.
    ///
    /// # Errors
    /// As [`points`].
    pub fn judge(&self) -> Result<Vec<Judged>> {
        Ok(points()?.into_iter().map(|point| self.judged(point)).collect())
    }

    fn judged(&self, point: Point) -> Judged {
        let not_applicable = point.condition.and_then(|condition| self.unless(condition));
        let (verdict, reason) = match not_applicable {
            Some(reason) => (Verdict::NotApplicable, reason),
            None => self.measure(&point),
        };
        let Point { number, title, measured, help, .. } = point;
        Judged { number, title, verdict, reason, measured, help }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_point_once_and_in_order() {
        let points = points().unwrap();
        let numbers: Vec<u8> = points.iter().map(|point| point.number).collect();
        assert_eq!(numbers, (1..=25).collect::<Vec<u8>>());
        for Point { number, title, measured, applies, help, .. } in &points {
            for text in [title, measured, applies, help] {
                assert!(!text.is_empty() && !text.ends_with('.'), "point {number}: {text}");
            }
        }
    }
}
