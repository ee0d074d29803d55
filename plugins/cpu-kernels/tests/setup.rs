//! The backend that the tests are about.

use apr_sdk::{Device, ErrorKind, Kernel, Options};
use apr_testkit::kernels::Subject;

pub fn kernel() -> Box<dyn Kernel> {
    (apr_plugin_cpu_kernels::PLUGIN.kernel)().unwrap()
}

pub fn open(level: &str) -> Option<Box<dyn Device>> {
    match kernel().open(0, &Options::new().with("level", level)) {
        Ok(device) => Some(device),
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        Err(error) => panic!("{error}"),
    }
}

pub fn devices() -> Vec<(&'static str, Box<dyn Device>)> {
    let names = ["auto", "scalar", "avx2", "avx512"];
    names.into_iter().filter_map(|name| open(name).map(|device| (name, device))).collect()
}

/// Every level of this machine, with several numbers of workers: all give the same bits.
pub fn subject() -> Subject {
    let mut subject = Subject::new(kernel(), devices());
    subject.workers = vec![1, 2, 3, 5];
    subject
}
