//! Each operation of each level, lane by lane, against plain code on values that meet every branch.

use super::{Body, Floats, Ints, Lanes, Level, Mask, Task, compiled, run};
use crate::number::{nearest_int, truncated};

const EDGES: [f32; 24] = [
    0.0,
    -0.0,
    0.5,
    -1.5,
    2.5,
    1e-41,
    -1e-41,
    1e-15,
    4_194_303.0,
    -4_194_304.0,
    8_388_609.0,
    1e10,
    -1e10,
    2_147_483_520.0,
    -2_147_483_648.0,
    2_147_483_648.0,
    1e30,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    3.0,
    -7.25,
];

type Compares = fn(f32, f32) -> bool;

struct EveryOperation;

impl Task for EveryOperation {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self, v: V) {
        for start in 0..EDGES.len() {
            let a: Vec<f32> = EDGES.iter().cycle().skip(start).take(V::COUNT).copied().collect();
            for shift in 0..EDGES.len() {
                let b: Vec<f32> = EDGES.iter().cycle().skip(start + shift).take(V::COUNT).copied().collect();
                floats(v, &a, &b);
            }
            let mut ints = vec![0; V::COUNT];
            v.load(&a).nearest_int().store(&mut ints);
            assert!(ints.iter().zip(&a).all(|(l, a)| *l == nearest_int(*a)), "{a:?}");
            v.load(&a).truncated().store(&mut ints);
            assert!(ints.iter().zip(&a).all(|(l, a)| *l == truncated(*a)), "{a:?}");
            integers(v, &ints);
        }
        memory(v);
    }
}

#[inline(always)]
fn floats<V: Lanes>(v: V, a: &[f32], b: &[f32]) {
    let (x, y) = (v.load(a), v.load(b));
    let check = |name: &str, made: V::Floats, want: &dyn Fn(f32, f32) -> f32| {
        let mut out = vec![0.0; V::COUNT];
        made.store(&mut out);
        for (lane, out) in out.iter().enumerate() {
            let want = want(a[lane], b[lane]);
            let same = out.to_bits() == want.to_bits() || out.is_nan() && want.is_nan();
            assert!(same, "{name} of {} and {}: {out}, not {want}", a[lane], b[lane]);
        }
    };
    check("+", x + y, &|a, b| a + b);
    check("-", x - y, &|a, b| a - b);
    check("*", x * y, &|a, b| a * b);
    check("/", x / y, &|a, b| a / b);
    check("sqrt", x.sqrt(), &|a, _| a.sqrt());
    check("abs", x.abs(), &|a, _| a.abs());
    check("min", x.min(y), &|a, b| if a < b { a } else { b });
    check("max", x.max(y), &|a, b| if a > b { a } else { b });
    let truth: [(V::Mask, Compares); 4] = [
        (x.less(y), |a, b| a < b),
        (x.at_most(y), |a, b| a <= b),
        (x.more(y), |a, b| a > b),
        (x.equals(y), |a, b| a == b),
    ];
    for (mask, want) in truth {
        check("pick", mask.pick(x, y), &|a, b| if want(a, b) { a } else { b });
        check("pick not", (!mask).pick(x, y), &|a, b| if want(a, b) { b } else { a });
        check("pick ints", mask.pick_ints(x.bits(), y.bits()).as_bits(), &|a, b| {
            if want(a, b) { a } else { b }
        });
        let bits = (0..V::COUNT).fold(0, |bits, lane| bits | u32::from(want(a[lane], b[lane])) << lane);
        assert_eq!((mask.bits(), mask.any()), (bits, bits != 0));
        assert_eq!(mask.first(), (0..V::COUNT).find(|lane| bits >> lane & 1 == 1));
        assert_eq!((mask & v.mask(false)).bits(), 0);
        assert_eq!((mask | v.mask(true)).bits(), v.mask(true).bits());
    }
    if a.iter().all(|a| !a.is_nan()) {
        assert_eq!(x.greatest(), a.iter().fold(f32::NEG_INFINITY, |most, a| most.max(*a)));
        assert_eq!(x.least(), a.iter().fold(f32::INFINITY, |least, a| least.min(*a)));
    }
}

#[inline(always)]
fn integers<V: Lanes>(v: V, a: &[i32]) {
    let x = v.load_ints(a);
    let (y, n) = (v.numbers() - v.ints(3), v.numbers());
    let check = |name: &str, made: V::Ints, want: &dyn Fn(i32, i32) -> i32| {
        let (mut out, mut low) = (vec![0; V::COUNT], vec![0; V::COUNT]);
        made.store(&mut out);
        made.store_bytes(&mut low);
        for (lane, out) in out.iter().enumerate() {
            assert_eq!(*out, want(a[lane], lane as i32), "{name} of {}", a[lane]);
            assert_eq!(low[lane], out.to_le_bytes()[0], "{name}");
        }
        v.load_bytes(&low).store(&mut out);
        assert!(out.iter().zip(&low).all(|(out, low)| *out == i32::from(*low)));
    };
    check("+", x + y, &|a, n| a.wrapping_add(n - 3));
    check("-", x - y, &|a, n| a.wrapping_sub(n - 3));
    check("*", x * y, &|a, n| a.wrapping_mul(n - 3));
    check("&", x & y, &|a, n| a & (n - 3));
    check("|", x | y, &|a, n| a | (n - 3));
    check("^", x ^ y, &|a, n| a ^ (n - 3));
    check("min", x.min(y), &|a, n| a.min(n - 3));
    check("max", x.max(y), &|a, n| a.max(n - 3));
    check("equals", x.equals(y).pick_ints(x, n), &|a, n| if a == n - 3 { a } else { n });
    check("more", x.more(y).pick_ints(x, n), &|a, n| if a > n - 3 { a } else { n });
    check("<<", x.shift_left(5), &|a, _| a << 5);
    check(">>", x.shift_right(5), &|a, _| (a.cast_unsigned() >> 5).cast_signed());
    check(">> signed", x.shift_right_signed(5), &|a, _| a >> 5);
    check("<< each", x.shift_left_each(n), &|a, n| a << n);
    check(">> each", x.shift_right_each(n), &|a, n| (a.cast_unsigned() >> n).cast_signed());
    check("to floats", x.to_floats().bits(), &|a, _| (a as f32).to_bits().cast_signed());
}

#[inline(always)]
fn memory<V: Lanes>(v: V) {
    let values: Vec<f32> = (0..1024).map(|n| n as f32).collect();
    let ints: Vec<i32> = (0..1024).collect();
    let mut out = vec![0.0; V::COUNT];
    for stride in [20, 32, 37] {
        let mut columns = [v.floats(0.0); 20];
        v.columns(&values, stride, &mut columns);
        for (column, floats) in columns.into_iter().enumerate() {
            floats.store(&mut out);
            assert!(out.iter().enumerate().all(|(lane, out)| *out == (lane * stride + column) as f32));
        }
    }
    // The last three lanes are beyond the end, the first before it.
    let at = (v.numbers() - v.ints(1)) * v.ints(2);
    let few = V::COUNT * 2 - 7;
    let want = |lane: usize| if lane == 0 { few - 1 } else { ((lane - 1) * 2).min(few - 1) };
    v.gather(&values[..few], at).store(&mut out);
    assert!(out.iter().enumerate().all(|(lane, out)| *out == want(lane) as f32), "{out:?}");
    let mut got = vec![0; V::COUNT];
    v.gather_ints(&ints[..few], at).store(&mut got);
    assert!(got.iter().enumerate().all(|(lane, got)| *got == want(lane) as i32), "{got:?}");
    v.gather(&[], at).store(&mut out);
    assert!(out.iter().all(|out| *out == 0.0));
    let table: [f32; 16] = std::array::from_fn(|n| n as f32 * 1.5);
    v.look_up(v.table(&table), v.numbers() * v.ints(5)).store(&mut out);
    assert!(out.iter().enumerate().all(|(lane, out)| *out == table[lane * 5 % 16]));
}

#[test]
fn every_operation_is_as_plain_code() {
    for level in Level::ALL {
        let ran = run(level, EveryOperation).is_some();
        assert_eq!(ran, level != Level::Scalar && level.is_supported(), "{}", level.name());
    }
}

struct Chain(Vec<f32>);

impl Body for Chain {
    type Output = f32;

    #[inline(always)]
    fn run(self) -> f32 {
        self.0.iter().fold(0.0, |sum, value| sum + value * value)
    }
}

#[test]
fn plain_code_neither_fuses_nor_reorders_at_any_level() {
    let values: Vec<f32> = (0..999).map(|n| 1.0 / (n as f32 + 0.7)).collect();
    let scalar = compiled(Level::Scalar, Chain(values.clone()));
    for level in Level::ALL {
        assert_eq!(compiled(level, Chain(values.clone())).to_bits(), scalar.to_bits(), "{}", level.name());
    }
}
