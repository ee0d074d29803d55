//! A lossless convert of a large file against `cp` followed by `sync FILE`, alternating in one run; and one of weights that
//! are all NaN against one of clean weights.
//!
//! `cargo build --release && cargo bench -p apr-tests --bench convert [-- --mib 2048 --rounds 11 --nan-mib 256]`
//!
//! Prints each round, then the medians and their ratio, the system time of both, the peak private memory, and whether one thread
//! gives the same bytes as all; then the median ratio of NaN to clean weights, from F16 and F32 to each format. The folder is cargo's scratch space, or `APR_BENCH_DIR`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench stops at the first surprise"
)]

mod bench;

use bench::{apr, median, noise, number, peak_private, scratch, timed, write_safetensors};
use std::path::Path;
use std::process::Command;

/// At most this many times `cp` + `sync FILE`, where the disk takes no longer than the copy itself.
const TARGET_RATIO: f64 = 0.65;
/// System time, at most this many times that of `cp` + `sync FILE`.
const TARGET_SYSTEM: f64 = 1.15;
/// Private memory over the header's, in MiB.
const TARGET_MIB: f64 = 64.0;
/// Weights that are all NaN take at most this many times the processor time of clean ones, and of the wall time.
const TARGET_NAN: f64 = 1.5;

fn main() {
    let (mib, rounds) = (number("--mib", 2048), number("--rounds", 11));
    let folder = scratch("convert");
    let (input, copy, output) = (folder.join("in.safetensors"), folder.join("copy"), folder.join("out.apr"));
    println!(
        "input: {mib} MiB, {rounds} rounds, {} CPUs, folder {}",
        bench::cpus(),
        bench::file_system(&folder)
    );
    // Weights are small and finite; what is not is measured below.
    let weights =
        noise(0x9e37_79b9_7f4a_7c15).map(|word| word & 0x80ff_80ff_80ff_80ff | 0x3c00_3c00_3c00_3c00);
    write_safetensors(&input, mib, ("BF16", 2), weights);
    let convert = |threads: &str| {
        let mut command = Command::new(apr());
        command.args(["convert", "--force", "-q", "--arch", "none", "-j", threads]).arg(&input).arg(&output);
        command
    };
    // Each begins with nothing but the input there, and the order changes from round to round: what the one left in the
    // page cache must not cost or help the other.
    let clear = || {
        let _ = std::fs::remove_file(&copy);
        let _ = std::fs::remove_file(&output);
        timed(&mut Command::new("sync"));
    };
    let cp = || {
        clear();
        let before = bench::system_seconds_of_commands();
        let bare = timed(Command::new("cp").arg(&input).arg(&copy));
        let synced = bare + timed(Command::new("sync").arg(&copy));
        Copied { bare, synced, system: bench::system_seconds_of_commands() - before }
    };
    let all_threads = bench::cpus().to_string();
    let ours_once = || {
        clear();
        let before = bench::system_seconds_of_commands();
        let wall = timed(&mut convert(&all_threads));
        (wall, bench::system_seconds_of_commands() - before)
    };
    // Both find the input in the page cache, or neither: one round of each is not counted.
    cp();
    ours_once();
    let mut rounds_run = Vec::new();
    for round in 1..=rounds {
        let (ours, theirs) = if round % 2 == 0 {
            let ours = ours_once();
            (ours, cp())
        } else {
            let theirs = cp();
            (ours_once(), theirs)
        };
        println!(
            "round {round}: cp {:.2} s, cp + sync {:.2} s, apr {:.2} s, ratio {:.2}",
            theirs.bare,
            theirs.synced,
            ours.0,
            ours.0 / theirs.synced
        );
        rounds_run.push((ours, theirs));
    }
    let of = |figure: fn(&((f64, f64), Copied)) -> f64| {
        median(&mut rounds_run.iter().map(figure).collect::<Vec<_>>())
    };
    println!(
        "median: cp {:.2} s, cp + sync {:.2} s, apr {:.2} s",
        of(|(_, theirs)| theirs.bare),
        of(|(_, theirs)| theirs.synced),
        of(|(ours, _)| ours.0)
    );
    let ratio = of(|(ours, theirs)| ours.0 / theirs.synced);
    println!(
        "ratio to cp + sync: {ratio:.2} (target {TARGET_RATIO}): {}",
        bench::verdict(ratio <= TARGET_RATIO)
    );
    let system = of(|(ours, theirs)| ours.1 / theirs.system);
    println!(
        "system time: cp + sync {:.2} s, apr {:.2} s, ratio {system:.2} (target {TARGET_SYSTEM}): {}",
        of(|(_, theirs)| theirs.system),
        of(|(ours, _)| ours.1),
        bench::verdict(system <= TARGET_SYSTEM)
    );
    let _ = std::fs::remove_file(&output);
    let many = format!("{}", bench::cpus());
    let mib_private = peak_private(&mut convert(&many)) / (1 << 20) as f64;
    println!(
        "peak private memory: {mib_private:.1} MiB (target {TARGET_MIB}): {}",
        bench::verdict(mib_private <= TARGET_MIB)
    );
    let all = bench::sha256(&output);
    let _ = std::fs::remove_file(&output);
    timed(&mut convert("1"));
    println!("same bytes with 1 thread and with {many}: {}", bench::verdict(all == bench::sha256(&output)));
    let _ = std::fs::remove_file(&input);
    let _ = std::fs::remove_file(&copy);
    not_numbers(&folder, number("--nan-mib", 256), rounds);
    let _ = std::fs::remove_dir_all(&folder);
}

/// One `cp` + `sync FILE`, in seconds.
struct Copied {
    /// Wall time of `cp`.
    bare: f64,
    /// Wall time of both.
    synced: f64,
    /// System time of both.
    system: f64,
}

/// Weights that are all NaN against weights of normal size, in turn: the ratios of wall and processor time.
fn not_numbers(folder: &Path, mib: u64, rounds: u64) {
    // Of each word the bits that stay, and those that are set: exponents near 2^-5, or quiet NaN.
    let kinds = [
        (("F16", 2), 0x83ff_83ff_83ff_83ff, 0x2800_2800_2800_2800, 0x7e00_7e00_7e00_7e00),
        (("F32", 4), 0x807f_ffff_807f_ffff, 0x3d00_0000_3d00_0000, 0x7fc0_0000_7fc0_0000),
    ];
    for (dtype, stay, clean, nan) in kinds {
        let inputs = ["clean", "nan"].map(|name| folder.join(format!("{name}.safetensors")));
        write_safetensors(&inputs[0], mib, dtype, noise(7).map(|word| word & stay | clean));
        write_safetensors(&inputs[1], mib, dtype, noise(7).map(|word| word | nan));
        for format in ["apr", "gguf"] {
            let output = folder.join(format!("weights.{format}"));
            let once = |input: &Path| {
                let _ = std::fs::remove_file(&output);
                let mut command = Command::new(apr());
                command.args(["convert", "-q", "--arch", "none"]).arg(input).arg(&output);
                let began = bench::cpu_seconds_of_commands();
                (timed(&mut command), bench::cpu_seconds_of_commands() - began)
            };
            once(&inputs[0]);
            let pair = |_| (once(&inputs[0]), once(&inputs[1]));
            let pairs: Vec<_> = (0..rounds).map(pair).collect();
            let wall = median(&mut pairs.iter().map(|(a, b)| b.0 / a.0).collect::<Vec<_>>());
            let cpu = median(&mut pairs.iter().map(|(a, b)| b.1 / a.1).collect::<Vec<_>>());
            println!(
                "{mib} MiB of {} to {format}, all NaN against clean: wall {wall:.2}, CPU {cpu:.2} (target {TARGET_NAN}): {}",
                dtype.0,
                bench::verdict(wall.max(cpu) <= TARGET_NAN)
            );
        }
    }
}
