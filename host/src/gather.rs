//! Collects a strided view into row-major order.

use crate::swap;
use apr_sdk::{DTypeInfo, Endian, Extent, Result, View};

/// A strided view, ready to be read tile by tile.
#[derive(Clone, Debug)]
pub struct Gather {
    extent: Extent,
    info: &'static DTypeInfo,
    swap: bool,
    start: u64,
    /// Dimensions and strides, outermost first, in elements.
    dims: Vec<(u64, u64)>,
    /// Bytes of an element.
    pub element: u64,
}

/// The widest span that is read at once, in bytes: a gather never holds more.
const SPAN: u64 = 4 << 20;

impl Gather {
    /// The view of an extent; its bounds were checked when the model was built.
    pub fn new(extent: Extent, view: &View, info: &'static DTypeInfo, shape: &[u64]) -> Gather {
        Gather {
            extent,
            info,
            swap: view.endian == Endian::Big,
            start: view.start,
            dims: shape.iter().copied().zip(view.strides.iter().copied()).collect(),
            element: u64::from(info.block_bytes),
        }
    }

    /// The most memory that a tile of `len` bytes takes beside the tile: for each element its place and its rank.
    pub fn memory(&self, len: u64) -> u64 {
        SPAN + len / self.element * (size_of::<u64>() + size_of::<usize>()) as u64
    }

    /// The extent it reads.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Where element number `number` (row-major) lies, in elements from the extent's start.
    fn place(&self, mut number: u64) -> u64 {
        let mut at = self.start;
        for &(size, stride) in self.dims.iter().rev() {
            at += number % size * stride;
            number /= size;
        }
        at
    }

    /// Fills `out` with the bytes at `at` of the result; both are whole elements.
    ///
    /// # Errors
    /// What `read` raises.
    pub fn fill(
        &self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        at: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let first = at / self.element;
        let count = out.len() as u64 / self.element;
        let places: Vec<u64> = (first..first + count).map(|n| self.place(n)).collect();
        // Neighbours in the file are read together, however far apart they lie in the result.
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_unstable_by_key(|&n| places[n]);
        let mut buffer = Vec::new();
        let mut rest = order.as_slice();
        while let Some(&lowest) = rest.first() {
            let base = places[lowest];
            let near = |n: usize| (places[n] - base + 1) * self.element <= SPAN;
            let gap = |pair: &[usize]| (places[pair[1]] - places[pair[0]]) * self.element > 64 * 1024;
            let reach = rest.partition_point(|&n| near(n)).max(1);
            let run = rest[..reach].windows(2).position(gap).map_or(reach, |n| n + 1);
            let (now, later) = rest.split_at(run);
            let span = (places[now[run - 1]] - base + 1) * self.element;
            buffer.resize(usize::try_from(span).unwrap_or(0), 0);
            read(Extent::new(self.extent.file, self.extent.offset + base * self.element, span), &mut buffer)?;
            let width = self.info.block_bytes as usize;
            for &n in now {
                let from = usize::try_from((places[n] - base) * self.element).unwrap_or(0);
                out[n * width..][..width].copy_from_slice(&buffer[from..from + width]);
            }
            rest = later;
        }
        if self.swap {
            swap::reverse_fields(self.info, out);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::DType;

    #[test]
    fn a_transposed_big_endian_view_comes_out_row_major() {
        // Column-major [2, 3] of u16: the file holds 0 3 1 4 2 5 in big-endian.
        let file: Vec<u8> = [0u16, 3, 1, 4, 2, 5].iter().flat_map(|n| n.to_be_bytes()).collect();
        let view = View { strides: vec![1, 2], start: 0, endian: Endian::Big };
        let gather = Gather::new(Extent::new(0, 0, 12), &view, DType::U16.info().unwrap(), &[2, 3]);
        let read = |e: Extent, out: &mut [u8]| {
            let at = |n: u64| usize::try_from(n).unwrap();
            out.copy_from_slice(&file[at(e.offset)..at(e.offset + e.len)]);
            Ok(())
        };
        let mut all = vec![0; 12];
        gather.fill(&read, 0, &mut all).unwrap();
        assert_eq!(all, [0u16, 1, 2, 3, 4, 5].iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>());
        let mut piece = vec![0; 4];
        gather.fill(&read, 4, &mut piece).unwrap();
        assert_eq!(piece, all[4..8]);
    }
}
