//! Works out the outputs for several inputs or types, and their names.

use super::input_stem;
use crate::conversion::ConvertOptions;
use crate::host::Host;
use apr_engine::convert::output::{format, writable};
use apr_engine::open::Probed;
use apr_engine::registry::Format;
use apr_engine::types::quantize::recipe_name;
use apr_remote::address::local_path;
use apr_sdk::{DType, DTypeKind, Error, Result, escape};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The placeholder for the type in an output's name.
pub const TYPE: &str = "{type}";

/// The models to convert, and the targets.
#[derive(Clone, Debug, Default)]
pub struct Operands {
    /// The models to convert.
    pub inputs: Vec<PathBuf>,
    /// The output: a file, with `{type}` if there are several types, or a folder.
    pub output: Option<PathBuf>,
    /// The recipes to quantize each of them with.
    pub recipes: Vec<String>,
}

impl Operands {
    /// Returns whether one model becomes one output, named as typed.
    pub fn is_plain(&self) -> bool {
        let is_named = self.output.as_ref().is_some_and(|output| !has_type(output));
        self.inputs.len() == 1 && (self.recipes.is_empty() || is_named && self.recipes.len() == 1)
    }

    /// The conversions of each input, otherwise as in `each`. Nothing is written.
    ///
    /// # Errors
    /// InvalidArgument for outputs with the same name, or with that of an input, and if nothing tells the
    /// format; for several inputs, any error from probing them.
    pub fn conversions(&self, host: &Host, each: &ConvertOptions) -> Result<Vec<Vec<ConvertOptions>>> {
        let mut all = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            if self.inputs.len() > 1 {
                probe(host, input, each)?;
            }
            let mut each = ConvertOptions { input: input.clone(), ..each.clone() };
            // None is written over, not even by another one's output.
            each.reads.extend(self.inputs.iter().filter(|other| *other != input).cloned());
            let recipes: Vec<_> = self.recipes.iter().map(Some).collect();
            let recipes = if recipes.is_empty() { vec![None] } else { recipes };
            let conversions = recipes.into_iter().map(|recipe| self.conversion(host, &each, recipe));
            all.push(conversions.collect::<Result<Vec<_>>>()?);
        }
        self.refuse_same(all.iter().flatten())?;
        Ok(all)
    }

    fn conversion(
        &self,
        host: &Host,
        each: &ConvertOptions,
        recipe: Option<&String>,
    ) -> Result<ConvertOptions> {
        let mut options = each.clone();
        options.quantization.recipe = recipe.cloned().or(options.quantization.recipe);
        // An unknown recipe is reported when its turn comes.
        let shown =
            recipe.map(|recipe| recipe_name(&host.registry, recipe).unwrap_or_else(|_| recipe.clone()));
        if let (Some(report), Some(shown)) = (&each.report, &shown) {
            options.report = Some(with_type(report, shown));
        }
        let has_several = self.inputs.len() > 1 || self.recipes.len() > 1;
        options.output = match (&self.output, &shown) {
            (Some(output), Some(shown)) if has_type(output) => Some(with_type(output, shown)),
            (Some(output), _) if !has_several => Some(output.clone()),
            (Some(output), _) if !is_folder(output) => return Err(one_name(output)),
            (None, None) => None,
            (folder, _) => {
                let format = match &each.to {
                    Some(id) => format(host, Some(id), None)?,
                    None => own_format(probe(host, &each.input, each)?.format(), &options)?,
                };
                options.to = Some(format.id().to_owned());
                let name = name(host, &each.input, format, shown.as_deref())?;
                Some(folder.as_ref().map_or_else(
                    || local_path(&each.input).with_file_name(&name),
                    |folder| folder.join(&name),
                ))
            }
        };
        Ok(options)
    }

    /// Fails, before anything is written, for two outputs with the same name, and for one that is an input.
    fn refuse_same<'a>(&self, all: impl Iterator<Item = &'a ConvertOptions>) -> Result<()> {
        let inputs: Vec<PathBuf> = self.inputs.iter().filter_map(|input| input.canonicalize().ok()).collect();
        let mut outputs: HashMap<PathBuf, &Path> = HashMap::new();
        for options in all {
            let Some(output) = &options.output else { continue };
            let place = place(output);
            if inputs.contains(&place) {
                let error = Error::invalid_argument("the output is one of the inputs");
                let error = error.in_file(output.display().to_string());
                return Err(error.hint("choose another name for the output; no input was changed"));
            }
            if let Some(other) = outputs.insert(place, &options.input) {
                let one = other.display().to_string();
                let two = options.input.display().to_string();
                let message = match one == two {
                    true => "two outputs would have the same name: a type is given twice".to_owned(),
                    false => format!("the outputs of {one} and {two} would have the same name"),
                };
                let error = Error::invalid_argument(escape(&message, 400));
                let error = error.in_file(output.display().to_string());
                return Err(error.hint("convert one of them separately"));
            }
        }
        Ok(())
    }
}

fn probe<'h>(host: &'h Host, input: &Path, options: &ConvertOptions) -> Result<Probed<'h>> {
    Probed::new(host, input, options.from.as_deref(), options.bare)
}

/// Returns whether a path has the placeholder for the type.
pub fn has_type(path: &Path) -> bool {
    path.to_string_lossy().contains(TYPE)
}

/// Returns whether a path is a folder, or typed as one.
pub fn is_folder(path: &Path) -> bool {
    path.as_os_str().to_string_lossy().ends_with('/') || path.is_dir()
}

fn with_type(path: &Path, shown: &str) -> PathBuf {
    PathBuf::from(path.to_string_lossy().replace(TYPE, shown))
}

fn one_name(output: &Path) -> Error {
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    let extension = output.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
    let error = Error::invalid_argument("several types were given, but the output is a single file");
    let named = output.with_file_name(format!("{stem}-{TYPE}{extension}"));
    let hint = format!("name the output {}, or specify a folder", escape(&named.display().to_string(), 400));
    error.in_file(output.display().to_string()).hint(hint)
}

/// The input's format as the output's, when weights get smaller and nothing names another format.
fn own_format<'f>(format: &'f Format, options: &ConvertOptions) -> Result<&'f Format> {
    if format.manifest.folder || !format.manifest.writes || options.quantization.recipe.is_none() {
        let error = Error::invalid_argument("missing output format: neither a name nor a format was given");
        return Err(error.in_file(options.input.display().to_string()).hint("pass --to FORMAT"));
    }
    writable(format)
}

/// The default name of an output, after its input and type, as is customary: `Name-Size-Q4_K_M.gguf`.
/// Replaces a type that the input's name ends with.
fn name(host: &Host, input: &Path, format: &Format, shown: Option<&str>) -> Result<String> {
    let mut stem = input_stem(input);
    if let Some(shown) = shown {
        if let Some((name, word)) = stem.rsplit_once(['-', '.'])
            && !name.is_empty()
            && is_type(host, word)
        {
            stem.truncate(name.len());
        }
        stem = format!("{stem}-{shown}");
    }
    let extension = format.manifest.extensions.first().filter(|_| !format.manifest.folder);
    Ok(extension.map_or_else(|| stem.clone(), |extension| format!("{stem}.{extension}")))
}

/// Returns whether a word names a float dtype or a recipe.
fn is_type(host: &Host, word: &str) -> bool {
    let dtype = DType::from_name(&word.to_ascii_uppercase());
    let is_float = dtype.and_then(DType::info).is_some_and(|info| info.kind == DTypeKind::Float);
    is_float || recipe_name(&host.registry, word).is_ok()
}

/// A path with its folder in canonical form and links resolved.
fn place(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let known = folder.canonicalize().or_else(|_| std::path::absolute(folder)).unwrap_or_default();
        known.join(path.file_name().unwrap_or_default())
    })
}
