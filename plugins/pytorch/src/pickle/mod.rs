//! The pickle language: its opcodes, the machine that rebuilds tensors and plain values from it and nothing else,
//! and the values it leaves behind.

pub mod allow_list;
pub mod decoder;
pub mod left_out;
pub mod machine;
pub mod numpy;
pub mod opcodes;
pub mod operations;
pub mod persistent;
pub mod plain_data;
pub mod rebuild;
pub mod text;
pub mod value;
