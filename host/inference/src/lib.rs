//! How a model computes: its tokens and its chat templates. Texts and tokens come in and go out as values; no file, no
//! terminal, no clock.

#![forbid(unsafe_code)]

pub mod template;
pub mod tokens;
