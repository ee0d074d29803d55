//! The servers that the tests of this room run against: a hub, and file servers that lie, stall and redirect.
//!
//! They are threads over `std::net` that speak just enough HTTP/1.1, on ports of the loopback interface. Each one
//! notes every request in a [`Log`], which the test reads; each one ends when it is dropped.
//!
//! - [`Hub`]: models on something like the Hugging Face hub, with a second port for large files.
//! - [`HostileHub`]: listings that nobody should believe.
//! - [`FileServer`]: one file, whose server may tell a [`Lie`] or [`Stall`]. A hub serves its files so, too, if told to.
//! - [`Redirector`]: sends its clients elsewhere.
//! - [`tls`]: certificates for any of them, good and bad, by way of its [`Options`].

#[cfg(test)]
mod checks;
pub mod connection;
pub mod content;
pub mod encoding;
pub mod file_server;
pub mod hostile_hub;
pub mod hub;
pub mod liar;
pub mod listen;
pub mod log;
pub mod message;
pub mod mischief;
pub mod pace;
pub mod ranges;
pub mod redirector;
pub mod staller;
pub mod tls;

pub use content::Content;
pub use file_server::{FileServer, Validator};
pub use hostile_hub::{HostileHub, Listing};
pub use hub::Hub;
pub use liar::Lie;
pub use listen::{Bound, Options, Server, Service};
pub use log::{Log, Seen};
pub use message::{Fault, Framing, Request, Response};
pub use mischief::Habit;
pub use pace::Pace;
pub use redirector::Redirector;
pub use staller::{Stall, When};
