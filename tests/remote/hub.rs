//! Serves a hub until standard input closes, for clients in other languages. What it serves is on standard output.
//!
//! `hub` has the samples, and a second hub that fails now and then; `hub FOLDER` has the repositories of a folder:
//! `FOLDER/namespace/name/…`, where files of 10 MB and more are large ones.

use std::io::Read;

use serde_json::json;
use server::hub::{Behaviour, File, Outage, Repository, samples};
use server::{Content, Hub};

#[allow(dead_code, unused_imports, reason = "a server has more to offer than one program asks for")]
mod server;

/// From here on a file is a large one, as for the real hub.
const LARGE: u64 = 10 << 20;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1);
    let repositories = match &folder {
        Some(folder) => of_folder(std::path::Path::new(folder))?,
        None => samples::repositories(),
    };
    let expected = samples::expected(&repositories);
    let failing = Hub::behaving(
        Behaviour { page_len: 2, signed_uses: 1, ..Behaviour::default() },
        repositories.clone(),
    );
    failing.fail(Outage::rationed("/tree/", 1, 1));
    failing.fail(Outage::status("/resolve/", 2, 503));
    let hub = Hub::start(repositories);
    [&hub, &failing].into_iter().for_each(samples::allow_tokens);
    println!("{}", json!({ "endpoint": hub.url(), "second": failing.url(), "expected": expected }));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The repositories below a folder.
fn of_folder(folder: &std::path::Path) -> std::io::Result<Vec<Repository>> {
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

fn add_files(folder: &std::path::Path, root: &std::path::Path, files: &mut Vec<File>) -> std::io::Result<()> {
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
            File::lfs(&path, content)
        };
        files.push(file);
    }
    Ok(())
}

fn relative(path: &std::path::Path, root: &std::path::Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn entries(folder: &std::path::Path) -> std::io::Result<Vec<std::path::PathBuf>> {
    let mut paths =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
