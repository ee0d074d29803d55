//! The one struct a plugin hands out.

use super::{KernelObject, QuantizerObject, R, ReaderObject, WriterObject};
use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::{RSlice, RStr, RString, RVec};

/// What a plugin provides. A new role is a new field after the last.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginMod_Ref)))]
#[sabi(missing_field(option))]
pub struct PluginMod {
    /// The bytes of the manifest section, head and text.
    pub manifest: RSlice<'static, u8>,
    /// Makes the reader of a format.
    pub new_reader: extern "C" fn(RStr<'_>) -> R<ReaderObject>,
    /// Makes the writer of a format.
    pub new_writer: extern "C" fn(RStr<'_>) -> R<WriterObject>,
    /// Creates the quantizer.
    pub new_quantizer: extern "C" fn() -> R<QuantizerObject>,
    /// Creates the compute backend.
    pub new_kernel: extern "C" fn() -> R<KernelObject>,
    /// The text of an architecture table.
    pub architecture: extern "C" fn(RStr<'_>) -> R<RString>,
    /// Connects the library with the program.
    pub connect: extern "C" fn(WireProgram),
    /// The panics that no call could report, handed out once.
    #[sabi(last_prefix_field)]
    pub take_faults: extern "C" fn() -> RVec<RString>,
    /// Since 1.1.
    pub motto: extern "C" fn() -> RString,
}

/// Functions of the program.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireProgram {
    /// Names, numbers and sizes of block types.
    pub types: extern "C" fn(RSlice<'_, u8>) -> R<RVec<u8>>,
    /// Zero.
    pub reserved: [u64; 2],
}

/// Only [`abi_stable::library::LibHeader`] wants this: none of its loading is ever used.
impl RootModule for PluginMod_Ref {
    abi_stable::declare_root_module_statics! {PluginMod_Ref}
    const BASE_NAME: &'static str = "apr_plugin";
    const NAME: &'static str = "apr_plugin";
    const VERSION_STRINGS: VersionStrings = abi_stable::package_version_strings!();
}
