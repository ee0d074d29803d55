//! Q3_K and Q6_K: each of sixteen sub-blocks of 16 has a scale, coded with those of the others.

use super::codes::{ByLanes, Coder, Codes, Plain};
use super::{Batch, ELEMENTS, MOST_LANES, sum_of_squares, sums_of_squares, weigh, weigh_lanes};
use crate::number::nearest_int;
use crate::search::lanes::{self, SymmetricLanes};
use crate::search::{descent, symmetric};
use crate::simd::{Floats, Ints, Lanes, Mask};

/// Elements of a sub-block.
pub const SUB: usize = 16;
/// Sub-blocks of a super-block.
pub const SUBS: usize = 16;
/// Sub-blocks of a batch, at most.
const ALL: usize = MOST_LANES * SUBS;

/// How a type's sub-blocks are searched.
pub struct Form {
    /// As many codes lie below zero.
    pub most: i32,
    /// Q3_K's way: without importance a code at a time; with it weights that grow with the element, and as many codes of
    /// scales below zero as said here, searched too. Q6_K's way, without these: importance is the weight, and the greatest
    /// scale gets the last code.
    pub scale_most: Option<i32>,
}

/// A type of this kind.
pub trait SymmetricType {
    /// How it is searched.
    const FORM: Form;

    /// Codes the scales of sub-blocks, as no search does, and writes them. Nothing where all are zero: all bytes of the block
    /// are then 0.
    fn write_scales(scales: &[f32; SUBS], out: &mut [u8]) -> Option<()>;

    /// Writes the scale and the codes that a search found for the scales.
    fn write_found(d: f32, codes: &[u8; SUBS], out: &mut [u8]);

    /// The scale of each sub-block, as a reader of the block has it.
    fn factors(block: &[u8]) -> [f32; SUBS];

    /// Writes codes to a block.
    fn write_codes(codes: &Codes, out: &mut [u8]);
}

/// Encodes a super-block.
pub fn encode<T: SymmetricType>(
    values: &[f32; ELEMENTS],
    importance: Option<&[f32; ELEMENTS]>,
    out: &mut [u8],
) {
    let mut codes = [0; ELEMENTS];
    let (mut scales, mut sums) = ([0.0; SUBS], [0.0; SUBS]);
    let sigma2 = 2.0 * sum_of_squares(values) / 256.0;
    let most = T::FORM.most;
    for (sub, (values, codes)) in
        values.as_chunks::<SUB>().0.iter().zip(codes.as_chunks_mut::<SUB>().0).enumerate()
    {
        let importance = importance.map(|importance| &importance[sub * SUB..][..SUB]);
        scales[sub] = match (importance, T::FORM.scale_most) {
            (None, Some(_)) => descent(most, values, codes),
            (Some(importance), Some(_)) => {
                let mut weights = [0.0; SUB];
                weigh(importance, values, sigma2, &mut weights);
                sums[sub] = weights.iter().fold(0.0, |sum, w| sum + w);
                symmetric(most, values, Some(&weights), codes)
            }
            (importance, None) => symmetric(most, values, importance, codes),
        };
    }
    let found = T::FORM.scale_most.filter(|_| importance.is_some()).map(|most| {
        let mut codes = [0; SUBS];
        (symmetric(most, &scales, Some(&sums), &mut codes), codes)
    });
    finish::<T>(values, &scales, found, (Plain, |_, _: &mut _| {}), &mut codes, out);
}

/// Codes anew with the coded scales, and writes all. `found` is what a search found for the scales; `searched` gives the
/// codes of the search for a sub-block whose coded scale is 0.
#[inline(always)]
fn finish<T: SymmetricType>(
    values: &[f32; ELEMENTS],
    scales: &[f32; SUBS],
    found: Option<(f32, [u8; SUBS])>,
    (coder, searched): (impl Coder, impl Fn(usize, &mut [u8; SUB])),
    codes: &mut Codes,
    out: &mut [u8],
) {
    if let Some((d, codes)) = found {
        T::write_found(d, &codes, out);
    } else if T::write_scales(scales, out).is_none() {
        out.fill(0);
        return;
    }
    let factors = T::factors(out);
    for (sub, (values, codes)) in
        values.as_chunks::<SUB>().0.iter().zip(codes.as_chunks_mut::<SUB>().0).enumerate()
    {
        if factors[sub] == 0.0 {
            searched(sub, codes);
        }
        coder.code(values, factors[sub], 0.0, (-T::FORM.most, T::FORM.most - 1), codes);
    }
    T::write_codes(codes, out);
}

/// What the searches of a batch found, sub-block after sub-block.
struct Found {
    scales: [f32; ALL],
    sums: [f32; ALL],
    /// The codes are those of `inverse * value`, 0 where the bit of the sub-block is set; bits in numbers of as many as there
    /// are lanes.
    inverse: [f32; ALL],
    zero: [u32; ALL],
}

/// Encodes a super-block per lane.
#[inline(always)]
pub fn encode_lanes<T: SymmetricType, V: Lanes>(v: V, batch: Batch<'_>, out: &mut [u8]) {
    let mut found = Found { scales: [0.0; ALL], sums: [0.0; ALL], inverse: [0.0; ALL], zero: [0; ALL] };
    let descends = T::FORM.scale_most.is_some() && batch.importance.is_none();
    if descends {
        search_descending::<T, V>(v, batch.values, &mut found);
    } else {
        search::<T, V>(v, batch, &mut found);
    }
    let mut coded = [(0.0, [0; SUBS]); MOST_LANES];
    let scale_most = T::FORM.scale_most.filter(|_| !descends);
    if let Some(most) = scale_most {
        code_scales::<V>(v, most, &found, &mut coded);
    }
    let size = out.len() / V::COUNT;
    let blocks = batch.values.as_chunks::<ELEMENTS>().0.iter().zip(out.chunks_exact_mut(size));
    let all_scales = found.scales.as_chunks::<SUBS>().0;
    for (block, (values, out)) in blocks.enumerate() {
        let searched = |sub: usize, codes: &mut [u8; SUB]| {
            if descends {
                descent(T::FORM.most, &values[sub * SUB..][..SUB], codes);
                return;
            }
            let number = block * SUBS + sub;
            let (vector, lane) = (number / V::COUNT, number % V::COUNT);
            let (inverse, most) = (found.inverse[number], T::FORM.most);
            let zero = found.zero[vector] >> lane & 1 == 1;
            for (code, value) in codes.iter_mut().zip(&values[sub * SUB..]) {
                let l = if zero { 0 } else { nearest_int(inverse * value).min(most - 1).max(-most) + most };
                *code = l.to_le_bytes()[0];
            }
        };
        let mut codes = [0; ELEMENTS];
        let of_search = scale_most.map(|_| coded[block]);
        finish::<T>(values, &all_scales[block], of_search, (ByLanes(v), searched), &mut codes, out);
    }
}

/// `G` vectors of sub-blocks, from sub-block `start` on.
#[inline(always)]
fn some<V: Lanes, const G: usize>(v: V, from: &[f32], start: usize) -> [[V::Floats; SUB]; G] {
    let mut out = [[v.floats(0.0); SUB]; G];
    for (g, out) in out.iter_mut().enumerate() {
        v.columns(&from[(start + g * V::COUNT) * SUB..], SUB, out);
    }
    out
}

/// The searches by tries.
#[inline(always)]
fn search<T: SymmetricType, V: Lanes>(v: V, batch: Batch<'_>, found: &mut Found) {
    let weighs = T::FORM.scale_most.is_some();
    let mut of_block = [0.0; MOST_LANES];
    if weighs {
        let sigma2 = v.floats(2.0) * sums_of_squares(v, batch.values) / v.floats(256.0);
        sigma2.store(&mut of_block);
    }
    for start in (0..V::COUNT * SUBS).step_by(2 * V::COUNT) {
        let values = some::<V, 2>(v, batch.values, start);
        let mut weights = values;
        if let Some(importance) = batch.importance {
            weights = some::<V, 2>(v, importance, start);
        }
        for g in 0..2 {
            let at = start + g * V::COUNT;
            if weighs {
                let mut sigma2 = [0.0; MOST_LANES];
                for (lane, sigma2) in sigma2.iter_mut().enumerate().take(V::COUNT) {
                    *sigma2 = of_block[(at + lane) / SUBS];
                }
                weigh_lanes::<V, SUB>(&mut weights[g], &values[g], v.load(&sigma2));
                let mut sum = v.floats(0.0);
                for w in weights[g] {
                    sum = sum + w;
                }
                sum.store(&mut found.sums[at..]);
            } else if batch.importance.is_none() {
                for (w, value) in weights[g].iter_mut().zip(&values[g]) {
                    *w = *value * *value;
                }
            }
        }
        let of: [SymmetricLanes<V>; 2] = lanes::symmetric(v, T::FORM.most, values, &weights);
        for (g, of) in of.iter().enumerate() {
            let at = start + g * V::COUNT;
            of.scale.store(&mut found.scales[at..]);
            of.inverse.store(&mut found.inverse[at..]);
            found.zero[at / V::COUNT] = of.zero.bits();
        }
    }
}

/// The searches a code at a time. In most sub-blocks no code moves; the others come together, since they take long.
#[inline(always)]
fn search_descending<T: SymmetricType, V: Lanes>(v: V, values: &[f32], found: &mut Found) {
    const G: usize = 4;
    let (mut others, mut n) = ([0; ALL], 0);
    for start in (0..V::COUNT * SUBS).step_by(2 * V::COUNT) {
        let mut of = some::<V, 2>(v, values, start);
        let of = lanes::first_descent(v, T::FORM.most, &mut of);
        for (g, (scale, moves)) in of.iter().enumerate() {
            let at = start + g * V::COUNT;
            scale.store(&mut found.scales[at..]);
            let mut bits = moves.bits();
            while bits != 0 {
                others[n] = at + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                n += 1;
            }
        }
    }
    let values = values.as_chunks::<SUB>().0;
    for others in others[..n].chunks(G * V::COUNT) {
        let mut together = [[0.0; SUB]; G * MOST_LANES];
        for (together, at) in together.iter_mut().zip(others) {
            *together = values[*at];
        }
        let mut of = some::<V, G>(v, together.as_flattened(), 0);
        let of = lanes::descent(v, T::FORM.most, &mut of);
        let mut scales = [0.0; G * MOST_LANES];
        for (g, of) in of.iter().enumerate() {
            of.store(&mut scales[g * V::COUNT..]);
        }
        for (at, scale) in others.iter().zip(scales) {
            found.scales[*at] = scale;
        }
    }
}

/// Codes the scales by a search: a super-block in each lane.
#[inline(always)]
fn code_scales<V: Lanes>(v: V, most: i32, found: &Found, coded: &mut [(f32, [u8; SUBS]); MOST_LANES]) {
    let values = some::<V, 1>(v, &found.scales, 0);
    let weights = some::<V, 1>(v, &found.sums, 0);
    let [of] = lanes::symmetric(v, most, values, &weights);
    let mut scale = [0.0; MOST_LANES];
    of.scale.store(&mut scale);
    for (sub, value) in values[0].iter().enumerate() {
        let l = (of.inverse * *value).nearest_int().min(v.ints(most - 1)).max(v.ints(-most));
        let mut codes = [0; MOST_LANES];
        of.zero.pick_ints(v.ints(0), l + v.ints(most)).store_bytes(&mut codes);
        for (lane, coded) in coded.iter_mut().enumerate() {
            (coded.0, coded.1[sub]) = (scale[lane], codes[lane]);
        }
    }
}
