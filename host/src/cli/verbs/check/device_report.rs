//! The output of `apr check MODEL --against BACKEND`.

use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::kernels::rows::{aligned, few};
use apr_host::running::Facts;
use apr_inference::compare::{Form, Found};
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// The limits of what is right.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// An operation's relative error.
    pub bound: f64,
    /// The mean divergence of the logits, in nats.
    pub divergence: f64,
}

/// The findings. JSON: `architecture`, `type`, `reference_type`, `device` and `reference` (each `backend`, `name`),
/// `bound`, `max_divergence`, and `forms`: of the tokens that ran `together`, and of those that ran `one by one`, each
/// with `tokens`, `same` (for how many both find the same next token the most probable), `cosine` (the smallest),
/// `divergence` and `worst_divergence` (in nats), `perplexity` and `reference_perplexity` (of a text), and
/// `operations`, each with `number`, `operation`, `result`, `error`, the error `before` it, and `departs`. A figure
/// that is infinite or no number is null.
#[derive(Debug, Serialize)]
pub struct Checked {
    architecture: String,
    #[serde(rename = "type")]
    dtype: String,
    reference_type: String,
    device: Device,
    reference: Device,
    bound: f64,
    max_divergence: f64,
    forms: Vec<Shown>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Device {
    backend: String,
    name: String,
}

#[derive(Debug, Serialize)]
struct Shown {
    form: &'static str,
    tokens: usize,
    same: u32,
    cosine: f64,
    divergence: f64,
    worst_divergence: f64,
    perplexity: Option<f64>,
    reference_perplexity: Option<f64>,
    operations: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    number: usize,
    operation: String,
    result: String,
    error: f64,
    before: f64,
    departs: bool,
}

impl Checked {
    /// The report of a comparison; perplexities say nothing unless the tokens are those of a text.
    pub fn new(
        [device, reference]: [&Facts; 2],
        forms: Vec<Found>,
        limits: Limits,
        has_text: bool,
        warnings: Vec<String>,
    ) -> Checked {
        Checked {
            architecture: device.architecture.clone(),
            dtype: device.dtype.to_string(),
            reference_type: reference.dtype.to_string(),
            device: Device { backend: device.backend.clone(), name: device.device.clone() },
            reference: Device { backend: reference.backend.clone(), name: reference.device.clone() },
            bound: limits.bound,
            max_divergence: limits.divergence,
            forms: forms.into_iter().map(|found| shown(found, has_text)).collect(),
            warnings,
        }
    }

    /// The first operation that departs, and in which form.
    fn first(&self) -> Option<(&Shown, &Row)> {
        self.forms.iter().find_map(|form| Some((form, form.operations.iter().find(|row| row.departs)?)))
    }

    fn is_apart(&self) -> bool {
        // What is no number is apart.
        self.forms.iter().any(|form| form.divergence.is_nan() || form.divergence > self.max_divergence)
    }
}

fn shown(found: Found, has_text: bool) -> Shown {
    let logits = &found.logits;
    let perplexities = logits.perplexities().filter(|_| has_text);
    let operations = found.operations.into_iter().map(|one| Row {
        number: one.number,
        operation: one.operation,
        result: one.result,
        error: one.error,
        before: one.before,
        departs: one.departs,
    });
    Shown {
        form: match found.form {
            Form::Together => "together",
            Form::OneByOne => "one by one",
        },
        tokens: found.tokens,
        same: logits.same(),
        cosine: logits.cosine(),
        divergence: logits.divergence(),
        worst_divergence: logits.worst_divergence(),
        perplexity: perplexities.map(|[device, _]| device),
        reference_perplexity: perplexities.map(|[_, reference]| reference),
        operations: operations.collect(),
    }
}

impl Report for Checked {
    fn json(&self) -> Result<Json> {
        with_schema("apr.check/1", self)
    }

    fn quiet(&self) -> String {
        String::new()
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn verdict(&self) -> Result<()> {
        let name = escape(&self.device.name, 80);
        if let Some((form, row)) = self.first() {
            let place = if row.result.is_empty() { String::new() } else { format!(" for {}", row.result) };
            let message = format!(
                "{name} departs from the reference: first in `{}`{place}, operation {}, with tokens {}",
                row.operation, row.number, form.form
            );
            return Err(
                Error::failed(message).hint("run `apr kernels check` to test each operation by itself")
            );
        }
        if self.is_apart() {
            let message = format!(
                "the logits of {name} are more than {} nats from the reference, although no operation departs",
                self.max_divergence
            );
            return Err(Error::failed(message)
                .hint("errors accumulated over the operations: see `--json`, or pass a lower --bound"));
        }
        Ok(())
    }
}

/// A figure in many digits, if there is one.
fn many(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.5}"))
}

impl Checked {
    /// Figures of the logits, a column for each form.
    fn logits(&self) -> Vec<[String; 3]> {
        let mut lines = vec![
            self.line("logits", |form| form.form.to_owned()),
            self.line("tokens", |form| form.tokens.to_string()),
            self.line("same most probable token", |form| form.same.to_string()),
            self.line("smallest cosine", |form| format!("{:.8}", form.cosine)),
            self.line("mean divergence", |form| few(form.divergence)),
            self.line("largest divergence", |form| few(form.worst_divergence)),
        ];
        if self.forms.iter().any(|form| form.perplexity.is_some()) {
            lines.push(self.line("perplexity", |form| many(form.perplexity)));
            lines.push(self.line("perplexity of the reference", |form| many(form.reference_perplexity)));
        }
        lines
    }

    fn line(&self, name: &str, cell: fn(&Shown) -> String) -> [String; 3] {
        let [together, one_by_one] = [0, 1].map(|at| self.forms.get(at).map_or_else(String::new, cell));
        [name.to_owned(), together, one_by_one]
    }

    /// For each kind of operation its largest error in each form, and where.
    fn operations(&self) -> Vec<[String; 6]> {
        let head = ["operation", "count", "together", "where", "one by one", "where"].map(str::to_owned);
        let mut lines = vec![head];
        let [together, one_by_one] = &self.forms[..] else { return lines };
        let mut kinds: Vec<&str> = Vec::new();
        for row in self.forms.iter().flat_map(|form| &form.operations) {
            // What only stores has no result.
            if !kinds.contains(&row.operation.as_str()) && !row.result.is_empty() {
                kinds.push(&row.operation);
            }
        }
        for kind in kinds {
            let (error, place) = together.worst(kind);
            let (error_of_one, place_of_one) = one_by_one.worst(kind);
            let count = together.operations.iter().filter(|row| row.operation == kind).count();
            lines.push([kind.to_owned(), count.to_string(), error, place, error_of_one, place_of_one]);
        }
        lines
    }
}

impl Shown {
    /// The largest error of a kind of operation, and where.
    fn worst(&self, kind: &str) -> (String, String) {
        let rows = self.operations.iter().filter(|row| row.operation == kind);
        match rows.max_by(|a, b| a.error.total_cmp(&b.error)) {
            Some(row) if row.error > 0.0 => (few(row.error), escape(&row.result, 60)),
            _ => ("0".to_owned(), "-".to_owned()),
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [device, reference] = [&self.device, &self.reference]
            .map(|device| format!("{} ({})", device.backend, escape(&device.name, 80)));
        write!(f, "{} {} on {device}, against {reference}", escape(&self.architecture, 40), self.dtype)?;
        if self.reference_type != self.dtype {
            write!(f, " with weights as {}", self.reference_type)?;
        }
        f.write_str("\n\n")?;
        writeln!(f, "{}", aligned(&self.logits()))?;
        writeln!(f, "{}", aligned(&self.operations()))?;
        let count = self.forms.iter().flat_map(|form| &form.operations).filter(|row| row.departs).count();
        match self.first() {
            None => writeln!(
                f,
                "no operation departs: every error above {} is explained by its inputs",
                self.bound
            ),
            Some((form, row)) => writeln!(
                f,
                "{}, the first with tokens {}: `{}` {}, error {}, {} in its inputs",
                apr_engine::wording::n_of(count, "departure"),
                form.form,
                row.operation,
                escape(&row.result, 80),
                few(row.error),
                few(row.before)
            ),
        }
    }
}
