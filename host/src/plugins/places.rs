//! The places to look for plugins, their order, and the files of a folder to judge. Never the current directory.

use super::options::DiscoverOptions;
use apr_engine::registry::Origin;
use std::collections::HashSet;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A file or folder to search.
#[derive(Clone, Debug)]
pub struct Place {
    /// The path as given.
    pub path: PathBuf,
    /// The origin: who named it, or the kind of folder it is.
    pub origin: Origin,
}

/// A file that may be a plugin.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The path as found.
    pub path: PathBuf,
    /// The origin: who named it, or the kind of folder it is in.
    pub origin: Origin,
}

/// The contents of all places.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The files to judge, in search order, including named paths that do not exist.
    pub candidates: Vec<Candidate>,
    /// Libraries that are skipped because their names are not those of plugins.
    pub skipped: Vec<PathBuf>,
}

/// The suffix of architecture tables.
pub(super) const TABLE: &str = ".toml";

/// The file name of plugin `id`'s library on this system.
pub fn file_name(id: &str) -> String {
    format!("{DLL_PREFIX}apr_plugin_{id}{DLL_SUFFIX}")
}

/// The file name of the architecture table with plugin id `id`.
pub fn table_name(id: &str) -> String {
    format!("{id}{TABLE}")
}

/// Returns whether a file is treated as an architecture table.
pub fn is_table(path: &Path) -> bool {
    path.to_string_lossy().ends_with(TABLE)
}

/// The places in search order, whether they exist or not.
pub fn places(options: &DiscoverOptions) -> Vec<Place> {
    let place = |path: &Path, origin| Place { path: path.to_owned(), origin };
    let mut places: Vec<Place> = options.named.iter().map(|path| place(path, Origin::Flag)).collect();
    for path in &options.plugin_path {
        // A missing folder is as common in such a list as in `PATH`; a missing library is a mistake.
        let is_folder = path.is_dir() || (!path.exists() && !is_table(path) && !is_library(path));
        let origin = if is_folder { Origin::Variable } else { Origin::VariableFile };
        places.push(place(path, origin));
    }
    places.extend(options.user.iter().map(|path| place(path, Origin::User)));
    if let Some(folder) = options.executable.as_deref().and_then(Path::parent) {
        places.push(place(&folder.join("plugins"), Origin::Beside));
        places.extend(folder.parent().map(|prefix| place(&prefix.join("lib/apr/plugins"), Origin::Beside)));
        places.extend(built(folder).iter().map(|path| place(path, Origin::Built)));
    }
    places.extend(options.system.iter().map(|path| place(path, Origin::System)));
    places
}

/// The build folders, if the program runs from cargo's target folder. There `deps` comes first: `cargo test`
/// updates only that.
fn built(folder: &Path) -> Vec<PathBuf> {
    if folder.file_name().is_some_and(|name| name == "deps") {
        vec![folder.to_owned()]
    } else if folder.join(".cargo-lock").exists() {
        vec![folder.join("deps"), folder.to_owned()]
    } else {
        Vec::new()
    }
}

/// Lists the places that `options` name.
pub fn find(options: &DiscoverOptions) -> Found {
    let mut found = Found::default();
    let mut built = HashSet::<OsString>::new();
    for Place { path, origin } in places(options) {
        if !path.is_dir() {
            if matches!(origin, Origin::Flag | Origin::Variable | Origin::VariableFile) {
                found.candidates.push(Candidate { path, origin });
            }
            continue;
        }
        let (plugins, others) = in_folder(&path);
        if origin == Origin::Built {
            // Cargo's folders hold every library of the build, and each of our plugins twice.
            let new = plugins
                .into_iter()
                .filter(|p| p.file_name().is_some_and(|name| built.insert(name.to_owned())));
            found.candidates.extend(new.map(|path| Candidate { path, origin }));
            continue;
        }
        if plugins.is_empty() && origin == Origin::Flag {
            // To be judged as what it is: a named folder without any plugin.
            found.candidates.push(Candidate { path, origin });
        }
        found.candidates.extend(plugins.into_iter().map(|path| Candidate { path, origin }));
        found.skipped.extend(others);
    }
    found
}

/// The files of a folder that are named like plugins, and its other libraries; both sorted. Empty if the
/// folder cannot be listed.
fn in_folder(folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let (plugins, others): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| has_plugin_name(path));
    (plugins, others.into_iter().filter(|path| is_library(path) && path.is_file()).collect())
}

fn has_plugin_name(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(is_plugin_name)
}

/// Returns whether a file is named like a library on this system.
fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(DLL_SUFFIX) && !name.starts_with('.')
}

/// Returns whether a name is that of a plugin's library or an architecture table.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plugin_names_are_looked_at() {
        assert!(is_plugin_name(&file_name("gg_2")));
        assert!(is_plugin_name("mine.toml") && is_plugin_name(&table_name("table_a-1.5")));
        for name in
            ["libserde_derive-0a1b.so", "libapr_plugin_.so", "libapr_plugin_a-b.so", "apr_plugin_a", ".toml"]
        {
            assert!(!is_plugin_name(name), "{name}");
        }
    }
}
