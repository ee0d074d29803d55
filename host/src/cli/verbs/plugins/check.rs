//! `apr plugins check`: does this plugin keep the promises that every plugin makes?

use super::checks::check_kernel::check_kernel;
use super::checks::check_line::Line;
use super::checks::check_operations::check_operations;
use super::checks::check_quantizer::check_quantizer;
use super::checks::check_table::check_table;
use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::plugins::info::only;
use apr_engine::registry::Format;
use apr_sdk::{Error, Manifest, Result, escape};
use apr_testkit::{CHECKS, Fixture, Subject, Verdict};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Run the conformance tests on a built plugin
///
/// The plugin is loaded in a process of its own: if it crashes or hangs, that
/// is a finding, and the check goes on. Formats, quantizers, compute backends
/// and architecture tables are checked, tables also as TOML files. The
/// operations of a compute backend are compared with plain arithmetic, as by
/// `apr kernels check`, on each of its usable devices.
///
/// Examples:
///   apr plugins check target/release/libapr_plugin_my_format.so --fixtures tests/data
///   apr plugins check target/release/libapr_plugin_my_blocks.so
///   apr plugins check my-model.toml
///   apr plugins check target/release/libapr_plugin_my_format.so --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The library
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Folder of sample models in the plugin's formats [default: models that its writer makes]
    #[arg(long, value_name = "DIR")]
    fixtures: Option<PathBuf>,
    /// Give up when a check takes longer than this
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

/// Time that the child is left alone between two looks, at first.
const SHORTEST_PAUSE: Duration = Duration::from_micros(200);
/// The most bytes of a line of the child's.
const LONGEST_LINE: usize = 1 << 20;

/// The name of the hidden action that the child runs.
pub const CHILD: &str = "check-child";

/// Check a plugin inside this process, for `check`
#[derive(Debug, clap::Args)]
pub struct ChildArgs {
    /// The library
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Models of the plugin's formats
    #[arg(long, value_name = "DIR")]
    fixtures: Option<PathBuf>,
}

/// The results of the checks. JSON: `plugin`, `version`, `checks` (each `format`, `check`, `result`, `detail`), `ok`,
/// `warnings`.
#[derive(Debug, Serialize)]
pub struct Checked {
    plugin: String,
    version: String,
    checks: Vec<Line>,
    ok: bool,
    #[serde(skip)]
    warnings: Vec<String>,
}

/// Judges the library, then has a child process check it.
///
/// # Errors
/// The refusal of the library; Io if the child cannot be started.
pub fn run(args: &Args, context: &Context) -> Result<Checked> {
    let judged = context.registry_of(&args.file)?;
    let plugin = only(&judged)?;
    if let Err(error) = &plugin.state {
        return Err(error.clone());
    }
    let manifest = plugin.manifest.as_ref().ok_or_else(|| Error::plugin("the plugin has no manifest"))?;
    let checks = watch(start_child(args)?, Duration::from_secs(args.timeout), context)?;
    let ok = checks.iter().all(|line| line.result != "failed");
    let warnings = manifest.unknown.iter().map(|key| {
        format!(
            "unknown key `{}` in the manifest: it is misspelled, or requires a newer apr",
            escape(key, 80)
        )
    });
    Ok(Checked {
        plugin: manifest.id.clone(),
        version: manifest.version.clone(),
        checks,
        ok,
        warnings: warnings.collect(),
    })
}

fn start_child(args: &Args) -> Result<Child> {
    let child = std::env::current_exe().and_then(|apr| {
        let mut command = Command::new(apr);
        command.args(["plugins", CHILD]).arg(&args.file);
        if let Some(fixtures) = &args.fixtures {
            command.arg("--fixtures").arg(fixtures);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
    });
    child.map_err(|error| Error::io(format!("cannot start the checking process: {error}")))
}

/// Gathers what the child says. A check that was started and has no end is the one that ended the process, or took longer
/// than `patience`.
fn watch(mut child: Child, patience: Duration, context: &Context) -> Result<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    let mut running: Option<Line> = None;
    let followed = follow(&mut child, patience, &mut |text| {
        // What is no line of ours was printed by the plugin, which it should not.
        let Ok(line) = serde_json::from_slice::<Line>(text) else { return };
        if line.result == "started" {
            running = Some(line);
        } else {
            running = None;
            lines.push(line);
        }
    });
    let ended = followed.and_then(|ended| {
        if ended.is_none() {
            child.kill()?;
        }
        Ok((ended, child.wait()?))
    });
    let (ended, status) =
        ended.map_err(|error| Error::io(format!("cannot wait for the checking process: {error}")))?;
    let failure = match ended {
        Some(()) => format!("the plugin terminated the process: {status}"),
        None => format!("the plugin did not finish within {} s", patience.as_secs()),
    };
    if let Some(check) = running {
        lines.push(Line { result: "failed".to_owned(), detail: failure, ..check });
    } else if lines.is_empty() || ended.is_none() {
        context.terminal.note("the checking process returned no result");
        return Err(Error::plugin(format!("the plugin could not be checked: {failure}")).code("E_PLUGIN"));
    }
    Ok(lines)
}

/// Hands each line of the child's stdout to `take`, until it is closed; `None` if the child said nothing for too long. One
/// thread does it: a limit on threads must not take the limit on time away.
fn follow(child: &mut Child, patience: Duration, take: &mut dyn FnMut(&[u8])) -> std::io::Result<Option<()>> {
    let Some(mut out) = child.stdout.take() else { return Ok(Some(())) };
    rustix::fs::fcntl_setfl(&out, rustix::fs::OFlags::NONBLOCK)?;
    let mut begun = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut heard = Instant::now();
    let mut pause = SHORTEST_PAUSE;
    loop {
        match out.read(&mut buffer) {
            Ok(0) => return Ok(Some(())),
            Ok(n) => {
                for piece in buffer[..n].split_inclusive(|byte| *byte == b'\n') {
                    // A line as long as this is none of ours.
                    if begun.len() + piece.len() <= LONGEST_LINE {
                        begun.extend_from_slice(piece);
                    }
                    if piece.ends_with(b"\n") {
                        take(&begun);
                        begun.clear();
                        heard = Instant::now();
                    }
                }
                pause = SHORTEST_PAUSE;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(_) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
        }
        if heard.elapsed() > patience {
            return Ok(None);
        }
    }
}

/// Checks the library in this process and prints a line as each check starts and ends.
///
/// # Errors
/// What loading raised.
pub fn run_child(args: &ChildArgs, context: &Context) -> Result<Nothing> {
    let mut registry = context.registry_of(&args.file)?;
    registry.load_all();
    if let Err(error) = &only(&registry)?.state {
        return Err(error.clone());
    }
    let manifest = only(&registry)?.manifest.clone().unwrap_or_default();
    say(&provided(&manifest))?;
    for format in registry.formats() {
        check_format(format, args.fixtures.as_deref())?;
    }
    for (id, quantizer) in manifest.quantizers.iter().zip(registry.quantizers()) {
        check_quantizer(id, &*quantizer, &manifest.block_types, &say)?;
    }
    let others = context.registry();
    let text_of = |id: &str| registry.architecture(id).or_else(|_| others.architecture(id));
    for id in &manifest.architectures {
        check_table(id, &text_of, &say)?;
    }
    for (id, kernel) in registry.kernels() {
        check_kernel(&id, kernel.clone(), &say)?;
        if let Ok(kernel) = kernel {
            check_operations(&id, kernel.as_ref(), context, &say)?;
        }
    }
    Ok(Nothing)
}

/// The line about the plugin as a whole: a plugin that provides nothing is of no use.
fn provided(manifest: &Manifest) -> Line {
    let kinds = manifest.kinds();
    match kinds[..] {
        [] => Line::new(&manifest.id, "provides", "failed", "nothing that apr knows".to_owned()),
        _ => Line::new(&manifest.id, "provides", "passed", kinds.join(", ")),
    }
}

fn check_format(format: &Format, fixtures: Option<&Path>) -> Result<()> {
    let reader = if format.manifest.reads { Some(format.reader()?) } else { None };
    let writer = if format.manifest.writes { Some(format.writer()?) } else { None };
    let models = match (fixtures, &reader) {
        (Some(folder), Some(reader)) => Fixture::load(folder, &format.manifest, reader.as_ref())?,
        _ => Vec::new(),
    };
    let subject = Subject::new(reader.as_deref(), writer.as_deref(), &format.manifest, &models);
    for (name, check) in CHECKS {
        say(&Line::new(format.id(), name, "started", String::new()))?;
        let (result, detail) = match check(&subject) {
            Ok(Verdict::Passed(what)) => ("passed", what),
            Ok(Verdict::Skipped(why)) => ("skipped", why),
            Err(error) => ("failed", error.to_string()),
        };
        say(&Line::new(format.id(), name, result, detail))?;
    }
    Ok(())
}

fn say(line: &Line) -> Result<()> {
    let text = serde_json::to_string(line).map_err(|error| Error::io(error.to_string()))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| Error::io(error.to_string()))
}

/// The child's report: everything was said already.
pub struct Nothing;

impl fmt::Display for Nothing {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl Report for Nothing {
    fn json(&self) -> Result<Json> {
        Ok(Json::Null)
    }
}

impl Report for Checked {
    fn json(&self) -> Result<Json> {
        with_schema("apr.plugins.check/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn verdict(&self) -> Result<()> {
        let failed: Vec<_> = self.checks.iter().filter(|line| line.result == "failed").collect();
        match failed.first() {
            None => Ok(()),
            Some(first) => Err(Error::failed(format!(
                "plugin `{}` fails {} of {} checks, first `{}`",
                self.plugin,
                failed.len(),
                self.checks.len(),
                first.check
            ))),
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.plugin, escape(&self.version, 80))?;
        for line in &self.checks {
            let Line { format, check, result, detail } = line;
            writeln!(f, "  {result:8} {format}: {check:14} {}", escape(detail, 1000))?;
        }
        let count = |result: &str| self.checks.iter().filter(|line| line.result == result).count();
        writeln!(f, "{} passed, {} skipped, {} failed", count("passed"), count("skipped"), count("failed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_provides_nothing_fails() {
        let mut manifest = Manifest::default();
        assert_eq!(provided(&manifest).result, "failed");
        manifest.quantizers = vec!["x".to_owned()];
        let line = provided(&manifest);
        assert_eq!((&line.result[..], &line.detail[..]), ("passed", "quantizer"));
    }
}
