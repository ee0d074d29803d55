//! The columns of a value that an operation reads or writes.

use super::numbers::RowsOf;

/// Some elements of each row of a value, which has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The value's number.
    pub value: usize,
    /// The first element.
    pub first: usize,
    /// Number of elements, at least one.
    pub width: usize,
    /// The rows of the value.
    pub rows: RowsOf,
}

impl Columns {
    /// Returns whether both have an element in common.
    pub fn overlaps(&self, other: &Columns) -> bool {
        self.value == other.value
            && self.first < other.first + other.width
            && other.first < self.first + self.width
    }

    /// `width` of these elements from `first` on, which the caller knows to be among them.
    pub fn part(&self, first: usize, width: usize) -> Columns {
        Columns { first: self.first + first, width, ..*self }
    }
}

/// A number of a program as an index. No platform that the SDK runs on has smaller ones.
pub(in crate::kernel) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
