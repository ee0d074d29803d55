//! Flags that several verbs share.

pub mod declared_flags;
pub mod globals;
pub mod key_args;
pub mod mapping;
pub mod open_args;
pub mod remote_args;
pub mod tensor_args;
pub mod type_args;
