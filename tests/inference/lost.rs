//! A device that is lost while a model is loaded or computes: an error, and the processor goes on in the same process.

use crate::cuda::emulated::{Arced, Emulated, library};
use crate::loading::{exact, host_with, logits, trained, try_load};
use apr_host::running::{Backend, LoadOptions};
use apr_plugin_cuda_kernels::Cuda;
use apr_sdk::{ErrorKind, PluginDecl, Result};
use std::sync::{Arc, LazyLock};

static DEVICE: LazyLock<Arc<Emulated>> = LazyLock::new(|| Arc::new(Emulated::new()));

static LOST: PluginDecl = PluginDecl {
    manifest: "id=lost\nversion=1\nlicense=MIT\nkernels=lost\n",
    kernel: || Some(Box::new(Cuda(Arced(Arc::clone(&DEVICE), true)))),
    ..PluginDecl::EMPTY
};

#[test]
fn the_processor_goes_on_when_a_device_is_lost() {
    if library().is_none() {
        return apr_tests::skipped("a lost device: there is no C++ compiler");
    }
    let host = host_with(&LOST);
    let ids = [5, 16, 27];
    let run = |backend: Backend| -> Result<Vec<f32>> {
        let mut loaded = try_load(&host, &trained(), &LoadOptions { backend, ..exact() })?;
        loaded.runner.feed(&ids[..2])?;
        Ok(loaded.runner.feed(&ids[2..])?.to_vec())
    };
    let named = || Backend::Named("lost".to_owned());
    run(named()).unwrap();
    let calls = usize::MAX - DEVICE.lose_after(usize::MAX);
    let want = run(Backend::Host).unwrap();
    // While weights come, while the program is compiled, and in either step.
    for number in (0..16).map(|part| calls * part / 16).chain([calls - 3]) {
        DEVICE.lose_after(number);
        let error = run(named()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "call {number}: {error}");
        assert!(error.message().contains("the device is lost"), "call {number}: {error}");
        assert_eq!(DEVICE.used(), 0, "call {number}");
        assert_eq!(run(Backend::Host).unwrap(), want, "call {number}");
    }
    // It is there again, and so is all of its memory.
    DEVICE.lose_after(usize::MAX);
    let mut loaded = try_load(&host, &trained(), &LoadOptions { backend: named(), ..exact() }).unwrap();
    assert_eq!(logits(&mut loaded, &ids).len(), 3);
}
