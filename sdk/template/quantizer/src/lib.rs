//! A block type of 4.5 bits per value.
//!
//! ```text
//! 0    f16 LE     scale
//! 2    16 bytes   codes of 4 bits: the low halves are values 0 to 15, the high halves 16 to 31
//!                 value = (code - 8) * scale
//! ```

#![forbid(unsafe_code)]

mod block;
mod quantizer;

apr_sdk::export_plugin! {
    id: {{id}},
    manifest: "
        quantizers={{id}}
        {{id}}.dtype.{{TYPE}}=32 18 0:f16
    ",
    quantizer: || Some(Box::new(quantizer::Nibbles)),
}
