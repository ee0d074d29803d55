//! What the verbs that run a model share.

pub mod args;
pub mod loading;
pub mod prompt;
pub mod signs;
pub mod spinner;
pub mod stdout;
pub mod summary;
