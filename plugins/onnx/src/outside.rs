//! Files beside the model that hold tensor data.

use crate::external::Reference;
use crate::layout::SMALLEST_EXTERNAL;
use crate::plan::{Base, Home};
use crate::tensor::Data;
use apr_sdk::{Encoding, Error, LayoutRequest, LayoutSink, Model, Result, Tensor, escape, shards};

/// A file beside the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutFile {
    /// Path of the file relative to the model.
    pub name: String,
    /// The tensors in it and where each begins, in the order of that.
    pub tensors: Vec<(usize, u64)>,
    /// Its length, with what follows the last tensor.
    pub len: u64,
}

/// Where the tensors go.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// For each tensor of the model.
    pub homes: Vec<Home>,
    /// The files beside the model.
    pub files: Vec<OutFile>,
    /// The first of the source's files beside the model whose name is not kept.
    pub renamed: Option<String>,
}

/// The name of the model's own file.
pub fn file_name(request: &LayoutRequest) -> String {
    if request.folder || request.file_name.is_empty() {
        return format!("{}.onnx", request.stem);
    }
    request.file_name.clone()
}

/// Tensors inside the model; those of `base` that need not change stay as they are.
pub fn inside(tensors: &[Tensor], base: Option<(&Base, &[usize])>) -> Placement {
    let mut homes = vec![Home::Inside; tensors.len()];
    let Some((base, numbers)) = base else { return Placement { homes, ..Placement::default() } };
    for (found, &number) in base.index.tensors.iter().zip(numbers) {
        let is_outside = matches!(found.proto.data, Data::External(_));
        if !is_outside && base.may_keep(found, &tensors[number]) {
            homes[number] = Home::Kept;
        }
    }
    Placement { homes, ..Placement::default() }
}

/// Puts the tensors that `wanted` chooses outside, behind one another.
///
/// # Errors
/// InvalidArgument for an alignment that is no power of two; Unsupported for more than 2^64 bytes.
pub fn outside(
    tensors: &[Tensor],
    request: &LayoutRequest,
    mut placement: Placement,
    wanted: &dyn Fn(usize) -> bool,
) -> Result<Placement> {
    let align = alignment(request)?;
    let longest = request.max_shard_size.unwrap_or(u64::MAX);
    let mut files: Vec<OutFile> = Vec::new();
    for (number, tensor) in tensors.iter().enumerate().filter(|(number, _)| wanted(*number)) {
        let len = tensor.payload_len()?;
        let too_long =
            || Error::unsupported("an external data file would exceed 2^64 bytes").tensor(&tensor.name);
        let begin = |file: &OutFile| file.len.checked_next_multiple_of(align);
        let fits = |file: &&mut OutFile| {
            shards::takes_another(request, file.tensors.len())
                && begin(file).and_then(|at| at.checked_add(len)).is_some_and(|end| end <= longest)
        };
        let file = match files.last_mut().filter(fits) {
            Some(file) => file,
            None => {
                files.push(OutFile::default());
                files.last_mut().ok_or_else(too_long)?
            }
        };
        let at = begin(file).ok_or_else(too_long)?;
        file.tensors.push((number, at));
        file.len = at.checked_add(len).ok_or_else(too_long)?;
    }
    let (name, count) = (file_name(request), files.len());
    for (n, file) in (1..).zip(&mut files) {
        file.name = numbered(&name, n, count);
        for &(number, offset) in &file.tensors {
            placement.homes[number] =
                Home::Outside(Reference { location: file.name.clone(), offset, ..Reference::default() });
        }
    }
    placement.files = files;
    Ok(placement)
}

/// `MODEL.data`, or of several `MODEL.data-00001-of-00002`.
fn numbered(name: &str, n: usize, count: usize) -> String {
    if count == 1 { format!("{name}.data") } else { format!("{name}.data-{n:05}-of-{count:05}") }
}

/// The alignment that was asked for.
fn alignment(request: &LayoutRequest) -> Result<u64> {
    let align = request.options.integer("external-align").unwrap_or(4096);
    if align.is_power_of_two() {
        return Ok(align);
    }
    Err(Error::invalid_argument(format!("--external-align {align} is not a power of two")))
}

/// Whether a tensor is large enough to be put outside when nobody names it.
pub fn is_large(tensor: &Tensor) -> bool {
    tensor.payload_len().is_ok_and(|len| len >= SMALLEST_EXTERNAL)
}

/// Keeps the tensors outside that `base` has there: in the same places of files as long as before, if all of them are as
/// they were and none overlaps; else anew.
///
/// # Errors
/// As [`outside`].
pub fn keep(
    tensors: &[Tensor],
    request: &LayoutRequest,
    (base, numbers): (&Base, &[usize]),
    mut placement: Placement,
) -> Result<Placement> {
    let mut files: Vec<OutFile> = Vec::new();
    let mut is_outside = vec![false; tensors.len()];
    let mut all_same = true;
    let mut has_checksum = vec![false; tensors.len()];
    for (found, &number) in base.index.tensors.iter().zip(numbers) {
        let Data::External(reference) = &found.proto.data else { continue };
        is_outside[number] = true;
        has_checksum[number] = reference.has_checksum;
        all_same &= base.may_keep(found, &tensors[number]);
        let place = (number, reference.offset);
        match files.iter_mut().find(|file| file.name == reference.location) {
            Some(file) => file.tensors.push(place),
            None => files.push(OutFile { name: reference.location.clone(), tensors: vec![place], len: 0 }),
        }
    }
    if files.is_empty() {
        return Ok(placement);
    }
    let first = files.first().map(|file| file.name.clone());
    if !all_same || !tiles(tensors, &mut files, &base.files) {
        let mut placement = outside(tensors, request, placement, &|number| is_outside[number])?;
        placement.renamed = first.filter(|name| placement.files.iter().all(|file| file.name != *name));
        return Ok(placement);
    }
    let (name, count) = (file_name(request), files.len());
    // Beside a single file only its companions may lie; a folder may have any.
    let companion = |file: &OutFile| {
        file.name.strip_prefix(&name).is_some_and(|rest| rest.starts_with('.') && !rest.contains('/'))
    };
    let plain = |file: &OutFile| file.name != name && !file.name.split('/').any(|piece| piece == ".");
    let own = files.iter().all(|file| plain(file) && (request.folder || companion(file)));
    placement.renamed = first.filter(|_| !own);
    for (n, file) in (1..).zip(&mut files) {
        if !own {
            file.name = numbered(&name, n, count);
        }
        for &(number, offset) in &file.tensors {
            // A checksum that is not computed anew could be wrong: it is not said again.
            placement.homes[number] = if own && !has_checksum[number] {
                Home::Kept
            } else {
                Home::Outside(Reference { location: file.name.clone(), offset, ..Reference::default() })
            };
        }
    }
    placement.files = files;
    Ok(placement)
}

/// Sorts the tensors of each file by their offsets, and says whether none overlaps another or the file's end.
fn tiles(tensors: &[Tensor], files: &mut [OutFile], lengths: &[u64]) -> bool {
    if files.len() != lengths.len() {
        return false;
    }
    for (file, &len) in files.iter_mut().zip(lengths) {
        file.len = len;
        let size = |number: usize| tensors[number].payload_len().unwrap_or(u64::MAX);
        file.tensors.sort_by_key(|&(number, offset)| (offset, size(number)));
        let mut at = 0;
        for &(number, offset) in &file.tensors {
            match offset.checked_add(size(number)) {
                Some(end) if offset >= at && end <= len => at = end,
                _ => return false,
            }
        }
    }
    true
}

/// Writes a file beside the model. What lies between the tensors is zeros.
///
/// # Errors
/// Any error from the sink.
pub fn write(file: &OutFile, sink: &mut dyn LayoutSink) -> Result<()> {
    sink.file(&file.name)?;
    for &(number, offset) in &file.tensors {
        pad_to(offset, sink)?;
        sink.payload(number as u64, 1, Encoding::Raw)?;
    }
    pad_to(file.len, sink)
}

/// Zeros up to `offset`.
fn pad_to(offset: u64, sink: &mut dyn LayoutSink) -> Result<()> {
    match sink.position() {
        Some(at) if at >= offset => Ok(()),
        Some(0) => {
            sink.inline(&[0])?;
            sink.pad_to(offset)
        }
        // The next multiple of the offset itself.
        _ => sink.pad_to(offset),
    }
}

/// The notice of what lies beside the model.
pub fn note(model: &Model, placement: &Placement, sink: &mut dyn LayoutSink) {
    let files = &placement.files;
    if let Some(name) = &placement.renamed {
        let name = escape(name, 120);
        sink.note(&format!(
            "the data from `{name}` is in a file named after the model: when written as a \
             folder, the model keeps the names of its files"
        ));
    }
    let count: usize = files.iter().map(|file| file.tensors.len()).sum();
    if let Some(first) = files.first() {
        let more = match files.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        let (all, name) = (model.tensors.len(), &first.name);
        sink.note(&format!(
            "the data of {count} of {all} tensors is in a separate file, `{name}`{more}: \
             keep the files together"
        ));
    }
}

/// Homes with the places that `base` says spelled out.
pub fn as_said(base: &Base, numbers: &[usize], homes: &[Home]) -> Vec<Home> {
    let mut homes = homes.to_vec();
    for (found, &number) in base.index.tensors.iter().zip(numbers) {
        if let (Home::Kept, Data::External(reference)) = (&homes[number], &found.proto.data) {
            homes[number] = Home::Outside(reference.clone());
        }
    }
    homes
}
