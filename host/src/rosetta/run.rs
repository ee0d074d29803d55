//! Runs the whole matrix: sources first, then every pair, every round trip and the chains, on all threads.

use crate::convert::convert;
use crate::host::Host;
use crate::rosetta::chains;
use crate::rosetta::losses::is_pair;
use crate::rosetta::matrix::{ChainRow, FormatRow, Matrix, PairRow, Red};
use crate::rosetta::scratch::Scratch;
use crate::rosetta::sources::{Made, Source, given, make};
use crate::rosetta::specimens::{self, Specimen};
use crate::rosetta::walk::{self, Lost, Outcome, walk};
use apr_engine::crew::map;
use apr_engine::open::GivenOption;
use apr_engine::registry::Format;
use apr_sdk::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// The request for a run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Only these formats; all available ones if empty.
    pub formats: Vec<String>,
    /// Only models whose name contains one of these; all if empty.
    pub models: Vec<String>,
    /// Run every chain instead of a covering set.
    pub all: bool,
    /// The seed of the covering set.
    pub seed: u64,
    /// A folder with models in read-only formats.
    pub fixtures: Option<PathBuf>,
    /// Options for writing, each of a format.
    pub options: Vec<GivenOption>,
    /// An empty folder in which to keep every model.
    pub keep: Option<PathBuf>,
    /// The program and its first arguments, to run one conversion per pair on the command line.
    pub command: Option<Vec<OsString>>,
}

/// One task: a model and its route.
struct Task {
    source: usize,
    route: Vec<usize>,
    what: What,
}

/// The row that a task belongs to.
#[derive(Clone, Copy)]
enum What {
    /// A row of pairs: there, and back if there is a writer.
    Pair(usize),
    /// A row of chains.
    Chain(usize),
}

/// Tries every pair and chain of the available formats.
///
/// # Errors
/// InvalidArgument for an unavailable format or if nothing is left to try; Io for the scratch folder;
/// Cancelled. Faults of plugins are part of the result.
pub fn run(host: &Host, options: &RunOptions) -> Result<Matrix> {
    let began = Instant::now();
    let formats = chosen(host, &options.formats)?;
    let scratch = Scratch::new(options.keep.as_deref())?;
    let mut specimens = specimens::all(host.registry.formats())?;
    specimens.retain(|specimen| {
        options.models.is_empty() || options.models.iter().any(|part| specimen.name.contains(part.as_str()))
    });
    if specimens.is_empty() {
        let error = Error::invalid_argument("no model name contains that text");
        return Err(error.hint("run `apr rosetta run --json` to list all of them"));
    }
    let mut matrix = Matrix {
        models: specimens.iter().map(|specimen| specimen.name.clone()).collect(),
        formats: Vec::new(),
        pairs: Vec::new(),
        chains: Vec::new(),
        red: Vec::new(),
        conversions: 0,
        seconds: 0.0,
    };
    let mut sources = sources(host, options, &formats, &specimens, &scratch, &mut matrix)?;
    let given: Arc<[GivenOption]> = options.options.clone().into();
    sources.iter_mut().for_each(|source| source.options = Arc::clone(&given));
    let tasks = tasks(host, options, &formats, &sources, &mut matrix);
    let outcomes = side_by_side(host, tasks.len(), |n| work(host, &sources, &tasks[n], n, &scratch))?;
    for (task, outcomes) in tasks.iter().zip(outcomes) {
        count(host, &mut matrix, &sources[task.source], task, outcomes);
    }
    if let Some(command) = &options.command {
        command_lines(host, &mut matrix, &sources, command, &scratch)?;
    }
    matrix.seconds = began.elapsed().as_secs_f64();
    Ok(matrix)
}

/// Indices of the requested formats in the registry.
fn chosen(host: &Host, wanted: &[String]) -> Result<Vec<usize>> {
    for id in wanted {
        host.registry.format(id)?;
    }
    let all = host.registry.formats().iter().enumerate();
    // Models begin in memory, where no other writer lays out parts: formats with parts have tests of their
    // own.
    let whole = all.filter(|(_, f)| f.manifest.parts.is_empty());
    let mut chosen: Vec<usize> = whole
        .filter(|(_, f)| wanted.is_empty() || wanted.iter().any(|id| id == f.id()))
        .map(|(n, _)| n)
        .collect();
    chosen.sort_by_key(|&n| host.registry.formats()[n].id().to_owned());
    if chosen.len() < 2 {
        return Err(Error::invalid_argument("a pair needs two formats")
            .hint("run `apr plugins list` to see the available ones"));
    }
    Ok(chosen)
}

fn sources(
    host: &Host,
    options: &RunOptions,
    formats: &[usize],
    specimens: &[Specimen],
    scratch: &Scratch,
    matrix: &mut Matrix,
) -> Result<Vec<Source>> {
    let n_specimens = specimens.len();
    let made = side_by_side(host, formats.len() * n_specimens, |n| {
        make(host, formats[n / n_specimens], &specimens[n % n_specimens], scratch)
    })?;
    let mut sources = Vec::new();
    for &format in formats {
        let id = host.registry.formats()[format].id().to_owned();
        matrix.formats.push(FormatRow { id, models: 0, not_applicable: Default::default() });
    }
    for (n, made) in made.into_iter().enumerate() {
        let specimen = &specimens[n % n_specimens];
        let row = &mut matrix.formats[n / n_specimens];
        match made {
            Made::Source(source) => {
                row.models += 1;
                sources.push(source);
            }
            Made::NotApplicable(why) => {
                row.not_applicable.entry(why).or_default().push(specimen.name.clone())
            }
            Made::Red(what) => {
                let id = host.registry.formats()[formats[n / n_specimens]].id();
                matrix.red.push(red(&[id], &specimen.name, what, None));
            }
        }
    }
    for (&format, row) in formats.iter().zip(&mut matrix.formats) {
        let there = &host.registry.formats()[format];
        if let (false, true, Some(folder)) = (there.manifest.writes, there.manifest.reads, &options.fixtures)
        {
            let given = match given(format, there, folder, scratch) {
                Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                given => given?,
            };
            row.models += given.len();
            sources.extend(given);
        }
    }
    Ok(sources)
}

fn tasks(
    host: &Host,
    options: &RunOptions,
    formats: &[usize],
    sources: &[Source],
    matrix: &mut Matrix,
) -> Vec<Task> {
    let all = host.registry.formats();
    let mut tasks = Vec::new();
    for (&from, &to) in formats.iter().flat_map(|from| formats.iter().map(move |to| (from, to))) {
        if !is_pair(&all[from], &all[to]) {
            continue;
        }
        let row = matrix.pairs.len();
        let no_return = no_return(&all[from], &all[to]);
        let route = if no_return.is_some() { vec![to] } else { vec![to, from] };
        matrix.pairs.push(PairRow {
            from: all[from].id().to_owned(),
            to: all[to].id().to_owned(),
            no_return,
            ..PairRow::default()
        });
        let own = sources.iter().enumerate().filter(|(_, source)| source.format == from);
        tasks.extend(own.map(|(source, _)| Task { source, route: route.clone(), what: What::Pair(row) }));
    }
    let mut both = formats.to_vec();
    both.retain(|&n| all[n].manifest.reads && all[n].manifest.writes);
    for hops in chains::LENGTHS {
        let chains = if options.all {
            chains::every(both.len(), hops)
        } else {
            chains::covering(both.len(), hops, options.seed)
        };
        if chains.is_empty() {
            continue;
        }
        let row = matrix.chains.len();
        matrix.chains.push(ChainRow { hops, chains: chains.len(), ..ChainRow::default() });
        for chain in chains {
            let route: Vec<usize> = chain[1..].iter().map(|&n| both[n]).collect();
            let own = sources.iter().enumerate().filter(|(_, source)| source.format == both[chain[0]]);
            tasks.extend(own.map(|(source, _)| Task {
                source,
                route: route.clone(),
                what: What::Chain(row),
            }));
        }
    }
    tasks
}

fn no_return(from: &Format, to: &Format) -> Option<String> {
    if !to.manifest.reads {
        return Some(format!("`{}` has no reader", to.id()));
    }
    (!from.manifest.writes).then(|| format!("`{}` has no writer", from.id()))
}

fn work(
    host: &Host,
    sources: &[Source],
    task: &Task,
    number: usize,
    scratch: &Scratch,
) -> Result<Vec<Outcome>> {
    let source = &sources[task.source];
    if matches!(task.what, What::Chain(_))
        && let Some(why) = walk::known_obstacle(host, source, &task.route)?
    {
        // That it is refused was tested with the pairs.
        return Ok(vec![Outcome::NotApplicable(why)]);
    }
    let folder = scratch.folder(&format!("ways/{number}"))?;
    let outcomes = walk(host, source, &task.route, &folder);
    scratch.clear(&folder);
    outcomes
}

fn count(host: &Host, matrix: &mut Matrix, source: &Source, task: &Task, outcomes: Vec<Outcome>) {
    let formats = host.registry.formats();
    let hops = outcomes.len();
    let arrived = outcomes.iter().filter(|o| matches!(o, Outcome::Arrived(_))).count();
    matrix.conversions += arrived;
    let bad =
        outcomes.iter().find_map(|o| if let Outcome::Red(what) = o { Some(what.clone()) } else { None });
    if let Some(what) = &bad {
        let mut route = vec![formats[source.format].id()];
        route.extend(task.route[..hops].iter().map(|&n| formats[n].id()));
        matrix.red.push(red(&route, &source.name, what.clone(), Some(source)));
    }
    match task.what {
        What::Pair(row) => {
            let row = &mut matrix.pairs[row];
            row.red += usize::from(bad.is_some());
            row.arrived += usize::from(arrived > 0);
            row.returned += usize::from(arrived > 1);
            match &outcomes[..] {
                [Outcome::NotApplicable(why)] => {
                    row.not_applicable.entry(why.clone()).or_default().push(source.name.clone());
                }
                [Outcome::Arrived(lost), ..] => note_lost(&mut row.loses, *lost),
                _ => {}
            }
        }
        What::Chain(row) => {
            let row = &mut matrix.chains[row];
            row.red += usize::from(bad.is_some());
            row.arrived += usize::from(arrived == task.route.len());
            let refused = matches!(outcomes.last(), Some(Outcome::NotApplicable(_)));
            row.not_applicable += usize::from(refused);
        }
    }
}

fn note_lost(loses: &mut Vec<&'static str>, lost: Lost) {
    for (is_lost, what) in
        [(lost.metadata, "metadata"), (lost.tokenizer, "tokenizer"), (lost.companions, "companion files")]
    {
        if is_lost && !loses.contains(&what) {
            loses.push(what);
        }
    }
}

fn red(route: &[&str], model: &str, what: String, source: Option<&Source>) -> Red {
    let mut ids = route.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let only = if ids.len() > 1 { format!(" --formats {}", ids.join(",")) } else { String::new() };
    let mut commands = vec![format!("apr rosetta run{only} --models '{model}' --keep DIR")];
    if let Some(source) = source {
        let file = source.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let folder = crate::rosetta::sources::folder_name(model);
        let via = route[1..].join(",");
        commands.push(format!("apr rosetta chain DIR/sources/{}/{folder}/{file} --via {via}", route[0]));
    }
    let route = route.iter().map(|id| (*id).to_owned()).collect();
    Red { route, model: model.to_owned(), what, commands }
}

/// Runs one conversion of each pair the way a user would type it: it must give the same bytes as within this
/// process.
fn command_lines(
    host: &Host,
    matrix: &mut Matrix,
    sources: &[Source],
    command: &[OsString],
    scratch: &Scratch,
) -> Result<()> {
    let formats = host.registry.formats();
    let chosen: Vec<Option<(&Source, &Format)>> = matrix
        .pairs
        .iter()
        .map(|row| {
            let own = sources.iter().filter(|source| {
                formats[source.format].id() == row.from
                    && !row.not_applicable.values().any(|models| models.contains(&source.name))
            });
            let source = own.max_by_key(|source| source.name.contains("mixed"))?;
            host.registry.format(&row.to).ok().map(|to| (source, to))
        })
        .collect();
    let results = side_by_side(host, chosen.len(), |n| {
        let Some((source, to)) = chosen[n] else { return Ok(None) };
        let folder = scratch.folder(&format!("typed/{n}"))?;
        let ran = typed(host, source, to, command, &folder);
        scratch.clear(&folder);
        ran.map(Some)
    })?;
    for ((row, result), chosen) in matrix.pairs.iter_mut().zip(results).zip(chosen) {
        row.command_line = result.as_ref().map(Option::is_none);
        if let (Some(Some(what)), Some((source, to))) = (result, chosen) {
            row.red += 1;
            matrix.red.push(red(&[&row.from, to.id()], &source.name, what, Some(source)));
        }
    }
    Ok(())
}

/// The fault of the conversion on the command line, or `None`.
fn typed(
    host: &Host,
    source: &Source,
    to: &Format,
    command: &[OsString],
    folder: &Path,
) -> Result<Option<String>> {
    let extension = to.manifest.extensions.first().map_or("bin", String::as_str);
    let [inside, outside] = ["inside", "outside"].map(|name| folder.join(name));
    for path in [&inside, &outside] {
        std::fs::create_dir_all(path).map_err(|e| Error::io(e.to_string()))?;
    }
    let inside = inside.join(format!("m.{extension}"));
    let outside = outside.join(format!("m.{extension}"));
    convert(host, &walk::options(&source.path, &inside, to, source))?;
    let Some((program, first)) = command.split_first() else { return Ok(None) };
    let mut process = Command::new(program);
    process.args(first).arg("convert").arg(&source.path).arg(&outside);
    process.args(["--to", to.id(), "--arch", "none"]).stdin(Stdio::null());
    for (format, name, value) in source.options_of(to) {
        let format = format.as_deref().unwrap_or_default();
        process.arg("-O").arg(format!("{format}.{name}={value}"));
    }
    let output =
        process.output().map_err(|e| Error::io(format!("cannot start {}: {e}", program.display())))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        return Ok(Some(format!("on the command line: {}: {message}", output.status)));
    }
    let inside = std::fs::read(&inside).map_err(|e| Error::io(e.to_string()))?;
    let outside = std::fs::read(&outside).map_err(|e| Error::io(e.to_string()))?;
    Ok((inside != outside).then(|| "the command line produced different bytes than the library".to_owned()))
}

/// Runs `n` tasks on all threads and returns the results in order; the first error stops the rest.
fn side_by_side<T: Send>(host: &Host, n: usize, each: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    map(host.crew.as_ref(), n, &|_, number| host.check_cancelled().and_then(|()| each(number)))
}
