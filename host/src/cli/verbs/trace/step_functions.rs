//! A trace as the history of an execution of AWS Step Functions: what `aws stepfunctions get-execution-history` prints, with a
//! schema, the model and the settings beside the events.
//!
//! An event has a number, the number of the one before it, a moment and a type; inputs and outputs are strings that hold JSON. The
//! states are the tokenizer, the embedding, each layer, the output, and the answer. The times of a prompt of several steps are added
//! up, so that a layer is one state.

use super::figures::Shown;
use super::subject::{Config, ModelFacts, Trace};
use super::timestamp::Timestamp;
use apr_inference::trace::{Recording, Traced};
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::time::Duration;

/// Items of a list that are written.
const MOST_ITEMS: usize = 256;
/// Bytes of an input or an output: that of AWS.
const MOST_BYTES: usize = 262_144;

/// The history. JSON: `execution_arn`; `model` and `config` as in `apr.trace/1`, with `sampling` for `apr run`; `events`, in the form
/// of AWS: `timestamp`, `type`, `id`, `previousEventId`, and the details of its type, whose `input` and `output` are JSON as text.
#[derive(Debug, Serialize)]
pub struct History<'t> {
    schema: &'static str,
    execution_arn: String,
    model: &'t ModelFacts,
    config: &'t Config,
    events: Vec<Event>,
}

/// An event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    timestamp: String,
    #[serde(rename = "type")]
    kind: &'static str,
    id: u64,
    previous_event_id: u64,
    #[serde(flatten)]
    details: Details,
}

/// The details of an event, each kind under its name.
#[derive(Debug, Serialize)]
enum Details {
    #[serde(rename = "executionStartedEventDetails")]
    Started {
        input: String,
        #[serde(rename = "inputDetails")]
        details: Truncated,
    },
    #[serde(rename = "stateEnteredEventDetails")]
    Entered {
        name: String,
        input: String,
        #[serde(rename = "inputDetails")]
        details: Truncated,
    },
    #[serde(rename = "stateExitedEventDetails")]
    Exited {
        name: String,
        output: String,
        #[serde(rename = "outputDetails")]
        details: Truncated,
    },
    #[serde(rename = "executionFailedEventDetails")]
    Failed { error: &'static str, cause: String },
    #[serde(rename = "executionSucceededEventDetails")]
    Succeeded {
        output: String,
        #[serde(rename = "outputDetails")]
        details: Truncated,
    },
}

/// True if something is left out of an input or an output.
#[derive(Clone, Copy, Debug, Serialize)]
struct Truncated {
    truncated: bool,
}

/// A document that may lack some of its lists' items.
struct Payload {
    json: Json,
    is_cut: bool,
}

impl Payload {
    fn of(json: Json) -> Payload {
        Payload { json, is_cut: false }
    }

    /// The text, and whether something is missing in it.
    fn text(self) -> (String, Truncated) {
        let text = self.json.to_string();
        if text.len() <= MOST_BYTES {
            return (text, Truncated { truncated: self.is_cut });
        }
        // What is cut anywhere would be no JSON.
        (json!({ "bytes": text.len() }).to_string(), Truncated { truncated: true })
    }
}

/// The events while they are written.
struct Events(Vec<Event>);

impl Events {
    fn push(&mut self, at: Timestamp, kind: &'static str, details: Details) {
        let previous_event_id = self.0.len() as u64;
        let id = previous_event_id + 1;
        self.0.push(Event { timestamp: at.text(), kind, id, previous_event_id, details });
    }

    fn started(&mut self, at: Timestamp, input: Payload) {
        let (input, details) = input.text();
        self.push(at, "ExecutionStarted", Details::Started { input, details });
    }

    fn succeeded(&mut self, at: Timestamp, output: Payload) {
        let (output, details) = output.text();
        self.push(at, "ExecutionSucceeded", Details::Succeeded { output, details });
    }

    fn failed(&mut self, at: Timestamp, cause: &str) {
        let details = Details::Failed { error: "Failed", cause: cause.to_owned() };
        self.push(at, "ExecutionFailed", details);
    }

    /// A state from one moment to another.
    fn state(&mut self, name: &str, span: [Timestamp; 2], input: Payload, output: Payload) {
        let (input, details) = input.text();
        let entered = Details::Entered { name: name.to_owned(), input, details };
        self.push(span[0], "TaskStateEntered", entered);
        let (output, details) = output.text();
        let exited = Details::Exited { name: name.to_owned(), output, details };
        self.push(span[1], "TaskStateExited", exited);
    }
}

impl<'t> History<'t> {
    /// The history of a trace.
    pub fn of(trace: &'t Trace) -> History<'t> {
        let mut events = Events(Vec::new());
        let began = trace.began.before(trace.tokenizing);
        let asked = match &trace.text {
            Some(text) => cut_text(text),
            None => ids_of(&trace.prompt.ids),
        };
        events.started(began, Payload { json: asked.json.clone(), is_cut: asked.is_cut });
        let ids = ids_of(&trace.prompt.ids);
        if trace.text.is_some() {
            let ids = Payload { json: ids.json.clone(), is_cut: ids.is_cut };
            events.state("TOKENIZE", [began, trace.began], asked, ids);
        }
        let mut at = trace.began.after(first(&trace.prompt));
        let mut input = ids;
        for group in trace.prompt.operations.chunk_by(|a, b| a.layer == b.layer) {
            let end = at.after(time_of(group));
            let output = output_of(group, trace.prompt.steps.len());
            let next = Payload { json: last_of(&output.json), is_cut: output.is_cut };
            events.state(&name_of(group), [at, end], input, output);
            (input, at) = (next, end);
        }
        let mut end = at.max(trace.began.after(last(&trace.prompt)));
        let mut result = json!({ "next": trace.next });
        if let Some(answer) = &trace.answer {
            let span = [trace.began.after(first(answer)).max(end), trace.began.after(last(answer)).max(end)];
            end = span[1];
            events.state("GENERATE", span, input, generated(answer));
        }
        if let Some(said) = &trace.said {
            let ids = ids_of(&said.ids);
            result = json!({ "text": said.text, "ids": ids.json, "end": said.end });
        }
        match &trace.failed {
            Some(cause) => events.failed(end, cause),
            None => events.succeeded(end, Payload::of(result)),
        }
        History {
            schema: "apr.trace.step-functions/1",
            execution_arn: format!(
                "arn:apr:execution:local:{:x}-{:x}",
                trace.began.nanoseconds(),
                std::process::id()
            ),
            model: &trace.model,
            config: &trace.config,
            events: events.0,
        }
    }
}

/// The state that consecutive operations are.
fn name_of(group: &[Traced]) -> String {
    match group.first() {
        Some(Traced { layer: Some(layer), .. }) => format!("LAYER_{layer}"),
        Some(Traced { number: 0, .. }) => "EMBED".to_owned(),
        _ => "OUTPUT".to_owned(),
    }
}

fn time_of(group: &[Traced]) -> Duration {
    Duration::from_nanos(group.iter().map(|operation| operation.nanoseconds).sum())
}

/// The time when the first step began.
fn first(recording: &Recording) -> Duration {
    recording.steps.first().map_or(Duration::ZERO, |step| step.began)
}

/// The time when the last step ended.
fn last(recording: &Recording) -> Duration {
    recording.steps.last().map_or(Duration::ZERO, |step| step.began + step.took)
}

/// A text, of which no more than half of what there is room for is taken: quotes and line feeds need two characters in JSON.
fn cut_text(text: &str) -> Payload {
    let mut end = text.len().min(MOST_BYTES / 4);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Payload { json: Json::from(&text[..end]), is_cut: end < text.len() }
}

fn ids_of(ids: &[u32]) -> Payload {
    Payload { json: json!(&ids[..ids.len().min(MOST_ITEMS)]), is_cut: ids.len() > MOST_ITEMS }
}

/// What operations gave.
fn output_of(group: &[Traced], steps: usize) -> Payload {
    let mut operations = Vec::new();
    for operation in group {
        let results: Vec<Json> = operation
            .results
            .iter()
            .map(|result| {
                let mut fields = json!(Shown::of(&result.figures));
                fields["name"] = Json::from(result.name.as_str());
                fields["shape"] = json!(super::document::shape(result));
                fields["has_nan"] = Json::from(result.figures.not_finite > 0);
                if !result.sample.is_empty() {
                    fields["values"] = json!(result.sample);
                }
                fields
            })
            .collect();
        operations.push(json!({
            "operation": operation.kind,
            "name": operation.name,
            "nanoseconds": operation.nanoseconds,
            "bytes": operation.bytes,
            "results": results,
        }));
    }
    let has_nan = group.iter().any(|operation| operation.figures().not_finite > 0);
    // Of each result, the first and the last values are written at most.
    let is_cut =
        group.iter().flat_map(|operation| &operation.results).any(|result| !result.sample.is_empty());
    Payload { json: json!({ "steps": steps, "has_nan": has_nan, "operations": operations }), is_cut }
}

/// The last result of an output: what the next state begins with.
fn last_of(output: &Json) -> Json {
    let operations = output["operations"].as_array();
    let results = operations.into_iter().flatten().filter_map(|operation| operation["results"].as_array());
    results.flatten().next_back().cloned().unwrap_or(Json::Null)
}

/// What the answer's steps gave: the ids that ran, and the RMS and what is not finite of each layer's last result.
fn generated(answer: &Recording) -> Payload {
    let ids = ids_of(&answer.ids);
    let mut layers = Vec::new();
    for group in answer.operations.chunk_by(|a, b| a.layer == b.layer) {
        let Some(result) = group.iter().filter_map(|operation| operation.results.last()).next_back() else {
            continue;
        };
        let mut fields = json!(Shown::of(&result.figures));
        fields["state"] = Json::from(name_of(group));
        fields["name"] = Json::from(result.name.as_str());
        fields["nanoseconds"] = json!(group.iter().map(|operation| operation.nanoseconds).sum::<u64>());
        layers.push(fields);
    }
    let json = json!({ "steps": answer.steps.len(), "ids": ids.json, "has_nan": answer.not_finite() > 0, "states": layers });
    Payload { json, is_cut: ids.is_cut }
}
