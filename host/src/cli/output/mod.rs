//! The way of an answer or an error to the terminal.

pub mod exit_code;
pub mod format_report;
pub mod hints_told;
pub mod metadata;
pub mod progress;
pub mod stream;
pub mod terminal;
pub mod verb_report;
