//! A trace in the form of Chrome's trace viewer, which Perfetto opens too: a slice for each step, in it one for each layer, in it one
//! for each operation.

use super::figures::Shown;
use super::subject::{Config, ModelFacts, Trace};
use apr_inference::trace::{Recording, Step, Traced};
use serde::Serialize;

/// The process and the thread that all slices belong to.
const PROCESS: u32 = 1;
const THREAD: u32 = 1;

/// The document. JSON: `traceEvents` and `displayTimeUnit` as Chrome's format has them; `otherData` with the `schema`, `model`,
/// `config` and `began` of `apr.trace/1`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Chrome<'t> {
    trace_events: Vec<Event<'t>>,
    display_time_unit: &'static str,
    other_data: Other<'t>,
}

#[derive(Debug, Serialize)]
struct Other<'t> {
    schema: &'static str,
    model: &'t ModelFacts,
    config: &'t Config,
    began: String,
}

/// An event: `X` is a slice, `M` names something.
#[derive(Debug, Serialize)]
struct Event<'t> {
    name: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'t str,
    ph: &'static str,
    /// Microseconds.
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    tid: u32,
    args: Args<'t>,
}

/// The details of an event.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Args<'t> {
    Name { name: String },
    Step { first: u32, rows: usize, measuring_us: f64 },
    Layer { operations: usize },
    Operation { number: usize, results: Vec<ResultOf<'t>> },
}

#[derive(Debug, Serialize)]
struct ResultOf<'t> {
    name: &'t str,
    #[serde(flatten)]
    figures: Shown,
}

impl<'t> Chrome<'t> {
    /// The document of a trace.
    pub fn of(trace: &'t Trace) -> Chrome<'t> {
        let mut events = vec![
            named("process_name", format!("apr trace {}", trace.model.path)),
            named("thread_name", "steps".to_owned()),
        ];
        for (word, recording) in [("prompt", Some(&trace.prompt)), ("answer", trace.answer.as_ref())] {
            let Some(recording) = recording else { continue };
            for step in &recording.steps {
                add_step(&mut events, word, recording, step);
            }
        }
        Chrome {
            trace_events: events,
            display_time_unit: "ms",
            other_data: Other {
                schema: "apr.trace.chrome/1",
                model: &trace.model,
                config: &trace.config,
                began: trace.began.text(),
            },
        }
    }
}

fn named<'t>(what: &str, name: String) -> Event<'t> {
    Event {
        name: what.to_owned(),
        cat: "",
        ph: "M",
        ts: 0.0,
        dur: None,
        pid: PROCESS,
        tid: THREAD,
        args: Args::Name { name },
    }
}

/// A slice of some nanoseconds.
fn slice<'t>(name: String, cat: &'t str, from: u64, to: u64, args: Args<'t>) -> Event<'t> {
    let [ts, dur] = [from, to - from].map(microseconds);
    Event { name, cat, ph: "X", ts, dur: Some(dur), pid: PROCESS, tid: THREAD, args }
}

#[allow(clippy::cast_precision_loss, reason = "a time far below 2^53 nanoseconds")]
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// Adds a step with what it consists of. Operations run one after the other, so each begins where the one before it ended.
fn add_step<'t>(events: &mut Vec<Event<'t>>, word: &'t str, recording: &'t Recording, step: &Step) {
    let from = u64::try_from(step.began.as_nanos()).unwrap_or(u64::MAX);
    let timed: u64 = step.times.iter().sum();
    let took = u64::try_from(step.took.as_nanos()).unwrap_or(u64::MAX).max(timed);
    let args = Args::Step { first: step.first, rows: step.rows, measuring_us: microseconds(step.measuring) };
    let last = u64::from(step.first) + step.rows as u64 - 1;
    let name = match step.rows {
        1 => format!("{word}: token {}", step.first),
        _ => format!("{word}: tokens {}-{last}", step.first),
    };
    events.push(slice(name, "step", from, from.saturating_add(took), args));
    let mut at = from;
    for group in recording.operations.chunk_by(|a, b| a.layer == b.layer) {
        let time = |operation: &Traced| step.times.get(operation.number).copied().unwrap_or(0);
        let end = at + group.iter().map(time).sum::<u64>();
        if let Some(layer) = group.first().and_then(|first| first.layer) {
            let args = Args::Layer { operations: group.len() };
            events.push(slice(format!("layer {layer}"), "layer", at, end, args));
        }
        for operation in group {
            let end = at + time(operation);
            let results = operation.results.iter();
            let results =
                results.map(|result| ResultOf { name: &result.name, figures: Shown::of(&result.figures) });
            let args = Args::Operation { number: operation.number, results: results.collect() };
            events.push(slice(operation.name.clone(), &operation.kind, at, end, args));
            at = end;
        }
    }
}
