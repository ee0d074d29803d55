//! A device's memory: what does not fit is refused, nothing is kept, and the device goes on.

use crate::emulated::{Arced, Emulated, library};
use apr_plugin_cuda_kernels::Cuda;
use apr_sdk::{Batch, DType, ErrorKind, Kernel, MatrixSpec, Options, Rows};
use apr_testkit::Random;
use apr_testkit::kernels::programs::decoder;
use apr_testkit::kernels::{HeapSink, compile, step};
use std::sync::Arc;

struct Zeros;

impl Rows for Zeros {
    fn read(&self, _: u64, out: &mut [u8]) -> apr_sdk::Result<()> {
        out.fill(0);
        Ok(())
    }
}

#[test]
fn what_does_not_fit_is_refused_and_everything_is_given_back() {
    if library().is_none() {
        return;
    }
    let emulated = Arc::new(Emulated::with_memory(1 << 30));
    let kernel = Cuda(Arced(Arc::clone(&emulated), true));
    let device = kernel.open(0, &Options::new()).unwrap();
    let (program, weights) = decoder(&mut Random::new(5), DType::F16);
    let limits = apr_sdk::SessionLimits::new(300, 3, 500);
    let mut session = compile(&*device, &program, &weights, &limits).unwrap();
    let batch = Batch::new(&[1, 2, 3], &[0, 1, 2], &[0, 0, 0], &[2]).unwrap();
    let before = step(&mut *session, &batch, 1).unwrap();
    let used = emulated.used();
    let large = MatrixSpec::new(DType::F32, 20_000, 20_000).unwrap();
    let error = device.prepare(&large, &Zeros, &mut HeapSink).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.message().contains("1600000000 bytes are needed"), "{error}");
    assert_eq!(emulated.used(), used);
    // The device and what it holds are as before.
    let mut again = compile(&*device, &program, &weights, &limits).unwrap();
    assert_eq!(step(&mut *again, &batch, 1).unwrap(), before);
    drop((session, again, device));
    assert_eq!(emulated.used(), 0);
}
