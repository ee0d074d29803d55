//! The host's way into a plugin: from the address of a header symbol to plain traits. Steps 11 to 13 of loading.

use crate::adapt::error::from_wire;
use crate::adapt::kernel::FromWireKernel;
use crate::adapt::quantizer::FromWireQuantizer;
use crate::adapt::reader::FromWireReader;
use crate::adapt::types;
use crate::adapt::writer::FromWireWriter;
use crate::guard::{Faults, guard};
use crate::wire::PluginMod_Ref;
use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::{
    AbiInstabilityErrors, CheckingGlobals, check_layout_compatibility_with_globals,
};
use abi_stable::library::{AbiHeaderRef, LibHeader, LibraryError, RootModuleError};
use apr_sdk::{Error, Kernel, Quantizer, Reader, Result, Writer};
use std::sync::Arc;

/// The functions of a loaded plugin whose layout has been checked.
#[derive(Clone)]
pub struct Module {
    functions: PluginMod_Ref,
    faults: Arc<Faults>,
}

/// The name of the symbol that holds the header of plugin `id`.
pub fn symbol(id: &str) -> String {
    format!("apr_plugin_v1_{id}")
}

impl Module {
    /// Checks the header at `address`, then the type layout, and only then runs the plugin's constructor.
    ///
    /// # Errors
    /// Plugin with `E_NOT_A_PLUGIN`, `E_ABI_MAJOR`, `E_LAYOUT` or `E_INIT`.
    ///
    /// # Safety
    /// `address` must be that of the symbol named by [`symbol`], in a library that is never unloaded and
    /// whose manifest section shows that `__export_plugin!` created it.
    pub unsafe fn from_header(address: *const u8) -> Result<Module> {
        crate::guard::install_hook();
        if address.is_null() || !address.cast::<LibHeader>().is_aligned() {
            return Err(refused("E_NOT_A_PLUGIN", "its header symbol has an invalid address".to_owned()));
        }
        // SAFETY: `AbiHeaderRef` is a transparent reference; the caller guarantees that a header stays at the
        // address forever. `upgrade` reads the part that no version changes before it reads the rest.
        let header = unsafe { std::mem::transmute::<*const u8, AbiHeaderRef>(address) };
        let header: &'static LibHeader = header.upgrade().map_err(|error| {
            let (code, message) = match error {
                LibraryError::InvalidCAbi { .. } => ("E_TARGET", "it uses a different calling convention"),
                _ => ("E_ABI_MAJOR", "its header is from a different version of abi_stable"),
            };
            refused(code, message.to_owned()).cause(error.to_string())
        })?;
        let plugin = header
            .layout()
            .ok_or_else(|| refused("E_LAYOUT", "its header carries no layout to check".to_owned()))?;
        let host = <PluginMod_Ref as StableAbi>::LAYOUT;
        // The plugin's layout is the interface, so that an older plugin may lack fields appended since. The
        // globals are fresh because shared ones would remember the types of every plugin seen.
        let checked =
            guard(|| check_layout_compatibility_with_globals(plugin, host, &CheckingGlobals::new()));
        checked
            .map_err(|panic| refused("E_LAYOUT", "its layout cannot be checked".to_owned()).cause(panic))?
            .map_err(|errors| {
                let message =
                    format!("its interface is incompatible with this apr: {}", in_one_line(&errors));
                refused("E_LAYOUT", message).cause(errors.to_string())
            })?;
        // SAFETY: the layout was just checked.
        let module = unsafe { header.unchecked_layout::<PluginMod_Ref>() };
        let module = module.map_err(|error| {
            let why = match error {
                RootModuleError::Returned(error) => error.to_string(),
                RootModuleError::Unwound => "it panicked".to_owned(),
            };
            refused("E_INIT", format!("its constructor failed: {}", apr_sdk::escape(&why, 600)))
        });
        let functions = module?;
        (functions.connect())(types::program());
        Ok(Module { functions, faults: Arc::default() })
    }

    /// The manifest section as the loaded library has it.
    pub fn manifest(&self) -> &'static [u8] {
        self.functions.manifest().as_slice()
    }

    /// Creates the reader for a format id.
    ///
    /// # Errors
    /// Any error from the plugin.
    pub fn reader(&self, format: &str) -> Result<Box<dyn Reader>> {
        let result = (self.functions.new_reader())(format.into());
        let object = result.into_result().map_err(from_wire)?;
        Ok(Box::new(FromWireReader { object, faults: Arc::clone(&self.faults) }))
    }

    /// Creates the writer for a format id.
    ///
    /// # Errors
    /// Any error from the plugin.
    pub fn writer(&self, format: &str) -> Result<Box<dyn Writer>> {
        let result = (self.functions.new_writer())(format.into());
        let object = result.into_result().map_err(from_wire)?;
        Ok(Box::new(FromWireWriter { object }))
    }

    /// Creates the quantizer.
    ///
    /// # Errors
    /// Any error from the plugin.
    pub fn quantizer(&self) -> Result<Box<dyn Quantizer>> {
        let object = (self.functions.new_quantizer())().into_result().map_err(from_wire)?;
        let has_schemes = object.has_schemes().into_result().map_err(from_wire)?;
        Ok(Box::new(FromWireQuantizer { object, has_schemes }))
    }

    /// Creates the compute backend.
    ///
    /// # Errors
    /// Any error from the plugin.
    pub fn kernel(&self) -> Result<Box<dyn Kernel>> {
        let object = (self.functions.new_kernel())().into_result().map_err(from_wire)?;
        Ok(Box::new(FromWireKernel { object, faults: Arc::clone(&self.faults) }))
    }

    /// The TOML text of an architecture table.
    ///
    /// # Errors
    /// Any error from the plugin.
    pub fn architecture(&self, id: &str) -> Result<String> {
        let result = (self.functions.architecture())(id.into());
        result.into_result().map(String::from).map_err(from_wire)
    }

    /// Returns the plugin's panics that no call could report, and clears the list.
    pub fn take_faults(&self) -> Vec<String> {
        let theirs = (self.functions.take_faults())();
        theirs.into_iter().map(String::from).chain(self.faults.take()).collect()
    }
}

fn refused(code: &str, message: String) -> Error {
    Error::plugin(message).code(code)
}

/// Condenses a layout error, whose full text has tens of thousands of bytes: what differs, and where last.
fn in_one_line(errors: &AbiInstabilityErrors) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut place = None;
    for error in &errors.errors {
        for found in &error.errs {
            let text = format!("{found:?}");
            let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned();
            if !words.contains(&word) {
                words.push(word);
            }
        }
        place = error.stack_trace.last().or(place);
    }
    let place = place.map(|at| format!(" in {}", at.expected)).unwrap_or_default();
    let place = place.lines().next().unwrap_or_default().to_owned();
    format!("{}{}", words.join(", "), apr_sdk::escape(&place, 200))
}
