//! What does not fit is an error that names the tensor.

mod by_hand;
mod derived;
mod stated;
mod torchao;
mod words;
