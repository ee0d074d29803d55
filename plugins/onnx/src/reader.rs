//! Reads a model: the graph stays as it is, and its tensors, wherever in the graph they are, become the
//! model's.

use crate::about::{self, About};
use crate::derived;
use crate::edit::Segment;
use crate::external::check_location;
use crate::layout::{FORMAT, LONGEST_MESSAGE};
use crate::plan::{Base, Home, Said, rewrite};
use crate::scan::Scan;
use crate::skeleton::Skeleton;
use crate::stream::{NumberStream, Numbers};
use crate::tensor::{Data, Range, check_len};
use crate::walk::{Found, Index, Sparse, walk};
use crate::{gaps, listing, outside, probe, sparse_check, strip, weights};
use apr_sdk::carried_metadata::{self, Carried};
use apr_sdk::{
    Bytes, Derived, Error, ErrorKind, Extent, Fact, FileId, LayoutRequest, Limits, Look, MemorySource,
    ModelSink, OpenModel, Options, Payload, Reader, Report, Result, Score, Source, Stream, Tensor,
    TensorDecl, Value, escape,
};
use std::collections::HashMap;

/// The reader: of files, and of folders with exactly one.
pub struct Onnx;

impl Reader for Onnx {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.is_folder {
            return if look.entries.iter().any(|name| is_name(name)) { Score::STRUCTURE } else { Score::NO };
        }
        probe::score(look)
    }

    fn open(&self, source: &dyn Source, limits: &Limits, _options: &Options) -> Result<Box<dyn OpenModel>> {
        let file = if source.is_folder() { only_model(source)? } else { 0 };
        let opened = Opened::read(source, file, limits).map_err(|e| e.at(0).in_file(source.name(file)))?;
        Ok(Box::new(opened))
    }

    fn report(&self, id: &str, source: &dyn Source, limits: &Limits, _options: &Options) -> Result<Report> {
        let file = if source.is_folder() { only_model(source)? } else { 0 };
        match id {
            "check" => {}
            "graph" => {
                let mut scan = Scan::new(source, file, limits)?;
                walk(&mut scan)?;
                return listing::report(&mut scan);
            }
            _ => return Err(Error::unsupported(format!("this format has no report `{}`", escape(id, 80)))),
        }
        let opened = Opened::read(source, file, limits).map_err(|e| e.at(0).in_file(source.name(file)))?;
        let stream = |number| opened.stream(number);
        sparse_check::report(source, &opened.tensors, &opened.sparse, &stream)
    }
}

/// Tensors of strings, which are none of the model's, by the names of the first.
fn note_of_strings(index: &Index) -> Option<String> {
    let n = index.n_strings;
    if n == 0 {
        return None;
    }
    let names: Vec<_> = index.strings.iter().map(|name| format!("`{}`", escape(name, 80))).collect();
    let more = n.saturating_sub(names.len() as u64);
    let named = match (names.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(": {}", names.join(", ")),
        (false, more) => format!(": {} and {more} more", names.join(", ")),
    };
    let what =
        if n == 1 { "1 tensor of strings is".to_owned() } else { format!("{n} tensors of strings are") };
    Some(format!("{what} part of the graph and only carried over with it{named}"))
}

fn is_name(name: &str) -> bool {
    name.to_lowercase().ends_with(".onnx")
}

/// The one model of a folder.
fn only_model(source: &dyn Source) -> Result<FileId> {
    let names: Vec<_> = source.entries()?.into_iter().filter(|name| is_name(name)).collect();
    match names.as_slice() {
        [] => Err(Error::not_found("the folder contains no .onnx file")),
        [name] => source.sibling(name),
        _ => {
            let list: Vec<_> = names.iter().map(|name| format!("`{}`", escape(name, 120))).collect();
            let error =
                Error::invalid_argument(format!("the folder contains several models: {}", list.join(", ")));
            Err(error.hint("specify the one to open"))
        }
    }
}

/// An opened model.
struct Opened {
    file: FileId,
    tensors: Vec<Tensor>,
    /// Where in the file each tensor's message begins.
    places: Vec<u64>,
    /// What must be decoded, by the tensor's number.
    numbers: HashMap<u64, Numbers>,
    typed: Vec<(String, Value)>,
    verbatim: Option<Vec<u8>>,
    carried: Option<Carried>,
    notes: Vec<String>,
    sparse: Vec<Sparse>,
    derived: Option<Derived>,
}

impl Opened {
    fn read(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Opened> {
        let mut scan = Scan::new(source, file, limits)?;
        let index = walk(&mut scan)?;
        if !index.is_model() {
            let error = scan.error(0, "it contains none of the records of a model");
            return Err(error.hint("specify the format with --from if this is not ONNX"));
        }
        let mut about = About::read(&mut scan, &index)?;
        let mut files = Files::default();
        let mut opened = Opened {
            file,
            tensors: Vec::new(),
            places: index.tensors.iter().map(|found| found.proto.body.0).collect(),
            numbers: HashMap::new(),
            typed: Vec::new(),
            verbatim: None,
            carried: None,
            notes: std::mem::take(&mut about.notes),
            sparse: index.sparse.clone(),
            derived: None,
        };
        if index.n_nodes == 0 && index.n_functions == 0 {
            opened
                .notes
                .push("it contains only weights: there are no nodes, so there is nothing to run".to_owned());
        }
        opened.notes.extend(note_of_strings(&index));
        for (number, found) in (0..).zip(&index.tensors) {
            let place = |e: Error| scan.place(e, found.proto.body.0).tensor(&found.name);
            let tensor = opened.tensor(source, &mut files, number, found).map_err(place)?;
            opened.tensors.push(tensor);
        }
        match opened.numbers.len() {
            0 => {}
            1 => {
                let note =
                    "1 tensor is stored as a list of numbers: rewriting the model stores it as raw data";
                opened.notes.push(note.to_owned());
            }
            n => opened.notes.push(format!(
                "{n} tensors are stored as lists of numbers: rewriting the model stores them as raw data"
            )),
        }
        let summed = |found: &&Found| matches!(&found.proto.data, Data::External(to) if to.has_checksum);
        let n_summed = index.tensors.iter().filter(summed).count();
        if n_summed > 0 {
            opened.notes.push(format!(
                "{n_summed} tensors state the SHA-1 of their data file: it is not checked, and not written \
                 again"
            ));
        }
        opened.notes.extend(gaps::notes(source, file, &opened.tensors, limits)?);
        opened.derived = derived::describe(source, file, limits, &index, &opened.tensors, &opened.numbers)?;
        opened.carried = take_carried(&mut about, limits, &mut opened.notes);
        opened.describe_graph(&mut scan, &index, &about, files.lengths)?;
        Ok(opened)
    }

    /// A tensor with its payload's place, which is checked.
    fn tensor(
        &mut self,
        source: &dyn Source,
        files: &mut Files,
        number: u64,
        found: &Found,
    ) -> Result<Tensor> {
        let proto = &found.proto;
        let len = check_len(proto)?;
        let dtype = proto.dtype()?;
        let extent = |file: FileId, offset: u64| Payload::Extent {
            extent: Extent::new(file, offset, len),
            view: None,
        };
        let payload = match &proto.data {
            Data::Raw((start, _)) => extent(self.file, *start),
            Data::External(reference) => {
                let (file, file_len) = files.open(source, &reference.location)?;
                let end = reference.offset.checked_add(len);
                if end.is_none_or(|end| end > file_len) {
                    let offset = reference.offset;
                    let message =
                        format!("its {len} bytes start at {offset}, but the file has only {file_len}");
                    let error = Error::malformed(message).at(offset).in_file(source.name(file));
                    return Err(
                        error.hint("get the file again: it is truncated, or belongs to another model")
                    );
                }
                extent(file, reference.offset)
            }
            Data::Typed(typed) => {
                let (name, dims, typed) = (found.name.clone(), proto.dims.clone(), typed.clone());
                self.numbers.insert(number, Numbers { file: self.file, name, dtype, dims, typed });
                Payload::Sequential
            }
            Data::Absent | Data::Strings => extent(self.file, proto.body.0),
        };
        Ok(Tensor { name: found.name.clone(), dtype, shape: proto.dims.clone(), payload })
    }

    /// The graph's typed form, and the verbatim one where the writer would spell it otherwise.
    fn describe_graph(
        &mut self,
        scan: &mut Scan<'_>,
        index: &Index,
        about: &About,
        files: Vec<u64>,
    ) -> Result<()> {
        let mut props: Vec<_> =
            about.props.iter().map(|(key, value, _)| (key.clone(), value.clone())).collect();
        if self.carried.is_some() {
            // The writer puts it last.
            props.sort_by_key(|(key, _)| key == carried_metadata::KEY);
        }
        let numbers: Vec<usize> = (0..self.tensors.len()).collect();
        let homes: Vec<Home> = index.tensors.iter().map(home).collect();
        let inside = homes.iter().all(|home| *home == Home::Inside);
        let mut usual = false;
        if index.n_nodes == 0 && index.n_functions == 0 {
            let segments = weights::segments(&self.tensors, &homes, &props)?;
            usual = same(&segments, &[], scan, index)?;
        }
        if usual {
            usual = inside || self.is_outside_as_written(&scan.file_name(), &homes, &props, &files)?;
        } else {
            let graph = strip::graph(scan, index, about)?;
            self.typed = about
                .scalars
                .iter()
                .map(|(n, value, _)| (about::SCALARS[*n].0.to_owned(), value.clone()))
                .collect();
            self.typed.extend(about.derived.iter().cloned());
            self.typed.push((about::GRAPH.to_owned(), Value::from_string(&graph)));
            if inside && self.numbers.is_empty() {
                let scalars: Vec<_> = about.scalars.iter().map(|(n, value, _)| (*n, value.clone())).collect();
                let source = Box::new(MemorySource::new("graph", graph.as_slice()));
                let said = Said { scalars: &scalars, props: &props };
                let segments = Base::of_graph(source, scan.limits())
                    .and_then(|base| rewrite(&base, &self.tensors, &numbers, &homes, &said));
                // A graph that costs too much to try is kept verbatim.
                usual = match segments {
                    Ok(segments) => same(&segments, &graph, scan, index)?,
                    Err(_) => false,
                };
            }
        }
        let own = props.into_iter().filter(|(key, _)| self.carried.is_none() || key != carried_metadata::KEY);
        self.typed.extend(own.map(|(key, value)| (about::key_of_prop(&key), Value::from_string(value))));
        // What is decoded comes out as raw data, so that the file's own spelling is of no use.
        if !usual && self.numbers.is_empty() {
            self.verbatim = Some(Skeleton::read(scan, holes(index), files)?.to_bytes());
        }
        Ok(())
    }
}

impl Opened {
    /// Whether the writer, asked for nothing, would put the data where it is: beside a file that would else be too long.
    fn is_outside_as_written(
        &self,
        name: &str,
        homes: &[Home],
        props: &[(String, Vec<u8>)],
        lengths: &[u64],
    ) -> Result<bool> {
        let inside = outside::inside(&self.tensors, None);
        let whole = weights::segments(&self.tensors, &inside.homes, props)?;
        if whole.iter().map(Segment::len).sum::<u64>() <= LONGEST_MESSAGE {
            return Ok(false);
        }
        let large = |number: usize| outside::is_large(&self.tensors[number]);
        let written = outside::outside(&self.tensors, &LayoutRequest::file(name), inside, &large)?;
        let same = |(a, b): (&Home, &Home)| match (a, b) {
            (Home::Outside(a), Home::Outside(b)) => (&a.location, a.offset) == (&b.location, b.offset),
            (a, b) => a == b,
        };
        let places = written.homes.iter().zip(homes).all(same);
        Ok(places && written.files.iter().map(|file| file.len).eq(lengths.iter().copied()))
    }
}

/// Where a tensor's data is now.
fn home(found: &Found) -> Home {
    match &found.proto.data {
        Data::External(reference) => Home::Outside(reference.clone()),
        _ => Home::Inside,
    }
}

/// Where payloads lie in the file, in order.
fn holes(index: &Index) -> Vec<Range> {
    let raw = index.tensors.iter().filter_map(|found| match found.proto.data {
        Data::Raw((start, end)) if end > start => Some((start, end)),
        _ => None,
    });
    raw.collect()
}

/// Whether the file that `scan` reads is `segments`, of which some are kept from `base`.
fn same(segments: &[Segment], base: &[u8], scan: &mut Scan<'_>, index: &Index) -> Result<bool> {
    if segments.iter().map(Segment::len).sum::<u64>() != scan.file_len() {
        return Ok(false);
    }
    let mut at = 0;
    for segment in segments {
        let end = at + segment.len();
        let wanted = match segment {
            Segment::Payload { tensor, .. } => {
                let Data::Raw(there) = index.tensors[*tensor].proto.data else { return Ok(false) };
                if there != (at, end) {
                    return Ok(false);
                }
                &[]
            }
            Segment::Bytes(bytes) => bytes.as_slice(),
            Segment::Keep((start, end)) => {
                let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
                base.get(index(*start)..index(*end)).unwrap_or_default()
            }
        };
        if !scan.holds(at, wanted)? {
            return Ok(false);
        }
        at = end;
    }
    Ok(true)
}

/// What other formats said, if an entry carries it; one that holds something else stays an entry.
fn take_carried(about: &mut About, limits: &Limits, notes: &mut Vec<String>) -> Option<Carried> {
    let (_, text, _) = about.props.iter().find(|(key, ..)| key == carried_metadata::KEY)?;
    let found = Carried::parse(text, FORMAT, &[], limits).ok();
    if found.is_none() {
        notes.push(carried_metadata::UNREAD.to_owned());
    }
    found
}

/// The other files that data lies in.
#[derive(Default)]
struct Files {
    opened: HashMap<String, (FileId, u64)>,
    /// Their lengths, in the order in which they were named.
    lengths: Vec<u64>,
}

impl Files {
    fn open(&mut self, source: &dyn Source, location: &str) -> Result<(FileId, u64)> {
        if let Some(&known) = self.opened.get(location) {
            return Ok(known);
        }
        check_location(location)?;
        let shown = escape(location, 120);
        // `./a` is `a`, as some exporters write it.
        let plain: Vec<_> = location.split('/').filter(|piece| *piece != ".").collect();
        let file = source.sibling(&plain.join("/")).map_err(|e| {
            if e.kind() == ErrorKind::NotFound {
                let message = format!("its data is in `{shown}`, which is missing");
                return Error::not_found(message).hint("put that file next to the model");
            }
            // A source may repeat the name as it stands in the file.
            // What the model names is the model's fault, not the user's.
            let kind = match e.kind() {
                ErrorKind::InvalidArgument => ErrorKind::Malformed,
                kind => kind,
            };
            Error::new(kind, format!("its data is in `{shown}`: {}", escape(e.message(), 400)))
        })?;
        if file == 0 {
            let error = Error::malformed(format!("its data is in `{shown}`, which is the model itself"));
            return Err(error.hint("put the data into a separate file and refer to that"));
        }
        let len = source.len(file)?;
        self.opened.insert(location.to_owned(), (file, len));
        self.lengths.push(len);
        Ok((file, len))
    }
}

impl OpenModel for Opened {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        let place = |error: Error, at: u64| error.at(at).in_file(source.name(self.file));
        sink.foreign_file(FORMAT, "", self.tensors.len() as u64)?;
        for (key, value) in &self.typed {
            sink.foreign(key, value.clone()).map_err(|e| place(e, 0))?;
        }
        if let Some(verbatim) = &self.verbatim {
            sink.verbatim(Bytes::from(verbatim.as_slice()))?;
        }
        if let Some(carried) = &self.carried {
            carried.describe(sink)?;
        }
        for (tensor, &at) in self.tensors.iter().zip(&self.places) {
            let (name, dtype, shape) = (tensor.name.as_str(), tensor.dtype, tensor.shape.as_slice());
            let decl = TensorDecl { name, dtype, shape, payload: tensor.payload.clone() };
            sink.tensor(decl).map_err(|e| place(e, at))?;
        }
        if let Some(derived) = &self.derived {
            sink.fact(Fact::Derived(Bytes::from(derived.to_json().as_bytes())))?;
        }
        self.notes.iter().try_for_each(|note| sink.fact(Fact::Note(note)))
    }

    fn stream(&self, tensor: u64) -> Result<Box<dyn Stream>> {
        match self.numbers.get(&tensor) {
            Some(numbers) => Ok(Box::new(NumberStream::new(numbers)?)),
            None => Err(Error::invalid_argument(format!("tensor {tensor} is not a list of numbers"))),
        }
    }
}
