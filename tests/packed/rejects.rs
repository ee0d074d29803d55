//! What does not fit is an error that names the tensor.

mod agreement;
mod by_hand;
mod comfy;
mod derived;
mod stated;
mod torchao;
mod words;
