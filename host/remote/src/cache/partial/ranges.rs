//! Sets of bytes: the ranges of a file that are there.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Ranges of bytes, sorted, apart from each other and not empty. In JSON: `[[0, 10], [20, 30]]`, ends excluded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds a range, and merges it with those that it touches.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.0.partition_point(|(_, end)| *end < range.start);
        let behind = self.0.partition_point(|(start, _)| *start <= range.end);
        let touched = &self.0[first..behind];
        let start = touched.first().map_or(range.start, |(start, _)| range.start.min(*start));
        let end = touched.last().map_or(range.end, |(_, end)| range.end.max(*end));
        self.0.splice(first..behind, [(start, end)]);
    }

    /// Bytes in the ranges.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// End of the last range.
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |(_, end)| *end)
    }

    /// End of the range that has `offset`; `offset` itself if none has.
    pub fn end_of_run(&self, offset: u64) -> u64 {
        let behind = self.0.partition_point(|(_, end)| *end <= offset);
        self.0.get(behind).filter(|(start, _)| *start <= offset).map_or(offset, |(_, end)| *end)
    }

    /// The ranges of a file of `len` bytes that are not there.
    pub fn missing(&self, len: u64) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut at = 0;
        for (start, end) in self.0.iter().copied().chain([(len, len)]) {
            if at < start {
                missing.push(at..start);
            }
            at = end;
        }
        missing
    }

    /// Returns whether these are ranges of a file of `len` bytes as [`Ranges::add`] leaves them, wherever they come from.
    pub fn is_valid(&self, len: u64) -> bool {
        let apart = self.0.windows(2).all(|pair| pair[0].1 < pair[1].0);
        apart && self.0.iter().all(|(start, end)| start < end && *end <= len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_as_a_set_of_bytes_does() {
        // Every sequence of three ranges in a file of six bytes, against a bit for each byte.
        let all: Vec<Range<u64>> = (0..6).flat_map(|start| (start..=6).map(move |end| start..end)).collect();
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            for c in &all {
                let mut ranges = Ranges::default();
                [a, b, c].iter().for_each(|range| ranges.add(Range::clone(range)));
                let has = |byte: u64| [a, b, c].iter().any(|range| range.contains(&byte));
                assert!(ranges.is_valid(6), "{a:?} {b:?} {c:?} {ranges:?}");
                assert_eq!(ranges.bytes(), (0..6).filter(|byte| has(*byte)).count() as u64);
                for byte in 0..6 {
                    let run = (byte..6).take_while(|byte| has(*byte)).count() as u64;
                    assert_eq!(ranges.end_of_run(byte), byte + run);
                }
                let missing: Vec<u64> = ranges.missing(6).into_iter().flatten().collect();
                assert_eq!(missing, (0..6).filter(|byte| !has(*byte)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn ranges_from_a_file_are_distrusted() {
        let valid = |text| serde_json::from_str::<Ranges>(text).unwrap().is_valid(10);
        assert!(valid("[]") && valid("[[0,10]]") && valid("[[0,3],[4,10]]"));
        for bad in ["[[0,11]]", "[[3,3]]", "[[4,2]]", "[[4,6],[0,2]]", "[[0,4],[3,6]]", "[[0,4],[4,6]]"] {
            assert!(!valid(bad), "{bad}");
        }
    }
}
