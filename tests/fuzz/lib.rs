//! The rules that every target asserts, and the seeds: the modules that `cargo test` replays the corpora with.

#[path = "../replay/property/mod.rs"]
pub mod property;
#[path = "../replay/seeds.rs"]
pub mod seeds;

#[global_allocator]
static ALLOCATOR: property::memory::Counting = property::memory::Counting;
