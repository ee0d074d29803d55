//! The distance between two runs of numbers.
//!
//! Numbers are decoded into small buffers and summed in chunks whose boundaries depend on the tensor alone;
//! sums are merged in chunk order. So the result does not depend on the number of threads.

use crate::diff::sums::Sums;
use crate::registry::Registry;
use crate::values::double_double::DoubleDouble;
use crate::values::moments::{is_plain, moments, products, squares};
use crate::values::numbers::{CHUNK, Chunk, Numbers};
use apr_sdk::DType;
use fearless_simd::{Level, dispatch};

/// Sums accumulated side by side, so that the compiler can vectorize; 8 gives better code than 4 or 16. The
/// same on every processor, whatever its vector width, so all give the same sums.
const LANES: usize = 8;

/// The result for two runs of numbers, a and b.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distance {
    /// Number of pairs compared.
    pub count: u64,
    /// Number of pairs that differ by more than the tolerance; a pair with a non-finite side differs unless
    /// both are NaN or the same infinity.
    pub differing: u64,
    /// Number of those pairs that have a non-finite side.
    pub mismatched: u64,
    /// The greatest |a − b| over finite pairs; infinite beyond the range of a float.
    pub max_abs: f64,
    /// The index of that pair, in numbers.
    pub max_at: u64,
    /// The greatest distance in representable values (ULP), for two floats of one type.
    pub max_ulp: u64,
    /// Number of pairs with two finite sides; the sums are over these.
    pub finite: u64,
    /// Sum of |a − b|.
    pub sum_abs: DoubleDouble,
    /// Sum of (a − b)².
    pub sum_squares: DoubleDouble,
    /// Sums of a² and of b².
    pub squares: [DoubleDouble; 2],
    /// Sum of a · b.
    pub product: DoubleDouble,
    /// Number of NaN in a, and in b.
    pub nans: [u64; 2],
    /// Number of infinities in a, and in b.
    pub infs: [u64; 2],
}

impl Distance {
    /// Adds the result for a later run, which begins at index `at`.
    pub fn merge(&mut self, later: &Distance, at: u64) {
        if later.max_abs > self.max_abs {
            (self.max_abs, self.max_at) = (later.max_abs, at + later.max_at);
        }
        self.max_ulp = self.max_ulp.max(later.max_ulp);
        self.count += later.count;
        self.differing += later.differing;
        self.mismatched += later.mismatched;
        self.finite += later.finite;
        self.sum_abs += later.sum_abs;
        self.sum_squares += later.sum_squares;
        self.product += later.product;
        for side in 0..2 {
            self.squares[side] += later.squares[side];
            self.nans[side] += later.nans[side];
            self.infs[side] += later.infs[side];
        }
    }

    /// The mean of |a − b|.
    pub fn mean_abs(&self) -> f64 {
        if self.finite == 0 { 0.0 } else { (self.sum_abs / DoubleDouble::count(self.finite)).value() }
    }

    /// √Σ(a − b)².
    pub fn l2(&self) -> f64 {
        self.sum_squares.sqrt().value()
    }

    /// The L2 distance divided by the greater norm: 0 for equal inputs or two zero vectors, at most 2.
    pub fn relative(&self) -> f64 {
        let squares = self.squares[0].max(self.squares[1]);
        if squares.is_zero() { 0.0 } else { (self.sum_squares / squares).sqrt().value() }
    }

    /// The cosine of the angle between a and b; `None` if one of them is zero.
    pub fn cosine(&self) -> Option<f64> {
        self.sums().cosine()
    }

    /// The sums that most figures are made of.
    pub fn sums(&self) -> Sums {
        Sums { squares: self.squares, product: self.product, errors: self.sum_squares }
    }
}

/// The way to compare two dtypes.
pub struct Measure {
    /// Decoders for both sides.
    pub sides: [Numbers; 2],
    tolerance: f64,
    /// Computes distances in representable values between floats of one type.
    ulp: Option<Ulp>,
}

/// The greatest distance in representable values between finite floats of one type.
type Ulp = fn(&[u8], &[u8]) -> u64;

impl Measure {
    /// `None` if a type's values cannot be read, or if only one type is complex.
    pub fn new(a: DType, b: DType, tolerance: f64, registry: &Registry) -> Option<Measure> {
        let sides = [Numbers::with(a, registry)?, Numbers::with(b, registry)?];
        if sides[0].per_element != sides[1].per_element {
            return None;
        }
        let ulp = if a == b { ULPS.iter().find(|row| row.0 == a).map(|row| row.1) } else { None };
        Some(Measure { sides, tolerance, ulp })
    }

    /// Returns whether distances in representable values make sense.
    pub fn has_ulp(&self) -> bool {
        self.ulp.is_some()
    }

    /// Compares `count` numbers of each side.
    pub fn run(&self, a: &[u8], b: &[u8], count: usize) -> Distance {
        self.run_seen(a, b, count, &mut |_, _| ())
    }

    /// The same; `see` is called with the numbers of each side, 0 or 1, as they are read.
    pub fn run_seen(
        &self,
        a: &[u8],
        b: &[u8],
        count: usize,
        see: &mut dyn FnMut(usize, Chunk<'_>),
    ) -> Distance {
        let mut all = Distance::default();
        let mut buffers = [[0.0; CHUNK]; 2];
        let mut done = 0;
        while done < count {
            let n = CHUNK.min(count - done);
            let a = part(&self.sides[0], a, done, n);
            let b = part(&self.sides[1], b, done, n);
            let chunk = if self.sides.iter().all(Numbers::is_narrow) {
                self.sides[0].read_narrow(a, &mut buffers[0][..n]);
                self.sides[1].read_narrow(b, &mut buffers[1][..n]);
                buffers.iter().enumerate().for_each(|(side, read)| see(side, Chunk::Narrow(&read[..n])));
                self.narrow_chunk(a, b, n, &mut buffers, all.max_abs)
            } else {
                self.wide_chunk(a, b, n, see)
            };
            all.merge(&chunk, done as u64);
            done += n;
        }
        all
    }

    /// `values` holds the decoded numbers; `known` is the greatest distance so far: only a greater one is
    /// located.
    fn narrow_chunk(
        &self,
        a: &[u8],
        b: &[u8],
        n: usize,
        values: &mut [[f32; CHUNK]; 2],
        known: f64,
    ) -> Distance {
        // The buffers beyond `n` are equal and zero, so they only affect the count.
        values.iter_mut().for_each(|values| values[n..].fill(0.0));
        let [left, right] = values;
        let sums = Lanes::of(left, right, self.tolerance);
        // Squares of finite f32 cannot overflow an f64: a sum that is not finite reveals a number that is
        // not.
        if !sums.all_finite() {
            return self.wide_chunk(a, b, n, &mut |_, _| ());
        }
        let mut distance = sums.distance(n as u64);
        if sums.is_lopsided() {
            distance.product = DoubleDouble::from(product(left, right));
        }
        if distance.max_abs > known {
            let mut pairs = left.iter().zip(right.iter());
            let far = pairs.position(|(l, r)| (f64::from(*l) - f64::from(*r)).abs() == distance.max_abs);
            distance.max_at = far.unwrap_or(0) as u64;
        }
        distance.max_ulp = self.ulp.map_or(0, |ulp| ulp(a, b));
        distance
    }

    /// Number by number, checking everything.
    fn wide_chunk(&self, a: &[u8], b: &[u8], n: usize, see: &mut dyn FnMut(usize, Chunk<'_>)) -> Distance {
        let mut high = [[0.0; CHUNK]; 2];
        let mut low = [[0.0; CHUNK]; 2];
        for (side, bytes) in [a, b].into_iter().enumerate() {
            self.sides[side].read_wide(bytes, &mut high[side][..n], &mut low[side][..n]);
            see(side, Chunk::Wide(&high[side][..n], &low[side][..n]));
        }
        let mut distance = Distance { count: n as u64, ..Distance::default() };
        let mut abs = 0.0;
        let mut errors = 0.0;
        let mut product = 0.0;
        let mut squares = [0.0; 2];
        let mut greatest = [0.0f64; 2];
        for at in 0..n {
            let a = high[0][at];
            let b = high[1][at];
            for (side, value) in [a, b].into_iter().enumerate() {
                distance.nans[side] += u64::from(value.is_nan());
                distance.infs[side] += u64::from(value.is_infinite());
            }
            if !(a.is_finite() && b.is_finite()) {
                let same = a == b || a.is_nan() && b.is_nan();
                distance.mismatched += u64::from(!same);
                distance.differing += u64::from(!same);
                continue;
            }
            let away = ((a - b) + (low[0][at] - low[1][at])).abs();
            distance.finite += 1;
            distance.differing += u64::from(away > self.tolerance);
            abs += away;
            errors += away * away;
            product += a * b;
            squares = [squares[0] + a * a, squares[1] + b * b];
            greatest = [greatest[0].max(a.abs()), greatest[1].max(b.abs())];
            if away > distance.max_abs {
                (distance.max_abs, distance.max_at) = (away, at as u64);
            }
        }
        if [distance.max_abs, greatest[0], greatest[1]].into_iter().all(is_plain) {
            distance.sum_abs = DoubleDouble::from(abs);
            distance.sum_squares = DoubleDouble::from(errors);
            distance.squares = squares.map(DoubleDouble::from);
            distance.product = DoubleDouble::from(product);
        } else {
            distance.sums_out_of_range(&mut high, &low, n, greatest);
        }
        if let Some(ulp) = self.ulp {
            distance.max_ulp =
                if distance.finite == n as u64 { ulp(a, b) } else { self.ulp_of_finite(a, b, &high, n) };
        }
        distance
    }

    /// Pair by pair, skipping those with a non-finite side.
    fn ulp_of_finite(&self, a: &[u8], b: &[u8], values: &[[f64; CHUNK]; 2], n: usize) -> u64 {
        let Some(ulp) = self.ulp else { return 0 };
        let width = self.sides[0].bytes_of(1);
        let finite = (0..n).filter(|&at| values[0][at].is_finite() && values[1][at].is_finite());
        finite.map(|at| ulp(&a[at * width..][..width], &b[at * width..][..width])).max().unwrap_or(0)
    }
}

/// The bytes of `n` numbers, from the number at `at` on.
fn part<'b>(numbers: &Numbers, bytes: &'b [u8], at: usize, n: usize) -> &'b [u8] {
    let from = numbers.bytes_of(at);
    &bytes[from..(from + numbers.bytes_of(n)).min(bytes.len())]
}

impl Distance {
    /// The sums over pairs of which some are so large, or so small, that their squares leave the range of a float; sets to zero
    /// those that are not finite.
    fn sums_out_of_range(
        &mut self,
        high: &mut [[f64; CHUNK]; 2],
        low: &[[f64; CHUNK]; 2],
        n: usize,
        greatest: [f64; 2],
    ) {
        let [a, b] = high;
        for (a, b) in a.iter_mut().zip(b) {
            if !(a.is_finite() && b.is_finite()) {
                (*a, *b) = (0.0, 0.0);
            }
        }
        let mut away = [0.0; CHUNK];
        let mut most = 0.0f64;
        // The difference of halves cannot overflow.
        let scale = if greatest[0].max(greatest[1]) > f64::MAX / 4.0 { 0.5 } else { 1.0 };
        for at in 0..n {
            let rest = low[0][at] - low[1][at];
            away[at] = (high[0][at] * scale - high[1][at] * scale + rest).abs();
            most = most.max(away[at]);
        }
        let of_scale = DoubleDouble::from(1.0 / scale);
        self.sum_abs = moments(&away[..n], &[0.0; CHUNK][..n], most, 0.0).sum * of_scale;
        self.sum_squares = squares(&away[..n], most) * of_scale * of_scale;
        for side in 0..2 {
            self.squares[side] = squares(&high[side][..n], greatest[side]);
        }
        self.product = products(&high[0][..n], &high[1][..n], greatest);
    }
}

/// The sum of products of pairs.
fn product(left: &[f32; CHUNK], right: &[f32; CHUNK]) -> f64 {
    left.iter().zip(right).map(|(left, right)| f64::from(*left) * f64::from(*right)).sum()
}

/// The sums of one chunk, in lanes.
struct Lanes {
    max: [f64; LANES],
    differing: [f64; LANES],
    abs: [f64; LANES],
    squares: [f64; LANES],
    a: [f64; LANES],
    b: [f64; LANES],
}

impl Lanes {
    fn of(left: &[f32; CHUNK], right: &[f32; CHUNK], tolerance: f64) -> Lanes {
        dispatch!(Level::new(), _ => Lanes::add_up(left, right, tolerance))
    }

    /// Inlined, so that it is compiled for each kind of processor.
    #[inline(always)]
    fn add_up(left: &[f32; CHUNK], right: &[f32; CHUNK], tolerance: f64) -> Lanes {
        let mut max = [0.0; LANES];
        let mut differing = [0.0; LANES];
        let mut abs = [0.0; LANES];
        let mut squares = [0.0; LANES];
        let mut a = [0.0; LANES];
        let mut b = [0.0; LANES];
        for (left, right) in left.as_chunks::<LANES>().0.iter().zip(right.as_chunks::<LANES>().0) {
            for lane in 0..LANES {
                let l = f64::from(left[lane]);
                let r = f64::from(right[lane]);
                let away = (l - r).abs();
                max[lane] = if away > max[lane] { away } else { max[lane] };
                differing[lane] += if away > tolerance { 1.0 } else { 0.0 };
                abs[lane] += away;
                squares[lane] += away * away;
                a[lane] += l * l;
                b[lane] += r * r;
            }
        }
        Lanes { max, differing, abs, squares, a, b }
    }

    fn all_finite(&self) -> bool {
        (self.a.iter().sum::<f64>() + self.b.iter().sum::<f64>()).is_finite()
    }

    /// Returns whether one side is so much longer than the other that the difference of their squares hides their product.
    fn is_lopsided(&self) -> bool {
        const MOST: f64 = 1e4;
        let [a, b] = [&self.a, &self.b].map(|lanes| lanes.iter().sum::<f64>());
        a > MOST * b || b > MOST * a
    }

    fn distance(&self, n: u64) -> Distance {
        let sums = [self.a, self.b, self.squares, self.abs, self.differing];
        let [a, b, apart, abs, differing] = sums.map(|lanes| lanes.iter().sum::<f64>());
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of at most CHUNK"
        )]
        let differing = differing as u64;
        Distance {
            count: n,
            finite: n,
            differing,
            max_abs: self.max.into_iter().fold(0.0, f64::max),
            sum_abs: DoubleDouble::from(abs),
            sum_squares: DoubleDouble::from(apart),
            squares: [a, b].map(DoubleDouble::from),
            // 2ab = a² + b² − (a − b)²: saves one sum.
            product: DoubleDouble::from((a + b - apart) / 2.0),
            ..Distance::default()
        }
    }
}

/// Distances in representable values for a sign-magnitude float type: codes become integers that grow with
/// the value, with both zeros at 0. Branch-free, and a maximum in any order, so the compiler vectorizes it.
macro_rules! ulp {
    ($code:ty) => {
        |a, b| {
            #[inline(always)]
            fn place(code: &[u8; size_of::<$code>()]) -> $code {
                let code = <$code>::from_le_bytes(*code);
                let sign = code >> (<$code>::BITS - 1);
                ((code & <$code>::MAX) ^ sign) - sign
            }
            let greatest = dispatch!(Level::new(), _ => {
                let mut greatest = 0;
                for (a, b) in a.as_chunks().0.iter().zip(b.as_chunks().0) {
                    greatest = greatest.max(place(a).abs_diff(place(b)));
                }
                greatest
            });
            greatest.into()
        }
    };
}

/// The float types in sign-magnitude form that represent each number once.
static ULPS: &[(DType, Ulp)] = &[
    (DType::F64, ulp!(i64)),
    (DType::F32, ulp!(i32)),
    (DType::F16, ulp!(i16)),
    (DType::BF16, ulp!(i16)),
    (DType::F8_E4M3, ulp!(i8)),
    (DType::F8_E5M2, ulp!(i8)),
    (DType::F8_E4M3FNUZ, ulp!(i8)),
    (DType::F8_E5M2FNUZ, ulp!(i8)),
    (DType::C64, ulp!(i32)),
    (DType::C128, ulp!(i64)),
];
