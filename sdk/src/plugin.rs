//! Declarations of a plugin, and the macro that exports it.

use crate::{Kernel, NameMapper, Quantizer, Reader, Writer};

/// A plugin: its manifest and constructors for its objects. Created by [`crate::export_plugin!`].
#[derive(Clone, Copy)]
pub struct PluginDecl {
    /// The manifest's text (see [`crate::manifest`]).
    pub manifest: &'static str,
    /// Creates the reader for a format id; `None` if the plugin does not read that format.
    pub reader: fn(&str) -> Option<Box<dyn Reader>>,
    /// Creates the writer for a format id; `None` if the plugin does not write that format.
    pub writer: fn(&str) -> Option<Box<dyn Writer>>,
    /// Creates the quantizer, if the plugin provides one.
    pub quantizer: fn() -> Option<Box<dyn Quantizer>>,
    /// Creates the name mapper, if the plugin has architecture tables.
    pub name_mapper: fn() -> Option<Box<dyn NameMapper>>,
    /// Creates the compute backend, if the plugin provides one.
    pub kernel: fn() -> Option<Box<dyn Kernel>>,
}

impl PluginDecl {
    /// A declaration that provides nothing, to be filled in with struct update syntax.
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

/// Exports a plugin. The id is the name of the crate's folder with `_`; version and licence come from the
/// crate's `Cargo.toml`; `manifest` is text of `key=value` lines (see [`crate::manifest`]), a literal or what
/// `concat!` takes; each role is an
/// expression that creates the object (`reader` and `writer` get the format's id, for plugins that provide
/// several).
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
    (id: $id:ident, manifest: $manifest:expr, $($role:ident: $make:expr),+ $(,)?) => {
        /// The declarations of this plugin. A build that bundles the plugin links to it.
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
