//! One array: its header, and where its elements are.

use crate::header::Header;
use crate::layout::MAGIC;
use apr_sdk::{Error, Extent, FileId, Limits, Options, Payload, Result, Source, TensorDecl};
use apr_zip::{Entry, Inflate, Method};

/// One array of a file, with its header and its place.
#[derive(Clone, Debug)]
pub struct Array {
    /// The tensor's name.
    pub name: String,
    /// The parsed header: dtype, order, shape.
    pub header: Header,
    /// Where its elements are.
    pub place: Place,
}

/// Where an array's elements are.
#[derive(Clone, Debug)]
pub enum Place {
    /// As they are in the file.
    Stored(Extent),
    /// Behind the header in a deflated entry.
    Deflated(Box<Entry>),
}

impl Array {
    /// Reads the header of an array that takes the whole of `extent`.
    ///
    /// # Errors
    /// As [`Header::read`]; Malformed or Unsupported if the elements do not end with `extent`.
    pub fn stored(
        source: &dyn Source,
        name: String,
        extent: Extent,
        limits: &Limits,
        options: &Options,
    ) -> Result<Array> {
        let mut at = extent.offset;
        let end = extent.end().unwrap_or(u64::MAX);
        let fill = |out: &mut [u8]| {
            let len = out.len() as u64;
            if len > end - at {
                return Err(cut(len, end - at).at(at));
            }
            source.read_at(extent.file, at, out)?;
            limits.budget.earn(len);
            at += len;
            Ok(())
        };
        let header = Header::read(fill, extent.offset, limits, options)?;
        let payload = Extent::new(extent.file, extent.offset + header.len, header.payload_len);
        let left = extent.len - header.len;
        if header.payload_len > left {
            return Err(cut(header.payload_len, left).at(payload.offset));
        }
        if header.payload_len < left {
            return Err(more(source, extent.file, payload.offset + payload.len, left - header.payload_len));
        }
        Ok(Array { name, header, place: Place::Stored(payload) })
    }

    /// Reads the header of an array in a deflated entry.
    ///
    /// # Errors
    /// As [`Array::stored`].
    pub fn deflated(
        source: &dyn Source,
        name: String,
        entry: &Entry,
        limits: &Limits,
        options: &Options,
    ) -> Result<Array> {
        let mut inflate = Inflate::new(entry);
        let fill = |out: &mut [u8]| {
            limits.budget.earn(out.len() as u64);
            inflate.fill(source, out)
        };
        // Offsets in deflated data mean nothing to anyone: all are the entry's.
        let header = Header::read(fill, entry.data.offset, limits, options)?;
        let left = entry.raw_len - header.len;
        if header.payload_len != left {
            let message = format!("expected {} bytes of elements, found {left}", header.payload_len);
            return Err(Error::malformed(message).at(entry.data.offset));
        }
        Ok(Array { name, header, place: Place::Deflated(Box::new(entry.clone())) })
    }

    /// Reads the header of an array in an archive's entry; `None` if the entry is none.
    ///
    /// # Errors
    /// As [`Array::stored`].
    pub fn of_entry(
        source: &dyn Source,
        entry: &Entry,
        limits: &Limits,
        options: &Options,
    ) -> Result<Option<Array>> {
        let name = entry.name.strip_suffix(crate::layout::SUFFIX).unwrap_or(&entry.name).to_owned();
        let mut magic = [0; MAGIC.len()];
        if entry.raw_len < magic.len() as u64 {
            return Ok(None);
        }
        match entry.method {
            Method::Stored => source.read_at(entry.data.file, entry.data.offset, &mut magic)?,
            Method::Deflated => Inflate::new(entry).fill(source, &mut magic)?,
        }
        if magic != MAGIC {
            return Ok(None);
        }
        let array = match entry.method {
            Method::Stored => Array::stored(source, name, entry.data, limits, options),
            Method::Deflated => Array::deflated(source, name, entry, limits, options),
        };
        array.map(Some)
    }

    /// What the host is told of it.
    pub fn decl(&self) -> TensorDecl<'_> {
        let payload = match &self.place {
            Place::Stored(extent) => Payload::Extent { extent: *extent, view: self.header.view() },
            Place::Deflated(_) => Payload::Sequential,
        };
        TensorDecl { name: &self.name, dtype: self.header.dtype, shape: &self.header.shape, payload }
    }

    /// The elements as they lie, behind the header. For short arrays only.
    ///
    /// # Errors
    /// Any error from the source; LimitExceeded.
    pub fn elements(&self, source: &dyn Source, limits: &Limits) -> Result<Vec<u8>> {
        let len = self.header.payload_len;
        limits.budget.earn(len);
        limits.budget.charge(len)?;
        let mut elements = vec![0; usize::try_from(len).unwrap_or_default()];
        match &self.place {
            Place::Stored(extent) => source.read_at(extent.file, extent.offset, &mut elements)?,
            Place::Deflated(entry) => {
                Inflate::new(entry).skipping(self.header.len).fill(source, &mut elements)?;
            }
        }
        Ok(elements)
    }

    /// The extent of elements that lie as they are to be written.
    pub fn plain(&self) -> Option<Extent> {
        match self.place {
            Place::Stored(extent) if self.header.view().is_none() => Some(extent),
            _ => None,
        }
    }
}

fn cut(wanted: u64, left: u64) -> Error {
    Error::malformed(format!("expected {wanted} bytes, only {left} are left"))
        .hint("get the file again: it is truncated or corrupt")
}

fn more(source: &dyn Source, file: FileId, at: u64, len: u64) -> Error {
    let mut magic = [0; MAGIC.len()];
    let another = len >= magic.len() as u64 && source.read_at(file, at, &mut magic).is_ok() && magic == MAGIC;
    match another {
        true => Error::unsupported("a second array follows the first, but a file is read as one array")
            .hint("save the arrays with numpy.savez"),
        false => Error::malformed(format!("{len} extra bytes after the array's elements")),
    }
    .at(at)
}
