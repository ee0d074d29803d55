//! Every cap in one place, and the memory budget they draw on.

use crate::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// The caps a reader works under. Every count is also checked against the bytes left in the file before
/// anything is allocated, so a cap is a last line of defence, not the only one.
#[derive(Debug)]
pub struct Limits {
    /// Tensors per model. 2^22: ten times the largest mixture-of-experts checkpoint with unstacked experts.
    pub tensors: u64,
    /// Dimensions per tensor. 8: the APR index and every array library in use stop there or earlier.
    pub dims: usize,
    /// Bytes in a tensor name or metadata key. 65535: the largest u16 length.
    pub name_bytes: u64,
    /// Metadata keys per file. 2^20: real files have fewer than 100.
    pub metadata_keys: u64,
    /// Nesting of metadata arrays. 8: real files have 1; recursion must not overflow the stack.
    pub nesting: u32,
    /// Files per model. 2^16: the largest sharded checkpoints have fewer than 1000.
    pub files: u32,
    /// The memory that opening a model may use.
    pub budget: Budget,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            tensors: 1 << 22,
            dims: 8,
            name_bytes: 65_535,
            metadata_keys: 1 << 20,
            nesting: 8,
            files: 1 << 16,
            budget: Budget::default(),
        }
    }
}

impl Limits {
    /// Checks a count read from a file against its cap and against the bytes left.
    ///
    /// # Errors
    /// LimitExceeded above `cap`; Malformed if `count` items of at least `min_item` bytes cannot fit in
    /// `left` bytes.
    pub fn count(&self, what: &str, count: u64, cap: u64, min_item: u64, left: u64) -> Result<usize> {
        if count > cap {
            return Err(Error::limit(format!("{what} {count} exceeds the limit of {cap}")));
        }
        match count.checked_mul(min_item) {
            Some(need) if need <= left => {}
            _ => {
                return Err(Error::malformed(format!(
                    "{what} {count} requires at least {} bytes, but only {left} are left",
                    u128::from(count) * u128::from(min_item)
                )));
            }
        }
        usize::try_from(count)
            .map_err(|_| Error::limit(format!("{what} {count} does not fit in this machine's memory")))
    }
}

/// The memory that opening a model may use: 64 MiB plus 16 bytes for every byte read. Reading earns,
/// allocating spends, so memory stays in proportion to the header that is really there.
#[derive(Debug)]
pub struct Budget {
    left: AtomicU64,
}

impl Budget {
    /// Bytes available before anything is read.
    pub const BASE: u64 = 64 << 20;
    /// Bytes earned by each byte read.
    pub const PER_BYTE: u64 = 16;

    /// A budget that starts with `base` bytes; reading earns more.
    pub fn new(base: u64) -> Budget {
        Budget { left: AtomicU64::new(base) }
    }

    /// Records that `bytes` were read from the file.
    pub fn earn(&self, bytes: u64) {
        let add = bytes.saturating_mul(Budget::PER_BYTE);
        // Saturate: the budget must not wrap around to 0.
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.saturating_add(add)));
    }

    /// Spends `bytes` of the budget.
    ///
    /// # Errors
    /// LimitExceeded if fewer are left.
    pub fn charge(&self, bytes: u64) -> Result<()> {
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(bytes))
            .map(|_| ())
            .map_err(|left| {
                Error::limit(format!(
                    "opening requires {bytes} more bytes of memory, but the budget has only {left} left"
                ))
            })
    }

    /// Bytes left to spend.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(Budget::BASE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_checked_against_cap_and_file() {
        let limits = Limits::default();
        assert_eq!(limits.count("n", 3, 10, 4, 12).unwrap(), 3);
        assert!(limits.count("n", 11, 10, 4, 1 << 40).is_err());
        assert!(limits.count("n", u64::MAX, u64::MAX, 4, 12).is_err());
    }

    #[test]
    fn budget_is_earned_by_reading() {
        let budget = Budget::new(10);
        assert!(budget.charge(11).is_err());
        budget.earn(1);
        budget.charge(26).unwrap();
        assert_eq!(budget.left(), 0);
        budget.earn(u64::MAX);
        budget.earn(u64::MAX);
        assert_eq!(budget.left(), u64::MAX);
    }
}
