//! `apr plugins path`: where are plugins looked for?

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::registry::Origin;
use apr_host::plugins::{find, places};
use apr_sdk::Result;
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::Path;

/// Show where apr looks for plugins, in search order
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
    let places = places(&options).into_iter().map(|place| Place {
        path: shown(&place.path),
        origin: origin_words(place.origin),
        exists: place.path.exists(),
    });
    Ok(Places {
        places: places.collect(),
        install: options.user.as_deref().map(shown),
        found: find(&options).candidates.iter().map(|candidate| shown(&candidate.path)).collect(),
    })
}

fn origin_words(origin: Origin) -> &'static str {
    match origin {
        Origin::Bundled => "built into apr",
        Origin::Flag => "--plugin",
        Origin::Variable | Origin::VariableFile => "APR_PLUGIN_PATH",
        Origin::User => "your data folder",
        Origin::Beside => "next to apr",
        Origin::Built => "built with apr",
        Origin::System => "system",
    }
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
            let absent = if place.exists { "" } else { ", not found" };
            let install = if Some(&place.path) == self.install.as_ref() { ", used by `install`" } else { "" };
            writeln!(f, "{:width$}  {}{install}{absent}", place.path, place.origin)?;
        }
        Ok(())
    }
}
