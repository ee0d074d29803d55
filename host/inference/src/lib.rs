//! The means to run a model: its tokens and its chat templates. Texts and tokens are passed as values; no file, no
//! terminal, no clock.

#![forbid(unsafe_code)]

pub mod check;
pub mod compare;
pub mod departure;
pub mod generation;
pub mod importance;
pub mod perplexity;
pub mod program;
pub mod runner;
pub mod sampling;
pub mod stages;
pub mod tapped;
pub mod template;
pub mod tokens;
pub mod trace;
