//! Which backend computes, and who is told.

use crate::loading::{exact, host_with, trained, try_load};
use apr_host::running::{Backend, LoadOptions};
use apr_sdk::{Device, DeviceInfo, DeviceSink, Kernel, OpSpec, Options, PluginDecl, Result, Support};

/// A device that runs nothing.
struct Idle;

impl Kernel for Idle {
    fn devices(&self, sink: &mut dyn DeviceSink) -> Result<()> {
        let mut info = DeviceInfo::default();
        info.memory = 1 << 30;
        sink.device(info)
    }

    fn supports(&self, _: u32, _: &OpSpec<'_>) -> Result<Support> {
        Ok(Support::No("it has no kernels".to_owned()))
    }

    fn open(&self, _: u32, _: &Options) -> Result<Box<dyn Device>> {
        unreachable!("nobody opens what runs nothing")
    }
}

static IDLE: PluginDecl = PluginDecl {
    manifest: "id=idle\nversion=1\nlicense=MIT\nkernels=idle\n",
    kernel: || Some(Box::new(Idle)),
    ..PluginDecl::EMPTY
};

#[test]
fn a_device_that_could_compute_and_does_not_is_told_of() {
    let host = host_with(&IDLE);
    let loaded = try_load(&host, &trained(), &exact()).unwrap();
    assert_eq!(loaded.facts.backend, "cpu");
    let told: Vec<_> = loaded.facts.warnings.iter().filter(|text| text.contains("idle: `embed`")).collect();
    assert_eq!(told.len(), 1, "{:?}", loaded.facts);
    let named = LoadOptions { backend: Backend::Named("idle".to_owned()), ..exact() };
    let error = try_load(&host, &trained(), &named).err().unwrap();
    assert!(error.message().contains("it has no kernels"), "{error}");
    let only_host = LoadOptions { backend: Backend::Host, ..exact() };
    assert!(try_load(&host, &trained(), &only_host).unwrap().facts.warnings.is_empty());
}
