//! Adapters between the plain traits and the wire, both ways. `ToWire…` is put around a plain object by the side that
//! made it, and guards each call; `FromWire…` is what the other side sees, again as a plain trait.

mod digest;
pub mod error;
pub mod layout;
pub mod model;
pub mod model_sink;
pub mod quantizer;
pub mod reader;
pub mod request;
pub mod source;
pub mod writer;
