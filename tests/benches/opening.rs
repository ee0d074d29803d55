//! What it costs to start, to load plugins, to look into a huge file, and to convert a small one.
//!
//! `cargo build --release && cargo bench -p apr-tests --bench opening`
//!
//! Each figure is the median of 21 runs of the whole process, printed beside its target and beside `true`, which is
//! what starting any process costs here.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench stops at the first surprise"
)]

mod bench;

use bench::{apr, median, scratch, timed, verdict};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

fn figure(what: &str, target_ms: f64, mut command: impl FnMut() -> Command) {
    let mut times: Vec<f64> = (0..21).map(|_| timed(&mut command()) * 1000.0).collect();
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let middle = median(&mut times);
    println!(
        "{what}: median {middle:.1} ms, least {least:.1} ms (target {target_ms} ms): {}",
        verdict(middle <= target_ms)
    );
}

/// A SafeTensors file of `n` tensors of 1 MiB each, its payload a hole.
fn sparse(path: &Path, n: u64) {
    let each = 1u64 << 20;
    let header = bench::safetensors_header(n, each, "F32", "[512,512]");
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(&header).unwrap();
    let end = header.len() as u64 + n * each;
    file.seek(SeekFrom::Start(end - 1)).unwrap();
    file.write_all(&[0]).unwrap();
}

/// The same as GGUF, version 3: 100,000 infos, offsets 1 MiB apart.
fn sparse_gguf(path: &Path, n: u64) {
    let text = |s: &str| [&(s.len() as u64).to_le_bytes()[..], s.as_bytes()].concat();
    let mut header =
        [b"GGUF".as_slice(), &3u32.to_le_bytes(), &n.to_le_bytes(), &1u64.to_le_bytes()].concat();
    header.extend(text("general.architecture"));
    header.extend(8u32.to_le_bytes());
    header.extend(text("llama"));
    for i in 0..n {
        header.extend(text(&format!("blk.{i:06}.ffn_up.weight")));
        header.extend([&2u32.to_le_bytes()[..], &512u64.to_le_bytes(), &512u64.to_le_bytes()].concat());
        header.extend([&0u32.to_le_bytes()[..], &(i << 20).to_le_bytes()].concat());
    }
    header.resize(header.len().next_multiple_of(32), 0);
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(&header).unwrap();
    file.set_len(header.len() as u64 + (n << 20)).unwrap();
}

fn main() {
    let folder = scratch("opening");
    println!("{} CPUs, folder {}", bench::cpus(), bench::file_system(&folder));
    figure("true", 5.0, || Command::new("true"));
    figure("apr --version", 5.0, || {
        let mut command = Command::new(apr());
        command.arg("--version");
        command
    });
    for (name, make) in [("100 GB.safetensors", sparse as fn(&Path, u64)), ("100 GB.gguf", sparse_gguf)] {
        let path = folder.join(name);
        make(&path, 100_000);
        let bytes = std::fs::metadata(&path).unwrap().len();
        figure(&format!("apr inspect of {name} ({bytes} bytes, 100,000 tensors)"), 200.0, || {
            let mut command = Command::new(apr());
            command.args(["inspect", "-q"]).arg(&path);
            command
        });
    }
    let small = folder.join("small.safetensors");
    sparse(&small, 1);
    let output = folder.join("small.apr");
    figure("apr convert of 1 MiB", 60.0, || {
        let mut command = Command::new(apr());
        command.args(["convert", "--force", "-q"]).arg(&small).arg(&output);
        command
    });
    let _ = std::fs::remove_dir_all(&folder);
}
