//! The Hugging Face hub: its interface, its words, and what is named on it.

pub mod api;
pub mod licence;
mod listing;
mod refusal;
pub mod select;

pub use api::Hub;
pub use listing::{Listed, Listing, MOST_FILES};
