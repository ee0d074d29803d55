//! Loads a library that passed all checks, and takes over the plugin's functions: steps 10 to 13 of loading.
//! The only place in the host that lets plugin code in.

use apr_abi::link::{Module, symbol};
use apr_sdk::{Error, Result};
use std::error::Error as _;
use std::path::Path;

#[cfg(all(panic = "abort", not(target_family = "wasm")))]
compile_error!("apr must unwind: with `panic = \"abort\"` a panic in a plugin would terminate it");

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Loads the library at the absolute `path`. It is never unloaded: its objects, functions and texts are used
/// everywhere.
///
/// # Errors
/// Plugin with `E_DLOPEN`, `E_NOT_A_PLUGIN`, `E_ABI_MAJOR`, `E_TARGET`, `E_LAYOUT`, `E_INIT` or `E_CHANGED`.
pub(super) fn load(path: &Path, id: &str, manifest: &[u8]) -> Result<Module> {
    let library = std::mem::ManuallyDrop::new(open(path).map_err(|error| dlopen_failed(&error))?);
    let name = symbol(id);
    // SAFETY: the symbol's value is only used as an address here; `from_header` checks what is there.
    let header = unsafe { library.get::<*const u8>(name.as_bytes()) };
    let header = header.map_err(|_| {
        Error::plugin(format!("its manifest has the id `{id}`, but the library has no symbol `{name}`"))
            .code("E_NOT_A_PLUGIN")
    })?;
    // SAFETY: the library is never unloaded (`ManuallyDrop`), and its manifest, which only `__export_plugin!`
    // writes, has been read and judged.
    let module = unsafe { Module::from_header(*header) }?;
    if module.manifest() != manifest {
        return Err(Error::plugin(
            "the file changed after its manifest was read, or an older version is already loaded",
        )
        .code("E_CHANGED")
        .hint("run the command again"));
    }
    Ok(module)
}

fn open(path: &Path) -> std::result::Result<Library, libloading::Error> {
    // SAFETY: the library's initializers run now: that is what loading a plugin means. Trust in the file was
    // decided before. RTLD_NOW, so that a missing symbol fails here and not at the first call.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
}

/// The loader's message is in the chain of sources, not in the error itself.
fn dlopen_failed(error: &libloading::Error) -> Error {
    let mut refusal = Error::plugin("the system cannot load it").code("E_DLOPEN").cause(error.to_string());
    let mut source = error.source();
    while let Some(error) = source {
        refusal = refusal.cause(error.to_string());
        source = error.source();
    }
    refusal
}
