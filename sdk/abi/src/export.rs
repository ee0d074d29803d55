//! Expansion of `apr_sdk::export_plugin!` on native targets: the manifest section, and the header symbol through which
//! the host reaches the plugin's functions.

use crate::adapt::kernel::ToWireKernel;
use crate::adapt::quantizer::ToWireQuantizer;
use crate::adapt::reader::ToWireReader;
use crate::adapt::types;
use crate::adapt::writer::ToWireWriter;
use crate::guard;
use crate::wire::{
    KernelObject, PluginMod, PluginMod_Ref, QuantizerObject, R, ReaderObject, WireProgram, WriterObject,
};
use abi_stable::erased_types::TD_Opaque;
use abi_stable::library::{CheckTypeLayout, LibHeader, RootModuleError};
use abi_stable::marker_type::ErasedPrefix;
use abi_stable::prefix_type::{PrefixRef, PrefixRefTrait, PrefixTypeTrait};
use abi_stable::std_types::{RBoxError, RErr, ROk, RResult, RSlice, RStr, RString, RVec};
use apr_sdk::{Error, Manifest, PluginDecl};

/// A plugin crate as a type; the macro implements this trait.
pub trait Export: 'static {
    /// The declaration that the macro was given.
    fn decl() -> &'static PluginDecl;
    /// The plugin's manifest section, head and text.
    fn manifest() -> &'static [u8];
}

/// The abi_stable header of a plugin crate.
pub const fn header<P: Export>() -> LibHeader {
    // SAFETY: `construct` returns the erased form of a `PrefixRef<PluginMod>`, as `PluginMod_Ref` requires.
    unsafe { LibHeader::from_constructor::<PluginMod_Ref>(construct::<P>, CheckTypeLayout::Yes) }
}

extern "C" fn construct<P: Export>() -> RResult<PrefixRef<ErasedPrefix>, RootModuleError> {
    guard::install_hook();
    let made = guard::guard(|| {
        PluginMod {
            manifest: RSlice::from_slice(P::manifest()),
            new_reader: new_reader::<P>,
            new_writer: new_writer::<P>,
            new_quantizer: new_quantizer::<P>,
            new_kernel: new_kernel::<P>,
            architecture: architecture::<P>,
            connect,
            take_faults,
        }
        .leak_into_prefix()
    });
    match made {
        // SAFETY: the cast erases only the type's name; `header` states that it is PluginMod's.
        Ok(module) => ROk(unsafe { module.to_prefix_ref().cast::<ErasedPrefix>() }),
        Err(panic) => RErr(RootModuleError::Returned(RBoxError::from_fmt(&panic))),
    }
}

extern "C" fn new_reader<P: Export>(format: RStr<'_>) -> R<ReaderObject> {
    guard::plugin_wire("creating its reader", || {
        let reader = (P::decl().reader)(format.as_str()).ok_or_else(|| lacks("reader", format.as_str()))?;
        Ok(ReaderObject::from_value(ToWireReader::new(reader), TD_Opaque))
    })
}

extern "C" fn new_writer<P: Export>(format: RStr<'_>) -> R<WriterObject> {
    guard::plugin_wire("creating its writer", || {
        let format = format.as_str();
        let writer = (P::decl().writer)(format).ok_or_else(|| lacks("writer", format))?;
        let mut formats = Manifest::parse(P::decl().manifest)?.formats.into_iter();
        let manifest = formats.find(|known| known.id == format).ok_or_else(|| lacks("writer", format))?;
        Ok(WriterObject::from_value(ToWireWriter::new(writer, manifest), TD_Opaque))
    })
}

extern "C" fn new_quantizer<P: Export>() -> R<QuantizerObject> {
    guard::plugin_wire("creating its quantizer", || {
        let quantizer = (P::decl().quantizer)().ok_or_else(lacks_quantizer)?;
        Ok(QuantizerObject::from_value(ToWireQuantizer::new(quantizer), TD_Opaque))
    })
}

extern "C" fn new_kernel<P: Export>() -> R<KernelObject> {
    guard::plugin_wire("creating its compute backend", || {
        let kernel = (P::decl().kernel)().ok_or_else(lacks_kernel)?;
        Ok(KernelObject::from_value(ToWireKernel::new(kernel), TD_Opaque))
    })
}

extern "C" fn architecture<P: Export>(id: RStr<'_>) -> R<RString> {
    guard::plugin_wire("providing an architecture table", || {
        let tables = (P::decl().name_mapper)().ok_or_else(|| lacks("table", id.as_str()))?;
        tables.table(id.as_str()).map(RString::from)
    })
}

extern "C" fn connect(program: WireProgram) {
    // What is stored cannot panic either.
    let _ = guard::guard(|| types::connect(program));
}

extern "C" fn take_faults() -> RVec<RString> {
    // This code belongs to the crate and does not panic; if it ever did, the answer is an empty list.
    guard::guard(|| guard::FAULTS.take()).unwrap_or_default().into_iter().map(RString::from).collect()
}

/// The error if the plugin has no object for a role that its manifest declares.
pub fn lacks(role: &str, format: &str) -> Error {
    Error::plugin(format!("has no {role} for `{format}`, although its manifest declares one"))
}

/// The error if the plugin has no quantizer although its manifest declares one.
pub fn lacks_quantizer() -> Error {
    Error::plugin("has no quantizer, although its manifest declares one")
}

/// The error if the plugin has no compute backend although its manifest declares one.
pub fn lacks_kernel() -> Error {
    Error::plugin("has no compute backend, although its manifest declares one")
}

/// Exports a plugin's binary interface; called by `apr_sdk::export_plugin!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_plugin {
    (id: $id:ident, plugin: $plugin:path, text: $text:expr $(,)?) => {
        const _: () = {
            struct Exported;

            #[used]
            #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__aprplug"))]
            #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".aprplug"))]
            static MANIFEST: $crate::manifest::Section<{ $text.len() }> =
                $crate::manifest::Section::new($text, cfg!(panic = "unwind"));

            impl $crate::export::Export for Exported {
                fn decl() -> &'static ::apr_sdk::PluginDecl {
                    &$plugin
                }
                fn manifest() -> &'static [u8] {
                    MANIFEST.bytes()
                }
            }

            #[unsafe(export_name = concat!("apr_plugin_v1_", stringify!($id)))]
            static HEADER: $crate::__LibHeader = $crate::export::header::<Exported>();
        };
    };
}
