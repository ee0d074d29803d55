//! The options of looking for plugins.

use super::rehearsal::Rehearsal;
use std::env;
use std::path::PathBuf;

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
        let variable = env::var_os("APR_PLUGIN_PATH").unwrap_or_default();
        let mut plugin_path: Vec<PathBuf> = env::split_paths(&variable).collect();
        plugin_path.retain(|path| !path.as_os_str().is_empty());
        let system: &[&str] =
            if cfg!(unix) { &["/usr/local/lib/apr/plugins", "/usr/lib/apr/plugins"] } else { &[] };
        DiscoverOptions {
            plugin_path,
            user: xdg_folder("XDG_DATA_HOME", ".local/share").map(|folder| folder.join("plugins")),
            executable: env::current_exe().ok(),
            system: system.iter().map(PathBuf::from).collect(),
            lock: xdg_folder("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("plugins.lock")),
            bundled: true,
            ..DiscoverOptions::default()
        }
    }
}

/// The folder of `apr` in the one that a variable names, or in that place of the user's home. Relative paths count as
/// none.
fn xdg_folder(variable: &str, in_home: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match named {
        Some(named) => named,
        None => env::home_dir().filter(|home| home.is_absolute())?.join(in_home),
    };
    Some(folder.join("apr"))
}
