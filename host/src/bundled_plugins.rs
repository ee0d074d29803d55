//! The plugins linked into the program (feature `bundled`): the only place where the host names any. An
//! unreferenced crate is not linked, hence the lines below; a test compares them with `plugins/`.

use apr_sdk::PluginDecl;

#[cfg(all(feature = "bundled", not(target_family = "wasm")))]
mod referenced {
    extern crate apr_plugin_apr as _;
    extern crate apr_plugin_architectures as _;
    extern crate apr_plugin_cpu_kernels as _;
    extern crate apr_plugin_cuda_kernels as _;
    extern crate apr_plugin_ggml_legacy as _;
    extern crate apr_plugin_gguf as _;
    extern crate apr_plugin_huggingface as _;
    extern crate apr_plugin_numpy as _;
    extern crate apr_plugin_onnx as _;
    extern crate apr_plugin_packed as _;
    extern crate apr_plugin_pytorch as _;
    extern crate apr_plugin_quants as _;
    extern crate apr_plugin_safetensors as _;
}

/// The declarations of the linked plugins, by id.
#[cfg(not(target_family = "wasm"))]
pub fn declared() -> Vec<&'static PluginDecl> {
    if !cfg!(feature = "bundled") {
        return Vec::new();
    }
    let mut decls: Vec<&'static PluginDecl> =
        inventory::iter::<&'static PluginDecl>.into_iter().copied().collect();
    // They register themselves in link order.
    decls.sort_by_key(|decl| decl.manifest);
    decls
}

/// The declarations of the linked plugins, by id; listed explicitly for WebAssembly.
#[cfg(target_family = "wasm")]
pub fn declared() -> Vec<&'static PluginDecl> {
    #[cfg(feature = "bundled")]
    return vec![
        &apr_plugin_apr::PLUGIN,
        &apr_plugin_architectures::PLUGIN,
        &apr_plugin_cpu_kernels::PLUGIN,
        &apr_plugin_cuda_kernels::PLUGIN,
        &apr_plugin_ggml_legacy::PLUGIN,
        &apr_plugin_gguf::PLUGIN,
        &apr_plugin_huggingface::PLUGIN,
        &apr_plugin_numpy::PLUGIN,
        &apr_plugin_onnx::PLUGIN,
        &apr_plugin_packed::PLUGIN,
        &apr_plugin_pytorch::PLUGIN,
        &apr_plugin_quants::PLUGIN,
        &apr_plugin_safetensors::PLUGIN,
    ];
    #[cfg(not(feature = "bundled"))]
    Vec::new()
}
