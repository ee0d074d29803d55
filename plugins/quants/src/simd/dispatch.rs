//! Code compiled once per level, and the level chosen at run time.

#![allow(
    unsafe_code,
    reason = "a function for other instructions than the crate's is called after they were found"
)]

use super::{Lanes, Level};

/// Work over vectors.
pub trait Task {
    /// What comes of it.
    type Output;

    /// Does it. Marked `#[inline(always)]`, as is everything that it calls with vectors: what is not inlined is not compiled
    /// for the level's instructions.
    fn run<V: Lanes>(self, lanes: V) -> Self::Output;
}

/// Plain work without vectors of its own, which the compiler may make some for. It neither fuses nor reorders float
/// operations, so that each level gives the same bits.
pub trait Body {
    /// What comes of it.
    type Output;

    /// Does it. Marked `#[inline(always)]`, as is everything costly that it calls.
    fn run(self) -> Self::Output;
}

/// Runs a task with the vectors of a level; nothing where the level has none, or this machine has not the level.
#[inline]
pub fn run<T: Task>(level: Level, task: T) -> Option<T::Output> {
    #[cfg(target_arch = "x86_64")]
    if level.is_supported() {
        return match level {
            Level::Scalar => None,
            // SAFETY: `is_supported` found the instructions that the function is compiled for.
            Level::Avx2 => Some(unsafe { x86::avx2(task) }),
            // SAFETY: as above.
            Level::Avx512 => Some(unsafe { x86::avx512(task) }),
        };
    }
    let _ = (level, task);
    None
}

/// Runs a body with a level's instructions; with the crate's own where this machine has not the level.
#[inline]
pub fn compiled<B: Body>(level: Level, body: B) -> B::Output {
    #[cfg(target_arch = "x86_64")]
    if level.is_supported() {
        return match level {
            Level::Scalar => body.run(),
            // SAFETY: as in `run`.
            Level::Avx2 => unsafe { x86::avx2_body(body) },
            // SAFETY: as in `run`.
            Level::Avx512 => unsafe { x86::avx512_body(body) },
        };
    }
    let _ = level;
    body.run()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! One function per level. What is inlined into it may use the level's instructions.

    use super::{Body, Task};
    use crate::simd::{avx2::Avx2, avx512::Avx512};

    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn avx2<T: Task>(task: T) -> T::Output {
        // SAFETY: this function has the instructions, so its caller found them.
        task.run(unsafe { Avx2::new() })
    }

    #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn avx512<T: Task>(task: T) -> T::Output {
        // SAFETY: as above.
        task.run(unsafe { Avx512::new() })
    }

    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn avx2_body<B: Body>(body: B) -> B::Output {
        body.run()
    }

    #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn avx512_body<B: Body>(body: B) -> B::Output {
        body.run()
    }
}
