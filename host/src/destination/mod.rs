//! Where an output goes: the format, the place and the policy for what is there, resolved once for each conversion.

pub mod in_place;
pub(crate) mod outlook;
pub mod output_file;
pub mod outputs;
pub mod rows_folder;
pub(crate) mod staged_output;
mod stale_files;
mod view;

use crate::conversion::ConvertOptions;
use crate::host::Host;
use crate::storage::publish::steps::Steps;
use crate::storage::publish::{Finished, finish};
use crate::storage::target::Target;
use apr_engine::convert::Output;
use apr_engine::convert::output::{format, stem_of};
use apr_remote::address::{Address, local_path};
use apr_sdk::{Error, LayoutRequest, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The place of an output, and what may happen there.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The file or folder to write.
    pub target: Target,
    /// True if the output is the folder itself, rather than files in it with names of their own.
    pub is_folder: bool,
    /// True if the output replaces the input.
    pub in_place: bool,
    /// True to replace an existing output.
    pub force: bool,
    /// True to continue an interrupted conversion.
    pub resume: bool,
    /// The path for a report of the conversion.
    pub report: Option<PathBuf>,
    /// Files that are read besides the model: no output may replace them.
    pub reads: Vec<PathBuf>,
}

impl Destination {
    /// Finishes an interrupted publication in the output's folder, if there is one.
    ///
    /// # Errors
    /// Io if that is impossible, or another apr is doing it.
    pub fn finish_publication(&self, steps: &Arc<dyn Steps>) -> Result<Option<Finished>> {
        finish(self.target.home(), &self.target.show(self.target.home()), steps)
    }
}

/// Interprets `OUT`, `--to` and `--max-shard-size`.
///
/// # Errors
/// InvalidArgument if they name no format, or two; NotFound if the folder to write in does not exist.
pub fn resolve<'a>(host: &'a Host, options: &ConvertOptions) -> Result<(Output<'a>, Destination)> {
    let format = format(host, options.to.as_deref(), options.output.as_deref())?;
    let extension = format.manifest.extensions.first().map_or("", String::as_str);
    let own_stem = input_stem(&options.input);
    let path = match &options.output {
        Some(path) => path.clone(),
        None if format.manifest.folder => local_path(&options.input).with_file_name(&own_stem),
        None => local_path(&options.input).with_file_name(format!("{own_stem}.{extension}")),
    };
    if options.output.is_none() && is_input(&path, &options.input) {
        let message = "the output would overwrite the input: without OUT, it gets the input's name with the \
                       format's extension";
        let error = Error::invalid_argument(message).in_file(path.display().to_string());
        return Err(error.hint("choose another name: apr convert IN OUT"));
    }
    let typed_folder = path.as_os_str().to_string_lossy().ends_with('/');
    if format.manifest.folder && path.exists() && !path.is_dir() {
        let message = format!("this is a file, but {} is written as a folder", format.manifest.name);
        let error = Error::invalid_argument(message).in_file(path.display().to_string());
        return Err(error.hint("choose another name for the output"));
    }
    let folder = typed_folder
        || format.manifest.folder
        || path.is_dir()
        || (options.to.is_some() && path.extension().is_none() && !path.exists());
    if typed_folder && path.exists() && !path.is_dir() {
        return Err(
            Error::invalid_argument("this is a file, not a folder").in_file(path.display().to_string())
        );
    }
    let shards = options.shards();
    let mut request = match (folder, shards.is_limited()) {
        (true, _) => LayoutRequest::folder(&own_stem),
        (false, true) => LayoutRequest::folder(&stem_of(&path)),
        (false, false) => {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            LayoutRequest::file(&name)
        }
    };
    // A sharded model named like a file goes into that file's folder, with its files named after it.
    let target = match (folder, shards.is_limited()) {
        (true, _) => Target::new(&path, true)?,
        (false, false) => Target::new(&path, false)?,
        (false, true) => {
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Target::new(parent, true)?
        }
    };
    shards.limit(&mut request);
    request.foreign = options.foreign;
    let shown = options.output.as_ref().unwrap_or(&target.path).display().to_string();
    let takes_many = target.folder;
    let destination = Destination {
        target,
        is_folder: folder,
        in_place: options.in_place,
        force: options.force,
        resume: options.resume,
        report: options.report.clone(),
        reads: options.reads.clone(),
    };
    Ok((Output { format, request, takes_many, shards, shown }, destination))
}

/// Returns whether a path leads to the input, or to the folder that contains it.
fn is_input(path: &Path, input: &Path) -> bool {
    let (Ok(path), Ok(input)) = (path.canonicalize(), input.canonicalize()) else { return false };
    path == input || (path.is_dir() && input.parent() == Some(&path))
}

/// The input's name without extension and part number, after which files in an output folder are named.
pub fn input_stem(input: &Path) -> String {
    if matches!(Address::of(input), Some(Ok(Address::Hub(address))) if address.file.is_empty()) {
        // A repository: what is behind a dot in its name is no extension.
        return local_path(input).display().to_string();
    }
    let input = &local_path(input);
    let resolved: PathBuf = input.canonicalize().unwrap_or_else(|_| input.to_owned());
    if resolved.is_dir() {
        return resolved.file_name().map_or("model".to_owned(), |n| n.to_string_lossy().into_owned());
    }
    stem_of(&resolved)
}
