//! Determines the format of an output.

use super::request::ConvertOptions;
use crate::engine::Engine;
use crate::open::parts::lone;
use crate::registry::Format;
use apr_sdk::{Error, Result};
use std::path::Path;

/// The suffix of an index of shards, in every format.
pub const INDEX: &str = ".index.json";

/// The writable format that `OUT` or `--to` names.
///
/// # Errors
/// InvalidArgument if neither names one, or both do and differ; Unsupported for a read-only format.
pub fn format<'e>(engine: &'e Engine, options: &ConvertOptions) -> Result<&'e Format> {
    let format = match (&options.to, &options.output) {
        (Some(id), _) => engine.registry.format(id)?,
        (None, Some(path)) => by_extension(engine, path)?,
        (None, None) => {
            let error = Error::invalid_argument("there is no output");
            return Err(error.hint("give it a name: apr convert IN OUT, or a format: --to FORMAT"));
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
        false => Err(Error::unsupported(format!("`{}` can only be read", format.id()))),
    }
}

fn by_extension<'a>(engine: &'a Engine, path: &Path) -> Result<&'a Format> {
    let shown = path.display().to_string();
    let known = || {
        let formats = engine.registry.formats().iter().filter(|f| f.manifest.writes);
        let shape = |f: &Format| match f.manifest.folder {
            true => "a folder".to_owned(),
            false => format!(".{}", f.manifest.extensions.join(", .")),
        };
        let list: Vec<_> = formats.map(|f| format!("{} ({})", f.id(), shape(f))).collect();
        format!("pass --to FORMAT; present are {}", list.join(", "))
    };
    let Some(extension) = path.extension().map(|e| e.to_string_lossy().to_lowercase()) else {
        let error = Error::invalid_argument("the output's name says no format").in_file(shown);
        return Err(error.hint(known()));
    };
    let found: Vec<_> =
        engine.registry.by_extension(&extension).into_iter().filter(|f| f.manifest.writes).collect();
    match found[..] {
        [format] => Ok(format),
        [] => {
            let message = format!("no present format is written as `.{}`", apr_sdk::escape(&extension, 40));
            Err(Error::invalid_argument(message).in_file(shown).hint(known()))
        }
        _ => {
            let ids: Vec<_> = found.iter().map(|f| f.id()).collect();
            let message = format!("`.{extension}` is written by {}", ids.join(" and "));
            Err(Error::invalid_argument(message)
                .in_file(shown)
                .hint(format!("choose one: --to {}", ids.join(" or --to "))))
        }
    }
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
