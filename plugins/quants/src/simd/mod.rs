//! Vector code, and the only place of this plugin with `unsafe`: what instructions the machine has, and what runs on them.
//!
//! ```text
//! level.rs    which instructions
//! lanes.rs    Lanes: vectors of floats, integers and masks, without naming the instructions
//! avx2.rs     8 lanes          avx512.rs   16 lanes
//! call.rs     calls of intrinsics on values
//! rounding.rs whether floats are rounded as usual
//! dispatch.rs run(level, task): a Task over Lanes, compiled once per level
//!             compiled(level, body): plain safe code, compiled once per level
//! ```

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod call;
mod dispatch;
mod lanes;
mod level;
pub mod rounding;

pub use dispatch::{Body, Task, compiled, run};
pub use lanes::{Floats, Ints, Lanes, Mask};
pub use level::Level;

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "lanes and small numbers become each other"
)]
mod tests;
