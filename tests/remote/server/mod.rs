//! The servers that the tests of this room run against: a hub, and whatever else listens.
//!
//! They are threads over `std::net` that speak just enough HTTP/1.1, on ports of the loopback interface. Each one
//! notes every request in a [`Log`], which the test reads; each one ends when it is dropped.
//!
//! - [`Hub`]: models on something like the Hugging Face hub, with a second port for large files.

pub mod connection;
pub mod content;
pub mod encoding;
pub mod hub;
pub mod listen;
pub mod log;
pub mod message;
pub mod pace;
pub mod ranges;

pub use content::Content;
pub use hub::Hub;
pub use listen::{Bound, Options, Server, Service};
pub use log::{Log, Seen};
pub use message::{Fault, Framing, Request, Response};
pub use pace::Pace;
