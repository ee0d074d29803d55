//! Files under an output's name that are not replaced.

use crate::storage::target::Target;
use apr_sdk::{Error, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Fails if an output is one of the inputs, by device and inode.
///
/// # Errors
/// InvalidArgument.
pub fn refuse_inputs(target: &Target, finals: &[PathBuf], inputs: &[(u64, u64)]) -> Result<()> {
    for path in finals {
        let Ok(meta) = std::fs::metadata(path) else { continue };
        if inputs.contains(&(meta.dev(), meta.ino())) {
            let error = Error::invalid_argument("the output is one of the inputs").in_file(target.show(path));
            return Err(error.hint("give the output another name; the input was not touched"));
        }
    }
    Ok(())
}

/// Fails for what even `--force` does not replace: a folder in place of a file, a device, a pipe.
///
/// # Errors
/// InvalidArgument.
pub fn refuse_irreplaceable(target: &Target, path: &Path) -> Result<()> {
    let what = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => "a folder with this name already exists",
        Ok(meta) if !meta.is_file() => "this is a device or a pipe, not a file",
        _ => return Ok(()),
    };
    let error = Error::invalid_argument(format!("{what}; nothing was written")).in_file(target.show(path));
    Err(error.hint("choose another name"))
}

/// Fails if the output exists.
///
/// # Errors
/// Io, with the code E007.
pub fn refuse_existing(target: &Target, path: &Path) -> Result<()> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let what = if meta.is_dir() {
        "a folder with this name already exists".to_owned()
    } else {
        format!("already exists ({} bytes)", meta.len())
    };
    let error = Error::io(format!("{what}; nothing was written")).code("E007").in_file(target.show(path));
    Err(error.hint("choose another name, or pass --force to replace it once the new file is complete"))
}
