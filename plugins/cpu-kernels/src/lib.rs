//! A compute backend for processors.
//!
//! ```text
//! plain rows --prepare--> image of tiles      matrix/: a file for each element type
//! program --compile--> steps over buffers     session/
//! batch --step--> logits                      operations/: a file for each operation
//! ```
//!
//! Every operation has a plain form, which all others are judged by. Vector forms are chosen at run time by what the
//! processor has (`level.rs`).

#![deny(unsafe_code)]

mod device;
mod kernel;
mod level;
mod matrix;
#[allow(unsafe_code, reason = "rows that several workers write, and loops compiled for several processors")]
mod operations;
#[allow(unsafe_code, reason = "rows and pages that several workers write")]
mod session;

apr_sdk::export_plugin! {
    id: cpu_kernels,
    manifest: "
        kernels=cpu
        cpu.option.level=open choice:auto,scalar,avx2,avx512 auto Instruction set to use
    ",
    kernel: || Some(Box::new(kernel::Cpu)),
}
