//! Models loaded for running, as the program does it.

use apr_engine::open::{OpenOptions, open};
use apr_engine::registry::Registry;
use apr_host::convert::ConvertOptions;
use apr_host::host::Host;
use apr_host::running::{Backend, LoadOptions, Loaded, load};
use apr_sdk::{DType, PluginDecl, Result};
use std::path::{Path, PathBuf};

/// The usual plugins behind one of a test.
pub fn host_with(plugin: &'static PluginDecl) -> Host {
    let mut registry = Registry::new();
    apr_host::plugins::add_bundled(&mut registry, plugin);
    apr_tests::host_with(registry)
}

/// The trained model of `tests/model`.
pub fn trained() -> PathBuf {
    apr_tests::root().join("tests/model/weights")
}

/// The options of a judge: the processor, whatever devices this machine has; F32 caches, one thread.
pub fn exact() -> LoadOptions {
    LoadOptions { backend: Backend::Host, cache: DType::F32, ..LoadOptions::default() }
}

/// A model, loaded.
pub fn try_load(host: &Host, path: &Path, options: &LoadOptions) -> Result<Loaded> {
    let opened = open(host, path, &OpenOptions::default())?;
    load(host, &opened, options)
}

/// A model, loaded.
pub fn loaded(path: &Path, options: &LoadOptions) -> Loaded {
    let host = apr_tests::host();
    try_load(&host, path, options).unwrap_or_else(|error| panic!("{}: {error:?}", path.display()))
}

/// The logits after each of these tokens.
pub fn logits(loaded: &mut Loaded, ids: &[u32]) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    loaded
        .runner
        .feed_all(ids, &mut |_, logits| {
            all.push(logits.to_vec());
            Ok(())
        })
        .unwrap();
    all
}

/// The largest difference in units of the root mean square of `want`.
pub fn distance(have: &[f32], want: &[f32]) -> f64 {
    assert_eq!(have.len(), want.len());
    let rms = (want.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / want.len() as f64).sqrt();
    let apart = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).abs();
    // NaN is never the largest by comparison.
    if have.iter().any(|x| !x.is_finite()) {
        return f64::INFINITY;
    }
    have.iter().zip(want).map(apart).fold(0.0, f64::max) / rms
}

/// Converts a model, its weights as they are or as this type or mixture.
pub fn convert_to(from: &Path, to: &Path, dtype: Option<&str>) {
    let host = apr_tests::host();
    let mut options = ConvertOptions { arch: None, ..apr_tests::options(from, to) };
    match dtype {
        Some("F32") => options.quantization.precision = Some(DType::F32),
        Some("F16") => options.quantization.precision = Some(DType::F16),
        other => options.quantization.recipe = other.map(str::to_owned),
    }
    apr_tests::must(&host, &options);
}
