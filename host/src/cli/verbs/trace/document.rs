//! A trace as a JSON document of apr's own.

use super::figures::Shown;
use super::subject::{Candidate, Config, ModelFacts, TokenOf, Trace};
use apr_inference::trace::{Anomaly, Fault, Recording, Row, Traced, TracedResult};
use regex_lite::Regex;
use serde::Serialize;

/// A filter of results by their names.
#[derive(Clone, Debug)]
pub struct Filter(Regex);

impl Filter {
    /// The filter of a regular expression.
    ///
    /// # Errors
    /// A sentence saying what is wrong.
    pub fn parse(pattern: &str) -> std::result::Result<Filter, String> {
        // As llama.cpp's tools have it: from the name's start on, to anywhere.
        Regex::new(&format!("^(?:{pattern})")).map(Filter).map_err(|error| error.to_string())
    }

    /// Returns whether a name is wanted.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

/// The document. JSON: `model` (`path`, `architecture`, `layers`, `parameters`, `bytes`, `type`, `vocabulary`); `config` (`backend`,
/// `device`, `threads`, `context`, `rows_per_step`); `began`; `tokens`, each with its `id` and `text`; `prompt` and, of generated
/// tokens, `answer`: `tokens`, `steps` (each `first`, `rows`, `nanoseconds`, `measuring_nanoseconds`), `nanoseconds`, `nan`, and
/// `operations` (each `number`, `operation`, `layer`, `name`, `nanoseconds`, `bytes` read), each with its `results` (`name`,
/// `shape`, `min`, `max`, `mean`, `rms` of finite values, null if there is none, `zeros` as a share, `nan`, how many are NaN or
/// infinite; with `--dump`, `--detect-anomalies`: `values`, the first and the last three of the last token; with `--per-token`:
/// `per_token`); `next`, the most probable tokens after the last (`id`, `text`, `probability`); with `--detect-anomalies`
/// `anomalies`, each with the `operation`, the `result`, its `fault` (`not_finite`, `spike`, `outlier`, `dead`), `positions`,
/// `tokens`, and the numbers of its kind (`value`, `usual`, `column`, `count`, `of`); `warnings`.
#[derive(Debug, Serialize)]
pub struct Document<'t> {
    schema: &'static str,
    model: &'t ModelFacts,
    config: &'t Config,
    began: String,
    tokens: &'t [TokenOf],
    prompt: Part<'t>,
    answer: Option<Part<'t>>,
    next: &'t [Candidate],
    #[serde(skip_serializing_if = "Option::is_none")]
    anomalies: Option<Vec<Found<'t>>>,
    warnings: &'t [String],
}

/// A recording.
#[derive(Debug, Serialize)]
struct Part<'t> {
    tokens: usize,
    steps: Vec<StepOf>,
    nanoseconds: u128,
    nan: u64,
    operations: Vec<OperationOf<'t>>,
}

#[derive(Debug, Serialize)]
struct StepOf {
    first: u32,
    rows: usize,
    nanoseconds: u128,
    measuring_nanoseconds: u64,
}

#[derive(Debug, Serialize)]
struct OperationOf<'t> {
    number: usize,
    operation: &'t str,
    layer: Option<u32>,
    name: &'t str,
    nanoseconds: u64,
    bytes: u64,
    results: Vec<ResultOf<'t>>,
}

#[derive(Debug, Serialize)]
struct ResultOf<'t> {
    name: &'t str,
    shape: [usize; 2],
    #[serde(flatten)]
    figures: Shown,
    #[serde(skip_serializing_if = "<[f32]>::is_empty")]
    values: &'t [f32],
    #[serde(skip_serializing_if = "Option::is_none")]
    per_token: Option<Vec<RowOf>>,
}

#[derive(Debug, Serialize)]
struct RowOf {
    position: u32,
    #[serde(flatten)]
    figures: Shown,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_column: Option<u32>,
}

/// An anomaly.
#[derive(Debug, Serialize)]
struct Found<'t> {
    operation: usize,
    result: &'t str,
    fault: &'static str,
    positions: &'t [u32],
    tokens: Vec<Option<&'t str>>,
    #[serde(flatten)]
    numbers: Numbers,
}

/// The numbers of an anomaly; those that its kind does not have are left out.
#[derive(Debug, Default, Serialize)]
struct Numbers {
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usual: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<u64>,
}

impl<'t> Document<'t> {
    /// The document of a trace.
    pub fn new(
        trace: &'t Trace,
        anomalies: Option<&'t [Anomaly]>,
        filter: Option<&Filter>,
        per_token: bool,
        warnings: &'t [String],
    ) -> Document<'t> {
        let part = |recording: &'t Recording| Part::of(recording, filter, per_token);
        Document {
            schema: "apr.trace/1",
            model: &trace.model,
            config: &trace.config,
            began: trace.began.text(),
            tokens: &trace.tokens,
            prompt: part(&trace.prompt),
            answer: trace.answer.as_ref().map(part),
            next: &trace.next,
            anomalies: anomalies
                .map(|all| all.iter().map(|anomaly| Found::of(anomaly, &trace.tokens)).collect()),
            warnings,
        }
    }
}

impl<'t> Part<'t> {
    fn of(recording: &'t Recording, filter: Option<&Filter>, per_token: bool) -> Part<'t> {
        let steps = recording.steps.iter().map(|step| StepOf {
            first: step.first,
            rows: step.rows,
            nanoseconds: step.took.as_nanos(),
            measuring_nanoseconds: step.measuring,
        });
        let mut operations = Vec::new();
        for operation in &recording.operations {
            let mut results = Vec::new();
            for result in shown(operation, filter) {
                results.push(ResultOf::of(result, per_token));
            }
            // What only stores has no results to be filtered by.
            if results.is_empty() && filter.is_some() {
                continue;
            }
            let Traced { number, layer, nanoseconds, bytes, .. } = *operation;
            let name = &operation.name;
            operations.push(OperationOf {
                number,
                operation: &operation.kind,
                layer,
                name,
                nanoseconds,
                bytes,
                results,
            });
        }
        Part {
            tokens: recording.ids.len(),
            steps: steps.collect(),
            nanoseconds: recording.took().as_nanos(),
            nan: recording.not_finite(),
            operations,
        }
    }
}

/// The results of an operation that are wanted.
pub fn shown<'t>(operation: &'t Traced, filter: Option<&Filter>) -> impl Iterator<Item = &'t TracedResult> {
    operation.results.iter().filter(move |result| filter.is_none_or(|filter| filter.matches(&result.name)))
}

/// The shape of a result: rows and columns.
pub fn shape(result: &TracedResult) -> [usize; 2] {
    let columns = usize::try_from(result.width).unwrap_or(usize::MAX);
    let elements = usize::try_from(result.figures.elements).unwrap_or(usize::MAX);
    [elements / columns.max(1), columns]
}

impl<'t> ResultOf<'t> {
    fn of(result: &'t TracedResult, per_token: bool) -> ResultOf<'t> {
        let row = |row: &Row| RowOf {
            position: row.position,
            figures: Shown::of(&row.figures),
            peak_column: row.peak,
        };
        ResultOf {
            name: &result.name,
            shape: shape(result),
            figures: Shown::of(&result.figures),
            values: &result.sample,
            per_token: per_token.then(|| result.rows.iter().map(row).collect()),
        }
    }
}

impl<'t> Found<'t> {
    fn of(anomaly: &'t Anomaly, tokens: &'t [TokenOf]) -> Found<'t> {
        let token = |position: &u32| {
            let token = usize::try_from(*position).ok().and_then(|at| tokens.get(at));
            token.and_then(|token| token.text.as_deref())
        };
        let count = |n: usize| u64::try_from(n).ok();
        let (fault, numbers) = match &anomaly.fault {
            Fault::NotFinite { count, column, .. } => (
                "not_finite",
                Numbers { count: Some(*count), column: column.map(u64::from), ..Numbers::default() },
            ),
            Fault::Spike { peak, usual, column } => (
                "spike",
                Numbers {
                    value: Some(f64::from(*peak)),
                    usual: Some(f64::from(*usual)),
                    column: column.map(u64::from),
                    ..Numbers::default()
                },
            ),
            Fault::Outlier { rms, usual } => {
                ("outlier", Numbers { value: Some(*rms), usual: Some(*usual), ..Numbers::default() })
            }
            Fault::Dead { columns, of, first } => (
                "dead",
                Numbers {
                    count: count(*columns),
                    of: count(*of),
                    column: count(*first),
                    ..Numbers::default()
                },
            ),
        };
        Found {
            operation: anomaly.operation,
            result: &anomaly.result,
            fault,
            positions: &anomaly.positions,
            tokens: anomaly.positions.iter().map(token).collect(),
            numbers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_begins_at_the_start_of_a_name_and_ends_anywhere() {
        let filter = Filter::parse(r"layer\.1\.|output").unwrap();
        assert!(filter.matches("layer.1.attention.query") && filter.matches("output.norm"));
        assert!(!filter.matches("layer.11.branch") && !filter.matches("the output"));
        assert!(Filter::parse("(").is_err());
    }
}
