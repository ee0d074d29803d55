//! The writer's files at known offsets, and their payload cut into tiles: the last stage. Everything is known
//! before a byte is written.

use super::assign_types::Typed;
use super::check::Checked;
use super::open::Opened;
use super::output::{Output, Shards};
use super::plan::{OpLists, Plan};
use super::select::{PlanContext, Selected};
use super::translate::{Translate, Translated};
use crate::architecture::TensorSpecs;
use crate::contract::{Finding, Quality, Severity, judge_layout};
use crate::engine::Engine;
use crate::expression::{Expression, Spools};
use crate::layout::{Collector, Layout, Segment, TensorOrigin, carries};
use crate::open::OpenedModel;
use crate::planned::Computation;
use crate::planned::request::Request;
use crate::tiles::tile::Tiles;
use apr_sdk::{Error, ErrorKind, Model, Result, Writer};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Everything that is known before a byte is written.
pub struct LaidOut<'a> {
    /// The model to convert.
    pub source: Arc<OpenedModel>,
    /// The model to write; only `tiles` tells where payload comes from.
    pub model: Model,
    /// The output that it is written to.
    pub output: Output<'a>,
    /// The target's writer.
    pub writer: Arc<dyn Writer>,
    /// The writer's answer: files made of segments.
    pub layout: Layout,
    /// The work to be done, except for the list of tensors.
    pub plan: Plan,
    /// The payload of `layout`, cut into tiles, each with the expression that computes it.
    pub tiles: Tiles,
    /// A hash of the expressions.
    pub hash: u64,
    /// The expressions that must be spooled first.
    pub spools: Spools,
    /// The operations on each tensor, in words; only for a plan.
    pub spelled: OpLists,
    /// The architecture table's facts about each tensor of `model`.
    pub specs: TensorSpecs,
    /// Problems with shapes that do not stop the work.
    pub findings: Vec<Finding>,
    /// The selected tensors of the source, if some are left out by name or by the reader.
    pub selected: Option<Vec<usize>>,
    /// Numbers of the source's files, excluding folders.
    pub inputs: Vec<u32>,
}

impl<'a> LaidOut<'a> {
    /// Runs all stages; `translate` is the third.
    ///
    /// # Errors
    /// Any error from planning; nothing has been written then.
    pub fn plan(
        engine: &'a Engine,
        request: &'a Request,
        opened: Opened<'a>,
        output: Output<'a>,
        translate: &Translate<'_>,
        look: bool,
    ) -> Result<LaidOut<'a>> {
        LaidOut::of(translate(Selected::new(engine, request, opened, output)?)?, look)
    }

    /// Runs the stages after translation. `look` says whether payload may be read to find out which types
    /// hold it; without it, the operations are spelled out for a plan.
    ///
    /// # Errors
    /// As [`LaidOut::plan`].
    pub fn of(translated: Translated<'a>, look: bool) -> Result<LaidOut<'a>> {
        LaidOut::new(Checked::new(Typed::new(translated, look)?)?, look)
    }

    fn new(checked: Checked<'a>, look: bool) -> Result<LaidOut<'a>> {
        let Checked { context, model, mut computations, specs, coverage } = checked;
        let PlanContext { engine, request, .. } = context;
        let target = context.output.format;
        let source = &context.source;
        let mut spools = Spools::default();
        let mut spelled = OpLists::default();
        let mut hasher = DefaultHasher::new();
        for (handle, computation) in computations.entries() {
            let tensor = &model.tensors[handle.index()];
            let checked = computation.expression.check(tensor, &engine.registry);
            checked.map_err(|e| context.of_source(e.tensor(&tensor.name)))?;
        }
        let asked = &context.output.request;
        let mut collector = Collector::new(&engine.registry, source, context.writer.as_ref(), &model, asked)
            .asked(&request.options, request.arch.as_deref() == Some("none"))
            .casting(context.casting())
            .made_of(TensorOrigin {
                engine,
                computations: &computations,
                target: target.id(),
                may_read: look,
            });
        let laid_out = context.writer.layout(&model, asked, &mut collector);
        // What is wrong with an option is not wrong with the source.
        laid_out.map_err(|e| match e.kind() {
            ErrorKind::InvalidArgument if e.tensor_name().is_none() => e,
            _ => context.of_source(e),
        })?;
        let layout = collector.finish()?;
        check_shards(&layout, context.output.shards, target.id())?;
        let in_order = layout.in_order();
        for handle in computations.handles() {
            let tensor = &model.tensors[handle.index()];
            let Computation { expression, words, .. } = &mut computations[handle];
            let placed = place(expression, in_order.contains(&handle.index()), &mut spools);
            placed.map_err(|e| context.of_source(e.tensor(&tensor.name)))?;
            expression.hash(&mut hasher);
            if !look {
                let added = spelled.add(expression, words);
                added.map_err(|e| context.of_source(e.tensor(&tensor.name)))?;
            }
        }
        let expressions = computations.map(|computation| computation.expression);
        let hash = hasher.finish();
        let mut model = model.into_inner();
        let findings = check_layout(&layout, &model, &specs, request.quality);
        let findings = findings.map_err(|e| context.of_source(e))?;
        let PlanContext { source, output, writer, mut notes, warnings, selected, inputs, .. } = context;
        notes.extend(carries::name_after(&mut model, target, &layout.files[layout.entry].name));
        if !output.takes_many && layout.files.len() > 1 {
            check_companions(&layout, &output.request.file_name)?;
        }
        let mut plan = Plan {
            schema: "apr.plan/1",
            input: request.input.display().to_string(),
            from: source.format.clone(),
            output: output.shown.clone(),
            to: target.id().to_owned(),
            files: Vec::new(),
            bytes: 0,
            is_bound: false,
            payload_memory: 0,
            summary: None,
            tensors: Vec::new(),
            coverage,
            notes,
            warnings,
        };
        plan.describe(&layout, &expressions, &spools, engine.crew.width())?;
        let tiles = Tiles::new(&layout, &model, expressions, engine.crew.width())?;
        Ok(LaidOut {
            source,
            model,
            output,
            writer,
            layout,
            plan,
            tiles,
            hash,
            spools,
            spelled,
            specs,
            findings,
            selected,
            inputs,
        })
    }
}

/// Marks what must be spooled before an expression is evaluated.
fn place(expression: &mut Expression, is_in_order: bool, spools: &mut Spools) -> Result<()> {
    expression.spool_compressed();
    expression.spool_columns()?;
    if is_in_order {
        expression.ascend()?;
    }
    spools.place(expression)
}

/// Checks shapes and sizes against the contract; returns tolerable problems.
///
/// # Errors
/// Failed for the first problem that stops the work.
fn check_layout(
    layout: &Layout,
    model: &Model,
    specs: &TensorSpecs,
    quality: Quality,
) -> Result<Vec<Finding>> {
    let mut bytes = vec![None; model.tensors.len()];
    for placed in layout.files.iter().flat_map(|file| &file.segments) {
        if let Segment::Payload { tensor, encoded } = &placed.segment
            && let Some(known) = bytes.get_mut(*tensor)
        {
            *known = Some(encoded.as_ref().map_or(placed.len, |encoded| encoded.raw_len));
        }
    }
    let findings = judge_layout(model, specs, &|number| bytes[number], quality);
    match findings.iter().find(|finding| finding.severity == Severity::Error) {
        Some(finding) => Err(finding.error()),
        None => Ok(findings),
    }
}

/// Fails if a writer put more tensors in a file than it may have.
fn check_shards(layout: &Layout, shards: Shards, format: &str) -> Result<()> {
    let Some(most) = shards.tensors else { return Ok(()) };
    for file in &layout.files {
        let payloads =
            file.segments.iter().filter(|placed| matches!(placed.segment, Segment::Payload { .. }));
        if payloads.count() as u64 > most {
            let message = format!("the format `{format}` cannot limit the number of tensors per file");
            return Err(Error::unsupported(message).hint("limit their size: --max-shard-size SIZE"));
        }
    }
    Ok(())
}

/// A single-file model may have files beside it if their names say that they belong to it: `model.x` and
/// `model.x.data`.
fn check_companions(layout: &Layout, file_name: &str) -> Result<()> {
    let is_of_one = layout.files.iter().all(|file| match file.name.strip_prefix(file_name) {
        Some(rest) => rest.is_empty() || rest.starts_with('.') && !rest.contains('/'),
        None => false,
    });
    if layout.files[layout.entry].name == file_name && is_of_one {
        return Ok(());
    }
    let message =
        format!("the output has {} files, but its name is that of a single file", layout.files.len());
    Err(Error::invalid_argument(message).hint("specify a folder: apr convert IN OUT/ --to FORMAT"))
}
