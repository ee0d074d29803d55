//! Finds the files with the weights in a folder.

use crate::layout::{WEIGHT_FORMATS, WEIGHTS};
use crate::reader::{contents, parse};
use apr_sdk::{Error, Limits, Result, Source, escape};
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// The format of a weights file, or of an index of some, by its name.
pub fn format_of(name: &str) -> Option<&'static str> {
    WEIGHT_FORMATS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| *format)
}

/// The one file, or index, of a folder.
///
/// # Errors
/// NotFound without one; InvalidArgument, naming them, for several of which none is preferred.
pub fn choose(entries: &[String]) -> Result<&str> {
    let has = |name: &str| entries.iter().find(|entry| *entry == name).map(String::as_str);
    if let Some(name) = WEIGHTS.iter().find_map(|name| has(name)) {
        return Ok(name);
    }
    let found: Vec<&str> = candidates(entries).collect();
    let indexes: Vec<&str> = found.iter().copied().filter(|name| name.ends_with(".index.json")).collect();
    match (&found[..], &indexes[..]) {
        ([], _) => Err(Error::not_found("the folder contains a configuration, but no weights")
            .hint("put model.safetensors or pytorch_model.bin into the same folder")),
        ([only], _) | (_, [only]) => Ok(only),
        _ => {
            let list: Vec<_> = found.iter().take(10).map(|name| format!("`{}`", escape(name, 120))).collect();
            let message = format!("the folder contains several models: {}", list.join(", "));
            Err(Error::invalid_argument(message).hint("specify the one to open"))
        }
    }
}

/// The file or index that holds all of which `name` is part: the index, for a shard of one.
pub fn whole<'a>(name: &'a str, entries: &'a [String]) -> &'a str {
    let index = || {
        let (stem, extension) = name.rsplit_once('.')?;
        let (numbered, last) = stem.rsplit_once("-of-")?;
        let (stem, first) = numbered.rsplit_once('-')?;
        let digits = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        let index = format!("{stem}.{extension}.index.json");
        (digits(first) && digits(last)).then(|| entries.iter().find(|entry| **entry == index))?
    };
    index().map_or(name, String::as_str)
}

/// The files of the chosen weights.
pub struct Files<'w> {
    chosen: &'w str,
    /// Paths of the shards that the index lists; `None` for a file, and for an index that is not read here.
    listed: Option<BTreeSet<String>>,
}

impl<'w> Files<'w> {
    /// The files of `chosen`. An index that cannot be parsed is refused by the reader of its format.
    ///
    /// # Errors
    /// Any error from opening an index.
    pub fn of(source: &dyn Source, chosen: &'w str, limits: &Limits) -> Result<Files<'w>> {
        let mut files = Files { chosen, listed: None };
        if chosen.ends_with(".index.json") {
            let index = source.sibling(chosen)?;
            let json = contents(source, index, limits).and_then(|bytes| parse(&bytes));
            files.listed =
                json.ok().as_ref().and_then(|json| json.get("weight_map")?.as_object()).map(|map| {
                    let paths = map.values().filter_map(Json::as_str);
                    paths.map(|path| path.strip_prefix("./").unwrap_or(path).to_owned()).collect()
                });
        }
        Ok(files)
    }

    /// Whether a file of the folder is one of them.
    pub fn contain(&self, path: &str) -> bool {
        match &self.listed {
            Some(listed) => path == self.chosen || listed.contains(path),
            None => belongs(path, self.chosen),
        }
    }
}

/// Whether a file is the chosen weights, or a shard of the chosen index by its name.
fn belongs(name: &str, chosen: &str) -> bool {
    name == chosen
        || stem_of_index(chosen).is_some_and(|(stem, extension)| {
            let middle = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(extension));
            middle.is_some_and(|middle| {
                middle.starts_with('-') && middle.ends_with('.') && middle.contains("-of-")
            })
        })
}

/// `model` and `safetensors` of `model.safetensors.index.json`.
fn stem_of_index(name: &str) -> Option<(&str, &str)> {
    name.strip_suffix(".index.json")?.rsplit_once('.')
}

/// Names of weights files and of their indexes. PyTorch's endings are also those of training states and other pickles.
pub fn candidates(entries: &[String]) -> impl Iterator<Item = &str> {
    let is_state = |name: &str| {
        ["training_args", "optimizer", "scheduler", "rng_state", "scaler"]
            .iter()
            .any(|word| name.starts_with(word))
    };
    entries.iter().map(String::as_str).filter(move |name| format_of(name).is_some() && !is_state(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn loaders_names_come_first_and_one_of_its_kind_will_do() {
        for (names, chosen) in [
            (&["model.safetensors", "pytorch_model.bin"][..], "model.safetensors"),
            (&["a.bin", "pytorch_model.bin.index.json"], "pytorch_model.bin.index.json"),
            (&["adapter_model.safetensors", "training_args.bin"], "adapter_model.safetensors"),
            (&["x-00001-of-00002.safetensors", "x.safetensors.index.json"], "x.safetensors.index.json"),
        ] {
            assert_eq!(choose(&entries(names)).unwrap(), chosen);
        }
        assert_eq!(choose(&entries(&["optimizer.pt"])).unwrap_err().kind(), apr_sdk::ErrorKind::NotFound);
        let error = choose(&entries(&["a.safetensors", "b.safetensors"])).unwrap_err();
        assert_eq!(error.message(), "the folder contains several models: `a.safetensors`, `b.safetensors`");
    }

    #[test]
    fn a_shard_is_of_its_index() {
        let names = entries(&["m-00001-of-00002.bin", "m.bin.index.json"]);
        assert_eq!(whole("m-00001-of-00002.bin", &names), "m.bin.index.json");
        assert_eq!(whole("n-00001-of-00002.bin", &names), "n-00001-of-00002.bin");
        assert_eq!(whole("m.bin", &names), "m.bin");
        assert!(belongs("m-00001-of-00002.bin", "m.bin.index.json") && belongs("m.bin", "m.bin"));
        assert!(!belongs("n-00001-of-00002.bin", "m.bin.index.json") && !belongs("m-x.bin", "m.bin"));
    }
}
