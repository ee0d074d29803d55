//! The verbs, one file or folder each.

pub mod arch;
pub mod bench;
pub mod chat;
pub mod check;
pub mod completions;
pub mod config;
pub mod convert;
pub mod diff;
pub mod edit;
pub mod explain;
pub mod export;
pub mod import;
pub mod inspect;
pub mod kernels;
pub mod man;
pub mod plugins;
pub mod quality;
pub mod report;
pub mod rosetta;
pub mod run;
mod running;
pub mod scan;
pub mod tensors;
pub mod tokenizer;
pub mod tui;
pub mod validate;
pub mod version;
