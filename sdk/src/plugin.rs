//! What a plugin declares, and the one line that exports it.

use crate::{Kernel, NameMapper, Quantizer, Reader, Writer};

/// A plugin: its manifest and how to make its objects. Made by [`crate::export_plugin!`].
#[derive(Clone, Copy)]
pub struct PluginDecl {
    /// The manifest's text (see [`crate::manifest`]).
    pub manifest: &'static str,
    /// Makes the reader of a format id, if the plugin reads it.
    pub reader: fn(&str) -> Option<Box<dyn Reader>>,
    /// Makes the writer of a format id, if the plugin writes it.
    pub writer: fn(&str) -> Option<Box<dyn Writer>>,
    /// Makes the quantizer, if the plugin has one.
    pub quantizer: fn() -> Option<Box<dyn Quantizer>>,
    /// Makes the architecture tables, if the plugin has any.
    pub name_mapper: fn() -> Option<Box<dyn NameMapper>>,
    /// Makes the compute backend, if the plugin is one.
    pub kernel: fn() -> Option<Box<dyn Kernel>>,
}

impl PluginDecl {
    /// A plugin that provides nothing yet.
    pub const EMPTY: PluginDecl = PluginDecl {
        manifest: "",
        reader: |_| None,
        writer: |_| None,
        quantizer: || None,
        name_mapper: || None,
        kernel: || None,
    };
}

impl std::fmt::Debug for PluginDecl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginDecl").field("manifest", &self.manifest).finish_non_exhaustive()
    }
}

#[cfg(not(target_family = "wasm"))]
inventory::collect!(&'static PluginDecl);

/// Exports a plugin. The id is the crate's folder with `_`; version and licence come from the crate's `Cargo.toml`;
/// `manifest` is a text of `key=value` lines (see [`crate::manifest`]); each role is an expression that makes the
/// object (for `reader` and `writer` from the format's id, for a plugin that provides several).
///
/// ```ignore
/// apr_sdk::export_plugin! {
///     id: toy,
///     manifest: "
///         formats=toy
///         toy.name=Toy
///         toy.roles=read write
///         toy.magic=0:544f5931
///         toy.extensions=toy
///         toy.dtypes=F32 U8
///     ",
///     reader: |_| Some(Box::new(reader::Toy)),
///     writer: |_| Some(Box::new(writer::Toy)),
/// }
/// ```
#[macro_export]
macro_rules! export_plugin {
    (id: $id:ident, manifest: $manifest:literal, $($role:ident: $make:expr),+ $(,)?) => {
        /// What this plugin declares; the host's bundled build links it from here.
        pub static PLUGIN: $crate::PluginDecl = $crate::PluginDecl {
            manifest: concat!(
                "id=", stringify!($id), "\n",
                "version=", env!("CARGO_PKG_VERSION"), "\n",
                "license=", env!("CARGO_PKG_LICENSE"), "\n",
                $manifest, "\n",
            ),
            $($role: $make,)+
            ..$crate::PluginDecl::EMPTY
        };
        #[cfg(not(target_family = "wasm"))]
        $crate::__inventory::submit! { &PLUGIN }
        #[cfg(not(target_family = "wasm"))]
        ::apr_abi::__export_plugin! {
            id: $id,
            plugin: PLUGIN,
            text: concat!(
                "id=", stringify!($id), "\n",
                "version=", env!("CARGO_PKG_VERSION"), "\n",
                "license=", env!("CARGO_PKG_LICENSE"), "\n",
                $manifest, "\n",
            ),
        }
    };
}
