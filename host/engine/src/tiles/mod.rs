//! Writes payload: cuts it into tiles, which workers compute, examine, and hand to storage.

pub mod commit;
pub mod inline;
pub mod job;
pub mod losses;
pub mod pipeline;
pub mod resume;
mod schedule;
mod sink;
pub mod spooling;
pub mod tile;
pub mod tile_sums;
pub mod watch;
mod worker;

pub use sink::{Memory, TileRecord, TileSink};
pub use watch::Watch;
