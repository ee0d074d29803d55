//! The available plugins, by kind and id. A value, never a static.

mod kernels;
mod own_recipes;
mod static_plugins;

pub use static_plugins::Linked;

use crate::wording::nearest;
use apr_sdk::{BlockType, DType, Error, FormatManifest, Kernel, Manifest, Quantizer, Reader, Result, Writer};
use kernels::KernelSlot;
use own_recipes::WithOwnRecipes;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Creates a plugin's objects, wherever the plugin came from: linked in, or loaded from a library.
pub trait Provider: Send + Sync {
    /// Creates the reader of a format.
    ///
    /// # Errors
    /// Plugin if it panics, or has none although its manifest says so.
    fn reader(&self, format: &str) -> Result<Box<dyn Reader>>;

    /// Creates the writer of a format.
    ///
    /// # Errors
    /// As [`Provider::reader`].
    fn writer(&self, format: &str) -> Result<Box<dyn Writer>>;

    /// Creates the quantizer.
    ///
    /// # Errors
    /// As [`Provider::reader`].
    fn quantizer(&self) -> Result<Box<dyn Quantizer>>;

    /// Creates the compute backend.
    ///
    /// # Errors
    /// As [`Provider::reader`].
    fn kernel(&self) -> Result<Box<dyn Kernel>>;

    /// The TOML text of an architecture table.
    ///
    /// # Errors
    /// As [`Provider::reader`].
    fn architecture(&self, id: &str) -> Result<String>;

    /// Loads the plugin now, if loading was deferred.
    ///
    /// # Errors
    /// Plugin if it is refused.
    fn load(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the plugin's panics that no call could report (in drops and probes), and clears the list.
    fn faults(&self) -> Vec<Error> {
        Vec::new()
    }
}

/// The place where a plugin was found, which decides how far it is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Linked into the program.
    Bundled,
    /// In a folder that root owns.
    System,
    /// In the user's data folder or beside the executable.
    User,
    /// Named on the command line or in `APR_PLUGIN_PATH`.
    Named,
}

/// The way a plugin was found: who named it, or which folder holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Linked into the program.
    Bundled,
    /// By a path given with `--plugin`, or in a folder given with it.
    Flag,
    /// By a file path in `APR_PLUGIN_PATH`.
    VariableFile,
    /// In a folder listed in `APR_PLUGIN_PATH`.
    Variable,
    /// In the user's data folder.
    User,
    /// In a plugin folder beside the executable.
    Beside,
    /// In the cargo target folder that the executable runs from.
    Built,
    /// In a system folder.
    System,
}

impl Origin {
    /// The level of trust in plugins found this way.
    pub fn tier(self) -> Tier {
        match self {
            Origin::Bundled => Tier::Bundled,
            Origin::System => Tier::System,
            Origin::User | Origin::Beside | Origin::Built => Tier::User,
            Origin::Flag | Origin::VariableFile | Origin::Variable => Tier::Named,
        }
    }

    /// Returns whether the user did not choose the plugin for the work at hand: it was installed at some time.
    pub fn is_installed(self) -> bool {
        matches!(self, Origin::User | Origin::System | Origin::Variable)
    }

    /// Returns whether the plugin may belong to the executable's owner, because it is beside the executable.
    pub fn beside_executable(self) -> bool {
        matches!(self, Origin::Beside | Origin::Built)
    }
}

/// A plugin that was found, loaded or refused.
pub struct Plugin {
    /// Its manifest; `None` if it could not be read.
    pub manifest: Option<Manifest>,
    /// The library's path; `None` for a bundled plugin.
    pub path: Option<PathBuf>,
    /// The way it was found.
    pub origin: Origin,
    /// The version of the interface it was built for, if that could be read.
    pub abi: Option<(u32, u32)>,
    /// The provider of its objects, or why it was refused.
    pub state: Result<Arc<dyn Provider>>,
}

/// The start of the plugin id of an architecture table in a file of its own: a table may be called as a plugin is.
pub const TABLE_PREFIX: &str = "table_";

impl Plugin {
    /// The name by which users know it: its id, or the architecture's id if it is a table in a file of its own.
    pub fn shown_id(&self) -> Option<&str> {
        let manifest = self.manifest.as_ref()?;
        Some(self.table_id().unwrap_or(&manifest.id))
    }

    /// The architecture's id, if it is a table in a file of its own.
    fn table_id(&self) -> Option<&str> {
        let manifest = self.manifest.as_ref()?;
        let [architecture] = &manifest.architectures[..] else { return None };
        (manifest.id.strip_prefix(TABLE_PREFIX)? == architecture).then_some(architecture)
    }

    /// Returns whether it is refused because a plugin found earlier provides the same id or format.
    pub fn gives_way(&self) -> bool {
        self.state.as_ref().err().is_some_and(|error| error.explicit_code() == Some(DUPLICATE))
    }
}

/// A format that a loaded plugin provides.
pub struct Format {
    /// The format's part of the manifest.
    pub manifest: FormatManifest,
    /// Index of the plugin in [`Registry::plugins`].
    pub plugin: usize,
    provider: Arc<dyn Provider>,
    reader: OnceLock<Result<Arc<dyn Reader>>>,
    writer: OnceLock<Result<Arc<dyn Writer>>>,
}

impl Format {
    /// The format's id, as in `--from` and `--to`.
    pub fn id(&self) -> &str {
        &self.manifest.id
    }

    /// The format's reader, created on first use.
    ///
    /// # Errors
    /// Unsupported if the plugin only writes the format; Plugin if creating the reader failed.
    pub fn reader(&self) -> Result<Arc<dyn Reader>> {
        if !self.manifest.reads {
            return Err(Error::unsupported(format!("the format `{}` can only be written", self.id())));
        }
        self.reader.get_or_init(|| self.provider.reader(self.id()).map(Arc::from)).clone()
    }

    /// The format's writer, created on first use.
    ///
    /// # Errors
    /// Unsupported if the plugin only reads the format; Plugin if creating the writer failed.
    pub fn writer(&self) -> Result<Arc<dyn Writer>> {
        if !self.manifest.writes {
            return Err(Error::unsupported(format!("the format `{}` can only be read", self.id())));
        }
        self.writer.get_or_init(|| self.provider.writer(self.id()).map(Arc::from)).clone()
    }
}

/// The error code of a plugin that gives way to one found earlier.
const DUPLICATE: &str = "E_DUPLICATE_ID";

/// Every plugin that was found, and every format that the loaded ones provide.
#[derive(Default)]
pub struct Registry {
    plugins: Vec<Plugin>,
    formats: Vec<Format>,
    quantizers: Vec<QuantizerSlot>,
    kernels: Vec<KernelSlot>,
    /// Ids of installed compute backends that may be chosen automatically.
    pub auto_backends: Vec<String>,
    /// Libraries in the searched folders that were skipped because their names are not those of plugins.
    pub skipped: Vec<PathBuf>,
    /// Faults of plugins that were already reported.
    told: Mutex<HashSet<String>>,
}

/// A quantizer that a loaded plugin provides, created on first use.
struct QuantizerSlot {
    /// Index of the plugin in [`Registry::plugins`].
    plugin: usize,
    provider: Arc<dyn Provider>,
    /// The block types that the plugin's manifest declares.
    brought: Vec<BlockType>,
    made: OnceLock<Result<Able>>,
}

/// A quantizer with its declared abilities. One that fails to declare them cannot be used.
struct Able {
    quantizer: Arc<dyn Quantizer>,
    dtypes: Vec<DType>,
    repacks: Vec<(DType, DType)>,
}

impl QuantizerSlot {
    fn make(&self) -> &Result<Able> {
        self.made.get_or_init(|| {
            let quantizer: Arc<dyn Quantizer> = Arc::from(self.provider.quantizer()?);
            let dtypes = quantizer.dtypes()?;
            self.check_dtypes(&dtypes)?;
            let repacks = quantizer.repacks()?;
            let quantizer = WithOwnRecipes::wrap(quantizer, &self.brought)?;
            Ok(Able { quantizer, dtypes, repacks })
        })
    }

    /// Checks that the types that the quantizer lists exist, and that those of its manifest are among them.
    fn check_dtypes(&self, listed: &[DType]) -> Result<()> {
        if let Some(unknown) = listed.iter().find(|dtype| dtype.info().is_none()) {
            let message = format!("its quantizer lists the unknown dtype number {}", unknown.0);
            return Err(Error::plugin(message).hint("declare the block type in the plugin's manifest"));
        }
        let is_listed = |name: &str| listed.iter().any(|dtype| dtype.name() == name);
        match self.brought.iter().find(|block| !is_listed(block.name())) {
            Some(missing) => Err(Error::plugin(format!(
                "its manifest declares the block type `{}`, but its quantizer does not list it",
                missing.name()
            ))),
            None => Ok(()),
        }
    }
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Returns whether a format, and the one that writes its weights, hold tensors of a type.
    pub fn holds(&self, format: &Format, dtype: DType) -> bool {
        let parts = &format.manifest.parts;
        let writing = self.formats().iter().filter(|of| of.manifest.writes);
        let mut of_weights = writing.filter(|of| parts.iter().any(|part| part == of.id()));
        format.manifest.carries.dtype(dtype.name())
            && (parts.is_empty() || of_weights.any(|of| of.manifest.carries.dtype(dtype.name())))
    }

    /// Adds a plugin. A loaded one whose id, or one of whose formats, compute backends or block types, is already taken
    /// is refused with `E_DUPLICATE_ID`.
    pub fn add(&mut self, mut plugin: Plugin) {
        if let (Ok(provider), Some(manifest)) = (&plugin.state, &plugin.manifest) {
            let provider = Arc::clone(provider);
            let taken = self.loaded().any(|m| m.id == manifest.id);
            let format = manifest.formats.iter().find(|f| self.format(&f.id).is_ok());
            let kernel = manifest.kernels.iter().find(|id| self.kernels.iter().any(|slot| slot.id == **id));
            let block = manifest.block_types.iter().find(|block| self.brings(block.name()));
            if taken || format.is_some() || kernel.is_some() || block.is_some() {
                let what = match (format, kernel, block) {
                    (Some(format), ..) => format!("format `{}`", format.id),
                    (None, Some(kernel), _) => format!("compute backend `{kernel}`"),
                    (None, None, Some(block)) if !taken => format!("block type `{}`", block.name()),
                    (None, None, _) => match plugin.table_id() {
                        Some(id) => format!("architecture table `{id}`"),
                        None => format!("plugin `{}`", manifest.id),
                    },
                };
                let message = format!("{what} is provided by a plugin found earlier");
                plugin.state = Err(Error::plugin(message).code(DUPLICATE));
            } else if let Err(error) =
                manifest.block_types.iter().try_for_each(|block| block.provide().map(drop))
            {
                // Another registry of this process has such a type.
                plugin.state = Err(error.code(DUPLICATE));
            } else {
                let at = self.plugins.len();
                self.formats.extend(manifest.formats.iter().map(|format| Format {
                    manifest: format.clone(),
                    plugin: at,
                    provider: Arc::clone(&provider),
                    reader: OnceLock::new(),
                    writer: OnceLock::new(),
                }));
                self.kernels.extend(KernelSlot::all(manifest, at, &provider));
                if !manifest.quantizers.is_empty() {
                    let brought = manifest.block_types.clone();
                    self.quantizers.push(QuantizerSlot {
                        plugin: at,
                        provider,
                        brought,
                        made: OnceLock::new(),
                    });
                }
            }
        }
        self.plugins.push(plugin);
    }

    /// Every plugin that was found, including refused ones, in search order.
    pub fn plugins(&self) -> &[Plugin] {
        &self.plugins
    }

    /// Every format that a loaded plugin provides, in search order.
    pub fn formats(&self) -> &[Format] {
        &self.formats
    }

    /// Finds a format by its id or an alias.
    ///
    /// # Errors
    /// InvalidArgument, naming the available formats.
    pub fn format(&self, id: &str) -> Result<&Format> {
        let mut formats = self.formats.iter();
        let named = formats.find(|f| f.id() == id || f.manifest.aliases.iter().any(|alias| alias == id));
        named.ok_or_else(|| {
            let known: Vec<_> = self.formats.iter().map(Format::id).collect();
            let hint = match known[..] {
                [] => "run `apr plugins list`: no format plugin is loaded".to_owned(),
                _ => format!("use one of the available formats: {}", known.join(", ")),
            };
            let hint = self.absent().map_or(hint.clone(), |absent| format!("{hint}; {absent}"));
            Error::invalid_argument(format!("no plugin provides a format `{id}`")).hint(hint)
        })
    }

    /// The formats that list an extension (lower case, without the dot).
    pub fn by_extension(&self, extension: &str) -> Vec<&Format> {
        self.formats.iter().filter(|f| f.manifest.extensions.iter().any(|e| e == extension)).collect()
    }

    /// The TOML text of an architecture's table.
    ///
    /// # Errors
    /// InvalidArgument if there is none; any error from the plugin.
    pub fn architecture(&self, id: &str) -> Result<String> {
        let found = self.table_provider(id).and_then(|plugin| plugin.state.as_ref().ok());
        found.map_or_else(
            || {
                Err(no_table(
                    id,
                    self.loaded().flat_map(|manifest| &manifest.architectures).map(String::as_str),
                ))
            },
            |provider| provider.architecture(id),
        )
    }

    /// The plugin that an architecture's table comes from.
    pub fn table_provider(&self, id: &str) -> Option<&Plugin> {
        self.plugins.iter().find(|plugin| {
            let manifest = plugin.manifest.as_ref().filter(|_| plugin.state.is_ok());
            manifest.is_some_and(|manifest| manifest.architectures.iter().any(|known| known == id))
        })
    }

    /// The file of an architecture's table, if that is one of its own.
    pub fn table_file(&self, id: &str) -> Option<&Path> {
        self.table_provider(id).filter(|plugin| plugin.table_id().is_some())?.path.as_deref()
    }

    /// The texts of all tables, for use at any later time.
    pub fn table_texts(&self) -> TableTexts {
        let mut texts: Vec<(String, Arc<dyn Provider>)> = Vec::new();
        for plugin in &self.plugins {
            let (Some(manifest), Ok(provider)) = (&plugin.manifest, &plugin.state) else { continue };
            for id in &manifest.architectures {
                if texts.iter().all(|(known, _)| known != id) {
                    texts.push((id.clone(), Arc::clone(provider)));
                }
            }
        }
        TableTexts(texts)
    }

    /// The usable quantizers, in search order. An unusable one does not hide the others: [`Registry::faults`]
    /// reports why, or the hint given when no other was found ([`Registry::quantizer_hint`]).
    pub fn quantizers(&self) -> Vec<Arc<dyn Quantizer>> {
        self.able().map(|able| Arc::clone(&able.quantizer)).collect()
    }

    fn able(&self) -> impl Iterator<Item = &Able> {
        self.quantizers.iter().filter_map(|slot| slot.make().as_ref().ok())
    }

    /// `hint` for when no quantizer was found, extended by the reasons why unusable ones that might have
    /// fitted were not used.
    pub fn quantizer_hint(&self, hint: &str) -> String {
        let unusable = self.quantizers.iter().filter_map(|slot| slot.make().as_ref().err());
        unusable.fold(hint.to_owned(), |hint, why| {
            self.is_news(why);
            format!("{hint}; one cannot be used: {}", why.message())
        })
    }

    /// Returns whether a fault has not been reported yet; one fault may affect many calls. Marks it as reported.
    pub fn is_news(&self, fault: &Error) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(fault.to_string())
    }

    /// The first quantizer that converts blocks between this pair of types losslessly.
    pub fn repacker(&self, pair: (DType, DType)) -> Option<Arc<dyn Quantizer>> {
        self.able().find(|able| able.repacks.contains(&pair)).map(|able| Arc::clone(&able.quantizer))
    }

    /// The first quantizer that decodes a type, if there is one.
    pub fn find_quantizer(&self, dtype: DType) -> Option<Arc<dyn Quantizer>> {
        self.able().find(|able| able.dtypes.contains(&dtype)).map(|able| Arc::clone(&able.quantizer))
    }

    /// The first quantizer that decodes a type.
    ///
    /// # Errors
    /// Unsupported if there is none.
    pub fn quantizer_of(&self, dtype: DType) -> Result<Arc<dyn Quantizer>> {
        self.find_quantizer(dtype).ok_or_else(|| {
            Error::unsupported(format!("no quantizer plugin supports {dtype}"))
                .hint(self.quantizer_hint(way_to(dtype, "run `apr plugins list` to see what is available")))
        })
    }

    /// Loads every plugin whose loading was deferred, and creates its quantizer and compute backend, so that
    /// [`Registry::plugins`] shows what would otherwise be refused later.
    pub fn load_all(&mut self) {
        for (number, plugin) in self.plugins.iter_mut().enumerate() {
            let Ok(provider) = &plugin.state else { continue };
            let quantizer = self.quantizers.iter().find(|slot| slot.plugin == number);
            let mut kernels = self.kernels.iter().filter(|slot| slot.plugin == number);
            let loaded = provider.load().and_then(|()| match quantizer {
                Some(slot) => slot.make().as_ref().map(drop).map_err(Error::clone),
                None => Ok(()),
            });
            if let Err(error) = loaded.and_then(|()| kernels.try_for_each(|slot| slot.make().map(drop))) {
                plugin.state = Err(error);
            }
        }
    }

    /// Faults of plugins that no call could report, each with the plugin's name: panics, and quantizers that
    /// were needed but are unusable. Returned once.
    pub fn faults(&self) -> Vec<Error> {
        let unusable = self.quantizers.iter().filter_map(|slot| slot.made.get()?.as_ref().err());
        let untold = unusable.filter(|why| self.is_news(why)).cloned();
        let providers = self.plugins.iter().filter_map(|plugin| plugin.state.as_ref().ok());
        untold.chain(providers.flat_map(|provider| provider.faults())).collect()
    }

    /// Fails if a plugin that the user named is refused; loads it to find out. A plugin in `APR_PLUGIN_PATH`
    /// that gives way to an earlier one is not refused: that is what the order is for.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn check_named(&self) -> Result<()> {
        for plugin in &self.plugins {
            let named = match plugin.origin {
                Origin::Flag => true,
                Origin::VariableFile => !plugin.gives_way(),
                _ => false,
            };
            if !named {
                continue;
            }
            let loaded = plugin.state.as_ref().map_err(Error::clone).and_then(|provider| provider.load());
            loaded.map_err(|error| match (error.file(), &plugin.path) {
                (None, Some(path)) => error.in_file(path.to_string_lossy()),
                _ => error,
            })?;
        }
        Ok(())
    }

    /// Describes the libraries in plugin folders that are not in use, for messages about an unknown format.
    pub fn absent(&self) -> Option<String> {
        const SHOWN: usize = 3;
        let refused = self.plugins.iter().filter(|plugin| !plugin.gives_way()).filter_map(|plugin| {
            let error = plugin.state.as_ref().err()?;
            let code = error.stable_code().map(|code| format!(" ({code})")).unwrap_or_default();
            Some(format!("{} was refused{code}", shown_name(plugin.path.as_deref()?)))
        });
        let skipped = self
            .skipped
            .iter()
            .map(|path| format!("{} does not have the name of a plugin", shown_name(path)));
        let mut all: Vec<String> = refused.chain(skipped).collect();
        let n_more = all.len().saturating_sub(SHOWN);
        all.truncate(SHOWN);
        let more = if n_more > 0 { format!("; and {n_more} more") } else { String::new() };
        (!all.is_empty()).then(|| format!("{}{more}: run `apr plugins list` for details", all.join("; ")))
    }

    fn brings(&self, name: &str) -> bool {
        self.loaded().flat_map(|manifest| &manifest.block_types).any(|block| block.name() == name)
    }

    fn loaded(&self) -> impl Iterator<Item = &Manifest> {
        self.plugins.iter().filter(|p| p.state.is_ok()).filter_map(|p| p.manifest.as_ref())
    }
}

/// Advice about a block type that nothing here decodes: `otherwise`, unless a plugin that is gone brought it.
pub fn way_to(dtype: DType, otherwise: &'static str) -> &'static str {
    dtype.block_type().map_or(otherwise, |_| "install the plugin that provides this block type")
}

fn no_table<'i>(id: &str, ids: impl Iterator<Item = &'i str>) -> Error {
    let near = nearest(&id.to_lowercase(), ids).map(|near| format!("did you mean `{near}`? "));
    Error::invalid_argument(format!("no plugin provides a table `{}`", apr_sdk::escape(id, 80)))
        .hint(format!("{}run `apr arch list` to list the ids", near.unwrap_or_default()))
}

/// The name of a library, for messages.
fn shown_name(path: &Path) -> String {
    apr_sdk::escape(&path.file_name().unwrap_or_default().to_string_lossy(), 80)
}

/// The texts of the plugins' architecture tables, in search order; the first with an id counts.
pub struct TableTexts(Vec<(String, Arc<dyn Provider>)>);

impl TableTexts {
    /// The ids of the tables.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(id, _)| id.as_str())
    }

    /// The TOML text of one table.
    ///
    /// # Errors
    /// As [`Registry::architecture`].
    pub fn get(&self, id: &str) -> Result<String> {
        let found = self.0.iter().find(|(known, _)| known == id);
        found.map_or_else(|| Err(no_table(id, self.ids())), |(_, provider)| provider.architecture(id))
    }
}
