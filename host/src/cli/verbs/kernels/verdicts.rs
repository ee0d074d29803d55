//! Verdicts on the operations of a device, and how many there are of each.

use apr_inference::check::{Case, Verdict, run};
use apr_sdk::{Device, ErrorKind, Result, Workers, escape};
use serde::Serialize;
use std::fmt;

/// The verdict on an operation over a type of weights. As JSON, see `apr kernels check`.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The operation's name.
    pub operation: &'static str,
    /// The type of the weights.
    #[serde(rename = "type")]
    pub dtype: String,
    /// What else tells it from others of the operation.
    pub form: String,
    /// The largest error relative to its bound.
    pub error: Option<f64>,
    /// The bound there.
    pub bound: Option<f64>,
    /// The share of both.
    pub share: Option<f64>,
    /// One word.
    pub result: Word,
    /// The reason why nothing was computed.
    pub reason: Option<String>,
}

/// A verdict in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    /// Within the bound.
    Right,
    /// Beyond it.
    Wrong,
    /// The device does not have it, and says so.
    Unsupported,
    /// It ended with an error.
    Failed,
}

impl Word {
    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Word::Right => "right",
            Word::Wrong => "wrong",
            Word::Unsupported => "unsupported",
            Word::Failed => "failed",
        }
    }
}

impl Row {
    /// Runs a case on a device.
    pub fn of(device: &dyn Device, workers: &dyn Workers, case: &Case) -> Row {
        let verdict: Result<Verdict> = run(device, workers, case);
        let measured = verdict.as_ref().ok();
        Row {
            operation: case.operation,
            dtype: case.dtype.to_string(),
            form: case.form.clone(),
            error: measured.map(|measured| measured.error).filter(|error| error.is_finite()),
            bound: measured.map(|measured| measured.bound),
            share: measured.map(|measured| measured.worst).filter(|share| share.is_finite()),
            result: match &verdict {
                Ok(measured) if measured.worst <= 1.0 => Word::Right,
                Ok(_) => Word::Wrong,
                Err(error) if error.kind() == ErrorKind::Unsupported => Word::Unsupported,
                Err(_) => Word::Failed,
            },
            reason: verdict.as_ref().err().map(|error| error.message().to_owned()),
        }
    }

    /// Returns whether the device is at fault.
    pub fn is_bad(&self) -> bool {
        matches!(self.result, Word::Wrong | Word::Failed)
    }

    /// The verdict in words, with its reason.
    pub fn in_words(&self) -> String {
        let reason = self.reason.as_ref().map_or(String::new(), |why| format!(": {}", escape(why, 200)));
        format!("{}{reason}", self.result.name())
    }
}

/// How many verdicts there are of each word. What a device does not have is neither right nor wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    right: usize,
    wrong: usize,
    failed: usize,
    unsupported: usize,
}

impl Counts {
    /// The numbers of these.
    pub fn of(rows: &[Row]) -> Counts {
        let mut counts = Counts::default();
        for row in rows {
            match row.result {
                Word::Right => counts.right += 1,
                Word::Wrong => counts.wrong += 1,
                Word::Failed => counts.failed += 1,
                Word::Unsupported => counts.unsupported += 1,
            }
        }
        counts
    }

    /// Number of verdicts that speak against the device.
    pub fn bad(self) -> usize {
        self.wrong + self.failed
    }

    /// Number of cases that the device has.
    pub fn supported(self) -> usize {
        self.right + self.bad()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { right, wrong, failed, unsupported } = self;
        write!(f, "{right} correct, {wrong} wrong, {failed} failed, {unsupported} unsupported")
    }
}
