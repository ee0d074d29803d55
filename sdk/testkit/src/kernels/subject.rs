//! The backend that is judged, and how strictly.

use apr_sdk::{DType, Device, Error, Kernel, Result};

/// A compute backend, some of its devices, and what may be expected of them.
#[non_exhaustive]
pub struct Subject {
    /// The backend. It is asked what it supports as its device 0.
    pub kernel: Box<dyn Kernel>,
    /// Open devices, with names for messages. The first stands for all where one is enough.
    pub devices: Vec<(String, Box<dyn Device>)>,
    /// A device that takes the times of operations, if the first one does not.
    pub timed: Option<Box<dyn Device>>,
    /// The numbers of workers that steps run on.
    pub workers: Vec<usize>,
    /// Multiplier of each bound. The bounds, shares of a result's root mean square, leave room for sums of floats in any
    /// order and for functions that are right to about six digits.
    pub slack: f64,
    /// True if all devices, all numbers of workers and all ways to divide rows into batches give the same bits. If not,
    /// the same batches on the same device with as many workers still must.
    pub same_bits: bool,
    /// The types that a cache may have.
    pub caches: Vec<DType>,
    /// Checks that do not apply, by name, each with the reason.
    pub skips: Vec<(&'static str, String)>,
}

impl Subject {
    /// A backend that does everything with 1, 2 and 3 workers, within the bounds and always with the same bits.
    pub fn new(kernel: Box<dyn Kernel>, devices: Vec<(&str, Box<dyn Device>)>) -> Subject {
        Subject {
            kernel,
            devices: devices.into_iter().map(|(name, device)| (name.to_owned(), device)).collect(),
            timed: None,
            workers: vec![1, 2, 3],
            slack: 1.0,
            same_bits: true,
            caches: vec![DType::F32, DType::F16, DType::Q8_0],
            skips: Vec::new(),
        }
    }

    /// The device that stands for all.
    ///
    /// # Errors
    /// InvalidArgument if there is none.
    pub fn device(&self) -> Result<&dyn Device> {
        let first =
            self.devices.first().ok_or_else(|| Error::invalid_argument("a subject without devices"))?;
        Ok(&*first.1)
    }

    /// A type of cache for a test of something else: this one, if there is such a cache.
    pub(super) fn cache(&self, wanted: DType) -> DType {
        let first = self.caches.first().copied().unwrap_or(wanted);
        if self.caches.contains(&wanted) { wanted } else { first }
    }

    /// The `n`-th number of workers, again from the first on after the last.
    pub(super) fn workers(&self, n: usize) -> usize {
        self.workers.get(n % self.workers.len().max(1)).copied().unwrap_or(1)
    }

    /// Every device with every number of workers.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&str, &dyn Device, usize)> {
        self.workers.iter().flat_map(|&workers| {
            self.devices.iter().map(move |(name, device)| (name.as_str(), &**device, workers))
        })
    }
}
