//! `apr rosetta run`: does every pair of formats do what the plugins promise?

use crate::cli::context::Context;
use crate::cli::flags::open_args::{GivenOption, parse_option};
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::open::check_options;
use apr_engine::progress::Silent;
use apr_host::host::Host;
use apr_host::rosetta::matrix::Matrix;
use apr_host::rosetta::{RunOptions, run as run_matrix};
use apr_sdk::{Error, Result, escape};
use clap::ValueEnum;
use serde_json::Value as Json;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Try every pair of formats, there and back, and chains of them
///
/// Small models are made from seeds: every dtype by every shape, names and
/// metadata of every kind. Names stay unchanged (--arch none): no architecture
/// table is tried on them. Each is written in every format that can hold it,
/// converted to every other, and back; then along chains of 3 to 5
/// conversions, in which every ordered pair is adjacent at least once for
/// each length. Once a pair the command line itself is run and must give the
/// same bytes. A cell that differs from what the plugins' manifests promise
/// is red: exit 5, with the commands that show it.
///
/// Examples:
///   apr rosetta run
///   apr rosetta run --formats gguf,apr --models Q4_K --no-cli
///   apr rosetta run --table markdown
///   apr rosetta run -O apr.compress=zstd
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Only these formats, by id
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    formats: Vec<String>,
    /// Only models whose name contains one of these
    #[arg(long, value_name = "TEXTS", value_delimiter = ',')]
    models: Vec<String>,
    /// Try every chain, not a covering set
    #[arg(long)]
    all: bool,
    /// Draw the covering set with this seed
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Do not run the command line itself
    #[arg(long)]
    no_cli: bool,
    /// Folder of models in formats that can only be read
    #[arg(long, value_name = "DIR")]
    fixtures: Option<PathBuf>,
    /// Write a format with an option that it declares; may be repeated
    #[arg(short = 'O', long = "option", value_name = "[FORMAT.]NAME=VALUE", value_parser = parse_option)]
    options: Vec<GivenOption>,
    /// Keep every model in this folder, which must be empty
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Form of the matrix
    #[arg(long, value_name = "HOW", default_value = "text")]
    table: Table,
}

/// How the matrix is shown.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Table {
    /// A line for each pair
    Text,
    /// Sources down, targets across
    Markdown,
}

/// The result of the run. JSON: `models`, `formats`, `pairs`, `chains`, `red`, `conversions`, `seconds`.
#[derive(Debug)]
pub struct Ran {
    matrix: Matrix,
    table: Table,
}

/// Runs the matrix.
///
/// # Errors
/// What stops it; red cells are the report's verdict.
pub fn run(args: &Args, context: &Context) -> Result<Ran> {
    let mut host = context.host();
    // Thousands of conversions of a few kilobytes have no progress worth showing.
    host.progress = Arc::new(Silent);
    check_writing(&host, &args.options)?;
    let command = if args.no_cli { None } else { Some(command(context)?) };
    let options = RunOptions {
        formats: args.formats.clone(),
        models: args.models.clone(),
        all: args.all,
        seed: args.seed,
        fixtures: args.fixtures.clone(),
        options: args.options.clone(),
        keep: args.keep.clone(),
        command,
    };
    Ok(Ran { matrix: run_matrix(&host, &options)?, table: args.table })
}

/// Refuses options that no format declares for writing, or that name no format.
fn check_writing(host: &Host, options: &[GivenOption]) -> Result<()> {
    let formats: Vec<_> = host.registry.formats().iter().collect();
    check_options(&host.registry, &formats, options)?;
    match options.iter().find(|(format, ..)| format.is_none()) {
        None => Ok(()),
        Some((_, name, _)) => {
            let error = Error::invalid_argument(format!("-O {} names no format", escape(name, 80)));
            Err(error.hint("write -O FORMAT.NAME=VALUE"))
        }
    }
}

/// This program with what decides which plugins it finds.
fn command(context: &Context) -> Result<Vec<OsString>> {
    let me = std::env::current_exe()
        .map_err(|e| Error::io(format!("cannot find apr's own executable: {e}")).hint("pass --no-cli"))?;
    let plugins =
        context.globals.plugins.iter().flat_map(|path| ["--plugin".into(), path.clone().into_os_string()]);
    Ok([me.into_os_string()].into_iter().chain(plugins).collect())
}

impl Report for Ran {
    fn json(&self) -> Result<Json> {
        with_schema("apr.rosetta.run/1", &self.matrix)
    }

    fn quiet(&self) -> String {
        self.matrix.red.iter().map(|red| format!("{} {}\n", red.route.join(" "), red.model)).collect()
    }

    fn verdict(&self) -> Result<()> {
        if self.matrix.is_green() {
            return Ok(());
        }
        let Some(first) = self.matrix.red.first() else {
            return Err(Error::failed("nothing was tested: no model could be converted"));
        };
        let message = format!(
            "{} red, first {} with `{}`: {}",
            self.matrix.red.len(),
            first.route.join(" -> "),
            first.model,
            first.what
        );
        Err(Error::failed(message).hint(first.commands.first().cloned().unwrap_or_default()))
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.table {
            Table::Markdown => return f.write_str(&self.matrix.markdown()),
            Table::Text => text(f, &self.matrix)?,
        }
        for red in &self.matrix.red {
            writeln!(f, "red: {} with `{}`: {}", red.route.join(" -> "), red.model, escape(&red.what, 600))?;
            red.commands.iter().try_for_each(|command| writeln!(f, "  {command}"))?;
        }
        let Matrix { models, conversions, red, seconds, .. } = &self.matrix;
        writeln!(f, "{} models, {conversions} conversions, {} red, {seconds:.2} s", models.len(), red.len())
    }
}

fn text(f: &mut fmt::Formatter<'_>, matrix: &Matrix) -> fmt::Result {
    let width = matrix.formats.iter().map(|format| format.id.len()).max().unwrap_or(0).max(4);
    writeln!(f, "{:width$}    {:width$}  arrive  return  refused  red  loses", "from", "to")?;
    for pair in &matrix.pairs {
        let refused: usize = pair.not_applicable.values().map(Vec::len).sum();
        let back = if pair.no_return.is_some() { "n/a".to_owned() } else { pair.returned.to_string() };
        let loses = if pair.loses.is_empty() { "nothing".to_owned() } else { pair.loses.join(", ") };
        writeln!(
            f,
            "{:width$} -> {:width$}  {:6}  {back:>6}  {refused:7}  {:3}  {loses}",
            pair.from, pair.to, pair.arrived, pair.red
        )?;
    }
    for format in matrix.formats.iter().filter(|format| format.models == 0) {
        let why = format.not_applicable.keys().next().map_or("no model", String::as_str);
        writeln!(f, "no pair starts with `{}`: {why}", format.id)?;
    }
    for row in &matrix.chains {
        writeln!(
            f,
            "{} hops: {} chains, {} ok, {} refused, {} red",
            row.hops, row.chains, row.arrived, row.not_applicable, row.red
        )?;
    }
    let typed = matrix.pairs.iter().filter_map(|pair| pair.command_line);
    let (all, same) = typed.fold((0, 0), |(all, same), ok| (all + 1, same + usize::from(ok)));
    if all > 0 {
        writeln!(f, "command line: {same} of {all} pairs produced the same bytes as the library")?;
    }
    Ok(())
}
