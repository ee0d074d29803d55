//! What apr does with models, without an operating system: bytes come through a [`Place`](open::Place), go to a
//! [`TileSink`](tiles::TileSink), and loops run on a [`Crew`](crew::Crew). It compiles for the browser.
//!
//! Folders are listed in the order in which they may import each other: each only those before it.

pub mod crew;
pub mod engine;
pub mod memory;
pub mod progress;
pub mod wording;

pub mod registry;
pub mod values;

pub mod open;

pub mod expression;

pub mod architecture;

pub mod contract;

pub mod plan;

pub mod layout;

pub mod tiles;

pub mod verify;

pub mod diff;

pub mod rosetta;

pub use engine::Engine;
