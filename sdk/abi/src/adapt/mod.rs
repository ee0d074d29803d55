//! Adapters between the plain traits and the wire. `ToWire…` wraps a plain object on the side that made it
//! and guards each call; `FromWire…` gives the other side a plain trait again.

mod device;
mod digest;
pub mod error;
mod image;
mod importance_sums;
pub mod kernel;
pub mod layout;
pub mod model;
pub mod model_sink;
mod packed_weights;
pub mod quantizer;
pub mod reader;
pub mod request;
mod session;
pub mod source;
pub mod types;
mod workers;
pub mod writer;
