//! The work that apr does with models, without an operating system: bytes come from a [`Place`](place::Place)
//! and go to a [`TileSink`](tiles::TileSink), and loops run on a [`Crew`](crew::Crew). It compiles for the
//! browser.
//!
//! Modules are listed in import order: each may import only those before it.

pub mod crew;
pub mod engine;
pub mod place;
pub mod progress;
pub mod sizes;
pub mod wording;

pub mod registry;
pub mod values;

pub mod open;

pub mod expression;

pub mod architecture;

pub mod contract;

pub mod planned;

pub mod select;

pub mod types;

pub mod packed;

pub mod hints;
pub mod layout;

pub mod tiles;

pub mod verify;

pub mod convert;

pub mod diff;

pub mod survey;

pub mod rosetta;

pub use engine::Engine;
