//! Judges each file that may be a plugin: steps 2 to 9 of loading. `places` says where to look.

use super::lazy::Library;
use super::lock::Lock;
use super::named::Named;
use super::options::DiscoverOptions;
use super::places::{self, Candidate};
use super::table_file::TableFile;
use super::trust::{self, TrustRules};
use super::{lock, section};
use crate::storage::error::with_way_out;
use apr_engine::registry::{Linked, Origin, Plugin, Provider, Registry};
use apr_sdk::{Error, Manifest, PluginDecl, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// Finds and judges every plugin. Libraries are loaded on demand; [`Registry::load_all`] loads them
/// immediately.
pub fn discover(options: &DiscoverOptions) -> Registry {
    let mut registry = Registry::new();
    let rules = TrustRules::new(&options.trusted_folders, options.executable.as_deref());
    let lock = options.lock.as_deref().map(Lock::read).unwrap_or_else(|| Ok(Lock::default()));
    let lock = lock.map_err(|error| error.code("E_UNTRUSTED"));
    let mut seen = HashSet::new();
    let places = places::find(options);
    registry.skipped = places.skipped;
    for candidate in places.candidates {
        // The same file found in another way is the same plugin, not a second one.
        if let Ok(path) = candidate.path.canonicalize()
            && !seen.insert(path)
        {
            continue;
        }
        registry.add(judge(&candidate, options, &rules, &lock));
    }
    if options.bundled {
        crate::bundled_plugins::declared().into_iter().for_each(|decl| add_bundled(&mut registry, decl));
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
    let state = provider(candidate, options, rules, lock, &mut plugin);
    plugin.state = state.map_err(|error| error.in_file(candidate.path.to_string_lossy()));
    plugin
}

/// What provides the objects of a plugin that passes every check; notes on the way what is known of it.
fn provider(
    candidate: &Candidate,
    options: &DiscoverOptions,
    rules: &TrustRules,
    lock: &Result<Lock>,
    plugin: &mut Plugin,
) -> Result<Arc<dyn Provider>> {
    if candidate.path.is_relative() && !options.named.contains(&candidate.path) {
        return Err(Error::plugin("the path to it in `APR_PLUGIN_PATH` is relative")
            .code("E_UNTRUSTED")
            .hint("use an absolute path"));
    }
    // A pipe that the system names has no path of its own.
    if candidate.path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir()) {
        return Err(Error::plugin("not a regular file, but a device, a pipe or a socket")
            .code("E_NOT_A_PLUGIN")
            .hint("specify the path of a plugin library or an architecture table"));
    }
    let path = candidate.path.canonicalize().map_err(|error| {
        let missing = Error::not_found("no such plugin").code("E_NOT_FOUND").cause(error.to_string());
        with_way_out(missing, &candidate.path)
    })?;
    if path.is_dir() {
        let hint = format!("rename the library to `{}`", places::file_name("ID"));
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
    // The id decides what the lock file says, so a file without one can only fail by itself.
    let section = section::read(&path)?;
    plugin.manifest = Some(section.manifest.clone());
    plugin.abi = Some(section.head.abi);
    lock::check(&path, &section.manifest.id, lock, options.listed_only)?;
    section.judge()?;
    let rehearsal = options.rehearsal.clone().filter(|rehearsal| rehearsal.concerns(candidate.origin));
    let library = Library::new(path, &section, rehearsal);
    Ok(Arc::new(Named::new(library, &section.manifest.id, &section.manifest.version)))
}
