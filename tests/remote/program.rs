//! `apr` on a machine of its own: a home, a cache and a working folder that nothing else has touched, and no setting of
//! whoever runs the tests.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use apr_tests::{Scratch, program};

use super::server::encoding::sha256;
use super::server::{Hub, Seen};

/// Longer than any command of these tests takes on a busy machine.
const LONGEST: Duration = Duration::from_secs(30);

/// How `apr` ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; 128 and the signal if that ended it.
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ended {
    /// What it printed, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// What it printed, as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }
}

/// A machine with `apr` on it.
pub struct Machine {
    scratch: Scratch,
    variables: BTreeMap<String, String>,
}

impl Machine {
    /// A machine without a hub of its own.
    pub fn new() -> Self {
        let scratch = Scratch::new();
        for folder in ["home", "work", "temporary"] {
            std::fs::create_dir(scratch.at(folder)).unwrap();
        }
        let at = |name: &str| scratch.at(name).display().to_string();
        let variables = [
            ("HOME", at("home")),
            ("TMPDIR", at("temporary")),
            // Nobody waits for seconds between attempts.
            ("APR_RETRY_MILLISECONDS", "1".to_owned()),
        ];
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { scratch, variables }
    }

    /// A machine whose hub is this one.
    pub fn of(hub: &Hub) -> Self {
        Self::new().with("HF_ENDPOINT", hub.url())
    }

    /// The same with a variable of the environment.
    pub fn with(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.variables.insert(name.to_owned(), value.as_ref().to_owned());
        self
    }

    /// The same without one.
    pub fn without(mut self, name: &str) -> Self {
        self.variables.remove(name);
        self
    }

    /// The same with the shortest patience that there is, for servers that stall.
    pub fn impatient(self) -> Self {
        self.with("HF_HUB_DOWNLOAD_TIMEOUT", "1").with("HF_HUB_ETAG_TIMEOUT", "1")
    }

    /// A path in the folder that commands run in.
    pub fn at(&self, name: &str) -> PathBuf {
        self.scratch.at("work").join(name)
    }

    /// The path of the user's home, and of what is in it.
    pub fn home(&self, name: &str) -> PathBuf {
        self.scratch.at("home").join(name)
    }

    /// The cache of the hub's client.
    pub fn cache(&self) -> PathBuf {
        self.home(".cache/huggingface/hub")
    }

    /// Everything that the machine has, but for the outputs of commands.
    pub fn everything(&self) -> PathBuf {
        self.scratch.at("")
    }

    /// Writes a file into the folder that commands run in.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// `apr` with these arguments, not started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(args).current_dir(self.at("")).env_clear().envs(&self.variables);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `apr` to its end.
    pub fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, b"")
    }

    /// The same with bytes on standard input.
    pub fn run_with(&self, args: &[&str], input: &[u8]) -> Ended {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        // The program may have to be built first, which is not its own time.
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        thread::scope(|scope| {
            // Who does not read gets less.
            scope.spawn(move || drop(pipe.write_all(input)));
            wait(child)
        })
    }

    /// Runs `apr`, which must do what it is told.
    pub fn ok(&self, args: &[&str]) -> Ended {
        let ended = self.run(args);
        assert_eq!(ended.code, 0, "apr {args:?}: {}{}", ended.stderr, ended.text());
        ended
    }

    /// Runs `apr`, which must fail with this code, say all of `words` in one error with a way out, and print nothing.
    pub fn fails(&self, args: &[&str], code: i32, words: &[&str]) -> Ended {
        let ended = self.run(args);
        let found = complaint(&ended, code, words);
        assert!(found.is_none(), "apr {args:?}: {}:\n{}{}", found.unwrap(), ended.stderr, ended.text());
        ended
    }

    /// The files below the cache with digests of what they lead to; locks, which stay, left out.
    pub fn cached(&self) -> BTreeMap<String, String> {
        files_below(&self.cache()).into_iter().filter(|(name, _)| !name.starts_with(".locks/")).collect()
    }

    /// Names of what was left in the folder that commands run in, or among temporary files.
    pub fn left(&self) -> Vec<String> {
        let folders = ["work", "temporary"].map(|folder| self.scratch.at(folder));
        folders.iter().flat_map(|folder| files_below(folder).into_keys()).collect()
    }
}

/// What is wrong with a failure, if something is.
pub fn complaint(ended: &Ended, code: i32, words: &[&str]) -> Option<String> {
    if ended.code != code {
        return Some(format!("the exit code is {}, not {code}", ended.code));
    }
    if let Some(word) = words.iter().find(|word| !ended.stderr.contains(**word)) {
        return Some(format!("`{word}` is not said"));
    }
    let errors = ended.stderr.lines().filter(|line| line.starts_with("error")).count();
    if errors != 1 || ended.stderr.contains("panicked") {
        return Some(format!("{errors} errors"));
    }
    if !ended.stderr.contains("help: ") {
        return Some("no way out is said".to_owned());
    }
    let place = ended.stderr.lines().find(|line| line.starts_with("  at "));
    if place.is_some_and(|place| place.matches("://").count() > 1) {
        return Some(format!("an address stands in an address: {}", place.unwrap()));
    }
    if ended.stderr.chars().any(|c| c.is_control() && c != '\n') {
        return Some(format!("control characters: {:?}", ended.stderr));
    }
    (!ended.stdout.is_empty()).then(|| "something is printed".to_owned())
}

/// Waits for a child, and ends it if it hangs.
pub fn wait(mut child: Child) -> Ended {
    let began = Instant::now();
    let mut out = child.stdout.take().unwrap();
    let printed = thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map(|_| bytes)
    });
    let mut err = child.stderr.take().unwrap();
    let said = thread::spawn(move || {
        let mut bytes = Vec::new();
        err.read_to_end(&mut bytes).map(|_| bytes)
    });
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > LONGEST {
            child.kill().unwrap();
            let _ = child.wait();
            panic!("apr hangs: {}", String::from_utf8_lossy(&said.join().unwrap().unwrap()));
        }
        thread::sleep(Duration::from_millis(2));
    };
    Ended {
        code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        stdout: printed.join().unwrap().unwrap(),
        stderr: String::from_utf8_lossy(&said.join().unwrap().unwrap()).into_owned(),
    }
}

/// Every file and link below a folder, by path, with the digest of its bytes; of a link that leads nowhere, where to.
pub fn files_below(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries.map(|entry| entry.unwrap()) {
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_below(&path).into_iter().map(|(below, sum)| (format!("{name}/{below}"), sum)));
            continue;
        }
        let sum = match std::fs::read(&path) {
            Ok(bytes) => sha256(&bytes),
            Err(_) => format!("{:?}", std::fs::read_link(&path)),
        };
        found.insert(name, sum);
    }
    found
}

/// The requests for payload: those that are for files and not for listings, in a line each.
pub fn for_files(seen: &[Seen]) -> Vec<String> {
    seen.iter().filter(|seen| !seen.path.starts_with("/api/models/")).map(Seen::line).collect()
}
