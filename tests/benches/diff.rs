//! `apr diff` of two large files against `cmp`, where they are identical, and against `cat A B`, where they differ
//! everywhere; alternating in one run.
//!
//! `cargo build --release && cargo bench -p apr-tests --bench diff [-- --mib 1024 --rounds 5]`
//!
//! Both files are in the page cache for everyone: the folder is in memory unless `APR_BENCH_DIR` names another. `--mib`
//! is the size of each file. Prints the medians and their ratio for each type, and the peak private memory.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench stops at the first surprise"
)]

mod bench;

use bench::{apr, median, peak_private, verdict};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The targets of the issue: at most so many times `cmp`, and so many times `cat`.
const TARGET_SAME: f64 = 1.3;
const TARGET_APART: f64 = 2.0;
/// Private memory in MiB.
const TARGET_MIB: f64 = 128.0;

fn argument(name: &str, standard: u64) -> u64 {
    let arguments: Vec<_> = std::env::args().collect();
    let at = arguments.iter().position(|a| a == name);
    at.and_then(|at| arguments.get(at + 1)).and_then(|v| v.parse().ok()).unwrap_or(standard)
}

/// A SafeTensors file of `mib` MiB in tensors of 64 MiB, of finite values between 0.5 and 2 in either sign.
fn write_input(path: &Path, mib: u64, dtype: &str, seed: u64) {
    let each = 64 << 20;
    let n = (mib << 20) / each;
    let (width, clear, exponent): (u64, u64, u64) = match dtype {
        "F32" => (4, 0x807f_ffff_807f_ffff, 0x3f80_0000_3f80_0000),
        "BF16" => (2, 0x807f_807f_807f_807f, 0x3f80_3f80_3f80_3f80),
        "F16" => (2, 0x83ff_83ff_83ff_83ff, 0x3c00_3c00_3c00_3c00),
        other => panic!("{other}"),
    };
    let entry = |i: u64| {
        let (from, to) = (i * each, (i + 1) * each);
        let rows = each / width / 4096;
        format!(
            r#""blk.{i:04}.weight":{{"dtype":"{dtype}","shape":[{rows},4096],"data_offsets":[{from},{to}]}}"#
        )
    };
    let header = format!("{{{}}}", (0..n).map(entry).collect::<Vec<_>>().join(","));
    let mut out = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path).unwrap());
    out.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    out.write_all(header.as_bytes()).unwrap();
    let mut state = seed;
    for _ in 0..n * each / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.write_all(&(state & clear | exponent).to_le_bytes()).unwrap();
    }
    out.into_inner().unwrap();
}

/// Wall time of a command that must end with this code.
fn timed(command: &mut Command, code: i32) -> f64 {
    let began = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(code), "{command:?}");
    began.elapsed().as_secs_f64()
}

fn diff(a: &Path, b: &Path, threads: &str) -> Command {
    let mut command = Command::new(apr());
    command.args(["diff", "-j", threads]).arg(a).arg(b);
    command
}

/// Medians of both, and of their ratios, in alternation.
fn figure(
    what: &str,
    rounds: u64,
    target: f64,
    ours: &mut dyn FnMut() -> f64,
    theirs: &mut dyn FnMut() -> f64,
) {
    let (mut one, mut two, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    ours();
    theirs();
    for _ in 0..rounds {
        let (a, b) = (ours(), theirs());
        one.push(a);
        two.push(b);
        ratios.push(a / b);
    }
    let ratio = median(&mut ratios);
    println!(
        "{what}: {:.3} s against {:.3} s, median ratio {ratio:.2} (target {target}): {}",
        median(&mut one),
        median(&mut two),
        verdict(ratio <= target)
    );
}

fn main() {
    let (mib, rounds) = (argument("--mib", 1024), argument("--rounds", 5));
    let folder = match std::env::var_os("APR_BENCH_DIR") {
        Some(_) => bench::scratch("diff"),
        None => PathBuf::from("/dev/shm/apr-bench-diff"),
    };
    std::fs::create_dir_all(&folder).unwrap();
    let (a, b) = (folder.join("a.safetensors"), folder.join("b.safetensors"));
    let threads = bench::cpus().to_string();
    println!(
        "two files of {mib} MiB, {rounds} rounds, {threads} CPUs, folder {}",
        bench::file_system(&folder)
    );
    for dtype in ["F32", "BF16", "F16"] {
        write_input(&a, mib, dtype, 0x9e37_79b9_7f4a_7c15);
        if dtype == "F32" {
            std::fs::copy(&a, &b).unwrap();
            figure(
                "identical, apr diff against cmp",
                rounds,
                TARGET_SAME,
                &mut || timed(&mut diff(&a, &b, &threads), 0),
                &mut || timed(Command::new("cmp").arg(&a).arg(&b), 0),
            );
        }
        write_input(&b, mib, dtype, 0xd1b5_4a32_d192_ed03);
        figure(
            &format!("different, {dtype}, apr diff against cat A B"),
            rounds,
            TARGET_APART,
            &mut || timed(&mut diff(&a, &b, &threads), 5),
            &mut || timed(Command::new("sh").args(["-c", r#"cat "$0" "$1" >/dev/null"#]).arg(&a).arg(&b), 0),
        );
    }
    let mut direct = Command::new(apr());
    direct.args(["diff", "-q", "-j", "64"]).arg(&a).arg(&a);
    let same = peak_private(&mut direct) / (1 << 20) as f64;
    println!(
        "peak private memory, identical, 64 threads: {same:.1} MiB (target {TARGET_MIB}): {}",
        verdict(same <= TARGET_MIB)
    );
    let _ = std::fs::remove_dir_all(&folder);
}
