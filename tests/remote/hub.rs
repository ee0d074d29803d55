//! Serves a hub until standard input closes, for clients in other languages. What it serves is on standard output,
//! and at the end what it was asked for.
//!
//! `hub` has the samples, `hub FOLDER` the repositories of a folder: `FOLDER/namespace/name/…`, where files of 10 MB
//! and more are large ones. A second hub has the same and fails now and then. With `--tls FILE` before the folder both
//! speak HTTPS, by a certificate whose authority is in the file from then on, and do not name what is missing.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use server::hub::{Behaviour, File, Outage, Repository, samples};
use server::tls::{Authority, Certificate};
use server::{Content, Hub, Options};
use sha2::{Digest, Sha256};

#[allow(dead_code, unused_imports, reason = "a server has more to offer than one program asks for")]
mod server;

/// From here on a file is a large one, as for the real hub.
const LARGE: u64 = 10 << 20;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let mut behaviour = Behaviour::default();
    if arguments.next_if(|argument| argument == "--tls").is_some() {
        let authority = Authority::new();
        authority.write_pem(&PathBuf::from(arguments.next().expect("`--tls` needs a file")));
        let options = Options { tls: Some(authority.config(Certificate::Good)), ..Options::default() };
        behaviour = Behaviour { options, names_missing: false, ..behaviour };
    }
    let repositories = match arguments.next() {
        Some(folder) => of_folder(&PathBuf::from(folder))?,
        None => samples::repositories(),
    };
    let expected = samples::expected(&repositories);
    let bad_day = Behaviour { page_len: 2, signed_uses: 1, ..behaviour.clone() };
    let failing = Hub::behaving(bad_day, repositories.clone());
    failing.fail(Outage::rationed("/tree/", 1, 1));
    failing.fail(Outage::status("/resolve/", 2, 503));
    let hub = Hub::behaving(behaviour, repositories);
    [&hub, &failing].into_iter().for_each(|hub| hub.allow_token(samples::STRANGER));
    println!("{}", json!({ "endpoint": hub.url(), "second": failing.url(), "expected": expected }));
    io::stdin().read_to_end(&mut Vec::new())?;
    // Whoever started it may be gone.
    let _ = writeln!(io::stdout(), "{}", json!({ "endpoint": noted(&hub), "second": noted(&failing) }));
    Ok(())
}

/// What a hub was asked for, and what it said.
fn noted(hub: &Hub) -> Value {
    let requests = hub.log().requests();
    let lines = requests.iter().map(|seen| {
        let large = seen.port == hub.cdn_port();
        json!({ "line": seen.line(), "status": seen.status, "authorized": seen.authorized, "large": large })
    });
    lines.collect()
}

/// The repositories below a folder.
fn of_folder(folder: &Path) -> io::Result<Vec<Repository>> {
    let mut repositories = Vec::new();
    for namespace in entries(folder)? {
        for name in entries(&namespace)? {
            let mut files = Vec::new();
            add_files(&name, &name, &mut files)?;
            repositories.push(Repository::model(&relative(&name, folder), files));
        }
    }
    Ok(repositories)
}

fn add_files(folder: &Path, root: &Path, files: &mut Vec<File>) -> io::Result<()> {
    for path in entries(folder)? {
        if path.is_dir() {
            add_files(&path, root, files)?;
            continue;
        }
        let content = Content::bytes(std::fs::read(&path)?);
        let path = relative(&path, root);
        let file = if content.len() < LARGE {
            File::cached(&path, content.whole())
        } else {
            let sha256: String =
                Sha256::digest(content.whole()).iter().map(|byte| format!("{byte:02x}")).collect();
            File::lfs(&path, content.declaring(Some(&sha256)))
        };
        files.push(file);
    }
    Ok(())
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
