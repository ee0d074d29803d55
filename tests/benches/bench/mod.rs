//! What the benches share: where `apr` is, arguments, inputs, wall and processor time, peak private memory, medians.

#![allow(dead_code, reason = "each bench uses its part")]

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The release build of `apr` beside the bench, or what `APR` names.
pub fn apr() -> PathBuf {
    let path = std::env::var_os("APR").map_or_else(
        || std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("apr"),
        PathBuf::from,
    );
    assert!(path.is_file(), "{} is not there: run `cargo build --release` first", path.display());
    path
}

/// The value of an argument of the bench.
pub fn argument(name: &str) -> Option<String> {
    let arguments: Vec<_> = std::env::args().collect();
    let at = arguments.iter().position(|a| a == name)?;
    arguments.get(at + 1).cloned()
}

/// The same as a number.
pub fn number(name: &str, standard: u64) -> u64 {
    argument(name).map_or(standard, |value| value.parse().unwrap())
}

/// Bytes that do not repeat nearby, eight at a time.
pub fn noise(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

/// A SafeTensors file's length and header: `n` tensors of `shape`, of `each` bytes.
pub fn safetensors_header(n: u64, each: u64, dtype: &str, shape: &str) -> Vec<u8> {
    let entry = |i: u64| {
        let (from, to) = (i * each, (i + 1) * each);
        format!(
            r#""model.layers.{i:06}.mlp.weight":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}"#
        )
    };
    let mut header = format!("{{{}}}", (0..n).map(entry).collect::<Vec<_>>().join(","));
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat()
}

/// A SafeTensors file of `mib` MiB in tensors of 64 MiB, whose words of eight bytes are `words`.
pub fn write_safetensors(
    path: &Path,
    mib: u64,
    (dtype, width): (&str, u64),
    words: impl Iterator<Item = u64>,
) {
    let each: u64 = 64 << 20;
    let n = (mib << 20) / each;
    let mut out = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path).unwrap());
    let shape = format!("[{},4096]", each / width / 4096);
    out.write_all(&safetensors_header(n, each, dtype, &shape)).unwrap();
    for word in words.take(usize::try_from(n * each / 8).unwrap()) {
        out.write_all(&word.to_le_bytes()).unwrap();
    }
    out.into_inner().unwrap().sync_all().unwrap();
}

/// An empty folder for a bench.
pub fn scratch(name: &str) -> PathBuf {
    let base = std::env::var_os("APR_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = base.join(format!("apr-bench-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Wall time of a command that must succeed, in seconds.
pub fn timed(command: &mut Command) -> f64 {
    let began = Instant::now();
    let status = command.stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
    began.elapsed().as_secs_f64()
}

/// The processor time that this process has used, in seconds.
pub fn cpu_seconds() -> f64 {
    ticks(11..13)
}

/// The processor time that the commands have used that ended, in seconds.
pub fn cpu_seconds_of_commands() -> f64 {
    ticks(13..15)
}

/// The part of it that they spent in the kernel, in seconds.
pub fn system_seconds_of_commands() -> f64 {
    ticks(14..15)
}

/// The sum of some fields of what the kernel says of this process, in seconds; those of time come in pairs, of user and of kernel
/// mode.
fn ticks(fields: Range<usize>) -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let all: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = all[fields].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

/// The most anonymous memory that a command held, in bytes, looked at every 2 ms.
pub fn peak_private(command: &mut Command) -> f64 {
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let mut peak = 0f64;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find(|l| l.starts_with("RssAnon:"));
        let kib: f64 = line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0.0);
        peak = peak.max(kib * 1024.0);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(child.wait().unwrap().success());
    peak
}

/// The middle of a list.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How many CPUs the machine lends.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The type of the file system that holds a folder.
pub fn file_system(folder: &Path) -> String {
    let out = Command::new("stat").args(["-f", "-c", "%T"]).arg(folder).output();
    out.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
}

/// `met` or `MISSED`.
pub fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

/// SHA-256 of a file, by the system's own tool.
pub fn sha256(path: &Path) -> String {
    let out = Command::new("sha256sum").arg(path).output().unwrap();
    assert!(out.status.success());
    String::from_utf8_lossy(&out.stdout).split_whitespace().next().unwrap().to_owned()
}
