//! Measures on a thread of its own, so that the screen never waits: one job at a time, each of which can be stopped.

use crate::cli::verbs::tensors::tree::{Line, lines};
use apr_engine::architecture::{Expected, TensorSpecs, tensor_specs};
use apr_engine::contract::{Examined, Finding, Quality, findings_of_tensor, judge_layout};
use apr_engine::crew::panicked;
use apr_engine::diff::{Diff, DiffOptions, diff};
use apr_engine::open::OpenedModel;
use apr_engine::verify::histogram::{Histogram, histogram};
use apr_engine::verify::stats::{RowOptions, Stats, each_row_of};
use apr_engine::verify::tree::tree;
use apr_host::host::Host;
use apr_sdk::{Error, ErrorKind, Result};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender};

/// A task of measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Everything about one tensor.
    Tensor(usize),
    /// Statistics and findings of all tensors.
    All,
    /// The tree of the names.
    Graph,
    /// The differences from the other model.
    Compare,
}

/// A task, and the tensors that are left to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// The task.
    pub task: Task,
    /// Of which tensors, for [`Task::All`].
    pub numbers: Vec<usize>,
}

/// The measurements of one tensor.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Statistics of its values, blocks decoded.
    pub stats: Option<Stats>,
    /// The reason why there are none.
    pub stats_missing: Option<String>,
    /// The distribution of its values; only from [`Task::Tensor`].
    pub histogram: Option<Histogram>,
    /// The expectations of its architecture's table.
    pub expected: Option<Expected>,
    /// Findings about it.
    pub findings: Vec<Finding>,
    /// The reason why the rules did not examine it.
    pub unexamined: Option<String>,
    /// The reason why it could not be read.
    pub error: Option<String>,
    /// True if nothing about it is left to measure.
    pub is_whole: bool,
}

/// The worker's news.
#[derive(Debug)]
pub enum News {
    /// A tensor was measured.
    Measured(usize, Box<Measured>),
    /// The tree is there.
    Graph(Vec<Line>),
    /// The comparison is there.
    Compared(Box<Diff>),
    /// Something that holds for the whole model.
    Note(String),
    /// The job came to an end.
    Ended(Result<()>),
}

/// The models to measure.
#[derive(Clone, Copy)]
pub struct Models<'m> {
    /// The host, whose `cancel` stops a job.
    pub host: &'m Host,
    /// The model.
    pub model: &'m OpenedModel,
    /// The one to compare it with.
    pub other: Option<&'m OpenedModel>,
}

/// Does jobs until nobody sends any more.
pub fn work(models: Models<'_>, jobs: Receiver<Job>, news: &Sender<News>) {
    let worker = Worker { models, news, judged: OnceCell::new() };
    for job in jobs {
        let done = catch_unwind(AssertUnwindSafe(|| worker.run(&job)));
        if news.send(News::Ended(done.unwrap_or_else(|_| Err(panicked())))).is_err() {
            return;
        }
    }
}

/// The specifications of each tensor, and the findings about the shapes, by the tensors' names.
#[derive(Default)]
struct Judged {
    specs: TensorSpecs,
    layout: HashMap<String, Vec<Finding>>,
}

struct Worker<'m> {
    models: Models<'m>,
    news: &'m Sender<News>,
    judged: OnceCell<Judged>,
}

impl Worker<'_> {
    fn run(&self, job: &Job) -> Result<()> {
        let Models { host, model, other } = self.models;
        match (job.task, other) {
            (Task::Tensor(number), _) => {
                let measured = measure(self.models, number, self.judged(), true)?;
                self.say(News::Measured(number, Box::new(measured)))
            }
            (Task::All, _) => {
                let models = self.models;
                let judged = self.judged();
                let news = self.news.clone();
                host.crew.run(job.numbers.len(), &|_, at| {
                    let number = job.numbers[at];
                    let measured = measure(models, number, judged, false)?;
                    news.send(News::Measured(number, Box::new(measured))).map_err(|_| gone())
                })
            }
            (Task::Graph, _) => self.say(News::Graph(lines(&tree(&model.model.tensors)?))),
            (Task::Compare, Some(other)) => {
                let differences = diff(host, model, other, &DiffOptions::default())?;
                self.say(News::Compared(Box::new(differences)))
            }
            (Task::Compare, None) => Ok(()),
        }
    }

    fn say(&self, news: News) -> Result<()> {
        self.news.send(news).map_err(|_| gone())
    }

    /// The specifications of the tensors. A configuration that contradicts itself is told of once, and then nothing is
    /// expected of any of them.
    fn judged(&self) -> &Judged {
        self.judged.get_or_init(|| {
            let model = &self.models.model.model;
            let specs = match tensor_specs(self.models.host, model, None) {
                Ok(specs) => specs,
                Err(error) => {
                    let _ = self.say(News::Note(format!("no expected ranges: {error}")));
                    return Judged::default();
                }
            };
            let mut layout: HashMap<String, Vec<Finding>> = HashMap::new();
            for finding in judge_layout(model, &specs, &|_| None, Quality::default()) {
                layout.entry(finding.tensor.clone()).or_default().push(finding);
            }
            Judged { specs, layout }
        })
    }
}

/// The error for a screen that is no more.
fn gone() -> Error {
    Error::cancelled("stopped")
}

/// Measures one tensor. What cannot be read is said in its place: the others can be.
fn measure(models: Models<'_>, number: usize, judged: &Judged, whole: bool) -> Result<Measured> {
    models.host.check_cancelled()?;
    match read(models, number, judged, whole) {
        Err(error) if error.kind() != ErrorKind::Cancelled => {
            Ok(Measured { error: Some(error.to_string()), is_whole: true, ..Measured::default() })
        }
        measured => measured,
    }
}

fn read(models: Models<'_>, number: usize, judged: &Judged, whole: bool) -> Result<Measured> {
    let Models { host, model, .. } = models;
    let spec = judged.specs.of(number);
    let name = &model.model.tensors[number].name;
    let mut measured = Measured { expected: spec.expected.clone(), is_whole: whole, ..Measured::default() };
    measured.findings.extend(judged.layout.get(name).into_iter().flatten().cloned());
    each_row_of(host, model, &[number], RowOptions { sha256: false, stats: true }, &mut |row| {
        (measured.stats, measured.stats_missing) = (row.stats, row.stats_missing);
    })?;
    match findings_of_tensor(host, model, spec, number, Quality::default())? {
        Examined::No(why) => measured.unexamined = Some(why.message().to_owned()),
        Examined::Yes { findings, .. } => measured.findings.extend(findings),
    }
    if whole && measured.stats.is_some() {
        measured.histogram = Some(histogram(host, model, number)?);
    }
    Ok(measured)
}
