//! Writes payload: cuts it into tiles, which workers compute, examine, and hand to storage.

pub mod commit;
pub mod losses;
pub mod pipeline;
mod resume;
mod schedule;
mod sink;
mod spooling;
pub mod tile;
pub mod tile_sums;
pub mod watch;
mod worker;
mod write;

pub use sink::{Memory, TileRecord, TileSink};
pub use watch::Watch;
pub use write::{OutputWork, WrittenPayload, write, write_all, write_inline};
