//! Writes a model: around its original graph, or without one as a weights-only file.

use crate::about::{self, About};
use crate::edit::Segment;
use crate::layout::{FORMAT, LONGEST_MESSAGE, SMALLEST_EXTERNAL};
use crate::outside::{self, Placement, file_name};
use crate::plan::{Base, Said, rewrite};
use crate::scan::Scan;
use crate::skeleton::Skeleton;
use crate::walk::Found;
use crate::{strip, weights};
use apr_sdk::carried_metadata::{self, Carried};
use apr_sdk::{
    Bytes, CheckedModel, Encoding, Error, ForeignPolicy, LayoutRequest, LayoutSink, Limits, MemorySource,
    Model, Result, Source, Value, Writer, escape,
};
use std::collections::HashMap;

/// The writer.
pub struct Onnx;

/// The most bytes of the graph that are handed on at once.
const PIECE: u64 = 1 << 20;

impl Writer for Onnx {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let typed = typed(model, sink)?;
        let (scalars, mut props) = about::split(&typed)?;
        if let Some(text) = Carried::of(model, FORMAT, &[], request.foreign, sink)?.text()? {
            props.retain(|(key, _)| key != carried_metadata::KEY);
            props.push((carried_metadata::KEY.to_owned(), text.into_bytes()));
        }
        let graph = typed.iter().find(|(key, _)| key == about::GRAPH).and_then(|(_, value)| value.as_bytes());
        let verbatim = verbatim(model, request, sink)?;
        let base = match graph {
            Some(graph) => Some(graph_base(graph, verbatim)?),
            None => verbatim.filter(|base| base.index.n_nodes == 0),
        };
        let numbers = base.as_ref().and_then(|base| numbers(base, model));
        if let (Some(base), Some(_), None) = (&base, graph, &numbers) {
            let (n, m) = (base.index.tensors.len(), model.tensors.len());
            let strings = match base.index.n_strings {
                0 => "",
                _ => ", without the graph's tensors of strings",
            };
            sink.note(&format!(
                "the graph is left out: it refers to {n} tensors, but the {m} of the model are different \
                 ones; the file contains only weights{strings}"
            ));
        }
        match (&base, graph, &numbers) {
            (Some(base), Some(_), Some(numbers)) => check_types(base, numbers, model, sink)?,
            (_, None, _) => {
                sink.note("the file contains only weights: there is no graph, so there is nothing to run");
            }
            _ => {}
        }
        let file =
            File { model, request, base: base.zip(numbers), has_graph: graph.is_some(), scalars, props };
        file.check_derived(&typed)?;
        file.write(sink)
    }
}

/// The typed keys of this format, read where they lie in a file.
fn typed(model: &Model, sink: &mut dyn LayoutSink) -> Result<Vec<(String, Value)>> {
    let files = model.foreign_of(FORMAT).map(|own| own.files.as_slice()).unwrap_or_default();
    let mut typed: Vec<(String, Value)> = Vec::new();
    for (key, value) in files.iter().flat_map(|file| &file.typed) {
        if typed.iter().all(|(known, _)| known != key) {
            typed.push((key.clone(), Value { kind: value.kind, bytes: sink.fetch(&value.bytes)? }));
        }
    }
    Ok(typed)
}

/// The file that the model was read from, without its payloads.
fn verbatim(model: &Model, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<Option<Base>> {
    let files = model.foreign_of(FORMAT).map(|own| own.files.as_slice()).unwrap_or_default();
    let form = files.first().and_then(|file| file.verbatim.as_ref());
    let Some(form) = form.filter(|_| files.len() == 1 && request.foreign != ForeignPolicy::Typed) else {
        return Ok(None);
    };
    let held: Bytes = sink.fetch(form)?;
    let Some(skeleton) = held.inline().and_then(Skeleton::from_bytes) else { return Ok(None) };
    let files = skeleton.files.clone();
    // What cannot be walked is another program's, and no better than none.
    Ok(Base::of_file(Box::new(skeleton), files, &Limits::default()).ok())
}

/// The verbatim form if it is of this graph, else the graph's typed form.
fn graph_base(graph: &[u8], verbatim: Option<Base>) -> Result<Base> {
    if let Some(base) = verbatim {
        let limits = Limits::default();
        let mut scan = Scan::new(&*base.source, 0, &limits)?;
        if strip::graph(&mut scan, &base.index, &base.about)? == graph {
            return Ok(base);
        }
    }
    let source = Box::new(MemorySource::new("the graph", graph));
    Base::of_graph(source, &Limits::default()).map_err(|e| {
        let key = about::GRAPH;
        let error =
            Error::invalid_argument(format!("metadata key `{key}` is not a valid graph: {}", e.message()));
        error.hint(format!("pass --unset {key} to write only the weights"))
    })
}

/// Which of the model's tensors each of the base's is; `None` unless they are the same ones.
fn numbers(base: &Base, model: &Model) -> Option<Vec<usize>> {
    if base.index.tensors.len() != model.tensors.len() {
        return None;
    }
    let names: HashMap<&str, usize> =
        model.tensors.iter().enumerate().map(|(n, tensor)| (tensor.name.as_str(), n)).collect();
    base.index.tensors.iter().map(|found| names.get(found.name.as_str()).copied()).collect()
}

/// Refuses tensors of another type than the graph's nodes were made for: no node is changed, and operators want their
/// inputs to be of one type. Other shapes may be right, so they are only told.
///
/// # Errors
/// Unsupported, with the first of them.
fn check_types(base: &Base, numbers: &[usize], model: &Model, sink: &mut dyn LayoutSink) -> Result<()> {
    let pairs = || base.index.tensors.iter().zip(numbers.iter().map(|&number| &model.tensors[number]));
    // A message without a type, as none of ours is, says nothing that could be compared.
    let was = |found: &Found| found.proto.data_type.map(|_| found.proto.dtype().ok());
    let changed =
        || pairs().filter(|(found, tensor)| was(found).is_some_and(|was| was != Some(tensor.dtype)));
    if let Some((found, tensor)) = changed().next() {
        let was = found.proto.dtype().map_or("?", |dtype| dtype.name());
        let message = format!(
            "the graph would no longer be valid: its nodes require this tensor as {was}, but it became {}{}",
            tensor.dtype,
            more(changed().count()),
        );
        let hint = format!(
            "convert without changing types, or write only the weights with --unset {}; to cast a model \
             that can be run, use a program that also rewrites its nodes",
            about::GRAPH
        );
        return Err(Error::unsupported(message).tensor(&tensor.name).hint(hint));
    }
    let reshaped =
        || pairs().filter(|(found, tensor)| was(found).is_some() && found.proto.dims != tensor.shape);
    if let Some((found, tensor)) = reshaped().next() {
        let (name, was, is) = (escape(&tensor.name, 120), &found.proto.dims, &tensor.shape);
        let more = more(reshaped().count());
        sink.note(&format!(
            "the graph's nodes are unchanged, but `{name}` was {was:?} and is now {is:?}{more}"
        ));
    }
    Ok(())
}

/// How many are like the first of `n`.
fn more(n: usize) -> String {
    if n > 1 { format!("; and {} more", n - 1) } else { String::new() }
}

/// What is written.
struct File<'a> {
    model: &'a Model,
    request: &'a LayoutRequest,
    /// The graph, or the file of weights, that is written again.
    base: Option<(Base, Vec<usize>)>,
    has_graph: bool,
    scalars: Vec<(usize, Value)>,
    props: Vec<(String, Vec<u8>)>,
}

impl File<'_> {
    fn base(&self) -> Option<(&Base, &[usize])> {
        self.base.as_ref().map(|(base, numbers)| (base, numbers.as_slice()))
    }

    /// Keys that say what the graph says cannot say anything else.
    fn check_derived(&self, typed: &[(String, Value)]) -> Result<()> {
        let empty = About::default();
        let derived = self
            .base
            .as_ref()
            .filter(|_| self.has_graph)
            .map_or(&empty, |(base, _)| &base.about)
            .derived
            .iter();
        for (key, value) in derived {
            if typed.iter().any(|(there, other)| there == key && other != value) {
                let shown = escape(key, 120);
                let message = format!("metadata key `{shown}` is derived from the graph and cannot be set");
                return Err(Error::invalid_argument(message));
            }
        }
        Ok(())
    }

    fn write(&self, sink: &mut dyn LayoutSink) -> Result<()> {
        let (placement, segments) = self.place(sink)?;
        sink.file(&file_name(self.request))?;
        for segment in segments {
            match segment {
                Segment::Bytes(bytes) => sink.inline(&bytes)?,
                Segment::Payload { tensor, .. } => sink.payload(tensor as u64, 1, Encoding::Raw)?,
                Segment::Keep(range) => self.keep(range, sink)?,
            }
        }
        placement.files.iter().try_for_each(|file| outside::write(file, sink))?;
        outside::note(self.model, &placement, sink);
        Ok(())
    }

    /// Where everything goes: as the source has it, unless the options or the format's longest message say otherwise.
    fn place(&self, sink: &mut dyn LayoutSink) -> Result<(Placement, Vec<Segment>)> {
        let (tensors, request) = (&self.model.tensors, self.request);
        let single = request.options.flag("single-file");
        let total = tensors
            .iter()
            .try_fold(0u64, |sum, tensor| Ok::<_, Error>(sum.saturating_add(tensor.payload_len()?)))?;
        let shards = request.max_shard_size.is_some_and(|longest| total > longest)
            || request.max_shard_tensors.is_some_and(|most| tensors.len() as u64 > most);
        let wanted = request.options.flag("external-data") || shards;
        if single && wanted {
            let message = "--single-file and the options of external data cannot be used together";
            return Err(Error::invalid_argument(message));
        }
        let inside = outside::inside(tensors, self.base());
        let large = |number: usize| outside::is_large(&tensors[number]);
        let placement = match self.base() {
            _ if wanted => outside::outside(tensors, request, inside.clone(), &large)?,
            Some(base) if !single => outside::keep(tensors, request, base, inside.clone())?,
            _ => inside.clone(),
        };
        let segments = self.segments(&placement)?;
        let len: u64 = segments.iter().map(Segment::len).sum();
        if len <= LONGEST_MESSAGE {
            if wanted && placement.files.is_empty() {
                sink.note(&format!(
                    "no tensor has {SMALLEST_EXTERNAL} bytes, so no external data is written"
                ));
            }
            return Ok((placement, segments));
        }
        let message = format!(
            "the model would have {len} bytes, more than the format's limit of {LONGEST_MESSAGE} for one file"
        );
        if single {
            return Err(Error::unsupported(message).hint("remove --single-file to write external data"));
        }
        sink.note(&format!("{message}: its data is written to a separate file"));
        let placement = outside::outside(tensors, request, inside, &large)?;
        let segments = self.segments(&placement)?;
        let len: u64 = segments.iter().map(Segment::len).sum();
        if len > LONGEST_MESSAGE {
            let message = format!(
                "the model without its data would still have {len} bytes, more than the format's limit of \
                 {LONGEST_MESSAGE}"
            );
            return Err(Error::unsupported(message));
        }
        Ok((placement, segments))
    }

    fn segments(&self, placement: &Placement) -> Result<Vec<Segment>> {
        let (tensors, homes) = (&self.model.tensors, &placement.homes);
        match &self.base {
            Some((base, numbers)) if self.has_graph => {
                let said = Said { scalars: &self.scalars, props: &self.props };
                rewrite(base, tensors, numbers, homes, &said)
            }
            // Without a graph the file is laid out anew, and only where its data lies is taken from the source.
            Some((base, numbers)) => {
                let homes = outside::as_said(base, numbers, homes);
                weights::segments(tensors, &homes, &self.props)
            }
            None => weights::segments(tensors, homes, &self.props),
        }
    }

    /// Hands on bytes of the base.
    fn keep(&self, (start, end): (u64, u64), sink: &mut dyn LayoutSink) -> Result<()> {
        let Some((base, _)) = &self.base else { return Ok(()) };
        let source: &dyn Source = &*base.source;
        let mut at = start;
        while at < end {
            let len = (end - at).min(PIECE);
            let mut piece = vec![0; usize::try_from(len).unwrap_or(0)];
            source.read_at(0, at, &mut piece)?;
            sink.inline(&piece)?;
            at += len;
        }
        Ok(())
    }
}
