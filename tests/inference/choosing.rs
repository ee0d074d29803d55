//! Which backend computes, and who is told.

use crate::loading::{exact, trained, try_load};
use apr_engine::progress::Progress;
use apr_engine::registry::Registry;
use apr_host::host::Host;
use apr_host::running::{Backend, LoadOptions};
use apr_sdk::{
    Device, DeviceInfo, DeviceSink, Kernel, LogLevel, OpSpec, Options, PluginDecl, Result, Support,
};
use std::sync::{Arc, Mutex};

/// A device that runs nothing, with so much memory, and why it cannot be used.
struct Idle(u64, Option<&'static str>);

impl Kernel for Idle {
    fn devices(&self, sink: &mut dyn DeviceSink) -> Result<()> {
        let mut info = DeviceInfo::default();
        info.name = "idle device".to_owned();
        info.memory = self.0;
        info.unusable = self.1.map(str::to_owned);
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
    kernel: || Some(Box::new(Idle(1 << 30, None))),
    ..PluginDecl::EMPTY
};

static OLD: PluginDecl = PluginDecl {
    manifest: "id=old\nversion=1\nlicense=MIT\nkernels=old\n",
    kernel: || Some(Box::new(Idle(1 << 30, Some("its driver is too old")))),
    ..PluginDecl::EMPTY
};

static MISSING: PluginDecl = PluginDecl {
    manifest: "id=missing\nversion=1\nlicense=MIT\nkernels=missing\n",
    kernel: || Some(Box::new(Idle(0, Some("it is not installed")))),
    ..PluginDecl::EMPTY
};

/// The processor and a backend of a test, whatever devices this machine has.
fn host_with(plugin: &'static PluginDecl) -> Host {
    let mut registry = Registry::new();
    apr_host::plugins::add_bundled(&mut registry, plugin);
    apr_tests::host_but(registry, "cuda_kernels")
}

/// The first device that computes.
fn automatic() -> LoadOptions {
    LoadOptions { backend: Backend::Auto, ..exact() }
}

#[test]
fn a_device_that_could_compute_and_does_not_is_told_of() {
    let host = host_with(&IDLE);
    let loaded = try_load(&host, &trained(), &automatic()).unwrap();
    assert_eq!(loaded.facts.backend, "cpu");
    let told: Vec<_> = loaded.facts.warnings.iter().filter(|text| text.contains("idle: `embed`")).collect();
    assert_eq!(told.len(), 1, "{:?}", loaded.facts);
    let named = LoadOptions { backend: Backend::Named("idle".to_owned()), ..exact() };
    let error = try_load(&host, &trained(), &named).err().unwrap();
    assert!(error.message().contains("it has no kernels"), "{error}");
    let only_host = LoadOptions { backend: Backend::Host, ..exact() };
    assert!(try_load(&host, &trained(), &only_host).unwrap().facts.warnings.is_empty());
}

#[test]
fn a_device_that_cannot_be_used_is_told_of_if_it_is_there() {
    let loaded = try_load(&host_with(&OLD), &trained(), &automatic()).unwrap();
    let about = |texts: &[String], what: &str| texts.iter().filter(|text| text.contains(what)).count();
    assert_eq!(loaded.facts.backend, "cpu");
    assert_eq!(about(&loaded.facts.warnings, "old: its driver is too old"), 1, "{:?}", loaded.facts);
    let loaded = try_load(&host_with(&MISSING), &trained(), &automatic()).unwrap();
    assert_eq!(about(&loaded.facts.warnings, "missing:"), 0, "{:?}", loaded.facts);
    assert_eq!(about(&loaded.facts.notes, "missing: it is not installed"), 1, "{:?}", loaded.facts);
}

#[test]
fn the_choice_of_a_backend_has_its_reason() {
    let named = LoadOptions { backend: Backend::Named("cpu".to_owned()), ..exact() };
    let only_host = LoadOptions { backend: Backend::Host, ..exact() };
    for (plugin, options, reason) in [
        (&MISSING, &automatic(), "the first usable one that can compute the whole model"),
        (&MISSING, &named, "named with --backend"),
        (&MISSING, &only_host, "the first that computes in the host's memory, as --no-gpu asks"),
    ] {
        let loaded = try_load(&host_with(plugin), &trained(), options).unwrap();
        let note = format!("chose the backend cpu: {reason}");
        assert!(loaded.facts.notes.contains(&note), "{note}: {:?}", loaded.facts.notes);
    }
    let host = apr_tests::host_but(Registry::new(), "cuda_kernels");
    let alone = try_load(&host, &trained(), &automatic()).unwrap().facts.notes;
    assert!(alone.iter().any(|note| note.ends_with("no other device comes before it")), "{alone:?}");
}

/// How far work is, as it was reported.
#[derive(Default)]
struct Reports(Mutex<Vec<(u64, u64)>>);

impl Progress for Reports {
    fn bytes(&self, done: u64, total: u64, _: &str) {
        self.0.lock().unwrap().push((done, total));
    }

    fn log(&self, _: LogLevel, _: &str) {}
}

#[test]
fn loading_and_quantizing_report_how_far_they_are() {
    for quantize in [None, Some("Q8_0".to_owned())] {
        let mut host = apr_tests::host();
        let reports = Arc::new(Reports::default());
        host.progress = reports.clone();
        let loaded = try_load(&host, &trained(), &LoadOptions { quantize, ..exact() }).unwrap();
        let reports = reports.0.lock().unwrap();
        assert!(reports.len() > 30, "{} reports", reports.len());
        let total = reports[0].1;
        assert!(total >= loaded.facts.bytes / 2, "{total} of {}", loaded.facts.bytes);
        assert!(reports.iter().all(|(done, of)| done <= of && *of == total));
        assert!(reports.iter().any(|(done, of)| 100 * done >= 99 * of), "{:?}", reports.iter().max());
    }
}

#[test]
fn a_device_that_is_not_there_is_refused_with_those_that_are() {
    let options = LoadOptions { backend: Backend::Named("idle".to_owned()), device: 3, ..exact() };
    let error = try_load(&host_with(&IDLE), &trained(), &options).err().unwrap();
    assert!(error.message().contains("`idle` has no device 3"), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("0 (idle device)")), "{error}");
}
