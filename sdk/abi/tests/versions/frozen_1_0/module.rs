//! The one struct that a plugin exports.

use super::{KernelObject, QuantizerObject, R, ReaderObject, WriterObject};
use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::{RSlice, RStr, RString, RVec};

/// Functions that a plugin provides. New roles are appended as new fields.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginMod_Ref)))]
#[sabi(missing_field(option))]
pub struct PluginMod {
    /// The bytes of the manifest section, head and text.
    pub manifest: RSlice<'static, u8>,
    /// Creates the reader for a format id.
    pub new_reader: extern "C" fn(RStr<'_>) -> R<ReaderObject>,
    /// Creates the writer for a format id.
    pub new_writer: extern "C" fn(RStr<'_>) -> R<WriterObject>,
    /// Creates the quantizer; an error if the plugin has none.
    pub new_quantizer: extern "C" fn() -> R<QuantizerObject>,
    /// Creates the compute backend; an error if the plugin has none.
    pub new_kernel: extern "C" fn() -> R<KernelObject>,
    /// The TOML text of an architecture table.
    pub architecture: extern "C" fn(RStr<'_>) -> R<RString>,
    /// Connects the library with the program; called once, before anything else but `manifest`.
    pub connect: extern "C" fn(WireProgram),
    /// Returns the panics that no call could report, and clears the list.
    #[sabi(last_prefix_field)]
    pub take_faults: extern "C" fn() -> RVec<RString>,
}

/// Functions of the program that a plugin may call at any time.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireProgram {
    /// Names, numbers and sizes of block types that the plugin's table lacks; question and answer are pairs.
    pub types: extern "C" fn(RSlice<'_, u8>) -> R<RVec<u8>>,
    /// Zero.
    pub reserved: [u64; 2],
}

/// Only required by [`abi_stable::library::LibHeader`]; its loading is never used.
impl RootModule for PluginMod_Ref {
    abi_stable::declare_root_module_statics! {PluginMod_Ref}
    const BASE_NAME: &'static str = "apr_plugin";
    const NAME: &'static str = "apr_plugin";
    const VERSION_STRINGS: VersionStrings = abi_stable::package_version_strings!();
}
