//! `apr plugins new`: where does a new format begin?

use crate::cli::output::verb_report::{Report, with_schema};
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Create a new plugin from a template: a small working format
///
/// The crate builds outside any workspace, has a fixture and the tests that
/// every format passes. It builds with the SDK of apr's sources.
///
/// Examples:
///   apr plugins new my-format
///   apr plugins new my-format --sdk ~/src/apr/sdk
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Name of the crate and of its new folder: a-z, 0-9 and `-`
    #[arg(value_name = "NAME")]
    name: PathBuf,
    /// Folder of the SDK to build with: `sdk` in apr's sources, found automatically if apr runs from there
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// The template's files.
const TEMPLATE: &[(&str, &[u8])] = &[
    ("Cargo.toml", include_bytes!("../../../../../sdk/template/Cargo.toml")),
    ("README.md", include_bytes!("../../../../../sdk/template/README.md")),
    ("src/layout.rs", include_bytes!("../../../../../sdk/template/src/layout.rs")),
    ("src/lib.rs", include_bytes!("../../../../../sdk/template/src/lib.rs")),
    ("src/reader.rs", include_bytes!("../../../../../sdk/template/src/reader.rs")),
    ("src/writer.rs", include_bytes!("../../../../../sdk/template/src/writer.rs")),
    ("tests/conformance.rs", include_bytes!("../../../../../sdk/template/tests/conformance.rs")),
    ("tests/data/small.py", include_bytes!("../../../../../sdk/template/tests/data/small.py")),
    ("tests/data/small.toy", include_bytes!("../../../../../sdk/template/tests/data/small.toy")),
];

/// The files written. JSON: `name`, `id`, `folder`, `files`.
#[derive(Debug, Serialize)]
pub struct Written {
    name: String,
    id: String,
    folder: String,
    files: Vec<String>,
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
        None => sdk_folder(&sdk_of_sources()?)?,
    };
    let folder = &args.name;
    fs::create_dir(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::io("already exists; nothing was written")
            .in_file(folder.display().to_string())
            .hint("choose another name"),
        _ => failed(folder, &error),
    })?;
    let mut files = Vec::new();
    for (file, bytes) in TEMPLATE {
        let path = folder.join(file);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
        fs::write(&path, filled_in(bytes, name, &id, &sdk)).map_err(|error| failed(&path, &error))?;
        files.push((*file).to_owned());
    }
    Ok(Written { name: name.to_owned(), id, folder: folder.display().to_string(), files })
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

/// A file of the template with its placeholders filled in.
fn filled_in(bytes: &[u8], name: &str, id: &str, sdk: &str) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
    text.replace("{{sdk}}", sdk).replace("{{name}}", name).replace("{{id}}", id).into_bytes()
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
        writeln!(f, "next: cd {} && cargo build --release && cargo test --release", self.folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files_under(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            match entry.path() {
                path if path.is_dir() => files_under(&path, &format!("{name}/"), found),
                _ => found.push(name),
            }
        }
    }

    #[test]
    fn every_file_of_the_template_is_written() {
        let mut files = Vec::new();
        files_under(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/template"), "", &mut files);
        files.sort();
        assert_eq!(files, TEMPLATE.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn no_placeholder_is_left() {
        for (name, bytes) in TEMPLATE {
            let text =
                String::from_utf8_lossy(&filled_in(bytes, "my-toy", "my_toy", "/src/sdk")).into_owned();
            assert!(!text.contains("{{") || name.ends_with(".rs") && !text.contains("{{id"), "{name}");
        }
    }

    #[test]
    fn odd_names_are_refused() {
        for name in ["", "My", "a b", "-a", "a-", "9a", "a/b", "é"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        check_name("my-format2").unwrap();
    }
}
