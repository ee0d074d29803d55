//! Lays out a model as an archive or, if it is one tensor, as an array file: byte for byte what `numpy.savez`
//! and `numpy.save` write.

use crate::layout::{self, FOREIGN, NPY, NPZ, SUFFIX};
use crate::reader::Arrays;
use apr_sdk::carried_metadata::Carried;
use apr_sdk::{
    Bytes, CheckedModel, DType, Encoding, Error, ForeignPolicy, LayoutRequest, LayoutSink, Limits, Model,
    Options, PatchSink, Result, Writer, Written, checked_payload_len,
};
use apr_zip::{Archive, HoleNumbers, Skeleton, ZipLayout};
use std::collections::HashMap;

/// The writer of both formats.
pub struct Numpy {
    format: &'static str,
}

impl Numpy {
    /// The writer of this format.
    pub fn new(format: &str) -> Option<Numpy> {
        [NPY, NPZ].into_iter().find(|known| *known == format).map(|format| Numpy { format })
    }
}

impl Writer for Numpy {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let record = model.foreign_of(self.format).and_then(|foreign| match &foreign.files[..] {
            [file] => file.verbatim.as_ref(),
            _ => None,
        });
        let policy = request.foreign;
        let kept = record.filter(|_| !matches!(policy, ForeignPolicy::Typed | ForeignPolicy::Drop));
        let carried = match (self.format, policy) {
            (NPZ, ForeignPolicy::Keep) => Carried::of(model, NPZ, &[], policy, sink)?,
            _ => Carried::default(),
        };
        let name = match request.folder || request.file_name.is_empty() {
            true => format!("{}.{}", request.stem, self.format),
            false => request.file_name.clone(),
        };
        if let Some(kept) = kept
            && self.repeat(model, &name, &carried, kept, sink)?
        {
            return Ok(());
        }
        let planned = model.tensors.iter().map(|tensor| Planned {
            name: &tensor.name,
            dtype: tensor.dtype,
            shape: &tensor.shape,
        });
        match self.format {
            NPY => file(sink, &name, planned),
            _ => archive(sink, &name, planned, carried.text()?.as_deref()),
        }
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

/// Lays out an archive of these arrays; the number of each is its tensor's. Behind them is the array of what other formats
/// said.
///
/// # Errors
/// Unsupported for an element type that NumPy lacks; any error from the sink.
pub fn archive<'m>(
    sink: &mut dyn LayoutSink,
    file_name: &str,
    arrays: impl Iterator<Item = Planned<'m>>,
    foreign: Option<&str>,
) -> Result<()> {
    sink.file(file_name)?;
    let mut zip = ZipLayout::new().with_zip64_headers();
    for (tensor, array) in (0..).zip(arrays) {
        let header = layout::header(array.dtype, array.shape).map_err(|e| e.tensor(array.name))?;
        let len = checked_payload_len(array.dtype, array.shape).map_err(|e| e.tensor(array.name))?;
        let name = format!("{}{SUFFIX}", array.name);
        zip.payload(sink, &name, &header, tensor, len, 1).map_err(|e| e.tensor(array.name))?;
    }
    if let Some(text) = foreign {
        let header = layout::header(DType::U8, &[text.len() as u64])?;
        zip.inline(sink, &format!("{FOREIGN}{SUFFIX}"), &[&header, text.as_bytes()].concat(), 1)?;
    }
    zip.finish(sink)
}

/// Lays out a file of the one array that there is.
///
/// # Errors
/// Unsupported for an element type that NumPy lacks, and unless there is exactly one array; any error from the sink.
pub fn file<'m>(
    sink: &mut dyn LayoutSink,
    file_name: &str,
    mut arrays: impl Iterator<Item = Planned<'m>>,
) -> Result<()> {
    let (Some(array), None) = (arrays.next(), arrays.next()) else {
        return Err(Error::unsupported("a .npy file holds exactly one array").hint("write a .npz file"));
    };
    sink.file(file_name)?;
    sink.inline(&layout::header(array.dtype, array.shape).map_err(|e| e.tensor(array.name))?)?;
    sink.payload(0, 1, Encoding::Raw)
}

impl Numpy {
    /// Lays the file out as it was, if its own form still describes the model: the same arrays in the same order, and the
    /// same of other formats.
    fn repeat(
        &self,
        model: &Model,
        file_name: &str,
        carried: &Carried,
        kept: &Bytes,
        sink: &mut dyn LayoutSink,
    ) -> Result<bool> {
        let held = sink.fetch(kept)?;
        let Some(skeleton) = held.inline().and_then(Skeleton::parse) else { return Ok(false) };
        let limits = Limits::default();
        limits.budget.earn(held.len());
        // Which types nameless bytes were given, the kept form does not say: it must describe the model without.
        let (opened, archive) = match self.format {
            NPY => (Arrays::of_file(&skeleton, &limits, &Options::new()), None),
            _ => {
                let Ok(archive) = Archive::open(&skeleton, 0, &limits) else { return Ok(false) };
                (Arrays::of_archive(&skeleton, &limits, &Options::new()), Some(archive))
            }
        };
        let Ok(opened) = opened else { return Ok(false) };
        let same = opened.arrays().len() == model.tensors.len()
            && opened.carried() == carried
            && opened.arrays().iter().zip(&model.tensors).all(|(array, tensor)| {
                // The only array of a file has the file's name.
                let called = self.format == NPY || array.name == tensor.name;
                called && (array.header.dtype, &array.header.shape) == (tensor.dtype, &tensor.shape)
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
        sink.file(file_name)?;
        match skeleton.lay_out(sink, archive.as_ref(), &order, &mut HoleNumbers::default())? {
            true => Ok(true),
            false => {
                Err(Error::malformed("the kept form has no place for its checksums")
                    .hint("use --foreign typed"))
            }
        }
    }
}
