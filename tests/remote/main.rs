//! Models that are elsewhere: the servers that stand in for the hub and for bad networks, and what they prove.

#[allow(dead_code, unused_imports, reason = "a server has more to offer than the tests of one day ask for")]
mod server;
