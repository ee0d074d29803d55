//! Replaces a model with one made from it: same format, same files, other metadata or a newer version.

use crate::destination::Destination;
use crate::host::Host;
use crate::storage::staged_file::permissions_of;
use apr_engine::convert::LaidOut;
use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_remote::cache::is_shared_payload;
use apr_sdk::{Endian, Error, Model, Payload, Result, Value, escape};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A model's place, from the viewpoint of a conversion to its own format.
pub struct Own {
    /// The id of its format.
    pub format: String,
    /// The file that opens it, or its folder.
    pub input: PathBuf,
    /// The output path for which its files stay the same.
    pub output: PathBuf,
    /// Its version in words, if its format has a newer one.
    pub older: Option<String>,
}

/// The place of the model at `path`, in order to rewrite it in place or elsewhere.
///
/// # Errors
/// Any error from opening; InvalidArgument for part of a folder's files, and for files in a download cache.
pub fn own(host: &Host, path: &Path, options: &OpenOptions, in_place: bool) -> Result<Own> {
    let mut opened = open(host, path, options)?;
    opened.forget_readers();
    let format = opened.format.clone();
    let older = opened.model.older.clone();
    let shown = path.display().to_string();
    let whole = &host.registry.format(&format)?.manifest;
    if !whole.writes {
        let error = Error::unsupported(format!("apr can only read {}", whole.name)).in_file(shown);
        return Err(error.hint("convert it instead: apr convert FILE OUT"));
    }
    if whole.folder || !in_place {
        if in_place && !path.is_dir() {
            let message = format!("this file is part of a folder that is opened as a whole ({})", whole.name);
            let hint = "specify the folder, or pass --bare to rewrite this file alone";
            return Err(Error::invalid_argument(message).in_file(shown).hint(hint));
        }
        return Ok(Own { format, input: path.to_owned(), output: path.to_owned(), older });
    }
    // A model is opened by its first file.
    let first = opened.files().into_iter().next().map(|(name, _)| name);
    let input = match first.filter(|_| path.is_dir()) {
        Some(name) => path.join(name),
        None => path.to_owned(),
    };
    let parent = input.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let output = if is_split(&opened) { parent.to_owned() } else { input.clone() };
    Ok(Own { format, input, output, older })
}

/// Returns whether a model consists of several files with names of their own.
fn is_split(opened: &OpenedModel) -> bool {
    opened.model.foreign_of(&opened.format).is_some_and(|foreign| foreign.files.len() > 1)
}

/// Fails for a file in a download cache, which is shared and named by its digest.
fn refuse_cached(resolved: &Path) -> Result<()> {
    let blobs = resolved.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "blobs"));
    let is_blob = blobs.and_then(Path::parent).is_some_and(|cache| cache.join("snapshots").is_dir());
    let is_shared = resolved.ancestors().nth(3).is_some_and(|root| is_shared_payload(root, resolved));
    if !is_blob && !is_shared {
        return Ok(());
    }
    let message =
        "this is a link into a download cache, whose files are shared and named after their content";
    Err(Error::invalid_argument(message).hint("write a copy instead: pass -o OUT"))
}

/// Fails unless the plan replaces every file of its source, and changes something.
///
/// # Errors
/// Unsupported, with a file that would be left over; Io for a file that must not be written; InvalidArgument
/// for a download cache, or if nothing changes.
pub fn check(laid_out: &LaidOut<'_>, destination: &Destination) -> Result<()> {
    let source = &laid_out.source;
    let target = &destination.target;
    let finals = target.finals(&laid_out.layout);
    for path in &finals {
        let resolved = path.canonicalize().unwrap_or_else(|_| path.clone());
        refuse_cached(&resolved).map_err(|error| error.in_file(target.show(path)))?;
        if permissions_of(&resolved).is_some_and(|mode| mode & 0o222 == 0) {
            let error = Error::io("the file is read-only; nothing was written").in_file(target.show(path));
            return Err(error.hint("make it writable: chmod u+w, or write a copy: pass -o OUT"));
        }
    }
    let coming: Vec<(u64, u64)> = finals.iter().filter_map(|path| identity(path)).collect();
    let mut own = source.files.all();
    own.retain(|file| !file.is_folder() && !source.model.assets.iter().any(|asset| asset.name == file.name));
    if let Some(left) = own.iter().find(|file| file.identity().is_some_and(|own| !coming.contains(&own))) {
        let name = escape(&left.name, 120);
        let message = format!(
            "the model would be written to different files, leaving `{name}` of the old model behind"
        );
        let error = Error::unsupported(message).in_file(source.path.display().to_string());
        return Err(error.hint("write it elsewhere: pass -o OUT"));
    }
    if source.model.older.is_none() && is_same(&source.model, &laid_out.model) {
        let error = Error::invalid_argument("nothing to change: the metadata already has these values");
        return Err(error.in_file(source.path.display().to_string()).hint("run `apr inspect` to see it"));
    }
    Ok(())
}

/// Fails if the output lacks metadata: an edit must not lose keys.
///
/// # Errors
/// Unsupported, with the keys.
pub fn refuse_dropped(laid_out: &LaidOut<'_>, dropped: &[String]) -> Result<()> {
    if dropped.is_empty() {
        return Ok(());
    }
    let name = &laid_out.output.format.manifest.name;
    let keys = escape(&dropped.join(", "), 400);
    let error =
        Error::unsupported(format!("{name} does not preserve the metadata keys {keys}; nothing was written"));
    let error = error.in_file(laid_out.source.path.display().to_string());
    Err(error.hint("convert the model to a format that preserves these keys"))
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Returns whether two models are equal in everything that editing changes.
fn is_same(a: &Model, b: &Model) -> bool {
    let config_of_a = a.architecture.as_ref().map(|one| &one.config);
    let config_of_b = b.architecture.as_ref().map(|one| &one.config);
    foreign_keys(a).eq(foreign_keys(b))
        && config_of_a == config_of_b
        && a.assets == b.assets
        && a.tokenizer == b.tokenizer
}

/// The metadata keys of each file, with the file's format.
fn foreign_keys(model: &Model) -> impl Iterator<Item = (&String, &Vec<(String, Value)>)> {
    model.foreign.iter().flat_map(|foreign| foreign.files.iter().map(|file| (&foreign.format, &file.typed)))
}

/// Warnings about replaced files: other links to them, a change of byte order.
pub fn warnings(laid_out: &LaidOut<'_>, destination: &Destination) -> Vec<String> {
    let target = &destination.target;
    let linked = target.finals(&laid_out.layout).into_iter().filter_map(|path| {
        let more = path.metadata().ok()?.nlink().checked_sub(2)? + 1;
        let names = if more == 1 {
            "another name (a hard link), which keeps"
        } else {
            "other names (hard links), which keep"
        };
        Some(format!("{} has {names} the old content", escape(&target.show(&path), 400)))
    });
    let turned = laid_out.source.model.tensors.iter().any(|tensor| match &tensor.payload {
        Payload::Extent { view: Some(view), .. } => view.endian == Endian::Big,
        _ => false,
    });
    let turned = turned.then(|| "the weights were big-endian and were written as little-endian".to_owned());
    linked.chain(turned).collect()
}
