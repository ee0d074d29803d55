//! The policy of overwriting: decides for every verb and flag that writes whether it may write to a path.
//!
//! No file that is read is ever written over, whichever name or link leads to it. Folders, devices and pipes are not
//! replaced. Everything else that exists is replaced only with `--force`.

use apr_engine::open::OpenedModel;
use apr_engine::registry::Registry;
use apr_sdk::{Error, Result};
use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folders in folders that are searched for files which are read. 8: no format nests its files deeper.
const DEPTH: usize = 8;

/// The files that are read, by device and inode.
#[derive(Clone, Debug, Default)]
pub struct Inputs(HashSet<(u64, u64)>);

impl Inputs {
    /// The files of every plugin that was found.
    pub fn of_plugins(registry: &Registry) -> Inputs {
        let mut inputs = Inputs::default();
        registry
            .plugins()
            .iter()
            .filter_map(|plugin| plugin.path.as_deref())
            .for_each(|path| inputs.add(path));
        inputs
    }

    /// Adds the file at `path`; if that is a folder, all files in it.
    pub fn add(&mut self, path: &Path) {
        self.add_within(path, DEPTH);
    }

    fn add_within(&mut self, path: &Path, depth: usize) {
        // Nothing is written over what is not there.
        let Ok(meta) = path.metadata() else { return };
        if !meta.is_dir() {
            self.0.insert(identity(&meta));
        } else if let Some(depth) = depth.checked_sub(1) {
            let entries = path.read_dir().into_iter().flatten().flatten();
            entries.for_each(|entry| self.add_within(&entry.path(), depth));
        }
    }

    /// Adds every file that was opened of a model: its parts, its companions, its tokenizer.
    pub fn add_model(&mut self, opened: &OpenedModel) {
        self.0.extend(opened.files.all().iter().filter_map(|file| file.identity()));
    }

    /// Returns whether `path` leads to one of them.
    pub fn has(&self, path: &Path) -> bool {
        path.metadata().is_ok_and(|meta| self.0.contains(&identity(&meta)))
    }
}

fn identity(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// The files that are to be written.
pub struct Outputs<'a> {
    /// Their paths.
    pub paths: &'a [PathBuf],
    /// A path in the way the user typed it.
    pub show: &'a dyn Fn(&Path) -> String,
    /// The name of one in messages: `output`, `report`.
    pub noun: &'a str,
    /// True if a file that exists may be replaced.
    pub force: bool,
    /// True if a device will do.
    pub takes_devices: bool,
}

/// Fails unless all of `outputs` may be written.
///
/// # Errors
/// InvalidArgument for one of the `inputs`, and for what is never replaced: a folder, a pipe, a device; Io with the code
/// E007 for a file that exists and may not be replaced.
pub fn check(outputs: &Outputs<'_>, inputs: &Inputs) -> Result<()> {
    let Outputs { paths, show, noun, .. } = outputs;
    if let Some(path) = paths.iter().find(|path| inputs.has(path)) {
        let error = Error::invalid_argument(format!("the {noun} is one of the inputs")).in_file(show(path));
        return Err(error.hint(format!("choose another name for the {noun}; the input was not changed")));
    }
    paths.iter().try_for_each(|path| refuse_irreplaceable(outputs, path))?;
    if outputs.force {
        return Ok(());
    }
    paths.iter().try_for_each(|path| refuse_existing(path, &show(path)))
}

/// Fails for what even `--force` does not replace.
fn refuse_irreplaceable(outputs: &Outputs<'_>, path: &Path) -> Result<()> {
    let what = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => "a folder with this name already exists",
        // It would wait for a reader once the work is done.
        Ok(meta) if is_pipe(&meta) || !(meta.is_file() || outputs.takes_devices) => {
            "this is a device or a pipe, not a file"
        }
        _ => return Ok(()),
    };
    let error = Error::invalid_argument(format!("{what}; nothing was written")).in_file((outputs.show)(path));
    Err(error.hint("choose another name"))
}

fn is_pipe(meta: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    meta.file_type().is_fifo() || meta.file_type().is_socket()
}

/// Fails if `path`, which messages call `shown`, exists.
///
/// # Errors
/// Io, with the code E007.
pub fn refuse_existing(path: &Path, shown: &str) -> Result<()> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let what = if meta.is_dir() {
        "a folder with this name already exists".to_owned()
    } else {
        format!("already exists ({} bytes)", meta.len())
    };
    let error = Error::io(format!("{what}; nothing was written")).code("E007").in_file(shown);
    Err(error.hint("choose another name, or pass --force to replace it once the new file is complete"))
}

/// Fails if one of the `inputs` is at `path`, or in the folder there: apr removes what an interrupted run left under its
/// own names.
///
/// # Errors
/// InvalidArgument.
pub fn refuse_removing(path: &Path, shown: &str, inputs: &Inputs) -> Result<()> {
    if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) {
        // Only the link is removed.
        return Ok(());
    }
    let mut there = Inputs::default();
    there.add(path);
    if there.0.is_disjoint(&inputs.0) {
        return Ok(());
    }
    let error = Error::invalid_argument("an input has a name that apr needs while it writes this output");
    Err(error.in_file(shown).hint("rename the input, or choose another name for the output"))
}
