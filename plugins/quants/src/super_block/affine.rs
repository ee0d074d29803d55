//! Q2_K, Q4_K and Q5_K: each sub-block has a scale and a minimum, coded with those of the others.

use super::codes::{ByLanes, Coder, Codes, Plain};
use super::{Batch, ELEMENTS, MOST_LANES, sum_of_squares, sums_of_squares, weigh, weigh_lanes};
use crate::number::nearest_int;
use crate::search::lanes::{self, AffineLanes};
use crate::search::{Affine, Error, Steps, affine, positive, weighted};
use crate::simd::{Floats, Ints, Lanes, Mask};

/// The most sub-blocks of a super-block.
pub const MOST_SUBS: usize = 16;

/// How a type's sub-blocks are searched.
pub struct Form {
    /// The tries without importance.
    pub steps: Steps,
    /// What is summed without importance.
    pub error: Error,
    /// Whether an element's weight, without importance, is its magnitude, or that and the root mean square of its sub-block.
    pub adds_root: bool,
    /// With importance, how often the mean square of the super-block counts in the weights.
    pub sigma: f32,
    /// The greatest code of a scale.
    pub scale_most: i32,
}

impl Form {
    /// The tries with importance.
    fn weighted_steps(&self) -> Steps {
        Steps { most: self.steps.most, first: -0.9, step: 0.05, count: 36 }
    }
}

/// The scales of a super-block, coded.
#[derive(Clone, Copy, Default)]
pub struct Scales {
    /// What a scale's code is multiplied with.
    pub d: f32,
    /// What a minimum's code is multiplied with.
    pub dmin: f32,
    /// The codes of the scales.
    pub scales: [u8; MOST_SUBS],
    /// The codes of the minima.
    pub offsets: [u8; MOST_SUBS],
}

/// A type of this kind.
pub trait AffineType {
    /// How it is searched.
    const FORM: Form;

    /// The scales and minima of the sub-blocks, coded where no importance is known.
    fn scales(scales: &[f32], offsets: &[f32]) -> Scales;

    /// Writes coded scales to a block.
    fn write_scales(scales: &Scales, out: &mut [u8]);

    /// The scale and the minimum of each sub-block, as a reader of the block has them.
    fn factors(block: &[u8]) -> ([f32; MOST_SUBS], [f32; MOST_SUBS]);

    /// Writes codes to a block.
    fn write_codes(codes: &Codes, out: &mut [u8]);
}

/// Encodes a super-block of `SUBS` sub-blocks of `N`.
pub fn encode<T: AffineType, const N: usize, const SUBS: usize>(
    values: &[f32; ELEMENTS],
    importance: Option<&[f32; ELEMENTS]>,
    out: &mut [u8],
) {
    let mut codes = [0; ELEMENTS];
    let (mut scales, mut offsets, mut sums) = ([0.0; SUBS], [0.0; SUBS], [0.0; SUBS]);
    let sigma2 = T::FORM.sigma * sum_of_squares(values) / 256.0;
    for (sub, (values, codes)) in
        values.as_chunks::<N>().0.iter().zip(codes.as_chunks_mut::<N>().0).enumerate()
    {
        let mut weights = [0.0; N];
        let found = if let Some(importance) = importance {
            weigh(&importance[sub * N..], values, sigma2, &mut weights);
            sums[sub] = weights.iter().fold(0.0, |sum, w| sum + w);
            weighted(&T::FORM.weighted_steps(), values, &weights, codes)
        } else {
            let root = if T::FORM.adds_root { root_mean_square(values) } else { 0.0 };
            for (w, value) in weights.iter_mut().zip(values) {
                *w = root + value.abs();
            }
            affine(&T::FORM.steps, T::FORM.error, values, &weights, codes)
        };
        Affine { scale: scales[sub], offset: offsets[sub] } = found;
    }
    let coded = if importance.is_some() {
        let mut coded = Scales::default();
        coded.d = positive(T::FORM.scale_most, &scales, &sums, &mut coded.scales[..SUBS]);
        coded.dmin = positive(T::FORM.scale_most, &offsets, &sums, &mut coded.offsets[..SUBS]);
        coded
    } else {
        T::scales(&scales, &offsets)
    };
    finish::<T, N>(values, &coded, (Plain, |_, _: &mut _| {}), &mut codes, out);
}

/// The root of the mean square of a sub-block.
fn root_mean_square<const N: usize>(values: &[f32; N]) -> f32 {
    (values.iter().fold(0.0, |sum, value| sum + value * value) / N as f32).sqrt()
}

/// Codes anew with the coded scales, and writes all. `searched` gives the codes of the search for a sub-block whose coded
/// scale is 0.
#[inline(always)]
fn finish<T: AffineType, const N: usize>(
    values: &[f32; ELEMENTS],
    scales: &Scales,
    (coder, searched): (impl Coder, impl Fn(usize, &mut [u8; N])),
    codes: &mut Codes,
    out: &mut [u8],
) {
    T::write_scales(scales, out);
    let (factors, offsets) = T::factors(out);
    for (sub, (values, codes)) in
        values.as_chunks::<N>().0.iter().zip(codes.as_chunks_mut::<N>().0).enumerate()
    {
        if factors[sub] == 0.0 {
            searched(sub, codes);
        }
        coder.code(values, factors[sub], offsets[sub], (0, T::FORM.steps.most), codes);
    }
    T::write_codes(codes, out);
}

/// What the searches of a batch found, sub-block after sub-block.
struct Found {
    scales: [f32; MOST_LANES * MOST_SUBS],
    offsets: [f32; MOST_LANES * MOST_SUBS],
    inverse: [f32; MOST_LANES * MOST_SUBS],
    from: [f32; MOST_LANES * MOST_SUBS],
    sums: [f32; MOST_LANES * MOST_SUBS],
    /// A bit per sub-block, in numbers of as many as there are lanes.
    first: [u32; MOST_LANES * MOST_SUBS],
}

/// Encodes a super-block per lane.
#[inline(always)]
pub fn encode_lanes<T: AffineType, V: Lanes, const N: usize, const SUBS: usize>(
    v: V,
    batch: Batch<'_>,
    out: &mut [u8],
) {
    const ALL: usize = MOST_LANES * MOST_SUBS;
    let mut found = Found {
        scales: [0.0; ALL],
        offsets: [0.0; ALL],
        inverse: [0.0; ALL],
        from: [0.0; ALL],
        sums: [0.0; ALL],
        first: [0; ALL],
    };
    let mut coded = [Scales::default(); MOST_LANES];
    if let Some(importance) = batch.importance {
        search_weighted::<T, V, N, SUBS>(v, batch.values, importance, &mut found);
        code_scales::<T, V, SUBS>(v, &found, &mut coded);
    } else {
        search::<T, V, N, SUBS>(v, batch.values, &mut found);
        for (block, coded) in coded.iter_mut().enumerate().take(V::COUNT) {
            let of = block * SUBS..(block + 1) * SUBS;
            *coded = T::scales(&found.scales[of.clone()], &found.offsets[of]);
        }
    }
    let size = out.len() / V::COUNT;
    let blocks = batch.values.as_chunks::<ELEMENTS>().0.iter().zip(out.chunks_exact_mut(size));
    for (block, ((values, out), coded)) in blocks.zip(&coded).enumerate() {
        let guarded = batch.importance.is_some();
        let searched = |sub: usize, codes: &mut [u8; N]| {
            let number = block * SUBS + sub;
            let first = found.first[number / V::COUNT] >> (number % V::COUNT) & 1 == 1;
            let (inverse, from, most) = (found.inverse[number], found.from[number], T::FORM.steps.most);
            for (code, value) in codes.iter_mut().zip(&values[sub * N..]) {
                let place = inverse * (value - from);
                let guard = guarded && !first;
                // Between its ends, the guarded code is the plain one.
                let l = if !guard || place > 0.0 && place < crate::search::float(most) {
                    nearest_int(place).min(most).max(0)
                } else if place > 0.0 {
                    most
                } else {
                    0
                };
                *code = l.to_le_bytes()[0];
            }
        };
        let mut codes = [0; ELEMENTS];
        finish::<T, N>(values, coded, (ByLanes(v), searched), &mut codes, out);
    }
}

/// The elements of two vectors of sub-blocks, from sub-block `start` on.
#[inline(always)]
fn two<V: Lanes, const N: usize>(v: V, from: &[f32], start: usize) -> [[V::Floats; N]; 2] {
    let mut out = [[v.floats(0.0); N]; 2];
    for (g, out) in out.iter_mut().enumerate() {
        v.columns(&from[(start + g * V::COUNT) * N..], N, out);
    }
    out
}

/// The searches without importance.
#[inline(always)]
fn search<T: AffineType, V: Lanes, const N: usize, const SUBS: usize>(
    v: V,
    values: &[f32],
    found: &mut Found,
) {
    for start in (0..V::COUNT * SUBS).step_by(2 * V::COUNT) {
        let values = two::<V, N>(v, values, start);
        let mut weights = values;
        for (weights, values) in weights.iter_mut().zip(&values) {
            let mut sum = v.floats(0.0);
            for value in values {
                sum = sum + *value * *value;
            }
            let root = (sum / v.floats(N as f32)).sqrt();
            let root = if T::FORM.adds_root { root } else { v.floats(0.0) };
            for (w, value) in weights.iter_mut().zip(values) {
                *w = root + value.abs();
            }
        }
        let of = lanes::affine(v, &T::FORM.steps, T::FORM.error, false, &values, &weights);
        keep(of, start, found);
    }
}

/// The searches with importance.
#[inline(always)]
fn search_weighted<T: AffineType, V: Lanes, const N: usize, const SUBS: usize>(
    v: V,
    values: &[f32],
    importance: &[f32],
    found: &mut Found,
) {
    let sigma2 = v.floats(T::FORM.sigma) * sums_of_squares(v, values) / v.floats(256.0);
    let mut of_block = [0.0; MOST_LANES];
    sigma2.store(&mut of_block);
    let mut of_sub = [0.0; MOST_LANES * MOST_SUBS];
    for (number, of_sub) in of_sub.iter_mut().enumerate().take(V::COUNT * SUBS) {
        *of_sub = of_block[number / SUBS];
    }
    for start in (0..V::COUNT * SUBS).step_by(2 * V::COUNT) {
        let values = two::<V, N>(v, values, start);
        let mut weights = two::<V, N>(v, importance, start);
        for g in 0..2 {
            let sigma2 = v.load(&of_sub[start + g * V::COUNT..]);
            weigh_lanes::<V, N>(&mut weights[g], &values[g], sigma2);
        }
        let of = lanes::affine(v, &T::FORM.weighted_steps(), Error::Square, true, &values, &weights);
        keep(of, start, found);
    }
}

/// Keeps what two vectors of sub-blocks found.
#[inline(always)]
fn keep<V: Lanes>(of: [AffineLanes<V>; 2], start: usize, found: &mut Found) {
    for (g, of) in of.iter().enumerate() {
        let at = start + g * V::COUNT;
        of.scale.store(&mut found.scales[at..]);
        of.offset.store(&mut found.offsets[at..]);
        of.inverse.store(&mut found.inverse[at..]);
        of.from.store(&mut found.from[at..]);
        of.sum_w.store(&mut found.sums[at..]);
        found.first[at / V::COUNT] = of.first.bits();
    }
}

/// Codes the scales and minima where importance is known: a super-block in each lane.
#[inline(always)]
fn code_scales<T: AffineType, V: Lanes, const SUBS: usize>(
    v: V,
    found: &Found,
    coded: &mut [Scales; MOST_LANES],
) {
    let mut values = [[v.floats(0.0); SUBS]; 2];
    let mut weights = [v.floats(0.0); SUBS];
    v.columns(&found.scales, SUBS, &mut values[0]);
    v.columns(&found.offsets, SUBS, &mut values[1]);
    v.columns(&found.sums, SUBS, &mut weights);
    let [scales, offsets] = lanes::positive(v, T::FORM.scale_most, &values, &weights);
    let (mut d, mut dmin) = ([0.0; MOST_LANES], [0.0; MOST_LANES]);
    scales.scale.store(&mut d);
    offsets.scale.store(&mut dmin);
    for (lane, coded) in coded.iter_mut().enumerate() {
        (coded.d, coded.dmin) = (d[lane], dmin[lane]);
    }
    for sub in 0..SUBS {
        let (mut of_scale, mut of_offset) = ([0; MOST_LANES], [0; MOST_LANES]);
        scales.codes[sub].store_bytes(&mut of_scale);
        offsets.codes[sub].store_bytes(&mut of_offset);
        for (lane, coded) in coded.iter_mut().enumerate() {
            (coded.scales[sub], coded.offsets[sub]) = (of_scale[lane], of_offset[lane]);
        }
    }
}
