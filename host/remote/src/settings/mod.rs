//! What the user's environment and files say of remote models.

pub mod environment;
pub mod netrc;
