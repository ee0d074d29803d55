//! Encoding and decoding of every block type on one core, at every level of vector instructions that the machine has,
//! against ggml in the same run, in the thread's processor time; and whether the bytes are the same.
//!
//! `APR_GGML=libggml-base.so cargo bench -p apr-plugin-quants [-- --only Q4_K,Q6_K --set heavy --mib 16 --rounds 5]`
//!
//! `tests/interop/ggml.sh` builds the library and says where it is. A set is one of those that the plugin's tests use, or
//! `all`. Work is handed over as in a conversion: 1 MiB of F32 at a time.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a bench stops at the first surprise"
)]

mod bench;
#[path = "../../plugins/quants/tests/data.rs"]
mod data;
#[allow(dead_code, reason = "a part of it is for the tests")]
#[path = "../../plugins/quants/tests/ggml.rs"]
mod ggml;

use apr_plugin_quants::simd::Level;
use apr_plugin_quants::types::{BlockType, Rows, TYPES};
use apr_sdk::DType;
use bench::{argument, number};
use data::{ROW, SETS, importance, weights};
use ggml::Ggml;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;

/// Elements that are handed over at once.
const TILE: usize = 1 << 18;
/// Seconds that one pass of the slowest may take, as far as a tile allows.
const PASS: f64 = 0.1;

fn main() {
    let only = argument("--only").unwrap_or_default();
    let set = argument("--set").unwrap_or_else(|| "normal".to_owned());
    let elements = (number("--mib", 16) << 18) as usize;
    let rounds = number("--rounds", 5);
    let ggml = std::env::var_os(ggml::VARIABLE).map(|_| Ggml::load());
    let line = |path: &str, start: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned()
    };
    println!("{}; load {}", line("/proc/cpuinfo", "model name"), line("/proc/loadavg", ""));
    println!("M weights/s of one core by its processor time, best of {rounds}; behind it the ratio to ggml");
    if ggml.is_none() {
        println!("WITHOUT GGML: {} names no library, so nothing is compared with it", ggml::VARIABLE);
    }
    let mut differing = 0;
    for set in SETS.into_iter().filter(|name| set == "all" || *name == set) {
        let of_set = weights(set);
        let values: Vec<f32> = of_set.iter().copied().cycle().take(elements.next_multiple_of(TILE)).collect();
        let copied = copying(&values, rounds);
        println!("{set}: memcpy {copied:.0} M floats/s ({:.1} GB/s)", copied * 4e-3);
        for of in TYPES {
            if !only.is_empty() && !only.split(',').any(|name| name == of.dtype.name()) {
                continue;
            }
            let case = Case { of, set, ggml: ggml.as_ref(), rounds, copied };
            let with = importance(set);
            for importance in [None, Some(&with[..])] {
                if !(importance.is_none() && of.needs_importance) {
                    differing += case.encoding(&values, importance);
                }
            }
            differing += case.decoding(&values, &with);
        }
    }
    assert_eq!(differing, 0, "blocks differ");
}

/// Seconds of this thread's processor time.
fn seconds(work: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let began = now();
    work();
    now() - began
}

/// Millions of floats a second that are copied, tile by tile.
fn copying(values: &[f32], rounds: u64) -> f64 {
    let mut out = vec![0f32; values.len()];
    let mut pass = || {
        for (from, to) in values.chunks(TILE).zip(out.chunks_mut(TILE)) {
            to.copy_from_slice(black_box(from));
        }
        black_box(&mut out);
    };
    pass();
    let best = (0..rounds).map(|_| seconds(&mut pass)).fold(f64::MAX, f64::min);
    values.len() as f64 / best / 1e6
}

/// A type on a set.
struct Case<'a> {
    of: &'a BlockType,
    set: &'a str,
    ggml: Option<&'a Ggml>,
    rounds: u64,
    copied: f64,
}

impl Case<'_> {
    fn block_elements(&self) -> usize {
        self.of.dtype.info().unwrap().block_elements as usize
    }

    fn block_bytes(&self) -> usize {
        self.of.dtype.info().unwrap().block_bytes as usize
    }

    fn levels() -> impl Iterator<Item = Level> {
        Level::ALL.into_iter().filter(|level| level.is_supported())
    }

    /// Prints the speed of encoding; gives how many blocks differ.
    fn encoding(&self, values: &[f32], importance: Option<&[f32]>) -> usize {
        // ggml's functions of rows know no importance.
        if importance.is_some() && matches!(self.of.dtype, DType::Q8_1 | DType::Q8_K) {
            return 0;
        }
        let bytes = |elements: usize| elements / self.block_elements() * self.block_bytes();
        let in_tiles = |values: &[f32], out: &mut [u8], encode: &dyn Fn(&[f32], &mut [u8])| {
            for (values, out) in values.chunks(TILE).zip(out.chunks_mut(bytes(TILE))) {
                encode(black_box(values), out);
            }
        };
        let ours = |level| {
            move |values: &[f32], out: &mut [u8]| {
                let rows = Rows { values, row_len: ROW, importance, level };
                (self.of.encode)(&rows, out).unwrap();
            }
        };
        let theirs = self.ggml.map(|ggml| {
            move |values: &[f32], out: &mut [u8]| {
                ggml.encode_into(self.of.dtype, values, ROW, importance, out)
            }
        });
        type Encode<'a> = Box<dyn Fn(&[f32], &mut [u8]) + 'a>;
        let mut ways: Vec<(&str, Encode<'_>)> = Vec::new();
        ways.extend(theirs.map(|encode| ("ggml", Box::new(encode) as Encode<'_>)));
        ways.extend(Self::levels().map(|level| (level.name(), Box::new(ours(level)) as Encode<'_>)));
        let mut outs: Vec<Vec<u8>> = vec![vec![0; bytes(values.len())]; ways.len()];
        // As much as the slowest way does in a pass, and the first pass of each, which touches its memory.
        let few = &values[..ROW * 4];
        let slowest =
            ways.iter().map(|(_, encode)| seconds(|| encode(few, &mut outs[0][..bytes(few.len())])));
        let slowest = slowest.fold(1e-9, f64::max) / few.len() as f64;
        let elements = ((PASS / slowest) as usize / ROW * ROW).clamp(ROW * 4, values.len());
        let values = &values[..elements];
        let mut best = vec![f64::MAX; ways.len()];
        for _ in 0..=self.rounds {
            for (at, (_, encode)) in ways.iter().enumerate() {
                let out = &mut outs[at][..bytes(elements)];
                best[at] = best[at].min(seconds(|| in_tiles(values, out, encode)));
            }
        }
        let blocks = elements / self.block_elements();
        let size = self.block_bytes();
        let differ = |out: &Vec<u8>| {
            let same = |n: &usize| out[n * size..(n + 1) * size] != outs[0][n * size..(n + 1) * size];
            (0..blocks).filter(same).count()
        };
        let differing = outs.iter().map(differ).sum();
        let kind = if importance.is_some() { "encode+imatrix" } else { "encode" };
        let names: Vec<&str> = ways.iter().map(|(name, _)| *name).collect();
        self.print(kind, elements, &names, &best, &format!("{differing} of {blocks} blocks differ"));
        differing
    }

    /// The same for decoding.
    fn decoding(&self, values: &[f32], importance: &[f32]) -> usize {
        let (values, tile) = (&values[..TILE], TILE / self.block_elements() * self.block_bytes());
        let mut blocks = vec![0; tile];
        let few = Rows { values, row_len: ROW, importance: Some(importance), level: Level::best() };
        (self.of.encode)(&few, &mut blocks).unwrap();
        let (mut theirs, mut ours) = (vec![0f32; TILE], vec![0f32; TILE]);
        let (mut names, mut best) = (Vec::new(), Vec::new());
        // Many times the same tile: what is decoded is little beside what comes of it.
        let times = 16;
        let mut measure = |name: &'static str, decode: &mut dyn FnMut()| {
            let pass = |_| seconds(|| (0..times).for_each(|_| decode()));
            names.push(name);
            best.push((0..=self.rounds).map(pass).fold(f64::MAX, f64::min));
        };
        let known = self.ggml.filter(|ggml| ggml.decode_into(self.of.dtype, &blocks, &mut theirs));
        if let Some(ggml) = known {
            measure("ggml", &mut || {
                ggml.decode_into(self.of.dtype, black_box(&blocks), &mut theirs);
            });
        }
        let mut differing = 0;
        for level in Self::levels() {
            measure(level.name(), &mut || (self.of.decode)(level, black_box(&blocks), &mut ours));
            let other = |(a, b): &(&f32, &f32)| a.to_bits() != b.to_bits();
            differing += if known.is_some() { ours.iter().zip(&theirs).filter(other).count() } else { 0 };
        }
        self.print("decode", TILE * times, &names, &best, &format!("{differing} of {TILE} floats differ"));
        differing
    }

    fn print(&self, kind: &str, elements: usize, names: &[&str], best: &[f64], verdict: &str) {
        let mut line = format!("{:8} {:8} {kind:14}", self.of.dtype.name(), self.set);
        for (name, seconds) in names.iter().zip(best) {
            let rate = elements as f64 / seconds / 1e6;
            line += &format!("  {name} {rate:7.1}");
            if names[0] == "ggml" && *name != "ggml" {
                line += &format!(" ({:5.2} x)", best[0] / seconds);
            }
            if matches!(self.of.dtype, DType::Q4_0 | DType::Q8_0) {
                line += &format!(" {:3.0} % of memcpy", rate / self.copied * 100.0);
            }
        }
        println!("{line}  {verdict}");
    }
}
