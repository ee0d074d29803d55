//! Plans where tensor data goes, and how an existing graph is rewritten around it.

use crate::about::{About, SCALARS};
use crate::edit::{Edit, Segment, apply};
use crate::external::Reference;
use crate::fields;
use crate::layout::{model, tensor, wire};
use crate::scan::Scan;
use crate::tensor::{Data, check_len};
use crate::walk::{Found, Frame, Index, walk};
use apr_sdk::{Limits, Result, Source, Tensor, Value};

/// Where a tensor's data goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// Where it was, in this file or another: its message stays as it is.
    Kept,
    /// Into its message, as `raw_data`.
    Inside,
    /// Into another file.
    Outside(Reference),
}

impl Home {
    /// The records that hold the data of tensor number `number`, or say where it is.
    pub fn data(&self, number: usize, len: u64) -> Vec<Segment> {
        match self {
            Home::Outside(to) => vec![Segment::Bytes(fields::reference(to, len))],
            _ => {
                let mut head = Vec::new();
                fields::head(&mut head, tensor::RAW_DATA, len);
                vec![Segment::Bytes(head), Segment::Payload { tensor: number, len }]
            }
        }
    }
}

/// A graph that is written again: a file without payloads, or its typed form.
pub struct Base {
    /// Its bytes.
    pub source: Box<dyn Source>,
    /// The tensors and places found in the model.
    pub index: Index,
    /// What it says of itself.
    pub about: About,
    /// The lengths of the files that its data lies in.
    pub files: Vec<u64>,
    /// Whether it is a file, whose tensors have places: not the typed form.
    has_data: bool,
}

impl Base {
    /// Walks the bytes of a file, from which payloads may have been cut.
    ///
    /// # Errors
    /// As [`walk`].
    pub fn of_file(source: Box<dyn Source>, files: Vec<u64>, limits: &Limits) -> Result<Base> {
        Base::new(source, files, true, limits)
    }

    /// Walks the bytes of a graph's typed form.
    ///
    /// # Errors
    /// As [`walk`].
    pub fn of_graph(graph: Box<dyn Source>, limits: &Limits) -> Result<Base> {
        Base::new(graph, Vec::new(), false, limits)
    }

    fn new(source: Box<dyn Source>, files: Vec<u64>, has_data: bool, limits: &Limits) -> Result<Base> {
        let mut scan = Scan::new(&*source, 0, limits)?;
        let index = walk(&mut scan)?;
        let about = About::read(&mut scan, &index)?;
        Ok(Base { source, index, about, files, has_data })
    }

    /// Whether a tensor's message says of the model's tensor what is to be said, so that it may stay.
    pub fn may_keep(&self, found: &Found, facts: &Tensor) -> bool {
        self.has_data && is_same(found, facts)
    }
}

fn is_same(found: &Found, facts: &Tensor) -> bool {
    let proto = &found.proto;
    let plain = !matches!(proto.data, Data::Typed(_) | Data::Strings);
    let same = proto.dtype().is_ok_and(|dtype| dtype == facts.dtype) && proto.dims == facts.shape;
    plain && same && check_len(proto).is_ok()
}

/// What a written graph says of itself.
pub struct Said<'a> {
    /// The scalar records, by their number in [`SCALARS`], in that order.
    pub scalars: &'a [(usize, Value)],
    /// The entries of `metadata_props`.
    pub props: &'a [(String, Vec<u8>)],
}

/// The file of a graph with the model's tensors: `numbers` says which of `tensors` each of the base's is, `homes` where
/// the data of each of `tensors` goes.
///
/// # Errors
/// Unsupported for a type that the format lacks.
pub fn rewrite(
    base: &Base,
    tensors: &[Tensor],
    numbers: &[usize],
    homes: &[Home],
    said: &Said<'_>,
) -> Result<Vec<Segment>> {
    let mut edits = Vec::new();
    for (found, &number) in base.index.tensors.iter().zip(numbers) {
        tensor_edits(found, (number, &tensors[number]), &homes[number], &mut edits)?;
    }
    let file_len = base.source.len(0)?;
    scalar_edits(&base.about, said.scalars, &mut edits);
    prop_edits(&base.about, said.props, file_len, &mut edits);
    let frames: &[Frame] = &base.index.frames;
    apply(frames, file_len, edits)
}

fn tensor_edits(
    found: &Found,
    (number, facts): (usize, &Tensor),
    home: &Home,
    edits: &mut Vec<Edit>,
) -> Result<()> {
    let proto = &found.proto;
    let frame = Some(found.frame);
    let len = facts.payload_len()?;
    let payload = Segment::Payload { tensor: number, len };
    if *home == Home::Kept {
        match &proto.data {
            Data::Raw((start, end)) => {
                edits.push(Edit { at: *start, cut: end - start, put: vec![payload], frame });
            }
            Data::Absent => edits.push(Edit { at: proto.body.0, cut: 0, put: vec![payload], frame }),
            _ => {}
        }
        return Ok(());
    }
    // In the order of the fields' numbers, as other writers have it: the data comes behind the name.
    let start = proto.body.0;
    let data =
        Edit { at: proto.name_at.map_or(start, |name| name.1), cut: 0, put: home.data(number, len), frame };
    edits.push(Edit::put(start, fields::tensor_head(facts)?, frame));
    edits.push(data);
    edits.extend(proto.facts.iter().map(|&range| Edit::cut(range, frame)));
    Ok(())
}

/// Scalar records that differ are cut, and put where the first of them stood, or at the beginning.
fn scalar_edits(about: &About, wanted: &[(usize, Value)], edits: &mut Vec<Edit>) {
    for (number, &(_, field, kind)) in SCALARS.iter().enumerate() {
        let there = about.scalars.iter().find(|(n, ..)| *n == number);
        let want = wanted.iter().find(|(n, _)| *n == number).map(|(_, value)| value);
        if there.map(|(_, value, _)| value) == want {
            continue;
        }
        let places = there.map(|(.., places)| places.as_slice()).unwrap_or_default();
        if let Some(value) = want {
            let mut record = Vec::new();
            match kind {
                wire::VARINT => {
                    let bits = u64::from_le_bytes(value.as_i64().unwrap_or_default().to_le_bytes());
                    fields::number(&mut record, field, bits);
                }
                _ => fields::bytes(&mut record, field, value.as_bytes().unwrap_or_default()),
            }
            edits.push(Edit::put(places.first().map_or(0, |place| place.0), record, None));
        }
        edits.extend(places.iter().map(|&place| Edit::cut(place, None)));
    }
}

/// Entries of `metadata_props` that differ are all cut, and put where the first stood, or at the end.
fn prop_edits(about: &About, wanted: &[(String, Vec<u8>)], file_len: u64, edits: &mut Vec<Edit>) {
    let there = &about.props;
    // Where the entry that carries other formats' metadata stands among them says nothing.
    let mut order: Vec<_> = there.iter().map(|(key, value, _)| (key, value)).collect();
    order.sort_by_key(|(key, _)| *key == apr_sdk::carried_metadata::KEY);
    if order.into_iter().eq(wanted.iter().map(|(key, value)| (key, value))) {
        return;
    }
    let mut records = Vec::new();
    for (key, value) in wanted {
        fields::entry(&mut records, model::METADATA_PROPS, key.as_bytes(), value);
    }
    let places = || there.iter().flat_map(|(.., places)| places);
    edits.push(Edit::put(places().next().map_or(file_len, |place| place.0), records, None));
    edits.extend(places().map(|&place| Edit::cut(place, None)));
}
