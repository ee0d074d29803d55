//! The language of architecture tables: expressions over the configuration, patterns of names, and operations on arrays.

pub(crate) mod array;
pub(crate) mod change;
pub(crate) mod expression;
pub(crate) mod members;
pub(crate) mod operation;
pub(crate) mod pattern;
pub(crate) mod table_error;
pub(crate) mod value;
