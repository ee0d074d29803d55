//! `apr diff` of two large files against `cmp`, where they are identical, and against `cat A B`, where they differ
//! everywhere; alternating in one run.
//!
//! `cargo build --release && cargo bench -p apr-tests --bench diff [-- --mib 1024 --rounds 5]`
//!
//! Both files are in the page cache for everyone: the folder is in memory unless `APR_BENCH_DIR` names another. `--mib`
//! is the size of each file. Prints the medians and their ratio for each type, in wall and processor time, and the peak
//! private memory.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench stops at the first surprise"
)]

mod bench;

use bench::{apr, median, noise, number, peak_private, verdict, write_safetensors};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The targets of the issue: at most so many times `cmp`, and so many times `cat`.
const TARGET_SAME: f64 = 1.3;
const TARGET_APART: f64 = 2.0;
/// Private memory in MiB.
const TARGET_MIB: f64 = 128.0;

/// Types, bytes of an element, and what makes a word of noise finite values: bits kept, bits set.
const TYPES: [(&str, u64, u64, u64); 6] = [
    ("F32", 4, 0x807f_ffff_807f_ffff, 0x3f80_0000_3f80_0000),
    ("BF16", 2, 0x807f_807f_807f_807f, 0x3f80_3f80_3f80_3f80),
    ("F16", 2, 0x83ff_83ff_83ff_83ff, 0x3c00_3c00_3c00_3c00),
    ("F8_E4M3", 1, 0xbfbf_bfbf_bfbf_bfbf, 0),
    ("I8", 1, u64::MAX, 0),
    ("F64", 8, 0x800f_ffff_ffff_ffff, 0x3ff0_0000_0000_0000),
];

/// Wall time and processor time of a command that must end with this code.
fn timed(command: &mut Command, code: i32) -> [f64; 2] {
    let (began, cpu) = (Instant::now(), bench::cpu_seconds_of_commands());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(code), "{command:?}");
    [began.elapsed().as_secs_f64(), bench::cpu_seconds_of_commands() - cpu]
}

fn diff(a: &Path, b: &Path, threads: &str) -> Command {
    let mut command = Command::new(apr());
    command.args(["diff", "-j", threads]).arg(a).arg(b);
    command
}

/// Medians of both, and of their ratios, in alternation. Processor time does not depend on what else runs.
fn figure(what: &str, rounds: u64, target: Option<f64>, ours: &mut Command, theirs: &mut Command, code: i32) {
    let mut rows: [Vec<f64>; 6] = Default::default();
    timed(ours, code);
    timed(theirs, 0);
    for _ in 0..rounds {
        let ([wall, cpu], [wall_theirs, cpu_theirs]) = (timed(ours, code), timed(theirs, 0));
        let values = [wall, cpu, wall_theirs, cpu_theirs, wall / wall_theirs, cpu / cpu_theirs];
        rows.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
    }
    let [wall, cpu, wall_theirs, cpu_theirs, ratio, cpu_ratio] = rows.map(|mut row| median(&mut row));
    let target = target.map_or(String::new(), |most| format!(" (target {most}): {}", verdict(ratio <= most)));
    println!(
        "{what}: {wall:.3} s against {wall_theirs:.3} s, ratio {ratio:.2}{target}; CPU {cpu:.2} s against {cpu_theirs:.2} s, ratio {cpu_ratio:.2}"
    );
}

fn main() {
    let (mib, rounds) = (number("--mib", 1024), number("--rounds", 5));
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
    let reading = || {
        let mut command = Command::new("sh");
        command.args(["-c", r#"cat "$0" "$1" >/dev/null"#]).arg(&a).arg(&b);
        command
    };
    for (dtype, width, keep, set) in TYPES {
        let values = |seed| noise(seed).map(move |word| word & keep | set);
        write_safetensors(&a, mib, (dtype, width), values(0x9e37_79b9_7f4a_7c15));
        let ours = &mut diff(&a, &b, &threads);
        if dtype == "F32" {
            std::fs::copy(&a, &b).unwrap();
            let cmp = &mut Command::new("cmp");
            figure("identical, against cmp", rounds, Some(TARGET_SAME), ours, cmp.arg(&a).arg(&b), 0);
            figure("identical, against reading both", rounds, None, ours, &mut reading(), 0);
        }
        write_safetensors(&b, mib, (dtype, width), values(0xd1b5_4a32_d192_ed03));
        let what = format!("{dtype}, all different, against reading both");
        figure(&what, rounds, Some(TARGET_APART), ours, &mut reading(), 5);
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
