//! `apr plugins install`: how does a plugin come to stay?

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::plugins::info::only;
use crate::cli::verbs::plugins::tier_word;
use apr_engine::architecture::draft_warnings;
use apr_engine::registry::Tier;
use apr_host::plugins::{Lock, file_name, is_table, sha256, table_name};
use apr_host::storage::overwrite::Inputs;
use apr_sdk::{Error, Result};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Install a plugin for this user
///
/// The library is checked, loaded in a process of its own, copied into your
/// data folder under a temporary name, and renamed. From then on apr runs its
/// native code whenever a file may be in its format: install only what you
/// trust. An architecture table (TOML) is installed the same way; it is only
/// data.
///
/// Examples:
///   apr plugins install target/release/libapr_plugin_my_format.so
///   apr plugins install my-architecture.toml
///   apr plugins install libapr_plugin_toy.so --force
///   apr plugins install libapr_plugin_toy.so --pin
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Plugin library, or architecture table
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace an installed plugin with the same id
    #[arg(short, long)]
    force: bool,
    /// Pin this build by its SHA-256 in the lock file: any other build with this id is refused
    #[arg(long)]
    pin: bool,
}

/// The plugin that was installed. JSON: `id`, `version`, `path`, `replaced` (a version or `null`), `pinned` (a SHA-256
/// or `null`), `warnings`.
#[derive(Debug, Serialize)]
pub struct Installed {
    id: String,
    version: String,
    path: String,
    replaced: Option<String>,
    pinned: Option<String>,
    #[serde(skip)]
    is_table: bool,
    #[serde(skip)]
    warnings: Vec<String>,
}

/// Judges, tries, copies, renames.
///
/// # Errors
/// The refusal of the library; Io if it cannot be copied, or one of its id is installed and `--force` was not given.
pub fn run(args: &Args, context: &Context) -> Result<Installed> {
    // Before it takes anyone's place: what ends the process that loads it would end every command from then on.
    let judged = context.tried_registry_of(&args.file)?;
    let plugin = only(&judged)?;
    if let Err(error) = &plugin.state {
        return Err(error.clone());
    }
    let manifest = plugin.manifest.as_ref().ok_or_else(|| Error::plugin("the plugin has no manifest"))?;
    let folder = context.discover_options().user.ok_or_else(no_data_folder)?;
    let is_table = is_table(&args.file);
    let shown = plugin.shown_id().unwrap_or(&manifest.id);
    let [library, table] = [file_name(&manifest.id), table_name(&manifest.id)].map(|name| folder.join(name));
    let (target, other) = if is_table { (table, library) } else { (library, table) };
    let installed = [&target, &other].into_iter().find(|path| path.exists());
    let replaced = installed.and_then(|path| installed_version(path, context));
    if let Some(installed) = installed.filter(|_| !args.force) {
        let version = replaced.map(|version| format!(", version {version}")).unwrap_or_default();
        return Err(Error::io(format!("plugin `{shown}` is already installed{version}"))
            .in_file(installed.display().to_string())
            .hint("pass --force to replace it"));
    }
    let mut inputs = Inputs::default();
    inputs.add(&args.file);
    if inputs.has(&target) {
        let error = Error::invalid_argument("this is already the installed plugin");
        let hint = "specify the file that you built; nothing was changed";
        return Err(error.in_file(args.file.display().to_string()).hint(hint));
    }
    put(&args.file, &folder, &target)?;
    if other.exists() {
        fs::remove_file(&other).map_err(|error| {
            let error = Error::io(format!("cannot remove the plugin being replaced: {error}"));
            error.in_file(other.display().to_string())
        })?;
    }
    let pinned = pin(args, &manifest.id, &target, context)?;
    let everything = context.registry();
    let others = everything.plugins().iter().filter(|other| other.path.as_deref() != Some(&target));
    let others =
        others.filter(|other| other.manifest.as_ref().is_some_and(|m| m.id == manifest.id)).map(|other| {
            let at =
                other.path.as_ref().map_or("built into apr".to_owned(), |path| path.display().to_string());
            format!(
                "another plugin `{shown}` exists ({}, {at}); `apr plugins list` shows which one is used",
                tier_word(other.origin.tier())
            )
        });
    let mut warnings: Vec<String> = others.collect();
    // It is told by the name that it has from now on.
    let mine = everything.plugins().iter().filter(|plugin| is_table && plugin.path.as_ref() == Some(&target));
    warnings.extend(draft_warnings(mine));
    Ok(Installed {
        id: shown.to_owned(),
        version: manifest.version.clone(),
        path: target.display().to_string(),
        replaced,
        pinned,
        is_table,
        warnings,
    })
}

/// Pins the installed library if that is asked for; or if an older build of it is pinned, which would lock this one out.
fn pin(args: &Args, id: &str, target: &Path, context: &Context) -> Result<Option<String>> {
    let Some(path) = context.discover_options().lock else {
        return if args.pin { Err(no_data_folder()) } else { Ok(None) };
    };
    let mut lock = Lock::read(&path)?;
    if !args.pin && lock.plugins.iter().all(|entry| entry.id != id) {
        return Ok(None);
    }
    let digest = sha256(target)?;
    lock.pin(id, digest.clone(), tier_word(Tier::User));
    lock.write(&path)?;
    Ok(Some(digest))
}

/// The error of a user without a home.
pub fn no_data_folder() -> Error {
    Error::io("no data folder for this user: neither XDG_DATA_HOME nor HOME is an absolute path")
        .hint("set XDG_DATA_HOME, or specify the library with --plugin FILE")
}

fn installed_version(target: &Path, context: &Context) -> Option<String> {
    let registry = context.registry_of(target).ok()?;
    only(&registry).ok()?.manifest.as_ref().map(|manifest| manifest.version.clone())
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format!("cannot install: {error}")).in_file(path.display().to_string())
}

/// Copies by a temporary file and a rename: a library that is loaded must never be overwritten in place.
fn put(source: &Path, folder: &Path, target: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    let bytes = fs::read(source).map_err(|error| failed(source, &error))?;
    let temporary = folder.join(format!(".install-{}", std::process::id()));
    let written = write_new(&temporary, &bytes).and_then(|()| fs::rename(&temporary, target));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        failed(target, &error)
    })
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        // Whatever the umask: a library that others may write is refused.
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o644);
    }
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

impl Report for Installed {
    fn json(&self) -> Result<Json> {
        with_schema("apr.plugins.install/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn quiet(&self) -> String {
        String::new()
    }
}

impl fmt::Display for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replaced =
            self.replaced.as_ref().map(|version| format!(", which replaces {version}")).unwrap_or_default();
        writeln!(f, "installed {} {}{replaced}: {}", self.id, self.version, self.path)?;
        if let Some(digest) = &self.pinned {
            writeln!(f, "pinned to SHA-256 {digest}")?;
        }
        let undo = format!("run `apr plugins remove {}` to undo this", self.id);
        if self.is_table {
            return writeln!(f, "it is a table and contains no code; {undo}");
        }
        writeln!(f, "it is native code and runs with all your permissions; {undo}")
    }
}
