//! The backend through its interface: every operation against a plain interpreter in double precision.

mod memory;
mod operations;
mod programs;
mod reference;
mod rejects;
mod setup;
mod speed;
