//! Gathers a strided view in row-major order.
//!
//! A view is cut into *boxes*: index ranges along every dimension, chosen so that a box's elements are in
//! long runs both in the file and in the output, whatever the order of dimensions. So every byte of the file
//! is read about once, in reads of at least some KiB, with memory for a single box.

mod scatter;

use super::region::{merged, place_in};
use crate::values::{swap, usize_of};
use apr_sdk::{DTypeInfo, Endian, Extent, Result, View};
use scatter::{Plane, scatter};

/// Sizes to hold and read at once.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Bytes of a box.
    part: u64,
    /// Bytes read into memory before they are moved into place: meanwhile they stay in the cache.
    strip: u64,
    /// Bytes between two runs that are read rather than skipped: a separate read costs as much.
    gap: u64,
    /// Runs that are read one by one before they are moved together: they fill cache lines of the output.
    runs: u64,
    /// Bytes of a run that is long enough: once both are this long, a smaller box stays in the cache.
    long: u64,
}

/// A box of F32 is 512 × 4096: read 2 KiB and written 16 KiB at a time, or all 8 MiB if a row has no more.
const SIZES: Sizes = Sizes { part: 8 << 20, strip: 1 << 20, gap: 4 << 10, runs: 32, long: 512 << 10 };

/// Limit on the ratio of the output's run length to the file's: threads read in parallel but wait for each
/// other to write, and a write costs several reads.
const LONGER: u64 = 8;

/// A strided view, prepared for reading.
#[derive(Clone, Debug)]
pub struct Gather {
    extent: Extent,
    info: &'static DTypeInfo,
    swap: bool,
    start: u64,
    /// Sizes and strides, outermost first, in elements; neighbours that form one run are merged.
    dims: Vec<(u64, u64)>,
    /// The dimensions with a stride in the file, shortest first.
    by_stride: Vec<usize>,
    /// The size of a box along each dimension.
    side: Vec<u64>,
    sizes: Sizes,
    /// Bytes per element.
    pub element: u64,
}

/// A box: its first index and its size along each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first index along each dimension.
    pub first: Vec<u64>,
    /// The size along each dimension.
    pub size: Vec<u64>,
}

impl Gather {
    /// A view of an extent; its bounds were checked when the model was built.
    pub fn new(extent: Extent, view: &View, info: &'static DTypeInfo, shape: &[u64]) -> Gather {
        Gather::with_sizes(extent, view, info, shape, SIZES)
    }

    fn with_sizes(
        extent: Extent,
        view: &View,
        info: &'static DTypeInfo,
        shape: &[u64],
        sizes: Sizes,
    ) -> Gather {
        let dims: Vec<(u64, u64)> = shape.iter().copied().zip(view.strides.iter().copied()).collect();
        let mut dims = merged(&dims);
        if dims.is_empty() {
            dims.push((1, 1));
        }
        let mut by_stride: Vec<usize> = (0..dims.len()).filter(|&d| dims[d].1 > 0).collect();
        by_stride.sort_by_key(|&d| dims[d].1);
        let element = u64::from(info.block_bytes);
        let swap = view.endian == Endian::Big;
        let start = view.start;
        let mut gather =
            Gather { extent, info, swap, start, dims, by_stride, side: Vec::new(), sizes, element };
        gather.side = gather.choose_side();
        gather
    }

    /// Bytes best produced at once when reading in order: whole elements.
    pub fn window(&self) -> u64 {
        2 * (self.sizes.part - self.sizes.part % self.element)
    }

    /// The most memory that reading takes besides the result, in bytes.
    pub const STRIP: u64 = SIZES.strip;

    /// The most memory that a box takes, in bytes.
    pub fn memory() -> u64 {
        SIZES.part + SIZES.strip
    }

    /// The extent it reads, from the first element on.
    pub fn extent(&self) -> Extent {
        let skipped = self.start * self.element;
        Extent::new(self.extent.file, self.extent.offset + skipped, self.extent.len.saturating_sub(skipped))
    }

    /// Grows a box from one element: each time along the dimension that lengthens the run in the output, or
    /// the one in the file if that is far shorter, until both are long or there is no room.
    fn choose_side(&self) -> Vec<u64> {
        let n_dims = self.dims.len();
        let mut side = vec![1; n_dims];
        let most = (self.sizes.part / self.element).max(1);
        loop {
            let in_file = self.run_along(&side, self.runs().iter().copied());
            let in_output = self.run_along(&side, (0..n_dims).rev());
            if in_file.0.min(in_output.0) * self.element >= self.sizes.long {
                break;
            }
            let grow = match (in_file, in_output) {
                ((here, Some(d)), (there, _)) if here * LONGER < there => d,
                (_, (_, Some(d))) | ((_, Some(d)), _) => d,
                _ => break,
            };
            if most / side.iter().product::<u64>().max(1) < 2 {
                break;
            }
            side[grow] = (side[grow] * 2).min(self.dims[grow].0);
        }
        // Equalizes the sizes of boxes, so that none is a sliver.
        for (side, (size, _)) in side.iter_mut().zip(&self.dims) {
            *side = size.div_ceil(size.div_ceil(*side).max(1)).max(1);
        }
        side
    }

    /// The run of a box along dimensions in this order, and the first of them that it does not cover.
    fn run_along(&self, side: &[u64], order: impl Iterator<Item = usize>) -> (u64, Option<usize>) {
        let mut run = 1;
        for d in order {
            run *= side[d];
            if side[d] < self.dims[d].0 {
                return (run, Some(d));
            }
        }
        (run, None)
    }

    /// The dimensions that can be read in one run: each begins close to the end of the one before.
    fn runs(&self) -> &[usize] {
        let mut end = 1;
        let joined = self.by_stride.iter().take_while(|&&d| {
            let (size, stride) = self.dims[d];
            let near = stride.saturating_sub(end).saturating_mul(self.element) <= self.sizes.gap;
            end = end.saturating_add((size.max(1) - 1).saturating_mul(stride));
            near
        });
        &self.by_stride[..joined.count()]
    }

    /// Returns whether consecutive tiles read about as much as they contain: its runs follow the output's
    /// order, or it is at most a tile.
    pub fn is_ascending(&self) -> bool {
        let total = self.dims.iter().fold(self.element, |bytes, (size, _)| bytes.saturating_mul(*size));
        match self.dims.last() {
            Some((size, 1)) if size * self.element >= self.sizes.gap => true,
            _ => total <= self.sizes.strip,
        }
    }

    /// The number of boxes.
    pub fn n_parts(&self) -> usize {
        let along = self.dims.iter().zip(&self.side).map(|((size, _), side)| size.div_ceil(*side));
        usize::try_from(along.product::<u64>()).unwrap_or(usize::MAX)
    }

    /// Box number `number`, in output order.
    pub fn part(&self, number: usize) -> Part {
        let mut number = number as u64;
        let n_dims = self.dims.len();
        let mut part = Part { first: vec![0; n_dims], size: vec![1; n_dims] };
        for d in (0..n_dims).rev() {
            let (size, _) = self.dims[d];
            let along = size.div_ceil(self.side[d]);
            part.first[d] = number % along * self.side[d];
            part.size[d] = self.side[d].min(size - part.first[d]);
            number /= along;
        }
        part
    }

    /// The destination of a box's bytes: the length of each run in the output, and the offset of each, in bytes.
    pub fn runs_of(&self, part: &Part) -> (u64, impl Iterator<Item = u64>) {
        let n_dims = self.dims.len();
        // Dimensions that the box covers completely are part of the run.
        let whole = (0..n_dims).rev().take_while(|&d| part.size[d] == self.dims[d].0).count();
        let cut = (n_dims - whole).saturating_sub(1);
        let run: u64 = part.size[cut..].iter().product();
        let steps = row_major(self.dims.iter().map(|(size, _)| *size));
        let begin: u64 = part.first.iter().zip(&steps).map(|(at, step)| at * step).sum();
        let element = self.element;
        let outer: Vec<(u64, u64)> = part.size[..cut].iter().copied().zip(steps).collect();
        let count: u64 = outer.iter().map(|(size, _)| size).product();
        let offsets = (0..count).map(move |number| place_in(begin, &outer, number) * element);
        (run * element, offsets)
    }

    /// Fills `out` with the bytes at offset `at` of the result; both are whole elements. `strip` is reused
    /// between calls.
    ///
    /// # Errors
    /// Any error from `read`.
    pub fn fill(
        &self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        at: u64,
        out: &mut [u8],
        strip: &mut Vec<u8>,
    ) -> Result<()> {
        let mut rest = out;
        let mut part = Part { first: vec![0; self.dims.len()], size: vec![1; self.dims.len()] };
        let mut done = at / self.element;
        while !rest.is_empty() {
            // The largest box that begins here, ends before the end, and is one run in the output.
            let mut left = rest.len() as u64 / self.element;
            let mut number = done;
            for ((size, _), first) in self.dims.iter().zip(&mut part.first).rev() {
                *first = number % size;
                number /= size;
            }
            part.size.fill(1);
            let mut taken = 1;
            for d in (0..self.dims.len()).rev() {
                part.size[d] = (self.dims[d].0 - part.first[d]).min(left);
                taken *= part.size[d];
                left /= part.size[d];
                if part.size[d] < self.dims[d].0 {
                    break;
                }
            }
            let (now, later) = rest.split_at_mut(self.bytes(taken));
            self.read_part(read, &part, now, strip)?;
            rest = later;
            done += taken;
        }
        Ok(())
    }

    /// Bytes of so many elements.
    fn bytes(&self, elements: u64) -> usize {
        usize_of(elements * self.element)
    }

    /// The size of one read of a box along each dimension, and its reach in the file: dimensions that are close together,
    /// the last of them as far as memory allows.
    fn read_size(&self, part: &Part) -> (Vec<u64>, u64) {
        let mut step = vec![1; self.dims.len()];
        let mut reach = 1;
        for &d in &self.by_stride {
            let stride = self.dims[d].1;
            if stride.saturating_sub(reach).saturating_mul(self.element) > self.sizes.gap {
                break;
            }
            let most = (self.sizes.strip / self.element).saturating_sub(reach) / stride + 1;
            step[d] = part.size[d].min(most);
            reach += (step[d] - 1) * stride;
            if step[d] < part.size[d] {
                break;
            }
        }
        // A dimension without a stride in the file costs no read.
        for d in (0..self.dims.len()).filter(|&d| self.dims[d].1 == 0) {
            step[d] = part.size[d];
        }
        (step, reach)
    }

    /// Fills `out` with a box, row-major. `strip` is reused between calls.
    ///
    /// # Errors
    /// Any error from `read`.
    pub fn read_part(
        &self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        part: &Part,
        out: &mut [u8],
        strip: &mut Vec<u8>,
    ) -> Result<()> {
        let n_dims = self.dims.len();
        let last = n_dims - 1;
        let (mut step, reach) = self.read_size(part);
        // Several reads, side by side in memory, if the output's run goes across them.
        let apart = step[last] == 1 && part.size[last] > 1;
        let mut from: Vec<u64> = self.dims.iter().map(|(_, stride)| *stride).collect();
        if apart {
            step[last] =
                part.size[last].min(self.sizes.runs).min((self.sizes.strip / (reach * self.element)).max(1));
        }
        let to = row_major(part.size.iter().copied());
        let mut at = vec![0; n_dims];
        loop {
            let size: Vec<u64> = (0..n_dims).map(|d| step[d].min(part.size[d] - at[d])).collect();
            let one_read = (0..n_dims).filter(|&d| !(apart && d == last));
            let reach = 1 + one_read.map(|d| (size[d] - 1) * from[d]).sum::<u64>();
            let n_reads = if apart { size[last] } else { 1 };
            if apart {
                from[last] = reach;
            }
            let need = self.bytes(reach * n_reads);
            if strip.len() < need {
                strip.resize(need, 0);
            }
            let mut index: Vec<u64> = at.iter().zip(&part.first).map(|(at, first)| at + first).collect();
            for run in strip[..need].chunks_exact_mut(self.bytes(reach)) {
                let steps = index.iter().zip(&self.dims).map(|(at, (_, stride))| at * stride);
                let offset = self.extent.offset + (self.start + steps.sum::<u64>()) * self.element;
                read(Extent::new(self.extent.file, offset, run.len() as u64), run)?;
                index[last] += 1;
            }
            let begin: u64 = at.iter().zip(&to).map(|(at, to)| at * to).sum();
            self.place_strip(&size, &from, &to, &strip[..need], &mut out[self.bytes(begin)..]);
            // The next strip, in output order.
            let next = (0..n_dims).rev().find(|&d| {
                at[d] += step[d];
                let more = at[d] < part.size[d];
                if !more {
                    at[d] = 0;
                }
                more
            });
            if next.is_none() {
                break;
            }
        }
        if self.swap {
            swap::reverse_fields(self.info, out);
        }
        Ok(())
    }

    /// Moves a strip into place, plane by plane: across the output's run and along the file's.
    fn place_strip(&self, size: &[u64], from: &[u64], to: &[u64], strip: &[u8], out: &mut [u8]) {
        let last = size.len() - 1;
        let across = self.by_stride.iter().copied().find(|&d| d != last && size[d] > 1);
        // A dimension without a stride in the file serves as rows just as well.
        let across = across.or_else(|| (0..last).find(|&d| size[d] > 1));
        let plane = Plane {
            rows: across.map_or(1, |d| usize_of(size[d])),
            columns: usize_of(size[last]),
            from_row: across.map_or(0, |d| usize_of(from[d])),
            from_column: usize_of(from[last]),
            to_row: across.map_or(0, |d| usize_of(to[d])),
        };
        let others: Vec<usize> = (0..last).filter(|&d| Some(d) != across && size[d] > 1).collect();
        let count: u64 = others.iter().map(|&d| size[d]).product();
        for mut n in 0..count {
            let mut source = 0;
            let mut target = 0;
            for &d in others.iter().rev() {
                let at = n % size[d];
                n /= size[d];
                source += at * from[d];
                target += at * to[d];
            }
            let out = &mut out[self.bytes(target)..];
            scatter(usize_of(self.element), plane, &strip[self.bytes(source)..], out);
        }
    }
}

/// The strides of a dense array.
fn row_major(sizes: impl DoubleEndedIterator<Item = u64>) -> Vec<u64> {
    let mut step = 1;
    let mut steps: Vec<u64> = sizes
        .rev()
        .map(|size| {
            step *= size;
            step / size.max(1)
        })
        .collect();
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests;
