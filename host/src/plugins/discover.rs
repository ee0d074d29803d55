//! Where plugins are looked for, in which order, and what becomes of each file: steps 1 to 9 of loading. Never the
//! current directory.

use super::lazy::Library;
use super::lock::Lock;
use super::named::Named;
use super::rehearsal::Rehearsal;
use super::table_file::TableFile;
use super::trust::{self, TrustRules};
use super::{lock, section};
use crate::registry::{Plugin, Provider, Registry, Tier};
use apr_sdk::{Error, Result};
use std::collections::HashSet;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where to look and whom to trust. [`DiscoverOptions::from_environment`] is what `apr` uses.
#[derive(Clone, Debug, Default)]
pub struct DiscoverOptions {
    /// Files and folders of `--plugin`; relative ones are what the user named.
    pub named: Vec<PathBuf>,
    /// Files and folders of `APR_PLUGIN_PATH`; relative ones are refused.
    pub plugin_path: Vec<PathBuf>,
    /// The user's own folder (`apr/plugins` in the data folder).
    pub user: Option<PathBuf>,
    /// The running executable, beside which plugins may lie.
    pub executable: Option<PathBuf>,
    /// Folders of the system.
    pub system: Vec<PathBuf>,
    /// Absolute folders whose files may have any owner (config `plugins.trusted_folders`).
    pub trusted_folders: Vec<PathBuf>,
    /// The lock file, which pins plugins by their digest, if there is one.
    pub lock: Option<PathBuf>,
    /// Whether a plugin that the lock does not list is refused.
    pub listed_only: bool,
    /// How libraries of the tier [`Tier::Named`] are tried before they are loaded; `None` to load them at once.
    pub rehearsal: Option<Rehearsal>,
    /// Whether plugins that are linked into the program take part, last in order.
    pub bundled: bool,
}

impl DiscoverOptions {
    /// What the environment says: `APR_PLUGIN_PATH`, the XDG folders, the executable, the system's folders.
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

/// A file that may be a plugin.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its path as it was found.
    pub path: PathBuf,
    /// How far it is trusted.
    pub tier: Tier,
    /// Whether the executable's owner may own it: it lies beside the executable.
    pub beside_executable: bool,
}

/// What the names of architecture tables end with.
const TABLE: &str = ".toml";

/// The file name of the library of plugin `id` on this system.
pub fn file_name(id: &str) -> String {
    format!("{DLL_PREFIX}apr_plugin_{id}{DLL_SUFFIX}")
}

/// The files to be judged, in search order; a path that was named and is not there is one too.
pub fn candidates(options: &DiscoverOptions) -> Vec<Candidate> {
    let mut found = Vec::new();
    for path in options.named.iter().chain(&options.plugin_path) {
        if path.is_dir() {
            found.extend(in_folder(path, Tier::Named));
        } else {
            found.push(Candidate { path: path.clone(), tier: Tier::Named, beside_executable: false });
        }
    }
    if let Some(folder) = &options.user {
        found.extend(in_folder(folder, Tier::User));
    }
    if let Some(folder) = options.executable.as_deref().and_then(Path::parent) {
        found.extend(beside(folder).into_iter().map(|c| Candidate { beside_executable: true, ..c }));
    }
    for folder in &options.system {
        found.extend(in_folder(folder, Tier::System));
    }
    found
}

/// The libraries with a plugin's name in a folder, sorted. A folder that is not there holds none.
fn in_folder(folder: &Path, tier: Tier) -> Vec<Candidate> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_plugin_name));
    let mut paths: Vec<_> = named.map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().map(|path| Candidate { path, tier, beside_executable: false }).collect()
}

/// Libraries by their names, and architecture tables.
fn is_plugin_name(name: &str) -> bool {
    if name.len() > TABLE.len() && name.ends_with(TABLE) && !name.starts_with('.') {
        return true;
    }
    let id = name.strip_prefix(DLL_PREFIX).and_then(|rest| rest.strip_suffix(DLL_SUFFIX));
    let id = id.and_then(|rest| rest.strip_prefix("apr_plugin_"));
    id.is_some_and(|id| {
        !id.is_empty() && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    })
}

/// Beside the executable: its `plugins`, the `lib` next to it, and, where it runs from cargo's target folder, what was
/// built with it. There `deps` goes first: `cargo test` refreshes only that.
fn beside(folder: &Path) -> Vec<Candidate> {
    let mut found = in_folder(&folder.join("plugins"), Tier::User);
    if let Some(prefix) = folder.parent() {
        found.extend(in_folder(&prefix.join("lib/apr/plugins"), Tier::User));
    }
    if folder.file_name().is_some_and(|name| name == "deps") {
        found.extend(in_folder(folder, Tier::User));
    } else if folder.join(".cargo-lock").exists() {
        let built = in_folder(&folder.join("deps"), Tier::User);
        let names: HashSet<_> =
            built.iter().filter_map(|c| c.path.file_name().map(ToOwned::to_owned)).collect();
        found.extend(built);
        let linked = in_folder(folder, Tier::User);
        found.extend(
            linked.into_iter().filter(|c| c.path.file_name().is_some_and(|name| !names.contains(name))),
        );
    }
    found
}

impl Registry {
    /// Finds and judges every plugin. Their libraries are loaded when first needed; [`Registry::load_all`] does it now.
    pub fn discover(options: &DiscoverOptions) -> Registry {
        let mut registry = Registry::new();
        let rules = TrustRules::new(&options.trusted_folders, options.executable.as_deref());
        let lock = options.lock.as_deref().map(Lock::read).unwrap_or_else(|| Ok(Lock::default()));
        let lock = lock.map_err(|error| error.code("E_UNTRUSTED"));
        let mut seen = HashSet::new();
        for candidate in candidates(options) {
            // The same file by another way is the same plugin, not a second one.
            if let Ok(path) = candidate.path.canonicalize()
                && !seen.insert(path)
            {
                continue;
            }
            registry.add(judge(&candidate, options, &rules, &lock));
        }
        if options.bundled {
            crate::bundled::declared().into_iter().for_each(|decl| registry.add_bundled(decl));
        }
        registry
    }
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
        tier: candidate.tier,
        abi: None,
        state: Err(Error::plugin("not judged yet")),
    };
    let mut steps = || -> Result<Arc<dyn Provider>> {
        if candidate.path.is_relative() && !options.named.contains(&candidate.path) {
            return Err(Error::plugin("it is given by a relative path in `APR_PLUGIN_PATH`")
                .code("E_UNTRUSTED")
                .hint("give an absolute path"));
        }
        let path = candidate.path.canonicalize().map_err(|error| {
            Error::plugin("there is no such file").code("E_NOT_FOUND").cause(error.to_string())
        })?;
        trust::check(&candidate.path, &path, candidate.beside_executable, rules)?;
        if path.to_string_lossy().ends_with(TABLE) {
            let (manifest, table) = TableFile::read(&path)?;
            lock::check(&path, &manifest.id, lock, options.listed_only)?;
            let provider = Named::new(table, &manifest.id, &manifest.version);
            plugin.manifest = Some(manifest);
            return Ok(Arc::new(provider));
        }
        let section = section::read(&path);
        // The id decides what the lock says, so a file that has none can only fail on its own account.
        let section = section?;
        plugin.manifest = Some(section.manifest.clone());
        plugin.abi = Some(section.head.abi);
        lock::check(&path, &section.manifest.id, lock, options.listed_only)?;
        section.judge()?;
        let (id, version) = (&section.manifest.id, &section.manifest.version);
        let rehearsal = options.rehearsal.clone().filter(|_| candidate.tier == Tier::Named);
        Ok(Arc::new(Named::new(Library::new(path, &section, rehearsal), id, version)))
    };
    let state = steps();
    plugin.state = state.map_err(|error| error.in_file(candidate.path.to_string_lossy()));
    plugin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plugin_names_are_looked_at() {
        assert!(is_plugin_name(&file_name("gg_2")));
        assert!(is_plugin_name("mine.toml"));
        for name in
            ["libserde_derive-0a1b.so", "libapr_plugin_.so", "libapr_plugin_a-b.so", "apr_plugin_a", ".toml"]
        {
            assert!(!is_plugin_name(name), "{name}");
        }
    }
}
