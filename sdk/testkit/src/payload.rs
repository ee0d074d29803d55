//! Reads a tensor's payload the way the host does: decoded, row-major, little-endian.

use apr_sdk::{
    BlockAt, BlockSink, Codec, DType, Endian, Error, Extent, Model, OpenModel, Payload, Result, Source,
    Tensor, View,
};

/// The longest payload that is read into memory. 1 GiB: fixtures are far smaller, and a damaged file that claims more
/// (a view that repeats one byte, a stream without end) must not fill the machine.
const LONGEST: u64 = 1 << 30;

/// The payload of tensor number `index` of `model`, which `open` described, as it crosses to a writer: decoded,
/// row-major, little-endian.
///
/// # Errors
/// Malformed if the blocks or the stream do not give exactly the payload's length, or lie outside their file; whatever
/// the plugin or the source raised.
pub fn payload(open: &dyn OpenModel, model: &Model, index: usize, source: &dyn Source) -> Result<Vec<u8>> {
    let tensor = model
        .tensors
        .get(index)
        .ok_or_else(|| Error::invalid_argument(format!("tensor {index} does not exist")))?;
    let len = tensor.payload_len()?;
    if len > LONGEST {
        return Err(Error::limit(format!("a payload of {len} bytes, more than the limit of {LONGEST} here"))
            .tensor(&tensor.name));
    }
    let read = match &tensor.payload {
        Payload::Extent { extent, view } => from_extent(tensor, *extent, view.as_ref(), len, source),
        Payload::Blocks { codec } => from_blocks(open, index as u64, codec, len, source),
        Payload::Sequential => from_stream(open, index as u64, len, source),
        other => Err(Error::unsupported(format!("payload of an unknown kind: {other:?}"))),
    };
    read.map_err(|e| e.tensor(&tensor.name))
}

/// The bytes of `extent`, after the check that they lie in their file.
pub(crate) fn read_extent(extent: Extent, source: &dyn Source) -> Result<Vec<u8>> {
    let len = source.len(extent.file)?;
    if extent.end().is_none_or(|end| end > len) {
        let message = format!("expected at least {} bytes, but the file ends at {len}", extent.len);
        return Err(Error::malformed(message).at(extent.offset).in_file(source.name(extent.file)));
    }
    let mut bytes = vec![0; size(extent.len)?];
    source.read_at(extent.file, extent.offset, &mut bytes)?;
    Ok(bytes)
}

/// The places of the payloads: file, start, end. Streams are nowhere.
pub(crate) fn stored_extents(
    model: &Model,
    open: &dyn OpenModel,
    source: &dyn Source,
) -> Result<Vec<(u32, u64, u64)>> {
    let mut extents = Vec::new();
    for (tensor, facts) in (0..).zip(&model.tensors) {
        match &facts.payload {
            Payload::Extent { extent, .. } => extents.push(*extent),
            Payload::Blocks { .. } => {
                let mut blocks = Blocks { found: Vec::new(), raw: 0, len: facts.payload_len()?, source };
                open.blocks(source, tensor, &mut blocks)?;
                extents.extend(blocks.found.iter().map(|(extent, _)| *extent));
            }
            _ => {}
        }
    }
    Ok(extents.iter().filter_map(|extent| Some((extent.file, extent.offset, extent.end()?))).collect())
}

fn size(len: u64) -> Result<usize> {
    usize::try_from(len).map_err(|_| Error::limit(format!("{len} bytes do not fit in this machine's memory")))
}

fn from_extent(
    tensor: &Tensor,
    extent: Extent,
    view: Option<&View>,
    len: u64,
    source: &dyn Source,
) -> Result<Vec<u8>> {
    let stored = read_extent(extent, source)?;
    let Some(view) = view else { return exact(stored, len) };
    let mut bytes =
        if view.strides.is_empty() { exact(stored, len)? } else { gather(tensor, view, &stored, len)? };
    if view.endian == Endian::Big {
        swap(tensor.dtype, &mut bytes)?;
    }
    Ok(bytes)
}

fn exact(bytes: Vec<u8>, len: u64) -> Result<Vec<u8>> {
    if bytes.len() as u64 == len {
        return Ok(bytes);
    }
    Err(Error::malformed(format!(
        "the payload has {} bytes, but its dtype and shape require {len}",
        bytes.len()
    )))
}

fn outside(stored: &[u8]) -> Error {
    Error::malformed(format!("a view extends past its {} bytes", stored.len()))
}

/// Collects the elements of a strided view in row-major order.
fn gather(tensor: &Tensor, view: &View, stored: &[u8], len: u64) -> Result<Vec<u8>> {
    let width = u64::from(tensor.dtype.require()?.block_bytes);
    let mut out = Vec::with_capacity(size(len)?);
    let mut index = vec![0; tensor.shape.len()];
    while (out.len() as u64) < len {
        let mut steps = index.iter().zip(&view.strides);
        let at = steps
            .try_fold(view.start, |at, (&i, &stride): (&u64, &u64)| at.checked_add(i.checked_mul(stride)?));
        let start = at.and_then(|at| at.checked_mul(width)).ok_or_else(|| outside(stored))?;
        let end = start.checked_add(width).ok_or_else(|| outside(stored))?;
        out.extend_from_slice(stored.get(size(start)?..size(end)?).ok_or_else(|| outside(stored))?);
        for (i, &dim) in index.iter_mut().zip(&tensor.shape).rev() {
            *i += 1;
            if *i < dim {
                break;
            }
            *i = 0;
        }
    }
    Ok(out)
}

/// Reverses every multi-byte field of every block.
fn swap(dtype: DType, bytes: &mut [u8]) -> Result<()> {
    let info = dtype.require()?;
    for block in bytes.chunks_exact_mut(info.block_bytes as usize) {
        for field in info.swap {
            let start = usize::from(field.offset);
            let width = usize::from(field.width);
            let fields = &mut block[start..start + width * usize::from(field.count)];
            fields.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        }
    }
    Ok(())
}

/// Collects a tensor's blocks and refuses those that pass its length or their file.
struct Blocks<'a> {
    found: Vec<(Extent, u64)>,
    raw: u64,
    len: u64,
    source: &'a dyn Source,
}

impl BlockSink for Blocks<'_> {
    fn block(&mut self, stored: Extent, raw_len: u64) -> Result<()> {
        let file = self.source.len(stored.file)?;
        if stored.end().is_none_or(|end| end > file) {
            return Err(Error::malformed(format!("a block extends past the end of the file ({file} bytes)"))
                .at(stored.offset));
        }
        let raw = self.raw.checked_add(raw_len).filter(|&n| n <= self.len && raw_len > 0);
        let Some(raw) = raw else {
            let message = format!("blocks of more than the payload's {} bytes, or an empty one", self.len);
            return Err(Error::malformed(message).at(stored.offset));
        };
        self.raw = raw;
        self.found.push((stored, raw_len));
        Ok(())
    }
}

fn from_blocks(
    open: &dyn OpenModel,
    tensor: u64,
    codec: &Codec,
    len: u64,
    source: &dyn Source,
) -> Result<Vec<u8>> {
    let mut blocks = Blocks { found: Vec::new(), raw: 0, len, source };
    open.blocks(source, tensor, &mut blocks)?;
    let mut out = Vec::new();
    for (block, (stored, raw_len)) in (0..).zip(blocks.found) {
        let stored = read_extent(stored, source)?;
        let mut raw = vec![0; size(raw_len)?];
        open.decode(codec, BlockAt { tensor, block }, &stored, &mut raw)?;
        out.append(&mut raw);
    }
    exact(out, len)
}

fn from_stream(open: &dyn OpenModel, tensor: u64, len: u64, source: &dyn Source) -> Result<Vec<u8>> {
    let mut stream = open.stream(tensor)?;
    let mut out = Vec::new();
    // An odd size, so that a stream which only gives whole elements is noticed.
    let mut piece = [0; 4099];
    loop {
        let n = stream.read(source, &mut piece)?;
        let bytes = piece.get(..n).ok_or_else(|| {
            Error::plugin(format!("a stream returned {n} bytes for a buffer of {}", piece.len()))
        })?;
        out.extend_from_slice(bytes);
        if n == 0 || out.len() as u64 > len {
            return exact(out, len);
        }
    }
}
