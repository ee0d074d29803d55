//! Products of matrices in their images with one token and with many, against the rate at which the same memory can
//! be read at all, in the same run; and how fast images are made.
//!
//! `cargo bench -p apr-plugin-cpu-kernels [-- --only Q4_K,Q6_K --level avx512 --threads 1,2 --rounds 15 --mib 1100
//! --tokens 1,4,16,64 --shape large,layers]`
//!
//! `large` is one matrix with 4096 columns; `layers` are those of a model of 1.5e9 weights, one after the other. Rates are of
//! bytes of plain rows (1e9 a second) by the threads' processor time, the slowest thread's; the floor is the best of several ways
//! of reading the same memory. Rounds of reading and of multiplying alternate; the best of each counts. Errors are those of the
//! last products timed against F64, by the sum of magnitudes.

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
#[allow(dead_code, unused_imports, reason = "parts of it are for sessions and for tests")]
#[path = "../../plugins/cpu-kernels/src/level.rs"]
mod level;
#[allow(dead_code, unused_imports, reason = "parts of it are for sessions and for tests")]
#[path = "../../plugins/cpu-kernels/src/matrix/mod.rs"]
mod matrix;

use apr_sdk::half::to_f16;
use apr_sdk::{DType, ImageMemory, ImageSink, MatrixSpec, Result, Rows};
use bench::{argument, noise, number};
use level::Level;
use matrix::{Activations, Matrix};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::time::{ClockId, clock_gettime};
use std::ops::Range;
use std::sync::{Barrier, Mutex};

/// Rows and columns of a layer of a model of 1.5e9 weights: query, key and value; output; gate and up; down.
const LAYER: [(u64, u64); 4] = [(2048, 1536), (1536, 1536), (17920, 1536), (1536, 8960)];

fn main() {
    let only = argument("--only").unwrap_or_else(|| "Q4_0,Q8_0,Q4_K,Q5_K,Q6_K,F16,BF16,F32".to_owned());
    let level = argument("--level").map_or(Level::best(), |name| Level::named(&name).unwrap());
    let list = |name: &str, standard: &str| -> Vec<usize> {
        let text = argument(name).unwrap_or_else(|| standard.to_owned());
        text.split(',').map(|number| number.parse().unwrap()).collect()
    };
    let (threads, tokens) = (list("--threads", "1,2"), list("--tokens", "1,4,16,64"));
    let (rounds, mib) = (number("--rounds", 15), number("--mib", 1100));
    let shapes = argument("--shape").unwrap_or_else(|| "large,layers".to_owned());
    let line = |path: &str, start: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned()
    };
    println!(
        "{}; load {}; level {}",
        line("/proc/cpuinfo", "model name"),
        line("/proc/loadavg", ""),
        level.name()
    );
    for name in only.split(',') {
        let dtype = DType::from_name(name).unwrap();
        for shape in shapes.split(',') {
            let set = Set::new(dtype, shape, mib << 20);
            for threads in &threads {
                for tokens in &tokens {
                    set.measure(level, *threads, *tokens, rounds);
                }
            }
        }
    }
}

/// Memory in large pages, if the machine has some.
struct Pages(&'static mut [u8]);

impl Pages {
    fn new(bytes: usize) -> Pages {
        let bytes = bytes.next_multiple_of(2 << 20);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the mapping is new, private, zero and never given back.
        unsafe {
            let at = mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE).unwrap();
            let _ = madvise(at, bytes, Advice::LinuxHugepage);
            // The system gives pages at the first touch, which is not to be measured.
            (0..bytes).step_by(4096).for_each(|page| at.cast::<u8>().add(page).write_volatile(0));
            Pages(std::slice::from_raw_parts_mut(at.cast(), bytes))
        }
    }
}

/// A part of the pages.
struct Part(&'static mut [u8]);

impl ImageMemory for Part {
    fn bytes(&self) -> &[u8] {
        self.0
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        Ok(self.0)
    }
}

/// Hands out pages, one image behind the other, on lines of the cache.
struct Arena {
    rest: Option<&'static mut [u8]>,
}

impl ImageSink for Arena {
    fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
        let bytes = bytes as usize;
        let (part, rest) = self.rest.take().unwrap().split_at_mut(bytes.next_multiple_of(64));
        self.rest = Some(rest);
        Ok(Box::new(Part(&mut part[..bytes])))
    }
}

/// Plain rows that repeat.
struct Repeated {
    plain: Vec<u8>,
    row_bytes: usize,
}

impl Rows for Repeated {
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let rows = self.plain.len() / self.row_bytes;
        for (n, row) in out.chunks_mut(self.row_bytes).enumerate() {
            let at = (first as usize + n) % rows * self.row_bytes;
            row.copy_from_slice(&self.plain[at..at + self.row_bytes]);
        }
        Ok(())
    }
}

/// Random rows whose floats are small finite numbers.
fn plain(dtype: DType, rows: usize, columns: u64) -> Repeated {
    let info = dtype.info().unwrap();
    let row_bytes = MatrixSpec::new(dtype, 1, columns).unwrap().row_bytes() as usize;
    let mut plain: Vec<u8> =
        noise(0x9e37_79b9_7f4a_7c15).flat_map(u64::to_le_bytes).take(rows * row_bytes).collect();
    let mut numbers = noise(77).map(|bits| (bits >> 40) as f32 / (1u64 << 24) as f32);
    for block in plain.chunks_mut(info.block_bytes as usize) {
        let number = numbers.next().unwrap();
        if info.block_elements == 1 {
            let value = number - 0.5;
            let bits = if dtype == DType::F16 { u32::from(to_f16(value)) } else { value.to_bits() };
            let bytes = if dtype == DType::BF16 { (bits >> 16).to_le_bytes() } else { bits.to_le_bytes() };
            block.copy_from_slice(&bytes[..block.len()]);
            continue;
        }
        for field in info.swap.iter().filter(|field| field.width == 2) {
            for n in 0..field.count {
                let at = usize::from(field.offset + 2 * n);
                block[at..at + 2].copy_from_slice(&to_f16(0.01 + 0.01 * number).to_le_bytes());
            }
        }
    }
    Repeated { plain, row_bytes }
}

/// Matrices that are multiplied one after the other.
struct Set {
    name: String,
    matrices: Vec<Matrix>,
}

/// Seconds of this thread's processor time.
fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

impl Set {
    fn new(dtype: DType, shape: &str, bytes: u64) -> Set {
        let row = |columns| MatrixSpec::new(dtype, 1, columns).unwrap().row_bytes();
        let specs: Vec<(u64, u64)> = match shape {
            "large" => vec![(bytes.div_ceil(row(4096)).next_multiple_of(32), 4096)],
            "layers" => {
                let layer: u64 = LAYER.iter().map(|(rows, columns)| rows * row(*columns)).sum();
                LAYER.repeat((bytes * 2 / 3).div_ceil(layer) as usize)
            }
            other => panic!("{other} is no shape"),
        };
        let total: u64 =
            specs.iter().map(|(rows, columns)| rows.next_multiple_of(16) * row(*columns) + 64).sum();
        let mut arena = Arena { rest: Some(Pages::new(total as usize).0) };
        let (mut seconds, mut matrices) = (0.0, Vec::new());
        for (rows, columns) in specs {
            let spec = MatrixSpec::new(dtype, rows, columns).unwrap();
            let from = plain(dtype, 64, columns);
            let before = now();
            matrices.push(Matrix::prepare(&spec, &from, &mut arena).unwrap());
            seconds += now() - before;
        }
        let name = format!("{dtype} {shape}");
        println!(
            "{name}: {:.2} GB, images made at {:.2} GB/s",
            total as f64 / 1e9,
            total as f64 / seconds / 1e9
        );
        Set { name, matrices }
    }

    /// A thread's rows of a matrix: whole tiles.
    fn rows(matrix: &Matrix, thread: usize, threads: usize) -> Range<usize> {
        let rows = matrix.spec().rows() as usize;
        let cut = |n: usize| if n == threads { rows } else { rows / 16 * n / threads * 16 };
        cut(thread)..cut(thread + 1)
    }

    fn measure(&self, level: Level, threads: usize, tokens: usize, rounds: u64) {
        let bytes: u64 = self.matrices.iter().map(|matrix| matrix.spec().bytes()).sum();
        let mut values = noise(5).map(|bits| (bits >> 40) as f32 / (1u64 << 23) as f32 - 1.0);
        let x: Vec<Activations> = LAYER
            .iter()
            .map(|(_, columns)| *columns)
            .chain([4096])
            .map(|columns| {
                let x = Activations::new(self.matrices[0].rounding(), columns as usize, tokens).unwrap();
                for token in 0..tokens {
                    let row: Vec<f32> = values.by_ref().take(columns as usize).collect();
                    // SAFETY: there is one thread yet.
                    unsafe { x.fill(level, token, &row) };
                }
                x
            })
            .collect();
        let x_of =
            |matrix: &Matrix| x.iter().find(|x| x.columns() == matrix.spec().columns() as usize).unwrap();
        // The last token's products with each thread's rows of the last matrix, in memory that has been touched.
        let matrix = self.matrices.last().unwrap();
        let last: Vec<_> = (0..threads)
            .map(|thread| Mutex::new(vec![1f32; Set::rows(matrix, thread, threads).len()]))
            .collect();
        let multiply = |thread: usize| {
            let mut sum = 0.0;
            let mut last = last[thread].lock().unwrap();
            for (n, matrix) in self.matrices.iter().enumerate() {
                let next =
                    self.matrices.get(n + 1).map(|next| next.bytes_of_rows(Set::rows(next, thread, threads)));
                let rows = Set::rows(matrix, thread, threads);
                let (start, kept) = (rows.start, n + 1 == self.matrices.len());
                matrix.multiply(level, rows, x_of(matrix), 0..tokens, next, &mut |token, first, products| {
                    sum += products[0];
                    if kept && token == tokens - 1 {
                        last[first - start..][..products.len()].copy_from_slice(products);
                    }
                });
            }
            f64::from(sum)
        };
        let read = |variant: usize| {
            move |thread: usize| {
                let mut sum = 0;
                for matrix in &self.matrices {
                    sum ^= reading(matrix.bytes_of_rows(Set::rows(matrix, thread, threads)), variant);
                }
                sum as f64
            }
        };
        let passes = if tokens > 4 { rounds.div_ceil(5) } else { rounds };
        let (mut floors, mut best) = ([f64::MAX; VARIANTS.len()], f64::MAX);
        for _ in 0..passes {
            for (variant, floor) in floors.iter_mut().enumerate() {
                *floor = floor.min(pass(threads, &read(variant)));
            }
            best = best.min(pass(threads, &multiply));
        }
        let (at, floor) = floors.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
        let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
        let products: Vec<f32> = last.into_iter().flat_map(|last| last.into_inner().unwrap()).collect();
        println!(
            "{}, {threads} threads, {tokens} tokens: {:.2} GB/s, floor {:.2} GB/s ({}), {:.1} % of it, {:.0} M weights/s each token, error {:.1e}",
            self.name,
            rate(best),
            rate(*floor),
            VARIANTS[at].0,
            100.0 * floor / best,
            self.matrices.iter().map(|m| m.spec().rows() * m.spec().columns()).sum::<u64>() as f64
                * tokens as f64
                / best
                / 1e6,
            error(matrix, &x_of(matrix).values(tokens - 1), &products),
        );
    }
}

/// The largest error of products, by the sum of magnitudes.
fn error(matrix: &Matrix, x: &[f32], products: &[f32]) -> f64 {
    let mut row = vec![0.0; x.len()];
    let mut largest = 0f64;
    // A number of rows that is odd, so that all places within a tile have their turn.
    for (n, product) in products.iter().enumerate().step_by((products.len() / 300) | 1) {
        matrix.row(n, &mut row);
        let (mut sum, mut size) = (0.0, 0.0);
        for (w, x) in row.iter().zip(x) {
            let term = f64::from(*w) * f64::from(*x);
            (sum, size) = (sum + term, size + term.abs());
        }
        largest = largest.max((f64::from(*product) - sum).abs() / size);
    }
    largest
}

/// The processor time of the slowest thread.
fn pass(threads: usize, work: &(dyn Fn(usize) -> f64 + Sync)) -> f64 {
    let barrier = Barrier::new(threads);
    let one = |thread: usize| {
        barrier.wait();
        let began = now();
        std::hint::black_box(work(thread));
        now() - began
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        others.into_iter().map(|other| other.join().unwrap()).fold(one(0), f64::max)
    })
}

/// Ways of reading: their names, and how far ahead lines are asked for, into the first and into the second cache.
const VARIANTS: [(&str, usize, usize); 4] = [
    ("plain", 0, 0),
    ("T0 4K", 4096, 0),
    ("T0 4K, T1 32K", 4096, 32 << 10),
    ("T0 2K, T1 16K", 2048, 16 << 10),
];

/// Reads all bytes.
#[cfg(target_arch = "x86_64")]
fn reading(bytes: &[u8], variant: usize) -> u64 {
    use std::arch::x86_64::*;
    #[target_feature(enable = "avx512f")]
    fn lines<const N: usize, const F: usize>(bytes: &[u8]) -> u64 {
        let mut sums = [_mm512_setzero_si512(); 4];
        for step in bytes.chunks_exact(256) {
            for (n, sum) in sums.iter_mut().enumerate() {
                // SAFETY: there are four times 64 bytes; asking for any address does no harm.
                unsafe {
                    let at = step.as_ptr().add(64 * n);
                    if N > 0 {
                        _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(N).cast());
                    }
                    if F > 0 {
                        _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(F).cast());
                    }
                    *sum = _mm512_add_epi64(*sum, _mm512_loadu_si512(at.cast()));
                }
            }
        }
        let [a, b, c, d] = sums;
        _mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d))) as u64
    }
    if !is_x86_feature_detected!("avx512f") {
        return bytes
            .as_chunks::<8>()
            .0
            .iter()
            .fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    }
    // SAFETY: the processor has AVX-512.
    unsafe {
        match variant {
            0 => lines::<0, 0>(bytes),
            1 => lines::<4096, 0>(bytes),
            2 => lines::<4096, 32768>(bytes),
            _ => lines::<2048, 16384>(bytes),
        }
    }
}

/// Reads all bytes.
#[cfg(not(target_arch = "x86_64"))]
fn reading(bytes: &[u8], _variant: usize) -> u64 {
    bytes.as_chunks::<8>().0.iter().fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}
