//! Payload that is not stored the way it is written: views, blocks, streams. It arrives intact with any
//! number of threads, in bounded memory, and errors carry their place.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test's failure is a panic, its names are its documentation, and its numbers are small"
)]

mod arrival;
mod casts;
mod expressions;
mod making;
mod memory;
mod refusal;
mod slices;

use apr_engine::progress::Progress;
use apr_engine::registry::Registry;
use apr_host::host::Host;
use apr_sdk::{DType, LogLevel};
use apr_tests::Scratch;
use apr_tests::kinds::{Kind, PLUGIN, Tensor, file};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// One test at a time: memory is counted for the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn host(threads: usize) -> Host {
    let mut host = apr_tests::host();
    apr_host::plugins::add_bundled(&mut host.registry, &PLUGIN);
    host.set_threads(threads);
    host
}

/// Plugins that are there before memory is counted.
fn registry() -> &'static Registry {
    static HOST: OnceLock<Host> = OnceLock::new();
    &HOST.get_or_init(|| host(1)).registry
}

/// Bytes that do not repeat nearby.
fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..len).map(next).collect()
}

/// A tensor of bytes in blocks of `size`, or as a stream that gives `size` at once.
fn bytes(name: &str, kind: Kind, len: usize, size: u64) -> Tensor {
    let seed = u32::try_from(len).unwrap() + size as u32;
    Tensor { size, ..Tensor::new(name, kind, DType::U8, &[len as u64], noise(seed, len)) }
}

/// A view whose dimensions lie in the file in the order `order`, the first the outermost.
fn view(name: &str, kind: Kind, dtype: DType, shape: &[u64], order: &[usize]) -> Tensor {
    let mut strides = vec![0; shape.len()];
    let mut step = 1;
    for &axis in order.iter().rev() {
        strides[axis] = step;
        step *= shape[axis];
    }
    let len = usize::try_from(step * u64::from(dtype.info().unwrap().block_bytes)).unwrap();
    Tensor { strides, ..Tensor::new(name, kind, dtype, shape, noise(len as u32, len)) }
}

fn write(scratch: &Scratch, tensors: Vec<Tensor>) -> PathBuf {
    let path = scratch.at("in.kinds");
    std::fs::write(&path, file(tensors)).unwrap();
    path
}

/// Stops the work after some bytes.
pub struct StopAfter(pub u64, pub Arc<AtomicBool>);

impl Progress for StopAfter {
    fn bytes(&self, done: u64, _total: u64, _what: &str) {
        if done >= self.0 {
            self.1.store(true, Ordering::Relaxed);
        }
    }

    fn log(&self, _level: LogLevel, _message: &str) {}
}
