//! Compressed APR files: rates of the coders against the programs `lz4` and `zstd`, planes, whole conversions, what a slice
//! reads, and loading to run.
//!
//! `cargo build --release && cargo bench -p apr-tests --bench compression [-- --mib 1024 --rounds 5]`
//!
//! The programs come with the system's packages `lz4` and `zstd`; what they would be compared with is left out, and said, where
//! they are missing. Rates are of raw bytes, one thread, blocks of 64 KiB, the best of the rounds on both sides.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a bench stops at the first surprise"
)]

mod bench;

use apr_sdk::{BlockAt, Codec, Limits, MemorySource, Options, Writer};
use bench::{apr, median, noise, number, peak_private, scratch, timed, verdict};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Targets: of the programs' rates, of sizes, of times.
const TARGET_LZ4: f64 = 0.65;
const TARGET_LZ4_BACK: f64 = 1500.0;
const TARGET_ZSTD: f64 = 0.9;
const TARGET_ZSTD_SIZE: f64 = 1.03;
const TARGET_PLANES_SIZE: f64 = 0.67;
const TARGET_PLANES: [f64; 2] = [400.0, 1000.0];
const TARGET_CONVERT: f64 = 1.3;
const TARGET_MIB: f64 = 64.0;
const TARGET_SLICE: f64 = 1.0;
const TARGET_LOAD: f64 = 0.7;

const BLOCK: usize = 64 << 10;
/// Numbers of methods: the flags of a tensor, and frames per block.
const LZ4: u32 = 1 | 1 << 8;
const ZSTD: u32 = 2 | 1 << 8;
const ZSTD_PLANES_OF_BF16: u32 = 6 | 2 << 8;

/// Rates in MB/s, and the share of its size that data shrinks to.
#[derive(Clone, Copy)]
struct Coded {
    encoding: f64,
    decoding: f64,
    share: f64,
}

/// What the plugin makes of the blocks of `data`.
fn coded(number: u32, data: &[u8], rounds: u64) -> Coded {
    let plugin = apr_plugin_apr::PLUGIN;
    let writer: Box<dyn Writer> = (plugin.writer)("apr").unwrap();
    let codec = Codec { number, options: Options::new() };
    let blocks: Vec<&[u8]> = data.chunks(BLOCK).collect();
    let at = BlockAt { tensor: 0, block: 0 };
    let mut out = vec![0; 2 * BLOCK];
    let stored: Vec<Vec<u8>> = blocks
        .iter()
        .map(|raw| {
            let len = writer.encode(&codec, at, raw, &mut out).unwrap();
            out[..len].to_vec()
        })
        .collect();
    // Any file of the format decodes.
    let file = std::fs::read(root().join("plugins/apr/tests/data/compressed_zstd.apr")).unwrap();
    let source = MemorySource::new("m.apr", file);
    let opened = (plugin.reader)("apr").unwrap().open(&source, &Limits::default(), &Options::new()).unwrap();
    let repeats = (64 << 20) / data.len().max(1) + 1;
    let best = |work: &mut dyn FnMut()| {
        let mut best = f64::MAX;
        for _ in 0..rounds {
            let began = Instant::now();
            (0..repeats).for_each(|_| work());
            best = best.min(began.elapsed().as_secs_f64());
        }
        (data.len() * repeats) as f64 / best / 1e6
    };
    let encoding = best(&mut || {
        for raw in &blocks {
            writer.encode(&codec, at, raw, &mut out).unwrap();
        }
    });
    let mut out = vec![0; BLOCK];
    let decoding = best(&mut || {
        for (stored, raw) in stored.iter().zip(&blocks) {
            opened.decode(&codec, at, stored, &mut out[..raw.len()]).unwrap();
        }
    });
    let share = stored.iter().map(Vec::len).sum::<usize>() as f64 / data.len() as f64;
    Coded { encoding, decoding, share }
}

/// What a program's own bench says of a file: the last figures it prints.
fn of_program(program: &str, arguments: &[&str], file: &Path) -> Option<Coded> {
    let output = Command::new(program).args(arguments).arg(file).stdin(Stdio::null()).output().ok()?;
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let line = text.rsplit(['\r', '\n']).find(|line| line.matches("MB/s").count() == 2)?;
    let numbers: Vec<f64> = line
        .split("->")
        .nth(1)?
        .split([' ', '(', ')', ',', 'x'])
        .filter_map(|word| word.parse().ok())
        .collect();
    let [_, ratio, encoding, decoding] = numbers[..] else { return None };
    Some(Coded { encoding, decoding, share: 1.0 / ratio })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// BF16 numbers, normally distributed with a deviation of 0.02.
fn weights(count: usize) -> Vec<u8> {
    let mut words = noise(0x2545_f491_4f6c_dd1d);
    let mut uniform = || (words.next().unwrap() >> 11) as f64 / (1u64 << 53) as f64;
    let mut bytes = Vec::with_capacity(count * 2);
    while bytes.len() < count * 2 {
        let (radius, angle) = ((-2.0 * uniform().max(1e-300).ln()).sqrt(), uniform() * std::f64::consts::TAU);
        for value in [radius * angle.cos(), radius * angle.sin()] {
            bytes.extend(half::bf16::from_f64(value * 0.02).to_le_bytes());
        }
    }
    bytes
}

fn rates(folder: &Path, rounds: u64) {
    let quantized = folder.join("q8_0.gguf");
    let model = root().join("tests/model/weights");
    timed(
        Command::new(apr())
            .args(["convert", "-q", "--quantize", "Q8_0", "--force"])
            .arg(&model)
            .arg(&quantized),
    );
    let mut words = noise(0x9e37_79b9_7f4a_7c15);
    let half_zero: Vec<u8> = (0..1 << 20)
        .flat_map(|_| {
            let word = words.next().unwrap();
            let bits = if word & 1 == 0 { 0 } else { (word >> 32) as u32 & 0x80ff_ffff | 0x3c00_0000 };
            bits.to_le_bytes()
        })
        .collect();
    let zeros = folder.join("half_zero.f32");
    std::fs::write(&zeros, half_zero).unwrap();
    for (what, file) in [
        ("Q8_0 of tests/model", quantized),
        ("its tokenizer", model.join("tokenizer.json")),
        ("F32, half of it zeros", zeros),
    ] {
        let data = std::fs::read(&file).unwrap();
        for (name, method, arguments, least) in
            [("lz4", LZ4, ["-b1", "-B65536"], TARGET_LZ4), ("zstd", ZSTD, ["-b3", "-B64KB"], TARGET_ZSTD)]
        {
            let ours = coded(method, &data, rounds);
            let Coded { encoding, decoding, share } = ours;
            print!("{what}, {name}: {encoding:.0} MB/s to {share:.4}, back {decoding:.0} MB/s");
            let Some(theirs) = of_program(name, &arguments, &file) else {
                println!("; SKIPPED: no program `{name}`");
                continue;
            };
            let rate = encoding / theirs.encoding;
            let size = share / theirs.share;
            print!("; program {:.0}, {:.4}, {:.0}", theirs.encoding, theirs.share, theirs.decoding);
            println!("; rate {rate:.2} (target {least}): {}, size {size:.3}", verdict(rate >= least));
            match name {
                "lz4" => {
                    println!("  back: (target {TARGET_LZ4_BACK}) {}", verdict(decoding >= TARGET_LZ4_BACK))
                }
                _ => println!("  size: (target {TARGET_ZSTD_SIZE}) {}", verdict(size <= TARGET_ZSTD_SIZE)),
            }
        }
    }
    let data = weights(8 << 20);
    let Coded { encoding, decoding, share } = coded(ZSTD_PLANES_OF_BF16, &data, rounds);
    let [least, least_back] = TARGET_PLANES;
    println!(
        "planes of BF16 N(0, 0.02): to {share:.4} (target {TARGET_PLANES_SIZE}): {}, {encoding:.0} MB/s (target {least}): {}, back {decoding:.0} MB/s (target {least_back}): {}",
        verdict(share <= TARGET_PLANES_SIZE),
        verdict(encoding >= least),
        verdict(decoding >= least_back)
    );
}

/// A SafeTensors file of BF16 weights.
fn model(path: &Path, mib: u64) {
    let piece = weights(32 << 20);
    let words: Vec<u64> = piece.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    bench::write_safetensors(path, mib, ("BF16", 2), words.into_iter().cycle());
}

/// Bytes that this process and the commands it has waited for have read.
fn bytes_read() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.trim().parse().unwrap()
}

fn whole(folder: &Path, mib: u64, rounds: u64) {
    let input = folder.join("m.safetensors");
    model(&input, mib);
    let plain = folder.join("plain.apr");
    timed(Command::new(apr()).args(["convert", "-q", "--arch", "none"]).arg(&input).arg(&plain));
    for method in ["lz4", "zstd"] {
        let output = folder.join(format!("{method}.apr"));
        let mut convert = Command::new(apr());
        convert
            .args(["convert", "-q", "--force", "--arch", "none", "--compress", method])
            .arg(&input)
            .arg(&output);
        // The programs get a half of the file each.
        let halves = format!(
            "n=$(( $(stat -c %s '{0}') / 2 )); for skip in 0 1; do dd if='{0}' bs=$n skip=$skip count=1 iflag=fullblock status=none | {1} > '{2}'.$skip & done; wait; sync '{2}'.0 '{2}'.1; rm '{2}'.0 '{2}'.1",
            input.display(),
            if method == "lz4" { "lz4 -1 -B4 -q -c" } else { "zstd -3 -q -c" },
            folder.join("half").display()
        );
        let mut ratios = Vec::new();
        let mut seconds = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            let ours = timed(&mut convert);
            let theirs = timed(Command::new("bash").arg("-c").arg(&halves));
            ratios.push(ours / theirs);
            seconds[0].push(ours);
            seconds[1].push(theirs);
        }
        let ratio = median(&mut ratios);
        let [ours, theirs] = seconds.map(|mut seconds| median(&mut seconds));
        println!(
            "convert {mib} MiB to {method}: {ours:.2} s against {theirs:.2} s of two programs, ratio {ratio:.2} (target {TARGET_CONVERT}): {}",
            verdict(ratio <= TARGET_CONVERT)
        );
        let peak = peak_private(&mut convert) / f64::from(1 << 20);
        println!(
            "  peak private memory: {peak:.1} MiB (target {TARGET_MIB}): {}",
            verdict(peak <= TARGET_MIB)
        );
        let of_slice = |path: &Path| {
            let before = bytes_read();
            let name = "model.layers.000003.mlp.weight[5000:5004]";
            timed(Command::new(apr()).args(["tensors", "-q"]).arg(path).arg(name));
            bytes_read() - before
        };
        let of_header = {
            let before = bytes_read();
            timed(Command::new(apr()).args(["inspect", "-q"]).arg(&output));
            bytes_read() - before
        };
        let more = of_slice(&output).saturating_sub(of_header) as f64 / f64::from(1 << 20);
        println!(
            "  a slice of four rows reads {more:.2} MiB beyond the header (target {TARGET_SLICE}): {}",
            verdict(more <= TARGET_SLICE)
        );
    }
}

/// Loading a model to run it, plain and compressed: what the model of `tests/model` is too small for.
fn loading(folder: &Path, rounds: u64) {
    let Some(model) = bench::argument("--model").map(PathBuf::from) else {
        println!("loading: SKIPPED: pass --model MODEL, one that runs");
        return;
    };
    let plain = folder.join("run-plain.apr");
    timed(Command::new(apr()).args(["convert", "-q", "--force"]).arg(&model).arg(&plain));
    for method in ["lz4", "zstd", "auto"] {
        let packed = folder.join(format!("run-{method}.apr"));
        timed(
            Command::new(apr())
                .args(["convert", "-q", "--force", "--compress", method])
                .arg(&model)
                .arg(&packed),
        );
        let load =
            |path: &Path| timed(Command::new(apr()).args(["run", "-q", "-n", "1"]).arg(path).arg("Hello"));
        let mut ratios = Vec::new();
        for _ in 0..rounds {
            let theirs = load(&plain);
            ratios.push(theirs / load(&packed));
        }
        let ratio = median(&mut ratios);
        println!(
            "loading {method}: {ratio:.2} of plain (target {TARGET_LOAD}): {}",
            verdict(ratio >= TARGET_LOAD)
        );
    }
}

fn main() {
    let (mib, rounds) = (number("--mib", 1024), number("--rounds", 5));
    let folder = scratch("compression");
    rates(&folder, rounds);
    whole(&folder, mib, rounds);
    loading(&folder, rounds);
    let _ = std::fs::remove_dir_all(&folder);
}
