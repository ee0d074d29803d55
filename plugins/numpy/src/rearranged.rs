//! Reads a deflated array in row-major, little-endian order.
//!
//! Deflated data can only be read sequentially. If the file's order differs from the tensor's, each piece of
//! the result takes a separate pass over all of it: slow for large arrays, but bounded in memory.

use crate::header::Header;
use apr_sdk::{DType, Endian, Result, Source, Stream};
use apr_zip::{Entry, Inflate};

/// The most bytes of a result that are collected in one pass.
const PIECE: u64 = 16 << 20;

/// Bytes that are inflated at once.
const INPUT: usize = 64 * 1024;

/// The elements in the tensor's order.
pub struct Rearranged {
    entry: Box<Entry>,
    header: Header,
    /// In the order in which they lie in the file, the fastest first: each dimension, and the distance of its neighbours in
    /// the result, in elements.
    dims: Vec<(u64, u64)>,
    width: usize,
    /// The bytes of the result that were collected before `piece`.
    done: u64,
    piece: Vec<u8>,
    piece_at: usize,
}

/// A stream of a deflated array's elements.
pub fn stream(entry: &Entry, header: &Header) -> Box<dyn Stream> {
    if header.view().is_none() {
        return Box::new(Inflate::new(entry).skipping(header.len));
    }
    let mut stride = 1u64;
    let mut dims: Vec<_> = header
        .shape
        .iter()
        .rev()
        .map(|&dim| {
            let this = (dim, stride);
            stride = stride.saturating_mul(dim);
            this
        })
        .collect();
    // Outermost first, as the shape is; those that are stored in reverse begin with the first one, behind the others.
    dims.reverse();
    let inner = dims.split_off(if header.strides().is_empty() { 0 } else { header.reversed });
    let order = inner.into_iter().rev().chain(dims).collect();
    Box::new(Rearranged {
        entry: Box::new(entry.clone()),
        header: header.clone(),
        dims: order,
        width: header.dtype.info().map_or(1, |row| row.block_bytes as usize),
        done: 0,
        piece: Vec::new(),
        piece_at: 0,
    })
}

impl Rearranged {
    /// Collects the next piece of the result.
    fn collect(&mut self, source: &dyn Source) -> Result<()> {
        self.done += self.piece.len() as u64;
        let width = self.width as u64;
        let len = (self.header.payload_len - self.done).min(PIECE / width * width);
        self.piece.clear();
        self.piece.resize(usize::try_from(len).unwrap_or_default(), 0);
        self.piece_at = 0;
        let (first, last) = (self.done / width, (self.done + len) / width);
        let mut inflate = Inflate::new(&self.entry).skipping(self.header.len);
        let mut input = vec![0; INPUT / self.width * self.width];
        let mut place = Place::new(&self.dims);
        while inflate.left() > 0 {
            let take = usize::try_from(inflate.left()).unwrap_or(usize::MAX).min(input.len());
            inflate.fill(source, &mut input[..take])?;
            for element in input[..take].chunks_exact(self.width) {
                if (first..last).contains(&place.element) {
                    let at = usize::try_from(place.element - first).unwrap_or_default() * self.width;
                    self.piece[at..at + self.width].copy_from_slice(element);
                }
                place.advance(&self.dims);
            }
            if source.cancelled() {
                return Err(apr_sdk::Error::cancelled("stopped"));
            }
        }
        if self.header.endian == Endian::Big {
            swap(&mut self.piece, self.header.dtype);
        }
        Ok(())
    }
}

impl Stream for Rearranged {
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        if self.piece_at == self.piece.len() {
            if self.done + self.piece.len() as u64 == self.header.payload_len {
                return Ok(0);
            }
            self.collect(source)?;
        }
        let ahead = &self.piece[self.piece_at..];
        let n = ahead.len().min(out.len());
        out[..n].copy_from_slice(&ahead[..n]);
        self.piece_at += n;
        Ok(n)
    }
}

/// The place in the result of the element that comes next in the file.
struct Place {
    index: Vec<u64>,
    element: u64,
}

impl Place {
    fn new(dims: &[(u64, u64)]) -> Place {
        Place { index: vec![0; dims.len()], element: 0 }
    }

    fn advance(&mut self, dims: &[(u64, u64)]) {
        for (index, &(dim, stride)) in self.index.iter_mut().zip(dims) {
            *index += 1;
            self.element += stride;
            if *index < dim {
                return;
            }
            self.element -= dim * stride;
            *index = 0;
        }
    }
}

/// Reverses the bytes of every number.
fn swap(bytes: &mut [u8], dtype: DType) {
    let Some(row) = dtype.info() else { return };
    for element in bytes.chunks_exact_mut(row.block_bytes as usize) {
        for field in row.swap {
            let numbers = element.get_mut(usize::from(field.offset)..).unwrap_or_default();
            for number in numbers.chunks_exact_mut(usize::from(field.width)).take(usize::from(field.count)) {
                number.reverse();
            }
        }
    }
}
