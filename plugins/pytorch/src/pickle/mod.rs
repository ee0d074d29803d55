//! The pickle language: its opcodes, an interpreter that rebuilds tensors and plain values and nothing else,
//! and the resulting values.

pub mod allow_list;
pub mod bare;
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
