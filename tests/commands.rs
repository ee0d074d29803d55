//! What a document tells its reader to type, run as it stands there.

use crate::{Scratch, program};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A fenced block of a document.
pub struct Block {
    /// What follows the fence: `sh`, `console`, `toml`, ...
    pub language: String,
    /// What is in it.
    pub text: String,
}

impl Block {
    /// The commands, each with the lines that it is shown to print: of `console` those behind `$ `, of `sh` all.
    pub fn commands(&self) -> Vec<(String, Vec<String>)> {
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for line in self.text.lines() {
            match (self.language.as_str(), line.strip_prefix("$ "), found.last_mut()) {
                ("sh", ..) => found.push((line.to_owned(), Vec::new())),
                ("console", Some(command), _) => found.push((command.to_owned(), Vec::new())),
                ("console", None, Some((_, shown))) => shown.push(line.to_owned()),
                _ => {}
            }
        }
        found
    }
}

/// The blocks of the sections of a document from one heading up to another, or to the end.
pub fn blocks(document: &str, from: &str, to: Option<&str>) -> Vec<Block> {
    let rest = |text: &str, heading: &str| {
        let (before, after) =
            text.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no `{heading}`"));
        (before.to_owned(), after.to_owned())
    };
    let (_, mut text) = rest(document, from);
    if let Some(to) = to {
        text = rest(&text, to).0;
    }
    let fences: Vec<&str> = text.split("```").collect();
    let inside = fences.iter().skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    inside.map(|(language, text)| Block { language: language.to_owned(), text: text.to_owned() }).collect()
}

/// A shell of somebody who has `apr` and cargo, and nothing of `apr`'s in the home folder.
pub struct Shell {
    /// Where the next command runs: as in a terminal, `cd` stays.
    pub folder: PathBuf,
    home: PathBuf,
}

impl Shell {
    /// A shell in a scratch folder.
    pub fn new(scratch: &Scratch) -> Shell {
        let home = scratch.at("home");
        std::fs::create_dir_all(&home).unwrap();
        Shell { folder: scratch.at(""), home }
    }

    /// Runs a command, which must succeed; gives what it printed.
    pub fn run(&mut self, command: &str) -> String {
        let place = self.home.join("place");
        let mut shell = Command::new("sh");
        shell.args(["-ec", &format!("{command}\npwd > '{}'", place.display())]).current_dir(&self.folder);
        let cargo_home = std::env::home_dir().unwrap().join(".cargo");
        shell.env("CARGO_HOME", std::env::var_os("CARGO_HOME").map_or(cargo_home, PathBuf::from));
        // Of the environment of whoever runs the tests nothing counts that apr or cargo looks at.
        let is_theirs = |name: &str| {
            let of_cargo = ["CARGO_BUILD_", "CARGO_TARGET_", "CARGO_PROFILE_", "CARGO_ENCODED_", "RUSTFLAGS"];
            ["APR_", "XDG_", "CLICOLOR", "NO_COLOR"]
                .iter()
                .chain(&of_cargo)
                .any(|start| name.starts_with(start))
        };
        for (name, _) in std::env::vars().filter(|(name, _)| is_theirs(name)) {
            shell.env_remove(name);
        }
        shell.env("HOME", &self.home);
        shell.env("CARGO_NET_OFFLINE", "true").env("CARGO_TERM_QUIET", "true");
        // Released plugins are optimized, which nothing here looks at: it would take most of the time.
        shell.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
        let (apr, path) = (program(), std::env::var("PATH").unwrap());
        let first = [apr.parent().unwrap(), Path::new(env!("CARGO")).parent().unwrap()];
        shell.env("PATH", format!("{}:{}:{path}", first[0].display(), first[1].display()));
        let output = shell.output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let printed = said(&output.stdout);
        assert!(output.status.success(), "`{command}`: {printed}{}", said(&output.stderr));
        self.folder = std::fs::read_to_string(&place).unwrap().trim_end().into();
        printed
    }
}
