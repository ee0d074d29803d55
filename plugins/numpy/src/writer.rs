//! Lays a model out as an archive: the bytes that `numpy.savez` writes.

use crate::layout::{self, NPZ, SUFFIX};
use crate::reader::Arrays;
use apr_sdk::{
    Bytes, DType, Error, ForeignPolicy, LayoutRequest, LayoutSink, Limits, Model, Options, PatchSink, Result,
    Writer, Written, checked_payload_len,
};
use apr_zip::{Archive, Skeleton, ZipLayout};
use std::collections::HashMap;

/// The writer of archives.
pub struct Npz;

impl Writer for Npz {
    fn layout(&self, model: &Model, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let record = model.foreign_of(NPZ).and_then(|foreign| match &foreign.files[..] {
            [file] => file.verbatim.as_ref(),
            _ => None,
        });
        let policy = request.foreign;
        let kept = record.filter(|_| !matches!(policy, ForeignPolicy::Typed | ForeignPolicy::Drop));
        if let Some(kept) = kept
            && repeat(model, request, kept, sink)?
        {
            return Ok(());
        }
        let planned = model.tensors.iter().map(|tensor| Planned {
            name: &tensor.name,
            dtype: tensor.dtype,
            shape: &tensor.shape,
        });
        lay_out(sink, &request.file_name, planned)
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        apr_zip::patch(written, sink)
    }
}

/// An array that is to be laid out.
pub struct Planned<'m> {
    /// Its name, without the suffix.
    pub name: &'m str,
    /// Its element type.
    pub dtype: DType,
    /// Its dimensions, outermost first.
    pub shape: &'m [u64],
}

/// Lays out an archive of these arrays; the number of each is its tensor's.
///
/// # Errors
/// Unsupported for an element type or a name that NumPy lacks; whatever the sink raised.
pub fn lay_out<'m>(
    sink: &mut dyn LayoutSink,
    file_name: &str,
    arrays: impl Iterator<Item = Planned<'m>>,
) -> Result<()> {
    sink.file(file_name)?;
    let mut zip = ZipLayout::new().with_zip64_headers();
    for (tensor, array) in (0..).zip(arrays) {
        if array.name.contains('\0') {
            let error = Error::unsupported("NumPy ends names at the first NUL").tensor(array.name);
            return Err(error.hint("rename it"));
        }
        let header = layout::header(array.dtype, array.shape).map_err(|e| e.tensor(array.name))?;
        let len = checked_payload_len(array.dtype, array.shape).map_err(|e| e.tensor(array.name))?;
        let name = format!("{}{SUFFIX}", array.name);
        zip.payload(sink, &name, &header, tensor, len, 1).map_err(|e| e.tensor(array.name))?;
    }
    zip.finish(sink)
}

/// Lays the file out as it was, if its own form still describes the model: the same arrays in the same order.
fn repeat(model: &Model, request: &LayoutRequest, kept: &Bytes, sink: &mut dyn LayoutSink) -> Result<bool> {
    let held = sink.fetch(kept)?;
    let Some(skeleton) = held.inline().and_then(Skeleton::parse) else { return Ok(false) };
    let limits = Limits::default();
    limits.budget.earn(held.len());
    // Which types nameless bytes were given, the kept form does not say: it must describe the model without.
    let opened = Arrays::of_archive(&skeleton, &limits, &Options::new());
    let archive = Archive::open(&skeleton, 0, &limits);
    let (Ok(opened), Ok(archive)) = (opened, archive) else { return Ok(false) };
    let same = opened.arrays().len() == model.tensors.len()
        && opened.arrays().iter().zip(&model.tensors).all(|(array, tensor)| {
            let (dtype, shape) = (array.header.dtype, &array.header.shape);
            (&array.name, dtype, shape) == (&tensor.name, tensor.dtype, &tensor.shape)
        });
    if !same {
        return Ok(false);
    }
    // The numbers of the tensors in the order in which their elements lie.
    let mut numbers = HashMap::with_capacity(opened.arrays().len());
    for (tensor, array) in (0u64..).zip(opened.arrays()) {
        let Some(extent) = array.plain() else { return Ok(false) };
        numbers.insert((extent.offset, extent.len), tensor);
    }
    let order = skeleton.payloads().map(|extent| numbers.get(&(extent.offset, extent.len)).copied());
    let Some(order) = order.collect::<Option<Vec<_>>>() else { return Ok(false) };
    if order.len() != model.tensors.len() {
        return Ok(false);
    }
    sink.file(&request.file_name)?;
    match skeleton.lay_out(sink, Some(&archive), &order)? {
        true => Ok(true),
        false => {
            Err(Error::malformed("the kept form has no place for its checksums").hint("use --foreign typed"))
        }
    }
}
