//! Would loading this model elsewhere run code? Asks the format's report about each file; a format without
//! that report holds no code.

use crate::host::Host;
use crate::storage::error::path_error;
use apr_engine::open::OpenOptions;
use apr_engine::open::Probed;
use apr_engine::open::reports::{FormatReport, declares, report, suspects};
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::path::Path;

/// The report that formats declare if they can hold code.
pub const SCAN: &str = "scan";

/// Files of a folder to scan. 10,000: the largest models have a tenth as many shards.
const MOST_FILES: usize = 10_000;

/// The result of a scan.
#[derive(Debug)]
pub enum Scanned {
    /// One file's own report.
    File(FormatReport),
    /// A file in a format without code, or a folder.
    Files(ScannedFiles),
}

/// The results for several files. JSON: `apr.scan/1`: of a folder, and of a file whose format holds no code; of any other
/// file, `apr scan` prints the format's own document. `path`, `files` (each `file`, `format`, `passed`, and `report`, the
/// format's document or null), `others` (files of unknown format), `unseen` (links to folders elsewhere), `ok`.
#[derive(Debug, Serialize)]
pub struct ScannedFiles {
    /// The file or folder, as typed.
    pub path: String,
    /// The files of known format.
    pub files: Vec<ScannedFile>,
    /// The names of the others, about which nothing is said.
    pub others: Vec<String>,
    /// The names of links to folders outside this one, which are not followed.
    pub unseen: Vec<String>,
    /// True if no file asks to run code, and all were seen.
    pub ok: bool,
    /// Warnings for the user.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// The result for one file.
#[derive(Debug, Serialize)]
pub struct ScannedFile {
    /// Path relative to the folder.
    pub file: String,
    /// The id of its format.
    pub format: String,
    /// True if it does not ask to run code.
    pub passed: bool,
    /// The format's report; `null` if the format cannot hold code.
    pub report: Option<Map<String, Json>>,
    /// The text of that report.
    #[serde(skip)]
    pub text: Option<String>,
}

/// Scans the file or folder at `path`.
///
/// # Errors
/// NotFound; as [`report`] for a file that no format recognises, or that cannot be read.
pub fn scan(host: &Host, path: &Path, options: &OpenOptions) -> Result<Scanned> {
    if path.is_dir() {
        return folder(host, path, options).map(Scanned::Files);
    }
    match Probed::new(host, path, options.from.as_deref(), true) {
        Ok(probed) if !declares(probed.format(), SCAN) => {
            let path = path.display().to_string();
            let file = ScannedFile {
                file: path.clone(),
                format: probed.format().id().to_owned(),
                passed: true,
                report: None,
                text: None,
            };
            Ok(Scanned::Files(ScannedFiles {
                path,
                files: vec![file],
                others: Vec::new(),
                unseen: Vec::new(),
                ok: true,
                warnings: probed.warnings().to_vec(),
            }))
        }
        // A file of unknown format may still be scanned: files that do not load are exactly what a scan is
        // for.
        Ok(_) | Err(_) => report(host, path, SCAN, options).map(Scanned::File),
    }
}

/// Scans each file of a folder and its subfolders: a model may have several files, and any of them code.
fn folder(host: &Host, path: &Path, options: &OpenOptions) -> Result<ScannedFiles> {
    let mut names = Vec::new();
    list(path, "", &mut names)?;
    names.sort();
    let root = path.canonicalize().map_err(|e| path_error(&e, "resolve", path))?;
    let mut scanned = ScannedFiles {
        path: path.display().to_string(),
        files: Vec::new(),
        others: Vec::new(),
        unseen: Vec::new(),
        ok: true,
        warnings: Vec::new(),
    };
    for name in names {
        host.check_cancelled()?;
        let file = path.join(&name);
        if file.is_dir() {
            // What is in this folder is scanned in its own place.
            if !file.canonicalize().is_ok_and(|target| target.starts_with(&root)) {
                scanned.unseen.push(name);
                scanned.ok = false;
            }
            continue;
        }
        // A pipe or a device is no file: opening it may block for ever.
        if !file.is_file() {
            scanned.others.push(name);
            continue;
        }
        let (format, made) = match Probed::new(host, &file, None, true) {
            Ok(probed) if !declares(probed.format(), SCAN) => (probed.format().id().to_owned(), None),
            Err(error) if error.explicit_code() == Some("E001") && !suspects(host, &file, SCAN)? => {
                scanned.others.push(name);
                continue;
            }
            Err(error) if error.explicit_code() != Some("E001") => return Err(error),
            Ok(_) | Err(_) => {
                let made = report(host, &file, SCAN, options)?;
                (made.format.clone(), Some(made))
            }
        };
        let passed = made.as_ref().is_none_or(|made| made.passed);
        scanned.ok &= passed;
        scanned.files.push(ScannedFile {
            file: name,
            format,
            passed,
            text: made.as_ref().map(|made| made.text.clone()),
            report: made.map(|made| made.json),
        });
    }
    if scanned.files.is_empty() && scanned.unseen.is_empty() {
        let error = Error::malformed("no file in this folder is of an available format").code("E001");
        return Err(error.in_file(scanned.path));
    }
    Ok(scanned)
}

/// The files below a folder, and links to folders. Those are not followed: they may be circular.
fn list(folder: &Path, prefix: &str, names: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder).map_err(|e| path_error(&e, "list", folder))? {
        let entry = entry.map_err(|e| path_error(&e, "list", folder))?;
        let Ok(name) = entry.file_name().into_string() else {
            let shown = escape(&entry.file_name().to_string_lossy(), 120);
            return Err(Error::unsupported(format!("the name `{shown}` is not valid UTF-8")));
        };
        let name = format!("{prefix}{name}");
        if entry.file_type().map_err(|e| path_error(&e, "list", folder))?.is_dir() {
            list(&entry.path(), &format!("{name}/"), names)?;
        } else {
            names.push(name);
        }
        if names.len() > MOST_FILES {
            return Err(Error::limit(format!("the folder has more than {MOST_FILES} files")));
        }
    }
    Ok(())
}
