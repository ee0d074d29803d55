//! The verbatim form: a file's bytes except its payloads, with their CRC-32s as holes. It is used if the
//! reader, given this form, finds exactly the model that is about to be written.

use crate::layout::{FORMAT, UNMARKED};
use crate::plan::Plan;
use crate::reader::File;
use crate::writer::{own_values, write_file};
use apr_sdk::carried_metadata::Carried;
use apr_sdk::{
    Bytes, Endian, Extent, FileId, ForeignPolicy, LayoutSink, Limits, Model, ModelBuilder, Payload, Result,
    Source, Tensor, Value,
};
use apr_zip::{Archive, HoleNumbers, Laid, Skeleton, ZipLayout};
use std::collections::{HashMap, HashSet};

/// The extents of a model's payloads, if each is plain bytes as they are written.
fn plain(model: &Model) -> Option<Vec<Extent>> {
    let extent = |tensor: &Tensor| match tensor.payload {
        Payload::Extent { extent, view: None } => Some(extent),
        _ => None,
    };
    model.tensors.iter().map(extent).collect()
}

/// How a file comes back.
pub enum Kept {
    /// As the writer lays it out: the same bytes, or it says what differs.
    Own,
    /// By its verbatim form.
    Form(Bytes),
    /// As another file with the same tensors, because these are like this.
    Not(&'static str),
}

/// The verbatim form of the file that described `model`, if it needs one and the writer can place the payloads as they are.
///
/// # Errors
/// LimitExceeded; any error from the source.
pub fn of_file(source: &dyn Source, file: FileId, model: &Model, limits: &Limits) -> Result<Kept> {
    let Some(extents) = plain(model) else { return Ok(Kept::Not(unlike(model))) };
    let Some(skeleton) = Skeleton::take(source, file, &extents, limits)? else {
        // The writer tells of tensors with the very same bytes.
        let mut seen = HashSet::new();
        let is_tied = extents.iter().any(|extent| !seen.insert((extent.offset, extent.len)));
        return Ok(if is_tied { Kept::Own } else { Kept::Not("share bytes") });
    };
    if is_own(model, &skeleton)? {
        return Ok(Kept::Own);
    }
    let bytes = skeleton.to_bytes();
    limits.budget.charge(bytes.len() as u64)?;
    Ok(Kept::Form(bytes.into()))
}

/// In which way payloads are not plain bytes as they are written.
fn unlike(model: &Model) -> &'static str {
    let is_swapped = |tensor: &Tensor| match &tensor.payload {
        Payload::Extent { view: Some(view), .. } => view.endian == Endian::Big,
        _ => false,
    };
    if model.tensors.iter().any(|tensor| !matches!(tensor.payload, Payload::Extent { .. })) {
        "are compressed"
    } else if model.tensors.iter().any(is_swapped) {
        "are big-endian"
    } else {
        "are views of storages in a different order"
    }
}

/// Whether the writer would lay `model` out as this very file.
fn is_own(model: &Model, skeleton: &Skeleton) -> Result<bool> {
    // Its archives have no descriptors: bit 3 of the flags of the first header.
    let mut head = [0; 8];
    if skeleton.len(0)? < 8 || skeleton.read_at(0, 0, &mut head).is_err() || head[6] & 8 != 0 {
        return Ok(false);
    }
    let lens = model.tensors.iter().map(Tensor::payload_len).collect::<Result<Vec<_>>>()?;
    let mut laid = Laid::new(lens);
    let all: Vec<usize> = (0..model.tensors.len()).collect();
    laid.file("model")?;
    let carried = Carried::of(model, FORMAT, &UNMARKED, ForeignPolicy::Default, &mut laid)?;
    let plan = Plan::new(model, &all, own_values(model), carried, &mut laid)?;
    let written = write_file(model, &plan, &mut ZipLayout::new(), &mut laid);
    Ok(written.is_ok() && laid.is(skeleton))
}

/// What a file is to say.
pub struct Wanted<'m> {
    /// The model to be written.
    pub model: &'m Model,
    /// The numbers of the file's tensors.
    pub tensors: &'m [usize],
    /// The values of its record.
    pub typed: &'m [(String, Value)],
    /// What other formats say.
    pub carried: &'m Carried,
}

/// Lays the file out again from its verbatim form, if that still says what is about to be written. `holes` numbers the
/// holes of all files.
///
/// # Errors
/// Any error from the sink.
pub fn lay_out(
    wanted: &Wanted<'_>,
    form: &Bytes,
    holes: &mut HoleNumbers,
    sink: &mut dyn LayoutSink,
) -> Result<bool> {
    let Wanted { model, tensors, typed, carried } = *wanted;
    let held = sink.fetch(form)?;
    let Some(skeleton) = held.inline().and_then(Skeleton::parse) else { return Ok(false) };
    let limits = Limits::default();
    limits.budget.earn(held.len());
    let Some(said) = described(&skeleton, &limits) else { return Ok(false) };
    let by_name: HashMap<&str, (usize, &Tensor)> =
        tensors.iter().map(|&n| (model.tensors[n].name.as_str(), (n, &model.tensors[n]))).collect();
    let same = said.tensors.len() == tensors.len()
        && said.tensors.iter().all(|tensor| {
            let there = by_name.get(tensor.name.as_str());
            there.is_some_and(|(_, there)| (there.dtype, &there.shape) == (tensor.dtype, &tensor.shape))
        });
    let there = Carried::of(&said, FORMAT, &UNMARKED, ForeignPolicy::Default, sink)?;
    let same_formats = (&there.dialect, &there.formats) == (&carried.dialect, &carried.formats);
    if !same || own_values(&said) != typed || !same_formats {
        return Ok(false);
    }
    let Some(extents) = plain(&said) else { return Ok(false) };
    let mut order: Vec<(u64, u64, u64)> = Vec::with_capacity(extents.len());
    for (extent, tensor) in extents.iter().zip(&said.tensors) {
        let number = by_name.get(tensor.name.as_str()).map_or(0, |(n, _)| *n);
        order.push((extent.offset, extent.len, number as u64));
    }
    order.sort_unstable();
    let places = order.iter().map(|&(offset, len, _)| (offset, len));
    if !places.eq(skeleton.payloads().map(|extent| (extent.offset, extent.len))) {
        return Ok(false);
    }
    let archive = Archive::open(&skeleton, 0, &limits).ok();
    let tensors: Vec<u64> = order.into_iter().map(|(.., number)| number).collect();
    skeleton.lay_out(sink, archive.as_ref(), &tensors, holes)
}

/// The model that the reader finds in a file without its payloads.
fn described(skeleton: &Skeleton, limits: &Limits) -> Option<Model> {
    let file = File::open(skeleton, 0, String::new(), None, limits).ok()?;
    let len = skeleton.len(0).ok()?;
    let file_len = |_| Ok(len);
    let mut builder = ModelBuilder::new(FORMAT, limits, &file_len);
    file.describe_plain(&mut builder).ok()?;
    Some(builder.finish())
}
