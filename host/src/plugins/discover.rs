//! Judges each file that may be a plugin: steps 2 to 9 of loading. `places` says where to look.

use super::lazy::Library;
use super::lock::Lock;
use super::named::Named;
use super::places::{self, Candidate};
use super::rehearsal::Rehearsal;
use super::table_file::TableFile;
use super::trust::{self, TrustRules};
use super::{lock, section};
use crate::storage::error::with_way_out;
use apr_engine::registry::{Linked, Origin, Plugin, Provider, Registry};
use apr_sdk::{Error, Manifest, PluginDecl, Result};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

/// The places to look in, and the owners to trust. `apr` uses [`DiscoverOptions::from_environment`].
#[derive(Clone, Debug, Default)]
pub struct DiscoverOptions {
    /// Files and folders given with `--plugin`; may be relative.
    pub named: Vec<PathBuf>,
    /// Files and folders in `APR_PLUGIN_PATH`; relative ones are refused.
    pub plugin_path: Vec<PathBuf>,
    /// The user's own folder (`apr/plugins` in the data folder).
    pub user: Option<PathBuf>,
    /// The running executable, which may have plugins beside it.
    pub executable: Option<PathBuf>,
    /// System folders.
    pub system: Vec<PathBuf>,
    /// Absolute folders whose files may have any owner (setting `plugins.trusted_folders`).
    pub trusted_folders: Vec<PathBuf>,
    /// The lock file, which pins plugins by digest.
    pub lock: Option<PathBuf>,
    /// True if plugins missing from the lock file are refused.
    pub listed_only: bool,
    /// The way to try libraries before loading them; `None` to load them directly.
    pub rehearsal: Option<Rehearsal>,
    /// True if plugins linked into the program are included, last in order.
    pub bundled: bool,
}

impl DiscoverOptions {
    /// The options given by the environment: `APR_PLUGIN_PATH`, XDG folders, the executable, system folders.
    pub fn from_environment() -> DiscoverOptions {
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        let xdg = |name: &str, otherwise: &str| {
            let set = std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
            set.or_else(|| home.as_ref().map(|home| home.join(otherwise))).map(|path| path.join("apr"))
        };
        let plugin_path = std::env::var_os("APR_PLUGIN_PATH").unwrap_or_default();
        let system: &[&str] =
            if cfg!(unix) { &["/usr/local/lib/apr/plugins", "/usr/lib/apr/plugins"] } else { &[] };
        DiscoverOptions {
            plugin_path: std::env::split_paths(&plugin_path).filter(|p| !p.as_os_str().is_empty()).collect(),
            user: xdg("XDG_DATA_HOME", ".local/share").map(|path| path.join("plugins")),
            executable: std::env::current_exe().ok(),
            system: system.iter().map(PathBuf::from).collect(),
            lock: xdg("XDG_CONFIG_HOME", ".config").map(|path| path.join("plugins.lock")),
            bundled: true,
            ..DiscoverOptions::default()
        }
    }
}

/// Finds and judges every plugin. Libraries are loaded on demand; [`Registry::load_all`] loads them
/// immediately.
pub fn discover(options: &DiscoverOptions) -> Registry {
    let mut registry = Registry::new();
    let rules = TrustRules::new(&options.trusted_folders, options.executable.as_deref());
    let lock = options.lock.as_deref().map(Lock::read).unwrap_or_else(|| Ok(Lock::default()));
    let lock = lock.map_err(|error| error.code("E_UNTRUSTED"));
    let mut seen = HashSet::new();
    let found = places::find(options);
    registry.skipped = found.skipped;
    for candidate in found.candidates {
        // The same file found in another way is the same plugin, not a second one.
        if let Ok(path) = candidate.path.canonicalize()
            && !seen.insert(path)
        {
            continue;
        }
        registry.add(judge(&candidate, options, &rules, &lock));
    }
    if options.bundled {
        crate::bundled::declared().into_iter().for_each(|decl| add_bundled(&mut registry, decl));
    }
    registry
}

/// Adds a plugin that is linked into the program.
pub fn add_bundled(registry: &mut Registry, decl: &'static PluginDecl) {
    let (manifest, state): (_, Result<Arc<dyn Provider>>) = match Manifest::parse(decl.manifest) {
        Ok(manifest) => {
            let provider = Named::new(Linked(decl), &manifest.id, &manifest.version);
            (Some(manifest), Ok(Arc::new(provider)))
        }
        Err(error) => (None, Err(error)),
    };
    registry.add(Plugin { manifest, path: None, origin: Origin::Bundled, abi: None, state });
}

/// Steps 2 to 8 for one file.
fn judge(
    candidate: &Candidate,
    options: &DiscoverOptions,
    rules: &TrustRules,
    lock: &Result<Lock>,
) -> Plugin {
    let mut plugin = Plugin {
        manifest: None,
        path: Some(candidate.path.clone()),
        origin: candidate.origin,
        abi: None,
        state: Err(Error::plugin("not checked yet")),
    };
    let mut steps = || -> Result<Arc<dyn Provider>> {
        if candidate.path.is_relative() && !options.named.contains(&candidate.path) {
            return Err(Error::plugin("`APR_PLUGIN_PATH` has a relative path to it")
                .code("E_UNTRUSTED")
                .hint("give an absolute path"));
        }
        // A pipe that the system names has no path of its own.
        if candidate.path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir()) {
            return Err(Error::plugin("not a regular file, but a device, a pipe or a socket")
                .code("E_NOT_A_PLUGIN")
                .hint("give the path of a plugin's library, or of an architecture table"));
        }
        let path = candidate.path.canonicalize().map_err(|error| {
            let missing = Error::not_found("no such plugin").code("E_NOT_FOUND").cause(error.to_string());
            with_way_out(missing, &candidate.path)
        })?;
        if path.is_dir() {
            let hint = format!("name the library `{}`", places::file_name("ID"));
            return Err(Error::not_found("no plugin in this folder").code("E_NOT_FOUND").hint(hint));
        }
        trust::check(&candidate.path, &path, candidate.origin.beside_executable(), rules)?;
        if places::is_table(&path) {
            let (manifest, table) = TableFile::read(&path)?;
            lock::check(&path, &manifest.id, lock, options.listed_only)?;
            let provider = Named::new(table, &manifest.id, &manifest.version);
            plugin.manifest = Some(manifest);
            return Ok(Arc::new(provider));
        }
        let section = section::read(&path);
        // The id decides what the lock file says, so a file without one can only fail by itself.
        let section = section?;
        plugin.manifest = Some(section.manifest.clone());
        plugin.abi = Some(section.head.abi);
        lock::check(&path, &section.manifest.id, lock, options.listed_only)?;
        section.judge()?;
        let (id, version) = (&section.manifest.id, &section.manifest.version);
        let rehearsal = options.rehearsal.clone().filter(|rehearsal| rehearsal.concerns(candidate.origin));
        Ok(Arc::new(Named::new(Library::new(path, &section, rehearsal), id, version)))
    };
    let state = steps();
    plugin.state = state.map_err(|error| error.in_file(candidate.path.to_string_lossy()));
    plugin
}
