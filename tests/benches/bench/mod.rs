//! What the benches share: where `apr` is, wall time, peak private memory, medians.

#![allow(dead_code, reason = "each bench uses its part")]

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
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum();
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
