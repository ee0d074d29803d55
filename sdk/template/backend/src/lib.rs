//! A compute backend that knows three operations over F32.
//!
//! ```text
//! kernel.rs    which devices there are, and what they can run
//! device.rs    matrices, as the device keeps them
//! session.rs   a compiled program, and its steps
//! ```

#![forbid(unsafe_code)]

mod device;
mod kernel;
mod session;

apr_sdk::export_plugin! {
    id: {{id}},
    manifest: "
        kernels={{id}}
    ",
    kernel: || Some(Box::new(kernel::Backend)),
}
