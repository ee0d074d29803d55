//! Models that are elsewhere: behind HTTPS, or on the Hugging Face hub; and the cache of what was downloaded.
//!
//! The engine reads a model through a [`Place`](apr_engine::place::Place) and its
//! [`Backing`](apr_engine::place::Backing)s, and cannot tell these from a folder on disk. This is the only crate that
//! opens sockets, and it opens none, and starts no thread, until an argument names something remote.

pub mod address;
pub mod cache;
pub mod file;
pub mod http;
pub mod hub;
pub mod names;
mod permits;
pub mod places;
pub mod pull;
pub mod settings;
mod threads;
pub mod typed;
