//! The system may refuse threads (a limit of processes, of a container): work goes on with those that could be had.

use crate::build::{big, big_of};
use crate::command::{Ended, apr, run, wait};
use apr_tests::{Scratch, assert_same_file, program};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Root's processes are not counted: what root starts runs as this user, who has no other process.
const NOBODY: u32 = 61_234;

/// A command under a limit of so many processes and threads of its user.
fn limited(folder: &Path, n: usize, program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(format!("--nproc={n}:{n}")).arg(program).args(args);
    let plain = apr(folder, &[]);
    command.current_dir(folder).env_clear();
    plain.get_envs().for_each(|(key, value)| {
        value.map(|value| command.env(key, value));
    });
    if std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
        command.uid(NOBODY).gid(NOBODY);
        set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
        // Whatever the umask is.
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|path| path.is_file()) {
            set_permissions(file, Permissions::from_mode(0o666)).unwrap();
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Whether the machine can be made to refuse threads to the program; says so if it cannot.
fn can_limit(scratch: &Scratch) -> bool {
    let shell = Path::new("/bin/sh");
    let forks = |n| limited(&scratch.at(""), n, shell, &["-c", "(exit 3) & wait $!"]).output();
    let refuses = forks(1).is_ok_and(|output| output.status.code() != Some(3) && !output.stderr.is_empty());
    let starts = limited(&scratch.at(""), 1, &program(), &["--version"]).output();
    let can = refuses && starts.is_ok_and(|output| output.status.success());
    if !can {
        apr_tests::skipped("tests/hostile: this machine cannot limit the threads of a program");
    }
    can
}

fn with(scratch: &Scratch, n: usize, args: &[&str]) -> Ended {
    let began = Instant::now();
    wait(limited(&scratch.at(""), n, &program(), args).spawn().unwrap(), began)
}

#[test]
fn every_verb_works_with_the_threads_that_could_be_had() {
    let scratch = Scratch::new();
    big(&scratch.at("a.safetensors"), 3);
    big_of(&scratch.at("b.safetensors"), 3, 77);
    if !can_limit(&scratch) {
        return;
    }
    let work: [&[&str]; 5] = [
        &["tensors", "a.safetensors", "--stats", "--sha256", "--json"],
        &["validate", "a.safetensors", "--values", "--json"],
        &["diff", "a.safetensors", "b.safetensors", "--json"],
        &["diff", "a.safetensors", "a.safetensors", "--json"],
        &["rosetta", "run", "--formats", "safetensors,apr", "--models", "F16", "--no-cli", "--json"],
    ];
    for args in work {
        let args = [args, &["-j", "8"]].concat();
        let want = run(&scratch.at(""), &args);
        for n in [1, 2, 3] {
            let ended = with(&scratch, n, &args);
            assert_eq!((ended.code, ended.stderr.as_str()), (want.code, want.stderr.as_str()), "{args:?}");
            if args[0] != "rosetta" {
                assert_eq!(ended.stdout, want.stdout, "{args:?}");
            }
        }
    }
    run(&scratch.at(""), &["convert", "a.safetensors", "whole.apr", "--arch", "none"]);
    for (n, journal) in [(1, "0"), (2, "0"), (3, "0"), (1, "1000000000")] {
        let out = format!("{n}-{journal}.apr");
        let args = ["convert", "a.safetensors", &out, "--arch", "none", "-j", "8"];
        let mut command = limited(&scratch.at(""), n, &program(), &args);
        command.env("APR_JOURNAL_BYTES", journal).env("APR_JOURNAL_MILLISECONDS", "1");
        let ended = wait(command.spawn().unwrap(), Instant::now());
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert_same_file(&scratch.at("whole.apr"), &scratch.at(&out));
    }
    let names = scratch.names();
    assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
}

/// A `.npz` of one F32 vector, deflated: a stream, which can be read only in order.
fn npz(path: &Path, n_mib: usize, last: u8) {
    let n = n_mib << 18;
    let mut npy = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    npy.extend(format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({n},), }}").bytes());
    npy.resize(127, b' ');
    npy.push(b'\n');
    npy.extend((0..n as u32).flat_map(|value| (value as f32).to_le_bytes()));
    npy.push(last);
    npy.remove(npy.len() - 2);
    let mut deflated = Vec::new();
    let mut blocks = npy.chunks(0xffff).peekable();
    while let Some(block) = blocks.next() {
        let len = block.len() as u16;
        deflated.push(u8::from(blocks.peek().is_none()));
        deflated.extend([len.to_le_bytes(), (!len).to_le_bytes()].concat());
        deflated.extend(block);
    }
    let name = b"a.npy";
    let mut fields = [20u16, 0, 8, 0, 0].map(u16::to_le_bytes).concat();
    let sizes = [crc32fast::hash(&npy), deflated.len() as u32, npy.len() as u32, name.len() as u32];
    fields.extend(sizes.map(u32::to_le_bytes).concat());
    let mut out = [&b"PK\x03\x04"[..], &fields, name, &deflated].concat();
    let at = out.len() as u32;
    out.extend([&b"PK\x01\x02\x14\x00"[..], &fields, &[0; 14], name].concat());
    let len = out.len() as u32 - at;
    out.extend(
        [&b"PK\x05\x06\0\0\0\0\x01\0\x01\0"[..], &len.to_le_bytes(), &at.to_le_bytes(), &[0; 2]].concat(),
    );
    std::fs::write(path, out).unwrap();
}

#[test]
fn streams_are_compared_by_one_thread_a_window_at_a_time() {
    let scratch = Scratch::in_memory();
    npz(&scratch.at("a.npz"), 40, 0x40);
    npz(&scratch.at("b.npz"), 40, 0x41);
    npz(&scratch.at("short.npz"), 32, 0x40);
    if !can_limit(&scratch) {
        return;
    }
    for (other, code) in [("a.npz", 0), ("b.npz", 5), ("short.npz", 5)] {
        let args = ["diff", "a.npz", other, "--json", "-j", "8"];
        let want = run(&scratch.at(""), &args);
        assert_eq!(want.code, code, "{}", want.stderr);
        let ended = with(&scratch, 1, &args);
        assert_eq!((ended.code, &ended.stdout, &ended.stderr), (want.code, &want.stdout, &want.stderr));
    }
}
