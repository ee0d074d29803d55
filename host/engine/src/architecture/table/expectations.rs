//! What a table expects of a tensor's values: ranges with their source.

use crate::architecture::language::table_error::{Read, Within};
use apr_sdk::Error;
use toml::{Table as Toml, Value as Item};

/// Ranges of a tensor's statistics, for its canonical values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// Statistics and their bounds, inclusive.
    pub ranges: Vec<(Figure, [f64; 2])>,
    /// Whether a value out of range stops a conversion; otherwise it is a warning.
    pub must: bool,
    /// Where the ranges come from.
    pub source: String,
}

/// A statistic that may have a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// The mean.
    Mean,
    /// The standard deviation.
    Std,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
}

impl Figure {
    /// The name in tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Mean => "mean",
            Figure::Std => "std",
            Figure::Min => "min",
            Figure::Max => "max",
        }
    }
}

impl Expected {
    /// Parses `{ mean = [low, high], std = [...], min = [...], max = [...], must = true, source = "..." }`.
    ///
    /// # Errors
    /// InvalidArgument for an unknown key, an invalid range, and ranges without a source.
    pub fn parse(item: &Item) -> Read<Expected> {
        let wrong = |what: &str| Error::invalid_argument(format!("`expected` {what}"));
        let toml: &Toml = item.as_table().ok_or_else(|| wrong("must be a table"))?;
        let mut expected = Expected { must: true, ..Expected::default() };
        for (key, item) in toml {
            let figure = [Figure::Mean, Figure::Std, Figure::Min, Figure::Max].into_iter();
            match (key.as_str(), figure.into_iter().find(|figure| figure.name() == key)) {
                (_, Some(figure)) => {
                    let range = range(item)
                        .ok_or_else(|| wrong("has a range other than `[low, high]`"))
                        .within(key.as_str())?;
                    expected.ranges.push((figure, range));
                }
                ("must", _) => {
                    expected.must = item
                        .as_bool()
                        .ok_or_else(|| wrong("has a `must` that is not a boolean"))
                        .within(key.as_str())?;
                }
                ("source", _) => {
                    item.as_str()
                        .ok_or_else(|| wrong("has a `source` that is not a string"))
                        .within(key.as_str())?
                        .clone_into(&mut expected.source);
                }
                _ => {
                    let error = wrong("accepts only ranges for mean, std, min and max, `must` and `source`");
                    return Err(error).within(key.as_str());
                }
            }
        }
        if expected.source.is_empty() || expected.ranges.is_empty() {
            return Err(wrong("requires a range and its `source`").into());
        }
        Ok(expected)
    }

    /// The ranges after adding `constant` to the values.
    pub fn moved(&self, constant: f64) -> Expected {
        let mut moved = self.clone();
        for (figure, [low, high]) in &mut moved.ranges {
            if *figure != Figure::Std {
                *low += constant;
                *high += constant;
            }
        }
        moved
    }
}

fn range(item: &Item) -> Option<[f64; 2]> {
    match item.as_array()?.as_slice() {
        [low, high] => Some([number(low)?, number(high)?]).filter(|[low, high]| low <= high),
        _ => None,
    }
}

#[allow(clippy::cast_precision_loss, reason = "bounds are small numbers")]
fn number(item: &Item) -> Option<f64> {
    item.as_float().or_else(|| item.as_integer().map(|n| n as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Read<Expected> {
        Expected::parse(&Item::Table(text.parse().unwrap()))
    }

    #[test]
    fn ranges_have_a_source_and_move_with_what_is_added() {
        let expected = parse("mean = [0.5, 3]\nstd = [0, 0.1]\nsource = \"a paper\"").unwrap();
        assert!(expected.must && expected.source == "a paper");
        assert_eq!(expected.ranges, [(Figure::Mean, [0.5, 3.0]), (Figure::Std, [0.0, 0.1])]);
        let moved = expected.moved(-1.0);
        assert_eq!(moved.ranges, [(Figure::Mean, [-0.5, 2.0]), (Figure::Std, [0.0, 0.1])]);
        assert!(!parse("max = [1, 2]\nmust = false\nsource = \"x\"").unwrap().must);
        for bad in [
            "mean = [0, 1]",
            "source = \"x\"",
            "mean = [1, 0]\nsource = \"x\"",
            "mean = 1\nsource = \"x\"",
            "median = [0, 1]\nsource = \"x\"",
        ] {
            parse(bad).unwrap_err();
        }
    }
}
