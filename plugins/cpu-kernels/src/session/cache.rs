//! A cache of keys and values: pages of 32 positions, made when they are first needed.
//!
//! In a page the keys are turned: element by element, each for all 32 positions, so that the scores of 32 positions are
//! computed side by side. Values lie position by position. Copies of a sequence share pages until one of them writes.

use super::shared::Shared;
use super::step::index;
use crate::level::Level;
use crate::level::versions;
use apr_sdk::{DType, PagedState, Result, half};
use std::sync::Arc;

/// Positions of a page.
pub(crate) const PAGE: usize = 32;
/// Elements of a Q8_0 block.
const BLOCK: usize = 32;

/// Elements in a cache's own type.
enum Cells {
    F32(Shared<f32>),
    F16(Shared<u16>),
    /// Codes, and for each block its scale as binary16.
    Q8_0(Shared<i8>, Shared<u16>),
}

/// Which type a cache keeps its elements in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellType {
    F32,
    F16,
    Q8_0,
}

impl Cells {
    /// `rows` rows of `width` elements.
    fn new(of: CellType, rows: usize, width: usize) -> Result<Cells> {
        Ok(match of {
            CellType::F32 => Cells::F32(Shared::zeroed(rows * width)?),
            CellType::F16 => Cells::F16(Shared::zeroed(rows * width)?),
            CellType::Q8_0 => {
                Cells::Q8_0(Shared::zeroed(rows * width)?, Shared::zeroed(rows * width.div_ceil(BLOCK))?)
            }
        })
    }

    /// A copy.
    ///
    /// # Safety
    /// Nothing may write any element meanwhile.
    unsafe fn copy(&self) -> Result<Cells> {
        // SAFETY: as the caller vouches.
        unsafe {
            Ok(match self {
                Cells::F32(cells) => Cells::F32(cells.copy()?),
                Cells::F16(cells) => Cells::F16(cells.copy()?),
                Cells::Q8_0(codes, scales) => Cells::Q8_0(codes.copy()?, scales.copy()?),
            })
        }
    }

    /// Stores one row, whose element `i` and block `b` lie where the functions say.
    ///
    /// # Safety
    /// Nothing else may read or write this row's elements at the same time.
    unsafe fn store(&self, row: &[f32], at: impl Fn(usize) -> usize, block_at: impl Fn(usize) -> usize) {
        match self {
            Cells::F32(cells) => {
                for (i, x) in row.iter().enumerate() {
                    // SAFETY: as the caller vouches.
                    unsafe { cells.set(at(i), *x) };
                }
            }
            Cells::F16(cells) => {
                for (i, x) in row.iter().enumerate() {
                    // SAFETY: as the caller vouches.
                    unsafe { cells.set(at(i), half::to_f16(*x)) };
                }
            }
            Cells::Q8_0(codes, scales) => {
                for (b, block) in row.chunks(BLOCK).enumerate() {
                    let (scale, inverse) = block_scale(block);
                    // SAFETY: as the caller vouches.
                    unsafe { scales.set(block_at(b), scale) };
                    for (i, x) in block.iter().enumerate() {
                        // SAFETY: as the caller vouches.
                        unsafe { codes.set(at(b * BLOCK + i), code(*x * inverse)) };
                    }
                }
            }
        }
    }
}

/// A block's scale as binary16, and what its elements are multiplied by.
fn block_scale(block: &[f32]) -> (u16, f32) {
    // Magnitudes are in the order of their bits, and NaN is beyond infinity: a NaN makes the scale one, and with it every
    // element of the block.
    let largest = block.iter().fold(0, |most, x| x.abs().to_bits().max(most));
    let scale = f32::from_bits(largest) / 127.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    (half::to_f16(scale), inverse)
}

/// Rounds to a code.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the value is within ±127, and a NaN's code is of no account"
)]
fn code(x: f32) -> i8 {
    x.round() as i8
}

/// 32 positions of one sequence.
struct Page {
    keys: Cells,
    values: Option<Cells>,
}

impl Page {
    /// A copy.
    ///
    /// # Safety
    /// Nothing may write to the page meanwhile.
    unsafe fn copy(&self) -> Result<Page> {
        // SAFETY: as the caller vouches.
        unsafe {
            let values = self.values.as_ref().map(|values| values.copy());
            Ok(Page { keys: self.keys.copy()?, values: values.transpose()? })
        }
    }
}

/// The pages of one sequence.
#[derive(Clone, Default)]
pub(crate) struct Pages(Vec<Arc<Page>>);

/// A state's pages for every sequence.
pub(crate) struct Cache {
    /// Key heads.
    pub(crate) heads: usize,
    /// Elements of a key.
    pub(crate) key: usize,
    /// Elements of a value.
    pub(crate) value: usize,
    cells: CellType,
    /// Whether values are parts of keys; `None` if no operation stores any.
    pub(crate) views: Option<bool>,
    /// Each sequence's pages; none for sequences beyond those that were ever written.
    pages: Vec<Pages>,
}

impl Cache {
    /// An empty cache.
    pub(crate) fn new(state: &PagedState, views: Option<bool>) -> Cache {
        let (heads, key, value) = (index(state.heads), index(state.key), index(state.value));
        let cells = if state.dtype == DType::F32 {
            CellType::F32
        } else if state.dtype == DType::F16 {
            CellType::F16
        } else {
            // A checked program has no other.
            CellType::Q8_0
        };
        Cache { heads, key, value, cells, views, pages: Vec::new() }
    }

    /// A page of zeros.
    fn page(&self) -> Result<Page> {
        let keys = Cells::new(self.cells, self.heads * PAGE, self.key)?;
        let values =
            (self.views != Some(true)).then(|| Cells::new(self.cells, self.heads * PAGE, self.value));
        Ok(Page { keys, values: values.transpose()? })
    }

    /// Makes the pages of a sequence that positions `from..to` will be written to, and gives it pages of its own where
    /// it shared them.
    ///
    /// # Errors
    /// Io if there is no memory left.
    pub(crate) fn reserve(&mut self, sequence: usize, from: usize, to: usize) -> Result<()> {
        self.make_room(sequence);
        while self.pages[sequence].0.len() < to.div_ceil(PAGE) {
            let page = Arc::new(self.page()?);
            self.pages[sequence].0.push(page);
        }
        if from == to {
            return Ok(());
        }
        for page in &mut self.pages[sequence].0[from / PAGE..to.div_ceil(PAGE)] {
            if Arc::get_mut(page).is_none() {
                // SAFETY: pages are written in steps alone, and `&mut self` says that none is running.
                *page = Arc::new(unsafe { page.copy()? });
            }
        }
        Ok(())
    }

    /// Stores a position's keys, and its values if there are any.
    ///
    /// # Safety
    /// Nothing else may read or write this position of this sequence at the same time.
    pub(crate) unsafe fn store(
        &self,
        sequence: usize,
        position: usize,
        keys: &[f32],
        values: Option<&[f32]>,
    ) {
        let page = &self.pages[sequence].0[position / PAGE];
        let slot = position % PAGE;
        for (head, key) in keys.chunks_exact(self.key).enumerate() {
            let (first, first_block) = (head * self.key, head * self.key.div_ceil(BLOCK));
            // SAFETY: as the caller vouches.
            unsafe {
                page.keys.store(key, |i| (first + i) * PAGE + slot, |b| (first_block + b) * PAGE + slot)
            };
        }
        let (Some(cells), Some(values)) = (&page.values, values) else { return };
        for (head, value) in values.chunks_exact(self.value).enumerate() {
            let row = head * PAGE + slot;
            let (first, first_block) = (row * self.value, row * self.value.div_ceil(BLOCK));
            // SAFETY: as the caller vouches.
            unsafe { cells.store(value, |i| first + i, |b| first_block + b) };
        }
    }

    /// The keys of a head in a page: element by element, each for all positions.
    ///
    /// # Safety
    /// Nothing may write to the page while the slice lives.
    pub(crate) unsafe fn keys<'a>(
        &'a self,
        level: Level,
        (sequence, page, head): (usize, usize, usize),
        room: &'a mut [f32],
    ) -> &'a [f32] {
        let elements = self.key * PAGE;
        let first = head * elements;
        // SAFETY: as the caller vouches.
        unsafe {
            match &self.pages[sequence].0[page].keys {
                Cells::F32(cells) => return cells.read(first..first + elements),
                Cells::F16(cells) => widen(level, cells.read(first..first + elements), &mut room[..elements]),
                Cells::Q8_0(codes, scales) => {
                    let blocks = self.key.div_ceil(BLOCK) * PAGE;
                    let scales = scales.read(head * blocks..(head + 1) * blocks);
                    turned(level, codes.read(first..first + elements), scales, &mut room[..elements]);
                }
            }
        }
        &room[..elements]
    }

    /// The values of a head in a page, position by position. Where values are parts of keys these begin at element
    /// `view` of each key.
    ///
    /// # Safety
    /// As [`Cache::keys`].
    pub(crate) unsafe fn values<'a>(
        &'a self,
        level: Level,
        at: (usize, usize, usize),
        view: usize,
        room: &'a mut [f32],
        turned: &'a mut [f32],
    ) -> &'a [f32] {
        let (sequence, page, head) = at;
        let elements = self.value * PAGE;
        let first = head * elements;
        // SAFETY: as the caller vouches.
        unsafe {
            match &self.pages[sequence].0[page].values {
                None => {
                    let keys = self.keys(level, at, turned);
                    for (i, element) in keys[view * PAGE..].chunks_exact(PAGE).take(self.value).enumerate() {
                        for (position, x) in element.iter().enumerate() {
                            room[position * self.value + i] = *x;
                        }
                    }
                }
                Some(Cells::F32(cells)) => return cells.read(first..first + elements),
                Some(Cells::F16(cells)) => {
                    widen(level, cells.read(first..first + elements), &mut room[..elements]);
                }
                Some(Cells::Q8_0(codes, scales)) => {
                    let per_row = self.value.div_ceil(BLOCK);
                    let scales = scales.read(head * PAGE * per_row..(head + 1) * PAGE * per_row);
                    let codes = codes.read(first..first + elements);
                    scaled(level, codes, scales, self.value, &mut room[..elements]);
                }
            }
        }
        &room[..elements]
    }

    /// A sequence's pages, to be kept or given to another.
    pub(crate) fn pages(&self, sequence: usize) -> Pages {
        self.pages.get(sequence).cloned().unwrap_or_default()
    }

    /// Replaces a sequence's pages.
    pub(crate) fn set_pages(&mut self, sequence: usize, pages: Pages) {
        self.make_room(sequence);
        self.pages[sequence] = pages;
    }

    /// Forgets a sequence's positions from `length` on.
    pub(crate) fn trim(&mut self, sequence: usize, length: usize) {
        if let Some(pages) = self.pages.get_mut(sequence) {
            pages.0.truncate(length.div_ceil(PAGE));
        }
    }

    /// Makes room for a sequence's list of pages.
    fn make_room(&mut self, sequence: usize) {
        if self.pages.len() <= sequence {
            self.pages.resize_with(sequence + 1, Pages::default);
        }
    }
}

/// Widens binary16.
fn widen(level: Level, cells: &[u16], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        let lanes = match level {
            Level::Scalar => 1,
            Level::Avx2 => 8,
            Level::Avx512 => 16,
        };
        let (cells, rest) = cells.split_at(cells.len() / lanes * lanes);
        let (out, rest_out) = out.split_at_mut(cells.len());
        match level {
            Level::Scalar => widen_each(cells, out),
            // SAFETY: this level has F16C.
            Level::Avx2 => unsafe { widen_eights(cells, out) },
            // SAFETY: this level has AVX-512 F.
            Level::Avx512 => unsafe { widen_sixteens(cells, out) },
        }
        widen_each(rest, rest_out);
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = level;
        widen_each(cells, out);
    }
}

fn widen_each(cells: &[u16], out: &mut [f32]) {
    for (out, cell) in out.iter_mut().zip(cells) {
        *out = half::from_f16(*cell);
    }
}

/// Widens binary16, eight at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
fn widen_eights(cells: &[u16], out: &mut [f32]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
    for (cells, out) in cells.chunks_exact(8).zip(out.chunks_exact_mut(8)) {
        // SAFETY: both chunks have eight elements.
        unsafe {
            _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(cells.as_ptr().cast())))
        };
    }
}

/// Widens binary16, sixteen at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn widen_sixteens(cells: &[u16], out: &mut [f32]) {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm512_cvtph_ps, _mm512_storeu_ps};
    for (cells, out) in cells.chunks_exact(16).zip(out.chunks_exact_mut(16)) {
        // SAFETY: both chunks have sixteen elements.
        unsafe {
            _mm512_storeu_ps(out.as_mut_ptr(), _mm512_cvtph_ps(_mm256_loadu_si256(cells.as_ptr().cast())))
        };
    }
}

versions! {
    /// Widens turned codes: 32 positions side by side, each with its own scale for every 32 elements.
    turned(codes: &[i8], scales: &[u16], out: &mut [f32]) -> () {
        let blocks = codes.chunks(BLOCK * PAGE).zip(out.chunks_mut(BLOCK * PAGE));
        for ((codes, out), scales) in blocks.zip(scales.chunks_exact(PAGE)) {
            let mut wide = [0f32; PAGE];
            for (wide, scale) in wide.iter_mut().zip(scales) {
                *wide = half::from_f16(*scale);
            }
            for (codes, out) in codes.chunks_exact(PAGE).zip(out.chunks_exact_mut(PAGE)) {
                for ((out, code), scale) in out.iter_mut().zip(codes).zip(&wide) {
                    *out = f32::from(*code) * *scale;
                }
            }
        }
    }

    /// Widens rows of `width` codes, each with a scale for every 32.
    scaled(codes: &[i8], scales: &[u16], width: usize, out: &mut [f32]) -> () {
        let rows = codes.chunks_exact(width).zip(out.chunks_exact_mut(width));
        for ((codes, out), scales) in rows.zip(scales.chunks_exact(width.div_ceil(BLOCK))) {
            for ((codes, out), scale) in codes.chunks(BLOCK).zip(out.chunks_mut(BLOCK)).zip(scales) {
                let scale = half::from_f16(*scale);
                for (out, code) in out.iter_mut().zip(codes) {
                    *out = f32::from(*code) * scale;
                }
            }
        }
    }
}
