//! Settings of remote models from the user's environment and files.

pub mod environment;
pub mod netrc;
