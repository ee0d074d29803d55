//! Runs `apr` as a user would, with a limit on how long it may take.

use apr_tests::{Scratch, assert_same_file, program};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How `apr` ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; 128 and the signal if that ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

/// Longer than any command of these tests takes on a busy machine.
pub const LONGEST: Duration = Duration::from_secs(60);

/// `apr` with these arguments in this folder, seeing nothing of the machine's settings.
pub fn apr(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).current_dir(folder).env_clear().env("HOME", folder.join("no-home"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Sends a signal to a child process.
pub fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits for a child, and ends it if it hangs.
pub fn wait(mut child: Child, began: Instant) -> Ended {
    let mut out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let mut err = child.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        err.read_to_string(&mut text).map(|_| text)
    });
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > LONGEST {
            child.kill().unwrap();
            panic!("apr hangs: {:?}", child.wait());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Ended {
        code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        stdout: reader.join().unwrap().unwrap(),
        stderr: errors.join().unwrap().unwrap(),
        took: began.elapsed(),
    }
}

/// Runs `apr` to its end.
pub fn run(folder: &Path, args: &[&str]) -> Ended {
    // The program may have to be built first.
    let mut command = apr(folder, args);
    let began = Instant::now();
    wait(command.spawn().unwrap(), began)
}

/// Runs `apr`, which must fail with this code and say all of `words`, and leave the folder as it is.
pub fn fails(scratch: &Scratch, args: &[&str], code: i32, words: &[&str]) -> Ended {
    let before = contents(&scratch.at(""));
    let ended = run(&scratch.at(""), args);
    says(args, &ended, code, words);
    assert_eq!(contents(&scratch.at("")), before, "apr {args:?} changed the folder");
    ended
}

/// Panics unless `apr` ended so: one `error`, with all of `words`, and nothing on stdout.
pub fn says(args: &[&str], ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.code, code, "apr {args:?}: {}{}", ended.stderr, ended.stdout);
    assert_eq!(ended.stdout, "", "apr {args:?}");
    for word in words {
        assert!(ended.stderr.contains(word), "apr {args:?}: `{word}` is not in:\n{}", ended.stderr);
    }
    let errors = ended.stderr.lines().filter(|line| line.starts_with("error")).count();
    assert_eq!(errors, 1, "apr {args:?}: {}", ended.stderr);
    let odd = ended.stderr.chars().any(|c| c.is_control() && c != '\n');
    assert!(!odd && !ended.stderr.contains("panicked"), "apr {args:?}: {:?}", ended.stderr);
}

/// Every file below a folder with a digest of its bytes, hidden ones too.
pub fn contents(folder: &Path) -> Vec<(String, Option<u32>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        if path.is_dir() {
            found.push((format!("{name}/"), None));
            found.extend(contents(&path).into_iter().map(|(inner, sum)| (format!("{name}/{inner}"), sum)));
        } else {
            found.push((name, std::fs::read(&path).ok().map(|bytes| crc(&bytes))));
        }
    }
    found.sort();
    found
}

/// Enough to tell files apart.
pub fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// A conversion on one thread, which can be stopped half-way.
pub const CONVERT: [&str; 7] = ["convert", "in.safetensors", "out.apr", "--arch", "none", "-j", "1"];

/// Resumes [`CONVERT`], and compares what comes of it with what comes of a conversion that nobody disturbed.
pub fn resumes_to_the_whole(scratch: &Scratch) {
    let resumed = run(&scratch.at(""), &[&CONVERT[..], &["--resume"]].concat());
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    let whole = run(&scratch.at(""), &["convert", "in.safetensors", "whole.apr", "--arch", "none"]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    assert_same_file(&scratch.at("whole.apr"), &scratch.at("out.apr"));
    assert_eq!(scratch.names(), ["in.safetensors", "out.apr", "whole.apr"]);
}
