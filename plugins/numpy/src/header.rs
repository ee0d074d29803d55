//! The header before an array's elements.

use crate::descr::Element;
use crate::layout::{MAGIC, MAX_HEADER_LEN, PREFIX_LEN, VERSIONS};
use crate::literal;
use apr_sdk::{DType, Endian, Error, Limits, Options, Result, View, checked_elements, checked_payload_len};

/// A parsed header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The elements' type.
    pub dtype: DType,
    /// The dimensions, outermost first.
    pub shape: Vec<u64>,
    /// The dimensions that are stored in reverse, so that the first one runs fastest; the others follow row-major.
    pub reversed: usize,
    /// The elements' byte order.
    pub endian: Endian,
    /// Whether the file leaves the byte order to the machine that wrote it.
    pub native: bool,
    /// Bytes before the elements.
    pub len: u64,
    /// Bytes of the elements.
    pub payload_len: u64,
}

impl Header {
    /// Reads a header from an array's first bytes: `fill` gives the next ones, `start` is where they lie in the file.
    ///
    /// # Errors
    /// Malformed, Unsupported or LimitExceeded with the offset; any error from `fill`.
    pub fn read(
        fill: impl FnMut(&mut [u8]) -> Result<()>,
        start: u64,
        limits: &Limits,
        options: &Options,
    ) -> Result<Header> {
        let (text, before) = Header::text(fill, start, limits)?;
        Header::parse(&text, start + before, before + text.len() as u64, limits, options)
    }

    /// The header's text, and the bytes before it.
    ///
    /// # Errors
    /// As [`Header::read`], of what stands before the text.
    pub fn text(
        mut fill: impl FnMut(&mut [u8]) -> Result<()>,
        start: u64,
        limits: &Limits,
    ) -> Result<(Vec<u8>, u64)> {
        let mut prefix = [0; PREFIX_LEN];
        fill(&mut prefix)?;
        let version = prefix.strip_prefix(&MAGIC);
        let version =
            version.ok_or_else(|| Error::malformed("the magic of an array file is missing").at(start))?;
        if !VERSIONS.iter().any(|known| known == version) {
            let message =
                format!("version {}.{} of the array format is not supported", version[0], version[1]);
            return Err(Error::unsupported(message).at(start + MAGIC.len() as u64));
        }
        let mut number = [0; 4];
        let width = if version[0] == 1 { 2 } else { 4 };
        fill(&mut number[..width])?;
        let text_len = u64::from(u32::from_le_bytes(number));
        let at = start + PREFIX_LEN as u64;
        if text_len > MAX_HEADER_LEN {
            let message = format!("a header of {text_len} bytes exceeds the limit of {MAX_HEADER_LEN}");
            return Err(Error::limit(message).at(at));
        }
        limits.budget.charge(text_len)?;
        let mut text = vec![0; usize::try_from(text_len).unwrap_or_default()];
        fill(&mut text)?;
        Ok((text, (PREFIX_LEN + width) as u64))
    }

    fn parse(text: &[u8], start: u64, len: u64, limits: &Limits, options: &Options) -> Result<Header> {
        let fields = literal::parse(text, start)?;
        let (descr, descr_at) = fields.descr;
        let element = Element::parse(&descr, options).map_err(|e| e.at(descr_at))?;
        let (mut shape, shape_at) = fields.shape;
        let dims = shape.len() + usize::from(element.opaque.is_some_and(|width| width > 1));
        if dims > limits.dims {
            let message = format!("{dims} dimensions exceed the limit of {}", limits.dims);
            return Err(Error::limit(message).at(shape_at));
        }
        let reversed = if fields.fortran_order { shape.len() } else { 0 };
        shape.extend(element.opaque.filter(|&width| width > 1));
        let payload_len = checked_payload_len(element.dtype, &shape).map_err(|e| e.at(shape_at))?;
        Ok(Header {
            dtype: element.dtype,
            shape,
            reversed,
            endian: element.endian,
            native: element.native,
            len,
            payload_len,
        })
    }

    /// How the host gathers the elements; `None` if they lie row-major and little-endian.
    pub fn view(&self) -> Option<View> {
        let swapped = self.endian == Endian::Big && self.dtype.info().is_some_and(|row| !row.swap.is_empty());
        let strides = self.strides();
        (swapped || !strides.is_empty()).then_some(View {
            strides,
            start: 0,
            endian: if swapped { Endian::Big } else { Endian::Little },
        })
    }

    /// The distances of neighbours, in elements; empty where that is the order in which they lie anyway.
    pub fn strides(&self) -> Vec<u64> {
        let long = self.shape[..self.reversed].iter().filter(|&&dim| dim > 1).count();
        // Nothing to reorder in a vector, or where there is no element.
        if long < 2 || self.payload_len == 0 {
            return Vec::new();
        }
        let (stored_first, inner) = self.shape.split_at(self.reversed);
        let mut strides = Vec::with_capacity(self.shape.len());
        // The products are below the element count, which was checked.
        let mut stride = checked_elements(inner).unwrap_or(1);
        for dim in stored_first {
            strides.push(stride);
            stride = stride.saturating_mul(*dim);
        }
        for n in 1..=inner.len() {
            strides.push(checked_elements(&inner[n..]).unwrap_or(1));
        }
        strides
    }
}
