//! Architectures are data (design section 6): tables say what each tensor and key is called in each dialect, and this
//! engine translates a model from one to another.

mod array;
mod base;
mod called;
mod check;
mod codes;
mod concerns;
mod config;
mod counts;
mod draft;
mod expected;
mod expression;
mod forward;
mod generate;
mod group;
mod head;
mod ledger;
mod lost;
mod members;
mod model;
mod nearest;
mod operation;
mod pattern;
mod refusal;
mod rename;
mod table;
mod tables;
mod translate;
mod untold;

pub use called::called;
pub use check::{Findings, Tried, check, try_on};
pub use concerns::{Concern, Concerns, ContractTensor, concerns, contract};
pub use draft::draft;
pub use expected::{Expected, Figure};
pub use forward::{Forward, forward};
pub use ledger::Ledger;
pub use model::{Wishes, translate_model};
pub use pattern::Pattern;
pub use table::Table;
pub use tables::Tables;
