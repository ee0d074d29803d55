//! A compute backend for processors.
//!
//! ```text
//! plain rows --prepare--> image of tiles      matrix/: a file for each element type
//! program --compile--> steps over buffers     session/
//! batch --step--> logits                      operations/: a file for each operation
//! ```
//!
//! Every operation has a plain form, which all others are judged by. Vector forms are chosen at run time by what the
//! processor has (`level.rs`).

#![deny(unsafe_code)]

mod matrix;
