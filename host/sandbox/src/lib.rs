//! Tokenizers and chat templates in a process of their own.
//!
//! A model's chat template is a program, and its tokenizer has rules that may make much of little; both are somebody
//! else's. A worker process, started from the program itself, loads the tokenizer and answers requests over pipes:
//!
//! ```text
//!  Tokens --request--> worker: Tokens, templates     limits of each request: processor time, memory
//!         <--answer--                                of all: no files, no sockets, no environment, no descriptors
//! ```
//!
//! A worker that exceeds a limit ends, or is ended; that request is an error, and the next one goes to a new worker.
//! The program's `main` calls [`worker::serve_if_asked`] before anything else.

mod limits;
mod process;
mod tokens;
mod wire;
pub mod worker;

pub use process::Program;
pub use tokens::{Facts, Tokens, Watch, compare};
