//! Adapters between the plain traits and the wire. `ToWire…` wraps a plain object on the side that made it
//! and guards each call; `FromWire…` gives the other side a plain trait again.

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
