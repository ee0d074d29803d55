//! Parts shared by the verbs that run a model.

pub mod args;
pub mod corpus;
pub mod loading;
pub mod prompt;
pub mod signs;
pub mod stdout;
pub mod summary;
