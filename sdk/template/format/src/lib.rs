//! The toy format: a text header with one line per tensor, then the payloads.
//!
//! ```text
//! 0       4 bytes  "TOY1"
//! 4       u32 LE   length of the header
//! 8       text     a line for each tensor: DTYPE [DIM,DIM] OFFSET NAME
//! ...     zeros    up to a multiple of 64; offsets count from here
//!         bytes    the payloads, each at a multiple of 64
//! ```

#![forbid(unsafe_code)]

mod layout;
mod reader;
mod writer;

apr_sdk::export_plugin! {
    id: {{id}},
    manifest: "
        formats={{id}}
        {{id}}.roles=read write
        {{id}}.magic=0:544f5931
        {{id}}.extensions=toy
        {{id}}.dtypes=*
        {{id}}.names=no-control
    ",
    reader: |_| Some(Box::new(reader::Toy)),
    writer: |_| Some(Box::new(writer::Toy)),
}
