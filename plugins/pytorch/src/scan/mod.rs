//! The report `scan`: what every pickle in a file would import and call, even in files that do not open.

mod container;
mod members;
pub mod names;
mod places;
mod tar;
mod trace;

use crate::layout::FORMAT;
use crate::reader::File;
use apr_sdk::{ErrorKind, FileId, Limits, ModelBuilder, Report, Result, Source, escape};
use container::Kind;
use names::Verdict;
use places::Found;
use serde_json::{Value as Json, json};
use trace::Trace;

/// Opcodes of all traces together that the JSON lists. 20,000: a pickle of a thousand tensors.
pub(super) const LISTED: usize = 20_000;

/// The report of one file, or of the shards of a model.
///
/// # Errors
/// LimitExceeded; any error from the source.
pub fn report(source: &dyn Source, files: &[FileId], limits: &Limits) -> Result<Report> {
    let mut found = Found::default();
    let mut checkpoints = Vec::new();
    for &file in files {
        let mut one = places::traces(source, file, limits)?;
        if one.is_archive {
            found.is_archive = true;
        } else {
            checkpoints.push(file);
        }
        if files.len() > 1 {
            let name = source.name(file);
            one.traces.iter_mut().for_each(|trace| trace.place = format!("{name}: {}", trace.place));
            one.problem = one.problem.map(|problem| format!("{}: {problem}", escape(&name, 120)));
        }
        found.traces.extend(one.traces);
        found.problem = found.problem.or(one.problem);
    }
    let worst = found.traces.iter().map(|trace| trace.verdict()).max().unwrap_or(Verdict::Known);
    let broken = found.traces.iter().any(|trace| trace.problem.is_some()) || found.problem.is_some();
    let is_empty = found.traces.is_empty();
    let whole = worst == Verdict::Known && !broken && (found.is_archive || !is_empty);
    let mut refused = None;
    for &file in checkpoints.iter().filter(|_| whole) {
        refused = match refused {
            None => refused_file(source, file, limits)?,
            already => already,
        };
    }
    let passed = whole && refused.is_none();
    let verdict = match (worst, passed) {
        (Verdict::Known, true) => "safe",
        (Verdict::Known, false) if whole => "does not load",
        (Verdict::Known, false) if is_empty && found.problem.is_none() => "no pickle",
        (Verdict::Known, false) => "broken",
        (worst, _) => worst.word(),
    };
    let mut lines = Vec::new();
    if let Some(problem) = &found.problem {
        lines.push(format!("the file: {problem}"));
    }
    for trace in &found.traces {
        lines.extend(text(trace));
    }
    lines.push(match verdict {
        "safe" if is_empty => "verdict: safe: no pickle was found in it".to_owned(),
        "safe" => "verdict: safe: it only refers to names that rebuild tensors or plain values".to_owned(),
        "does not load" => {
            let why = refused.as_deref().unwrap_or_default();
            format!("verdict: does not load: it only imports tensors and plain values, but: {why}")
        }
        "no pickle" => "verdict: no pickle was found".to_owned(),
        "broken" => {
            "verdict: broken: no dangerous name was found, but not everything could be read".to_owned()
        }
        "unknown" => {
            "verdict: unknown: loading it elsewhere would import names that do not belong to tensors"
                .to_owned()
        }
        _ => "verdict: dangerous: loading it elsewhere would run code".to_owned(),
    });
    let mut left = LISTED;
    let pickles: Vec<_> = found.traces.iter().map(|trace| json_of(trace, &mut left)).collect();
    let json = json!({
        "schema": format!("{FORMAT}.scan/1"),
        "verdict": verdict,
        "problem": found.problem,
        "refused": refused,
        "pickles": pickles,
    });
    Ok(Report { text: lines.join("\n"), json: json.to_string(), passed })
}

/// Whether a file that is no checkpoint may hold pickles: by its name, or since other files lie in it.
pub fn is_suspect(name: &str, head: &[u8]) -> bool {
    let is_checkpoint = [".pt", ".pth", ".ckpt"].iter().any(|ext| name.ends_with(ext));
    let is_named = is_checkpoint || places::is_named_pickle(name);
    is_named && !head.is_empty() || Kind::of(head).is_some()
}

/// Why the file does not open, if it does not: what no other program would load either must not be called safe.
fn refused_file(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Option<String>> {
    let opened = File::open(source, file, String::new(), None, limits);
    let described = opened.and_then(|opened| {
        let file_len = |file| source.len(file);
        opened.describe_plain(&mut ModelBuilder::new(FORMAT, limits, &file_len))
    });
    match described {
        Ok(()) => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => Err(error),
        Err(error) => Ok(Some(match error.offset() {
            Some(at) => format!("at {at}: {}", error.message()),
            None => error.message().to_owned(),
        })),
    }
}

/// "once", or how many times.
fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn text(trace: &Trace) -> Vec<String> {
    let ended = match &trace.problem {
        None => "ends well".to_owned(),
        Some(problem) => format!("broken: {problem}"),
    };
    let place = escape(&trace.place, 120);
    let mut lines = vec![format!("{place} at {}: {} opcodes, {ended}", trace.start, trace.opcodes)];
    for name in &trace.names {
        let calls = match name.calls.first() {
            None => String::new(),
            Some((at, opcode)) => format!(", called {}, first at {at} ({opcode})", times(name.n_calls)),
        };
        let (at, opcode) = name.first;
        let shown = escape(&name.name, 120);
        lines.push(format!(
            "  {:9}  {shown}: named {}, first at {at} ({opcode}){calls}",
            name.verdict.word(),
            times(name.n_imports)
        ));
    }
    lines
}

fn json_of(trace: &Trace, left: &mut usize) -> Json {
    let names: Vec<_> = trace
        .names
        .iter()
        .map(|name| {
            let calls: Vec<_> =
                name.calls.iter().map(|(at, opcode)| json!({"at": at, "opcode": opcode})).collect();
            json!({
                "name": name.name,
                "verdict": name.verdict.word(),
                "imports": name.n_imports,
                "first": {"at": name.first.0, "opcode": name.first.1},
                "calls": name.n_calls,
                "called": calls,
            })
        })
        .collect();
    let listed = trace.steps.len().min(*left);
    *left -= listed;
    let steps: Vec<_> =
        trace.steps[..listed].iter().map(|(at, opcode, what)| json!([at, opcode, what])).collect();
    json!({
        "place": trace.place,
        "offset": trace.start,
        "opcodes": trace.opcodes,
        "problem": trace.problem,
        "names": names,
        "trace": steps,
        "trace_is_whole": listed as u64 == trace.opcodes,
    })
}
