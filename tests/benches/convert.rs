//! A lossless convert of a large file against `cp` followed by `sync FILE`, alternating in one run.
//!
//! `cargo build --release && cargo bench -p apr-tests --bench convert [-- --mib 4096 --rounds 5]`
//!
//! Prints each round, then the medians and their ratio, the peak private memory, and whether one thread gives the same
//! bytes as all. The folder is cargo's scratch space, or `APR_BENCH_DIR`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench stops at the first surprise"
)]

mod bench;

use bench::{apr, median, noise, number, peak_private, scratch, timed, write_safetensors};
use std::process::Command;

/// The target of issue and README: at most this many times `cp` + `sync FILE`.
const TARGET_RATIO: f64 = 1.15;
/// Private memory over the header's, in MiB.
const TARGET_MIB: f64 = 64.0;

fn main() {
    let (mib, rounds) = (number("--mib", 4096), number("--rounds", 5));
    let folder = scratch("convert");
    let (input, copy, output) = (folder.join("in.safetensors"), folder.join("copy"), folder.join("out.apr"));
    println!(
        "input: {mib} MiB, {rounds} rounds, {} CPUs, folder {}",
        bench::cpus(),
        bench::file_system(&folder)
    );
    write_safetensors(&input, mib, ("BF16", 2), noise(0x9e37_79b9_7f4a_7c15));
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
        let bare = timed(Command::new("cp").arg(&input).arg(&copy));
        (bare, bare + timed(Command::new("sync").arg(&copy)))
    };
    let all_threads = bench::cpus().to_string();
    let ours_once = || {
        clear();
        timed(&mut convert(&all_threads))
    };
    // Both find the input in the page cache, or neither: one round of each is not counted.
    cp();
    ours_once();
    let (mut ours, mut theirs, mut bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 1..=rounds {
        let (a, (b, c)) = if round % 2 == 0 {
            let a = ours_once();
            (a, cp())
        } else {
            let b = cp();
            (ours_once(), b)
        };
        println!("round {round}: cp {b:.2} s, cp + sync {c:.2} s, apr {a:.2} s, ratio {:.2}", a / c);
        ours.push(a);
        theirs.push(c);
        bare.push(b);
        ratios.push(a / c);
    }
    let ratio = median(&mut ratios);
    println!(
        "median: cp {:.2} s, cp + sync {:.2} s, apr {:.2} s",
        median(&mut bare),
        median(&mut theirs),
        median(&mut ours)
    );
    println!(
        "ratio to cp + sync: {ratio:.2} (target {TARGET_RATIO}): {}",
        bench::verdict(ratio <= TARGET_RATIO)
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
    let _ = std::fs::remove_dir_all(&folder);
}
