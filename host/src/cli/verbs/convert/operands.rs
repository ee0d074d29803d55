//! The paths of `apr convert`: models and an output.

use crate::cli::flags::open_args::only_a_path;
use crate::cli::verbs::convert::Args;
use crate::cli::verbs::convert::to_stdout::is_stdout;
use apr_engine::select::glob::matches;
use apr_host::destination::outputs::{Operands, has_type, is_folder};
use apr_sdk::{Error, Result};
use std::path::{Path, PathBuf};

/// The models and the output that were typed. One path or two are a model and its output; of more, the last is the folder
/// that they go into, unless `--output` names that.
///
/// # Errors
/// InvalidArgument for several models without a folder, or a recipe where a path is expected; NotFound for a pattern that
/// matches nothing; Unsupported for what is no path.
pub fn operands(args: &Args, is_recipe: &dyn Fn(&str) -> bool) -> Result<Operands> {
    let mut typed: Vec<&PathBuf> = std::iter::once(&args.input).chain(&args.out).collect();
    let output = match (&args.output, typed.len()) {
        (Some(output), 1) => Some(output),
        (Some(output), _) if is_folder(output) => Some(output),
        (Some(_), _) => {
            let message = "`[OUT]` and `--output <OUT>` cannot be used together";
            return Err(Error::invalid_argument(message).hint("run `apr convert --help`"));
        }
        (None, 1) => None,
        (None, _) => typed.pop(),
    };
    output.filter(|path| !is_stdout(path)).map_or(Ok(()), |path| only_a_path(path))?;
    if let Some(recipe) = output.filter(|_| args.to.is_none()).and_then(|path| path.to_str())
        && !recipe.contains(['/', '.'])
        && !Path::new(recipe).exists()
        && is_recipe(recipe)
    {
        let message = format!("expected a path, found the quantization type `{recipe}`");
        return Err(Error::invalid_argument(message)
            .hint(format!("pass --quantize {recipe}: apr convert IN OUT --quantize {recipe}")));
    }
    let mut inputs = Vec::new();
    for path in typed {
        match is_pattern(path) {
            true => inputs.extend(matching(path)?),
            false => inputs.push(path.clone()),
        }
    }
    if let Some(output) = output.filter(|output| inputs.len() > 1 && !is_folder(output)) {
        let message = "several models were given, but the last path is not a folder";
        let error = Error::invalid_argument(message).in_file(output.display().to_string());
        return Err(error.hint("end it with a slash: apr convert IN IN OUT/ --to FORMAT"));
    }
    let recipes = args.types.recipes();
    let is_one_report =
        args.types.report.as_ref().is_some_and(|report| inputs.len() > 1 || !has_type(report));
    if is_one_report && (inputs.len() > 1 || recipes.len() > 1) {
        let hint = "convert one model at a time, with {type} in the report's name";
        return Err(Error::invalid_argument(
            "there are several outputs, but --report specifies only one file",
        )
        .hint(hint));
    }
    Ok(Operands { inputs, output: output.cloned(), recipes })
}

/// Returns whether a path is a pattern of names in a folder, rather than one of them.
fn is_pattern(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.contains(['*', '?', '[']) && path.symlink_metadata().is_err()
}

/// The files that match a pattern, by name: the shell's own job, for a pattern that it was kept from.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>> {
    let none = Error::not_found("no file matches this pattern").in_file(pattern.display().to_string());
    let folder = pattern.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else {
        let hint = "patterns are only allowed in the last part of a path, and its folder does not exist";
        return Err(none.hint(hint));
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let name = pattern.file_name().unwrap_or_default().to_string_lossy();
    match matches("the pattern", &name, &all) {
        Ok(found) => Ok(found.iter().map(|one| pattern.with_file_name(&names[one.number])).collect()),
        Err(_) => Err(none.hint("run `ls` to check it")),
    }
}
