//! `apr plugins new`: where does a new plugin begin?

use super::templates::{Kind, Words};
use crate::cli::output::verb_report::{Report, with_schema};
use apr_sdk::{Error, Result, escape};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Create a new plugin from a template: a small working format, quantizer, backend or table
///
/// The crate builds outside any workspace, with the SDK of apr's sources, and has
/// the tests that every plugin of its kind passes. A table is a TOML file and
/// needs neither.
///
/// Examples:
///   apr plugins new my-format
///   apr plugins new my-blocks --kind quantizer
///   apr plugins new my-model --kind table
///   apr plugins new my-format --sdk ~/src/apr/sdk
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Name of the crate and of its new folder: a-z, 0-9 and `-`
    #[arg(value_name = "NAME")]
    name: PathBuf,
    /// Kind of the plugin
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Format)]
    kind: Kind,
    /// Folder of the SDK to build with: `sdk` in apr's sources, found automatically if apr runs from there
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// The files written. JSON: `name`, `id`, `kind`, `folder`, `files`.
#[derive(Debug, Serialize)]
pub struct Written {
    name: String,
    id: String,
    kind: String,
    folder: String,
    files: Vec<String>,
    #[serde(skip)]
    next: String,
}

/// Writes the template with the names filled in.
///
/// # Errors
/// InvalidArgument for a name that no crate may have, or without an SDK; NotFound for an SDK that is not there; Io if the
/// folder exists.
pub fn run(args: &Args) -> Result<Written> {
    let name = args.name.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    check_name(name)?;
    let id = name.replace('-', "_");
    let sdk = match &args.sdk {
        Some(folder) => sdk_folder(folder)?,
        None if args.kind.is_crate() => sdk_folder(&sdk_of_sources()?)?,
        None => String::new(),
    };
    let words = Words { name, id: &id, sdk: &sdk };
    let folder = &args.name;
    fs::create_dir(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::io("already exists; nothing was written")
            .in_file(folder.display().to_string())
            .hint("choose another name"),
        _ => failed(folder, &error),
    })?;
    let mut files = Vec::new();
    for (file, bytes) in args.kind.files() {
        let file = words.path(file);
        let path = folder.join(&file);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
        fs::write(&path, words.filled_in(bytes)).map_err(|error| failed(&path, &error))?;
        files.push(file);
    }
    let next = match args.kind.is_crate() {
        true => "cargo build --release && cargo test --release".to_owned(),
        false => format!("apr arch check {name}.toml"),
    };
    let kind = args.kind.to_possible_value().map(|kind| kind.get_name().to_owned()).unwrap_or_default();
    Ok(Written { name: name.to_owned(), id, kind, folder: folder.display().to_string(), files, next })
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format!("cannot write: {error}")).in_file(path.display().to_string())
}

fn check_name(name: &str) -> Result<()> {
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    let ends = name.bytes().next_back().is_some_and(|b| b != b'-');
    let fits = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if begins && ends && name.len() <= 64 && fits {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("`{}` is not a valid plugin name", escape(name, 80)))
        .hint("use a-z, 0-9 and `-`, starting with a letter: my-format"))
}

fn is_sdk(folder: &Path) -> bool {
    folder.join("Cargo.toml").is_file() && folder.join("abi").is_dir()
}

/// The SDK in whose source tree this program was built and still lies.
fn sdk_of_sources() -> Result<PathBuf> {
    let program = std::env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
    let sdk = program.ancestors().map(|folder| folder.join("sdk")).find(|folder| is_sdk(folder));
    sdk.ok_or_else(|| {
        Error::invalid_argument("building a plugin requires the SDK, and this apr is not in its source tree")
            .hint("pass --sdk PATH with the `sdk` folder of apr's sources")
    })
}

/// The SDK's folder as the template's `Cargo.toml` may say it.
fn sdk_folder(path: &Path) -> Result<String> {
    let error = match path.canonicalize() {
        Err(_) => Error::not_found("no SDK here"),
        Ok(folder) if !is_sdk(&folder) => {
            Error::invalid_argument("not the SDK folder: it does not contain `Cargo.toml` and `abi`")
        }
        Ok(folder) => match folder.to_str() {
            Some(text) => return Ok(text.replace('\\', "\\\\").replace('"', "\\\"")),
            None => Error::invalid_argument("the path of the SDK is not valid UTF-8"),
        },
    };
    Err(error.in_file(path.display().to_string()))
}

impl Report for Written {
    fn json(&self) -> Result<Json> {
        with_schema("apr.plugins.new/1", self)
    }

    fn quiet(&self) -> String {
        String::new()
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "wrote {}: {} files", self.folder, self.files.len())?;
        writeln!(f, "next: cd {} && {}", self.folder, self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_refused() {
        for name in ["", "My", "a b", "-a", "a-", "9a", "a/b", "é"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        check_name("my-format2").unwrap();
    }
}
