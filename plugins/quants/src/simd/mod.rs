//! Vector code, and the only place of this plugin with `unsafe`: what instructions the machine has, and what runs on them.

mod level;

pub use level::Level;
