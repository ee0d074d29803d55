//! `apr plugins list`: which plugins are there, and does each work?

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::plugins::tier_word;
use apr_engine::architecture::draft_warnings;
use apr_engine::registry::{Origin, Plugin};
use apr_host::plugins::file_name;
use apr_sdk::{Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// List all plugins found, what they provide and whether they work
///
/// Examples:
///   apr plugins list
///   apr plugins list --json
///   apr plugins list -q            only the ids, one per line
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {}

/// The plugins, in search order. JSON: `plugins`, each with the fields of [`Row`], and `skipped`: the paths of libraries
/// in folders for plugins that are passed over because of their names.
#[derive(Debug, Serialize)]
pub struct Plugins {
    plugins: Vec<Row>,
    skipped: Vec<String>,
    #[serde(skip)]
    warnings: Vec<String>,
}

/// One plugin.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its id, for a table the architecture's; `null` if its manifest could not be read.
    pub id: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its licence.
    pub license: Option<String>,
    /// `reader`, `writer`, `quantizer`, ...
    pub kinds: Vec<&'static str>,
    /// The ids of the formats, types, architectures and backends it provides.
    pub provides: Vec<String>,
    /// The interface version it speaks; `null` if it is linked in.
    pub abi: Option<String>,
    /// `bundled`, `system`, `user` or `named`: how far it is trusted.
    pub tier: &'static str,
    /// `loaded` or `refused`.
    pub status: &'static str,
    /// The code of the refusal.
    pub code: Option<String>,
    /// Why it was refused.
    pub reason: Option<String>,
    /// What to do about that.
    pub hint: Option<String>,
    /// What lies behind the reason.
    pub causes: Vec<String>,
    /// Its library; `null` if it is linked in.
    pub path: Option<String>,
}

/// Finds the plugins and loads each, in a process of its own first, so that what would be refused at its first use is
/// shown, and none ends the list.
///
/// # Errors
/// Whatever looking for plugins raised.
pub fn run(_args: &Args, context: &Context) -> Result<Plugins> {
    let registry = context.tried_registry();
    let skipped = registry.skipped.iter().map(|path| path.display().to_string()).collect();
    let mut warnings: Vec<String> = registry.plugins().iter().filter_map(refused).collect();
    warnings.extend(draft_warnings(registry.plugins()));
    Ok(Plugins { plugins: registry.plugins().iter().map(row).collect(), skipped, warnings })
}

/// The warning about a refused plugin that the user named, and that every other verb would end with.
fn refused(plugin: &Plugin) -> Option<String> {
    let error = plugin.state.as_ref().err()?;
    let named = matches!(plugin.origin, Origin::Flag | Origin::VariableFile | Origin::Variable);
    let path = plugin.path.as_ref().filter(|_| named && !plugin.gives_way())?;
    let code = error.stable_code().map(|code| format!(" [{code}]")).unwrap_or_default();
    Some(format!("`{}` was refused{code}: {}", path.display(), error.message()))
}

/// The facts about a plugin.
pub fn row(plugin: &Plugin) -> Row {
    let manifest = plugin.manifest.as_ref();
    let error = plugin.state.as_ref().err();
    let provides = manifest.map(|m| {
        let formats = m.formats.iter().map(|format| format.id.clone());
        let block_types = m.block_types.iter().map(|block| block.name().to_owned());
        let others = m.quantizers.iter().cloned().chain(block_types);
        formats.chain(others).chain(m.architectures.iter().chain(&m.kernels).cloned()).collect()
    });
    Row {
        id: plugin.shown_id().map(str::to_owned),
        version: manifest.map(|m| m.version.clone()),
        license: manifest.map(|m| m.license.clone()),
        kinds: manifest.map(|m| m.kinds()).unwrap_or_default(),
        provides: provides.unwrap_or_default(),
        abi: plugin.abi.map(|(major, minor)| format!("{major}.{minor}")),
        tier: tier_word(plugin.origin.tier()),
        status: if error.is_none() { "loaded" } else { "refused" },
        code: error.and_then(|e| e.stable_code()).map(str::to_owned),
        reason: error.map(|e| e.message().to_owned()),
        hint: error.and_then(|e| e.hint_text()).map(str::to_owned),
        causes: error.map(|e| e.causes().to_vec()).unwrap_or_default(),
        path: plugin.path.as_ref().map(|path| path.display().to_string()),
    }
}

impl Report for Plugins {
    fn json(&self) -> Result<Json> {
        with_schema("apr.plugins.list/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn quiet(&self) -> String {
        let loaded = self.plugins.iter().filter(|row| row.status == "loaded");
        loaded.filter_map(|row| row.id.as_ref()).map(|id| format!("{id}\n")).collect()
    }
}

impl fmt::Display for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.plugins.is_empty() {
            writeln!(f, "no plugin was found: run `apr plugins path` to list the folders that are searched")?;
            return self.show_skipped(f);
        }
        let head = ["id", "version", "kinds", "provides", "abi", "tier", "status", "path"].map(str::to_owned);
        let lines: Vec<[String; 8]> = std::iter::once(head).chain(self.plugins.iter().map(cells)).collect();
        let widths: [usize; 7] =
            std::array::from_fn(|at| lines.iter().map(|cells| cells[at].chars().count()).max().unwrap_or(0));
        for (n, line) in lines.iter().enumerate() {
            for (cell, width) in line.iter().zip(&widths) {
                write!(f, "{cell:width$}  ")?;
            }
            writeln!(f, "{}", line[7])?;
            let row = n.checked_sub(1).and_then(|n| self.plugins.get(n));
            if let Some(reason) = row.and_then(|row| row.reason.as_ref().map(|reason| (row, reason))) {
                let (row, reason) = reason;
                let code = row.code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default();
                writeln!(f, "  {code}{}", escape(reason, 400))?;
                row.hint.iter().try_for_each(|hint| writeln!(f, "  help: {}", escape(hint, 400)))?;
            }
        }
        self.show_skipped(f)
    }
}

impl Plugins {
    fn show_skipped(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.skipped {
            writeln!(f, "skipped {}: the name of a plugin must be {}", escape(path, 400), file_name("ID"))?;
            writeln!(
                f,
                "  help: if it is a plugin, run `apr plugins install FILE` to store it under the right name"
            )?;
        }
        Ok(())
    }
}

/// The first of a list, and how many more there are: `--json` has them all.
fn some_of(all: &[String]) -> String {
    const SHOWN: usize = 6;
    match all.len().checked_sub(SHOWN) {
        None | Some(0) => all.join(", "),
        Some(more) => format!("{}, and {more} more", all[..SHOWN].join(", ")),
    }
}

fn or(value: Option<&String>, otherwise: &str) -> String {
    value.map_or(otherwise.to_owned(), |text| escape(text, 80))
}

fn cells(row: &Row) -> [String; 8] {
    [
        or(row.id.as_ref(), "?"),
        or(row.version.as_ref(), "?"),
        row.kinds.join(", "),
        some_of(&row.provides),
        or(row.abi.as_ref(), "-"),
        row.tier.to_owned(),
        row.status.to_owned(),
        row.path.as_ref().map_or("-".to_owned(), |path| escape(path, 400)),
    ]
}
