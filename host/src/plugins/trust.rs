//! Checks who may have placed a plugin's file: step 3 of loading. It protects against mistakes and other
//! users, not against one's own account: a plugin is native code with the process's rights.

use apr_sdk::{Error, Result};
use std::path::{Path, PathBuf};

/// The owners and folders whose files are trusted.
#[derive(Clone, Debug, Default)]
pub struct TrustRules {
    trusted_folders: Vec<PathBuf>,
    #[cfg(unix)]
    user: u32,
    #[cfg(unix)]
    group: u32,
    #[cfg(unix)]
    executable_owner: Option<u32>,
}

impl TrustRules {
    /// Trusts root and the effective user; any owner in `trusted_folders`; and beside the executable, the
    /// executable's owner.
    pub fn new(trusted_folders: &[PathBuf], executable: Option<&Path>) -> TrustRules {
        // A relative folder would depend on where the command runs.
        let absolute = trusted_folders.iter().filter(|folder| folder.is_absolute());
        let trusted_folders = absolute.filter_map(|folder| folder.canonicalize().ok()).collect();
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            TrustRules {
                trusted_folders,
                user: rustix::process::geteuid().as_raw(),
                group: rustix::process::getegid().as_raw(),
                executable_owner: executable.and_then(|path| path.metadata().ok()).map(|data| data.uid()),
            }
        }
        #[cfg(not(unix))]
        {
            let _ = executable;
            TrustRules { trusted_folders }
        }
    }
}

/// Judges the canonical path `real` of a plugin, and the folder where it was found as `found`, which may be a
/// link.
///
/// # Errors
/// Plugin with `E_UNTRUSTED`, naming the problem and the file or folder.
pub fn check(found: &Path, real: &Path, beside_executable: bool, rules: &TrustRules) -> Result<()> {
    check_path(real, beside_executable, rules)?;
    let folder = match found.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match folder.canonicalize() {
        Ok(folder) if Some(folder.as_path()) != real.parent() => {
            check_path(&folder, beside_executable, rules)
        }
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn check_path(path: &Path, beside_executable: bool, rules: &TrustRules) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    const GROUP_WRITABLE: u32 = 0o020;
    const WORLD_WRITABLE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    const ROOT: u32 = 0;
    for place in path.ancestors() {
        let data = place.metadata().map_err(|error| {
            Error::plugin("its location cannot be checked").code("E_UNTRUSTED").cause(error.to_string())
        })?;
        let shown = place.to_string_lossy();
        // In a sticky folder others cannot replace what is not theirs; and its contents are judged too.
        let sticky = data.is_dir() && data.mode() & STICKY != 0;
        if data.mode() & WORLD_WRITABLE != 0 && !sticky {
            return Err(untrusted(format!("`{shown}` is writable by everyone"))
                .hint(format!("run `chmod o-w '{shown}'`")));
        }
        let group_is_ours = data.gid() == ROOT || data.gid() == rules.group;
        if data.mode() & GROUP_WRITABLE != 0 && !group_is_ours && !sticky {
            let what = format!("`{shown}` is writable by group {}", data.gid());
            return Err(untrusted(what).hint(format!("run `chmod g-w '{shown}'`")));
        }
        let owner = data.uid();
        let owner_is_trusted = owner == ROOT
            || owner == rules.user
            || (beside_executable && rules.executable_owner == Some(owner))
            || rules.trusted_folders.iter().any(|folder| place.starts_with(folder));
        if !owner_is_trusted {
            let what = format!("`{shown}` belongs to user {owner}, neither root nor user {}", rules.user);
            let hint = "if you trust it, add its folder to `plugins.trusted_folders` in the configuration";
            return Err(untrusted(what).hint(hint));
        }
    }
    Ok(())
}

/// The error of a plugin that is not to be trusted.
pub(super) fn untrusted(message: String) -> Error {
    Error::plugin(message).code("E_UNTRUSTED")
}

/// On other systems, their own rules about who may write where must suffice.
#[cfg(not(unix))]
fn check_path(_path: &Path, _beside_executable: bool, _rules: &TrustRules) -> Result<()> {
    Ok(())
}
