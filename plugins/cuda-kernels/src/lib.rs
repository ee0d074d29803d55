//! A compute backend for NVIDIA GPUs.
//!
//! ```text
//! plain rows --prepare--> planes on the device        layout.rs
//! program --compile--> nodes over device memory        session/, operations/: a file for each operation
//! batch --step--> kernels, or one recorded graph       driver/
//! ```
//!
//! The kernels are in `cuda/`. They are shipped as PTX text (`embedded_ptx.rs`), which the driver compiles for the device at hand:
//! neither building nor running needs a toolkit.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "bytes that go to and from the device")]
mod device;
#[allow(unsafe_code, reason = "NVIDIA's driver is called by its C interface")]
mod driver;
mod embedded_ptx;
mod kernel;
mod layout;
mod operations;
mod parameters;
#[allow(unsafe_code, reason = "kernels read and write the device's memory")]
mod session;

#[doc(hidden)]
pub use driver::{Driver, Graph, Launch, Queue};
#[doc(hidden)]
pub use embedded_ptx::{NAMES, ptx};
#[doc(hidden)]
pub use kernel::{Cuda, Devices};

apr_sdk::export_plugin! {
    id: cuda_kernels,
    manifest: "
        kernels=cuda
        cuda.option.overlap=open choice:on,off on Launch a kernel before the previous one has finished
        cuda.option.timings=open choice:off,on off Time each operation separately, without a recorded graph
    ",
    kernel: || Some(Box::new(kernel::Cuda(kernel::System))),
}
