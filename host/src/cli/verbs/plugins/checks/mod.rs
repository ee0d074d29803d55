//! What `apr plugins check` asks of each kind of plugin, and the lines that say what came of it.

pub mod check_kernel;
pub mod check_line;
pub mod check_operations;
pub mod check_quantizer;
pub mod check_table;
