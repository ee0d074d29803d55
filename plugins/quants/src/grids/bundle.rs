//! Super-blocks of the IQ2 and IQ3 types, one in each lane. Every lane runs the operations of the scalar form in its order,
//! but for the nearest points, which are found lane by lane (`finder.rs`).

use super::finder::{Finder, TERMS};
use super::positive::first_scale;
use super::{Again, Cells, ELEMENTS, Lattice, Packed, no_point};
use crate::simd::{Floats, Ints, Lanes, Mask, Task};
use crate::types::Rows;
use apr_sdk::Result;

/// The most lanes of any level.
const MOST: usize = 16;
/// How far from the middle between two whole numbers a magnitude may be for its cell to be certain: the rest is many times
/// what the few operations that lead to it are rounded by.
const CERTAIN: f32 = 0.5 - 1.0 / 16_384.0;
/// The flag of a code whose place was off the codebook.
const OFF: i32 = 1 << 16;

/// The low half of an integer.
#[inline(always)]
fn low_half(of: i32) -> u16 {
    let [low, high, ..] = of.to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// Rows to be encoded.
pub struct Encode<'a, const D: usize, const G: usize> {
    /// How.
    pub lattice: &'a Lattice<D, G>,
    /// What.
    pub rows: &'a Rows<'a>,
    /// Bytes of a super-block.
    pub bytes: usize,
    /// Where to.
    pub out: &'a mut [u8],
}

/// Elements of each lane's block.
type Vectors<V, const D: usize, const G: usize> = [[<V as Lanes>::Floats; D]; G];
/// The same, lane after lane, each value as often as `Finder::terms` wants it.
type Rooms<const G: usize> = [[[f32; TERMS]; G]; MOST];

/// What stays from block to block.
struct Search<'a, V: Lanes, const D: usize, const G: usize> {
    lanes: V,
    lattice: &'a Lattice<D, G>,
    cells: &'a Cells,
    finder: Finder<'a, V>,
    /// Of the blocks at hand, lane after lane.
    values: Rooms<G>,
    /// The roots of their weights.
    roots: Rooms<G>,
}

/// Blocks at hand.
struct Blocks<V: Lanes, const D: usize, const G: usize> {
    values: Vectors<V, D, G>,
    weights: Vectors<V, D, G>,
    /// The greatest of all, with or without sign.
    most: V::Floats,
    /// Lanes whose weights are ordinary numbers.
    ordinary: V::Mask,
}

impl<const D: usize, const G: usize> Task for Encode<'_, D, G> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<V: Lanes>(self, lanes: V) -> Result<()> {
        let of_row = self.rows.row_len / ELEMENTS;
        let (mut last, mut importance) = (vec![0.0; V::COUNT * ELEMENTS], vec![0.0; V::COUNT * ELEMENTS]);
        let cells = self.lattice.search.codebook.cells();
        let mut search = Search {
            lanes,
            lattice: self.lattice,
            cells,
            finder: Finder::new::<D>(lanes, cells.codes()),
            values: [[[0.0; TERMS]; G]; MOST],
            roots: [[[0.0; TERMS]; G]; MOST],
        };
        let inputs = self.rows.values.chunks(V::COUNT * ELEMENTS);
        for (n, (values, out)) in inputs.zip(self.out.chunks_mut(V::COUNT * self.bytes)).enumerate() {
            let mut values = values;
            if values.len() < last.len() {
                last.fill(0.0);
                last[..values.len()].copy_from_slice(values);
                values = &last;
            }
            if let Some(all) = self.rows.importance {
                for (lane, to) in importance.as_chunks_mut::<ELEMENTS>().0.iter_mut().enumerate() {
                    let column = (n * V::COUNT + lane) % of_row * ELEMENTS;
                    to.copy_from_slice(&all[column..column + ELEMENTS]);
                }
            }
            let packed = search.super_blocks(values, self.rows.importance.map(|_| &importance[..]))?;
            for (packed, out) in packed.iter().zip(out.chunks_exact_mut(self.bytes)) {
                (self.lattice.pack)(packed, out);
            }
        }
        Ok(())
    }
}

impl<V: Lanes, const D: usize, const G: usize> Search<'_, V, D, G> {
    #[inline(always)]
    fn super_blocks(&mut self, values: &[f32], importance: Option<&[f32]>) -> Result<[Packed; MOST]> {
        let lanes = self.lanes;
        let mut squares = lanes.floats(0.0);
        for column in (0..ELEMENTS).step_by(8) {
            let mut eight = [squares; 8];
            lanes.columns(&values[column..], ELEMENTS, &mut eight);
            for value in eight {
                squares = squares + value * value;
            }
        }
        let spread = lanes.floats(self.lattice.spread) * squares / lanes.floats(256.0);
        let mut packed = [Packed::ZERO; MOST];
        let mut scales = [[0.0; 16]; MOST];
        for block in 0..ELEMENTS / (D * G) {
            self.blocks(block, values, importance, spread, &mut packed, &mut scales)?;
        }
        for (packed, scales) in packed.iter_mut().zip(&scales) {
            self.lattice.finish(packed, scales);
        }
        Ok(packed)
    }

    /// Block number `block` of each super-block.
    #[inline(always)]
    fn blocks(
        &mut self,
        block: usize,
        values: &[f32],
        importance: Option<&[f32]>,
        spread: V::Floats,
        packed: &mut [Packed; MOST],
        scales: &mut [[f32; 16]; MOST],
    ) -> Result<()> {
        let lanes = self.lanes;
        let start = block * D * G;
        let mut signs = [lanes.ints(0); 4];
        let mut blocks = self.load(&values[start..], importance.map(|all| &all[start..]), spread, &mut signs);
        let flat = blocks.values.as_flattened();
        let max = flat[1..].iter().fold(flat[0], |max, value| max.max(*value));
        let mut live = !(max.less(lanes.floats(self.lattice.least)) | max.equals(lanes.floats(0.0)));
        let (max, scale) = if self.lattice.first_scale.is_none() {
            (max, max / lanes.floats(self.lattice.search.highest()))
        } else {
            let scale = first_scale(lanes, flat, blocks.weights.as_flattened());
            (scale * lanes.floats(3.0), scale)
        };
        live = live & !max.at_most(lanes.floats(0.0));
        if !live.any() {
            return Ok(());
        }
        blocks.most = flat.iter().fold(max, |most, value| most.max(value.abs()));
        let (scale, codes) = self.fit(&blocks, max, scale, live)?;
        let mut of_lanes = [0.0; MOST];
        scale.store(&mut of_lanes);
        let mut rows = [[0; MOST]; G];
        for (row, codes) in rows.iter_mut().zip(codes) {
            codes.store(row);
        }
        let mut sign_rows = [[0; MOST]; 4];
        for (row, signs) in sign_rows.iter_mut().zip(signs) {
            signs.store(row);
        }
        let is_live = live.bits();
        for lane in (0..V::COUNT).filter(|lane| is_live >> lane & 1 == 1) {
            let scale = of_lanes[lane];
            if scale.is_nan() {
                return Err(no_point());
            }
            scales[lane][block] = scale.abs();
            for (point, row) in packed[lane].points[block * G..].iter_mut().zip(&rows) {
                *point = self.cells.index(low_half(row[lane]));
            }
            for (signs, row) in packed[lane].signs[start / 8..][..D * G / 8].iter_mut().zip(&sign_rows) {
                let [found, ..] = row[lane].to_le_bytes();
                *signs = if scale < 0.0 { !found } else { found };
            }
        }
        Ok(())
    }

    /// Takes values and weights of blocks, and the signs off the values.
    #[inline(always)]
    fn load(
        &mut self,
        values: &[f32],
        importance: Option<&[f32]>,
        spread: V::Floats,
        signs: &mut [V::Ints; 4],
    ) -> Blocks<V, D, G> {
        let lanes = self.lanes;
        let zero = lanes.floats(0.0);
        let mut all = [[zero; D]; G];
        let mut weights = [[zero; D]; G];
        for group in 0..G {
            lanes.columns(&values[group * D..], ELEMENTS, &mut all[group]);
            if let Some(importance) = importance {
                lanes.columns(&importance[group * D..], ELEMENTS, &mut weights[group]);
            }
        }
        let mut ordinary = lanes.mask(true);
        for (weight, value) in weights.as_flattened_mut().iter_mut().zip(all.as_flattened()) {
            *weight = if importance.is_some() {
                *weight * (spread + *value * *value).sqrt()
            } else if self.lattice.floor == 0.0 {
                *value * *value
            } else {
                lanes.floats(self.lattice.floor) * spread + *value * *value
            };
            ordinary = ordinary & zero.at_most(*weight) & weight.less(lanes.floats(f32::INFINITY));
        }
        let eights = all.as_flattened_mut().as_chunks_mut::<8>().0.iter_mut();
        let eights = eights.zip(weights.as_flattened().as_chunks::<8>().0);
        for (signs, (values, weights)) in signs.iter_mut().zip(eights) {
            *signs = self.split_signs(values, weights);
        }
        let mut row = [0.0; MOST];
        for group in 0..G {
            for i in 0..D {
                all[group][i].store(&mut row);
                for (lane, value) in self.values.iter_mut().zip(row) {
                    lane[group][i * (TERMS / D)..(i + 1) * (TERMS / D)].fill(value);
                }
                weights[group][i].sqrt().store(&mut row);
                for (lane, root) in self.roots.iter_mut().zip(row) {
                    lane[group][i * (TERMS / D)..(i + 1) * (TERMS / D)].fill(root);
                }
            }
        }
        Blocks { values: all, weights, most: zero, ordinary }
    }

    /// Takes the signs off eight values.
    #[inline(always)]
    fn split_signs(&self, values: &mut [V::Floats; 8], weights: &[V::Floats; 8]) -> V::Ints {
        let lanes = self.lanes;
        let (zero, none) = (lanes.floats(0.0), lanes.ints(0));
        let (mut signs, mut parity) = (none, none);
        let mut flipped = none;
        let mut least = weights[0] * values[0] * values[0];
        for (i, (value, weight)) in (0..).zip(values.iter().zip(weights)) {
            let negative = value.less(zero);
            signs = signs | negative.pick_ints(lanes.ints(1 << i), none);
            parity = parity ^ negative.pick_ints(lanes.ints(1), none);
            let cost = *weight * *value * *value;
            let lower = cost.less(least);
            least = lower.pick(cost, least);
            flipped = lower.pick_ints(lanes.ints(i), flipped);
        }
        let odd = parity.equals(lanes.ints(1));
        for (i, value) in (0..).zip(values) {
            let magnitude = value.abs();
            *value = magnitude;
            if self.lattice.even {
                let flips = odd & flipped.equals(lanes.ints(i));
                *value = flips.pick(zero - magnitude, magnitude);
                signs = signs ^ flips.pick_ints(lanes.ints(1 << i), none);
            }
        }
        signs
    }

    /// The scalar form's `Search::fit`, in each lane that is live.
    #[inline(always)]
    #[allow(clippy::cast_precision_loss, reason = "small integers")]
    fn fit(
        &self,
        blocks: &Blocks<V, D, G>,
        max: V::Floats,
        scale: V::Floats,
        live: V::Mask,
    ) -> Result<(V::Floats, [V::Ints; G])> {
        let lanes = self.lanes;
        let search = &self.lattice.search;
        let (zero, one) = (lanes.floats(0.0), lanes.floats(1.0));
        let mut scale = scale;
        let mut best = zero;
        let mut codes = [lanes.ints(if search.again == Again::AllIfOff { OFF } else { 0 }); G];
        for attempt in -search.tries..=search.tries {
            let inverse = lanes.floats(search.highest() + attempt as f32 * search.step) / max;
            let tried = self.nearest(blocks, inverse, one / inverse, &[live.bits(); G])?;
            let (products, squares) = self.sums(blocks, &tried);
            let better = squares.more(zero) & (products * products).more(best * squares);
            scale = better.pick(products / squares, scale);
            best = better.pick(scale * products, best);
            for (code, tried) in codes.iter_mut().zip(tried) {
                *code = better.pick_ints(tried, *code);
            }
        }
        let is_off = |code: V::Ints| code.more(lanes.ints(OFF - 1));
        let any_off = codes.iter().fold(lanes.mask(false), |any, code| any | is_off(*code));
        let positive = live & scale.more(zero);
        let again = codes.map(|code| match search.again {
            Again::All => positive,
            Again::Off => positive & is_off(code),
            Again::AllIfOff => positive & any_off,
        });
        let any = again.iter().fold(lanes.mask(false), |any, again| any | *again);
        if any.any() {
            let found = self.nearest(blocks, one / scale, scale, &again.map(|again| again.bits()))?;
            for ((code, found), again) in codes.iter_mut().zip(found).zip(again) {
                *code = again.pick_ints(found, *code);
            }
            let (products, squares) = self.sums(blocks, &codes);
            scale = (any & squares.more(zero)).pick(products / squares, scale);
        }
        Ok((scale, codes))
    }

    /// The codes of the nearest points at a scale, in the lanes whose bits are asked for.
    #[inline(always)]
    fn nearest(
        &self,
        blocks: &Blocks<V, D, G>,
        inverse: V::Floats,
        scale: V::Floats,
        asked: &[u32; G],
    ) -> Result<[V::Ints; G]> {
        let lanes = self.lanes;
        let (one, half) = (lanes.floats(1.0), lanes.floats(0.5));
        // The middle of the highest cell.
        let highest = lanes.floats(self.lattice.search.highest() - 1.5);
        // Far from all limits of floats, and of `nearest_int`.
        let plain = blocks.ordinary
            & (blocks.most * inverse).less(lanes.floats(1e5))
            & inverse.less(lanes.floats(1e30))
            & inverse.more(lanes.floats(1e-30));
        let mut rows = [[0; MOST]; G];
        let mut uncertain = [0; G];
        let mut cells = [[0; MOST]; G];
        for ((values, row), uncertain) in blocks.values.iter().zip(&mut rows).zip(&mut uncertain) {
            let mut cell = lanes.ints(0);
            let mut farthest = lanes.floats(0.0);
            for (i, value) in (0..).step_by(16 / D).zip(values) {
                let place = (inverse * *value - one).max(half).min(highest);
                let whole = place.truncated();
                farthest = (place - whole.to_floats() - half).abs().max(farthest);
                cell = cell | whole.shift_left(i);
            }
            *uncertain = !(plain & farthest.less(lanes.floats(CERTAIN))).bits();
            cell.store(row);
        }
        let (mut inverses, mut scales) = ([0.0; MOST], [0.0; MOST]);
        inverse.store(&mut inverses);
        scale.store(&mut scales);
        let any = asked.iter().fold(0, |any, asked| any | asked);
        // Those that take more than one look, noted without a branch.
        let mut left = [[(0, 0); MOST]; G];
        let mut count = 0;
        let left = left.as_flattened_mut();
        for lane in (0..V::COUNT).filter(|lane| any >> lane & 1 == 1) {
            let scaled = self.finder.scaled(scales[lane]);
            for group in 0..G {
                let (start, end, off) = self.cells.range(low_half(rows[group][lane]));
                let terms = self.finder.terms(&scaled, &self.values[lane][group], &self.roots[lane][group]);
                let (code, more) = self.finder.at_once::<D>((start, end), &terms);
                left[count] = (group, lane);
                count += usize::from(
                    (asked[group] >> lane & 1 == 1) & (more | (uncertain[group] >> lane & 1 == 1)),
                );
                cells[group][lane] = low_half(rows[group][lane]);
                rows[group][lane] = i32::from(code) | i32::from(off) << OFF.trailing_zeros();
            }
        }
        for (group, lane) in left[..count].iter().copied() {
            let (values, roots) = (&self.values[lane][group], &self.roots[lane][group]);
            let mut found = None;
            if uncertain[group] >> lane & 1 == 0 {
                let (start, end, off) = self.cells.range(cells[group][lane]);
                let terms = self.finder.terms(&self.finder.scaled(scales[lane]), values, roots);
                found = self.finder.in_turn::<D>((start, end), &terms).map(|code| (code, off));
            }
            let (code, off) = match found {
                Some(found) => found,
                None => self.plainly(values, roots, inverses[lane], scales[lane])?,
            };
            rows[group][lane] = i32::from(code) | i32::from(off) << OFF.trailing_zeros();
        }
        let mut codes = [lanes.ints(0); G];
        for (code, row) in codes.iter_mut().zip(&rows) {
            *code = lanes.load_ints(row);
        }
        Ok(codes)
    }

    /// The published search.
    #[inline(never)]
    fn plainly(
        &self,
        values: &[f32; TERMS],
        roots: &[f32; TERMS],
        inverse: f32,
        scale: f32,
    ) -> Result<(u16, bool)> {
        let [values, roots]: [[f32; D]; 2] =
            [values, roots].map(|all| std::array::from_fn(|i| all[i * (TERMS / D)]));
        let search = &self.lattice.search;
        let (point, off) = search.nearest(&values, &roots, inverse, scale)?;
        Ok((search.codebook.code(search.codebook.point(point)), off))
    }

    /// The weighted sums of values times points, and of points squared.
    #[inline(always)]
    fn sums(&self, blocks: &Blocks<V, D, G>, codes: &[V::Ints; G]) -> (V::Floats, V::Floats) {
        let lanes = self.lanes;
        let (mut products, mut squares) = (lanes.floats(0.0), lanes.floats(0.0));
        let worths = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0];
        let (four, eight) = (lanes.four(&[1.0, 3.0, 5.0, 7.0]), lanes.eight(&worths));
        for (code, pairs) in codes.iter().zip(blocks.values.iter().zip(&blocks.weights)) {
            for (i, (value, weight)) in (0..).zip(pairs.0.iter().zip(pairs.1)) {
                let q = if D == 8 {
                    lanes.of_four(four, code.shift_right(2 * i))
                } else {
                    lanes.of_eight(eight, code.shift_right(3 * i))
                };
                products = products + *weight * *value * q;
                squares = squares + *weight * q * q;
            }
        }
        (products, squares)
    }
}
