//! The output, and the format that its name or `--to` gives it.

use crate::engine::Engine;
use crate::open::parts::lone::{self, INDEX};
use crate::registry::Format;
use apr_sdk::{Error, ForeignPolicy, LayoutRequest, Result};
use std::path::Path;

/// The output, as far as planning cares.
pub struct Output<'a> {
    /// The format to write.
    pub format: &'a Format,
    /// The request to the writer.
    pub request: LayoutRequest,
    /// True if it may consist of several files with any names.
    pub takes_many: bool,
    /// Limits on what is in one of the files.
    pub shards: Shards,
    /// Its path, for messages.
    pub shown: String,
}

/// Limits on what is in one file of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shards {
    /// The most payload bytes.
    pub size: Option<u64>,
    /// The most tensors.
    pub tensors: Option<u64>,
}

impl Shards {
    /// Returns whether there is a limit, so that there may be several files.
    pub fn is_limited(self) -> bool {
        self.size.or(self.tensors).is_some()
    }

    /// Passes the limits to a writer.
    pub fn limit(self, request: &mut LayoutRequest) {
        request.max_shard_size = self.size.or(self.tensors.map(|_| u64::MAX));
        request.max_shard_tensors = self.tensors;
    }
}

impl<'a> Output<'a> {
    /// An output called `name`, without a place: one file, or several that are named after it if its format is a folder's or
    /// `shards` limits what is in a file. Files of a folder are named after `input`.
    ///
    /// # Errors
    /// InvalidArgument for a name without a file name.
    pub fn unplaced(
        format: &'a Format,
        name: &Path,
        input: &Path,
        shards: Shards,
        foreign: ForeignPolicy,
    ) -> Result<Output<'a>> {
        let shown = name.file_name().map(|name| name.to_string_lossy().into_owned());
        let shown = shown.ok_or_else(|| Error::invalid_argument("the output has no name"))?;
        let is_folder = format.manifest.folder;
        let takes_many = is_folder || shards.is_limited();
        let mut request = match takes_many {
            true if is_folder => LayoutRequest::folder(&stem_of(input)),
            true => LayoutRequest::folder(&stem_of(name)),
            false => LayoutRequest::file(&shown),
        };
        shards.limit(&mut request);
        request.foreign = foreign;
        Ok(Output { format, request, takes_many, shards, shown })
    }
}

/// The writable format that `to`, an id, or else the extension of `path` names.
///
/// # Errors
/// InvalidArgument if neither names one; Unsupported for a read-only format.
pub fn format<'e>(engine: &'e Engine, to: Option<&str>, path: Option<&Path>) -> Result<&'e Format> {
    let format = match (to, path) {
        (Some(id), _) => engine.registry.format(id)?,
        (None, Some(path)) => by_extension(engine, path)?,
        (None, None) => {
            let error = Error::invalid_argument("no output was specified");
            return Err(error.hint("specify its name (apr convert IN OUT) or its format (--to FORMAT)"));
        }
    };
    writable(format)
}

/// Returns a format that can be written.
///
/// # Errors
/// Unsupported for a read-only format.
pub fn writable(format: &Format) -> Result<&Format> {
    match format.manifest.writes {
        true => Ok(format),
        false => Err(Error::unsupported(format!("the format `{}` can only be read", format.id()))),
    }
}

fn by_extension<'a>(engine: &'a Engine, path: &Path) -> Result<&'a Format> {
    let shown = path.display().to_string();
    let Some(extension) = path.extension().map(|e| e.to_string_lossy().to_lowercase()) else {
        let error =
            Error::invalid_argument("the format cannot be derived from the output's name").in_file(shown);
        return Err(error.hint(present(engine)));
    };
    let formats: Vec<_> =
        engine.registry.by_extension(&extension).into_iter().filter(|f| f.manifest.writes).collect();
    match formats[..] {
        [format] => Ok(format),
        [] => {
            let message =
                format!("no available format has the extension `.{}`", apr_sdk::escape(&extension, 40));
            Err(Error::invalid_argument(message).in_file(shown).hint(present(engine)))
        }
        _ => {
            let ids: Vec<_> = formats.iter().map(|f| f.id()).collect();
            let message = format!("the extension `.{extension}` is ambiguous: {}", ids.join(" and "));
            Err(Error::invalid_argument(message)
                .in_file(shown)
                .hint(format!("specify the format: --to {}", ids.join(" or --to "))))
        }
    }
}

fn present(engine: &Engine) -> String {
    let mut list = Vec::new();
    for format in engine.registry.formats().iter().filter(|f| f.manifest.writes) {
        let shape = match format.manifest.folder {
            true => "a folder".to_owned(),
            false => format!(".{}", format.manifest.extensions.join(", .")),
        };
        list.push(format!("{} ({shape})", format.id()));
    }
    format!("pass --to FORMAT; the available formats are {}", list.join(", "))
}

/// The stem of a path's file name: without extension, part number and index suffix.
pub fn stem_of(path: &Path) -> String {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    // An index is named after its model: `model.safetensors.index.json` belongs to `model`.
    let name = match name.strip_suffix(INDEX) {
        Some(model) => model.to_owned(),
        None => name,
    };
    let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
    lone::numbered(stem).map_or(stem, |(model, _, _)| model).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_lose_extension_index_and_part_number() {
        for (name, stem) in [
            ("a.bin", "a"),
            ("Qwen2.5-7B.x", "Qwen2.5-7B"),
            ("model-00001-of-00003.x", "model"),
            ("model.x.index.json", "model"),
            ("model-1-of-3.x", "model-1-of-3"),
            ("noext", "noext"),
        ] {
            assert_eq!(stem_of(Path::new(name)), stem, "{name}");
        }
    }
}
