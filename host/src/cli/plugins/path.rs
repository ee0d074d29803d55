//! `apr plugins path`: where are plugins looked for?

use crate::cli::context::Context;
use crate::cli::report::{Report, with_schema};
use apr_host::plugins::candidates;
use apr_sdk::Result;
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::{Path, PathBuf};

/// Show where plugins are looked for, in order
///
/// The current folder is never searched.
///
/// Examples:
///   apr plugins path
///   ls "$(apr plugins path -q)"    the folder that install uses
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {}

/// The places. JSON: `places` (each `path`, `origin`, `exists`), `install` (where `install` puts plugins) and `found`
/// (the libraries that were found, in order).
#[derive(Debug, Serialize)]
pub struct Places {
    places: Vec<Place>,
    install: Option<String>,
    found: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Place {
    path: String,
    origin: &'static str,
    exists: bool,
}

/// Gathers the places.
///
/// # Errors
/// None.
pub fn run(_args: &Args, context: &Context) -> Result<Places> {
    let options = context.discover_options();
    let beside = options.executable.as_deref().and_then(Path::parent);
    let beside: Vec<PathBuf> = beside
        .map(|folder| {
            let installed = folder.parent().map(|prefix| prefix.join("lib/apr/plugins"));
            std::iter::once(folder.join("plugins")).chain(installed).collect()
        })
        .unwrap_or_default();
    let named = options.named.iter().map(|path| (path, "--plugin"));
    let listed = options.plugin_path.iter().map(|path| (path, "APR_PLUGIN_PATH"));
    let user = options.user.iter().map(|path| (path, "your data folder"));
    let beside = beside.iter().map(|path| (path, "beside apr"));
    let system = options.system.iter().map(|path| (path, "system"));
    let places = named.chain(listed).chain(user).chain(beside).chain(system);
    let places = places.map(|(path, origin)| Place { path: shown(path), origin, exists: path.exists() });
    Ok(Places {
        places: places.collect(),
        install: options.user.as_deref().map(shown),
        found: candidates(&options).iter().map(|candidate| shown(&candidate.path)).collect(),
    })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

impl Report for Places {
    fn json(&self) -> Result<Json> {
        with_schema("apr.plugins.path/1", self)
    }

    fn quiet(&self) -> String {
        self.install.as_ref().map(|path| format!("{path}\n")).unwrap_or_default()
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.places.iter().map(|place| place.path.chars().count()).max().unwrap_or(0);
        for place in &self.places {
            let absent = if place.exists { "" } else { ", not there" };
            let install =
                if Some(&place.path) == self.install.as_ref() { ", `install` puts them here" } else { "" };
            writeln!(f, "{:width$}  {}{install}{absent}", place.path, place.origin)?;
        }
        Ok(())
    }
}
