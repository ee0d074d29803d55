//! Check that a model fits into memory, before anything is loaded.

use crate::sizes::show_size;
use apr_engine::hints;
use apr_sdk::{Error, Result};
use std::fs;

/// Memory besides weights, caches and values: threads, what they exchange, the program itself. 64 MiB.
const REST: u64 = 64 << 20;

/// Bytes that the system can give without taking them from others; `None` if it does not say.
pub fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The memory that holds a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The host's.
    Host,
    /// The device's own.
    Device,
}

/// Memory that a model needs, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    /// Prepared weights.
    pub weights: u64,
    /// Keys and values of all positions.
    pub caches: u64,
    /// Values of the tokens that are computed together.
    pub step: u64,
}

/// Fails if what is needed does not fit.
///
/// # Errors
/// Failed, with what is needed and what there is.
pub fn check(needs: Needs, place: Place, available: Option<u64>) -> Result<()> {
    let Needs { weights, caches, step } = needs;
    let needed = [caches, step, REST].into_iter().fold(weights, u64::saturating_add);
    let Some(free) = available.filter(|free| *free < needed) else { return Ok(()) };
    let whose = if place == Place::Host { "memory" } else { "the device's memory" };
    let message = format!(
        "the model does not fit in {whose}: it needs {} ({} for weights, {} for the context, {} for the \
         tokens computed together), but only {} are free",
        show_size(needed),
        show_size(weights),
        show_size(caches),
        show_size(step),
        show_size(free)
    );
    Err(Error::failed(hints::MEMORY.told(&message))
        .hint("use a smaller type (--quantize Q4_K_M), a smaller --context, or a smaller --cache-type"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(weights: u64, caches: u64, step: u64) -> Needs {
        Needs { weights, caches, step }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_figures() {
        check(needs(1 << 30, 1 << 20, 1 << 20), Place::Host, Some(2 << 30)).unwrap();
        check(needs(u64::MAX, u64::MAX, u64::MAX), Place::Host, None).unwrap();
        let error = check(needs(3 << 30, 1 << 29, 1 << 29), Place::Host, Some(2 << 30)).unwrap_err();
        assert!(
            error.message().contains("needs 4.36 GB") && error.message().contains("2.15 GB are free"),
            "{error}"
        );
        check(needs(1 << 30, 0, 1 << 30), Place::Host, Some(2 << 30)).unwrap_err();
        check(needs(u64::MAX, 1, 1), Place::Device, Some(u64::MAX - 1)).unwrap_err();
    }

    #[test]
    fn this_machine_says_what_is_free() {
        if cfg!(target_os = "linux") {
            assert!(available().unwrap() > 1 << 20);
        }
    }
}
