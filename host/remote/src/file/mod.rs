//! Files that are elsewhere, and the ways to read them.
//!
//! An [`Object`](object::Object) is a file on a server, of which ranges can be had. What the engine gets is a backing over
//! it: one that is only looked into reads by [`Look`](window::Look)'s windows; of one whose payload will be read, all is
//! fetched over several connections, into the cache ([`fetched_file`]) or ahead of whoever reads it ([`stream`]).

pub mod ahead;
pub mod fetched_file;
pub mod hashed_file;
pub mod lazy;
pub mod object;
pub mod spool;
pub mod store;
pub mod stream;
pub mod transfer;
pub mod window;
