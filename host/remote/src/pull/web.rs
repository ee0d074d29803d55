//! A file behind HTTPS.

use super::meter::Meter;
use super::target::UNFINISHED;
use super::{PullOptions, Pulled, PulledFile};
use crate::cache::{BlobName, ContentDigest, Download, Partial};
use crate::file::object::{Object, Opened, Stretch};
use crate::file::transfer::Transfer;
use crate::places::Anywhere;
use apr_engine::progress::Progress;
use apr_sdk::{Error, Result};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Fetches a file to a path; returns the bytes that came, and the digest that was compared.
///
/// # Errors
/// What ended the transfer; Failed with the code E004 for other content than was announced; Io.
pub fn into_file(
    object: &Arc<Object>,
    first: Stretch,
    download: Download,
    announced: Option<&ContentDigest>,
    path: &Path,
    force: bool,
    follow: &dyn Fn(&Transfer),
) -> Result<(u64, Option<String>)> {
    let shown = path.display().to_string();
    let failed = |e: std::io::Error| Error::io(format!("cannot write: {e}")).in_file(shown.clone());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let size = download.size;
    let partial = Partial::open(&folder.join(UNFINISHED), None, download)?;
    let resumed = partial.done();
    let transfer = Transfer::beginning(object, first, partial, announced)?;
    follow(&transfer);
    let Some(verified) = transfer.finish()? else { return Err(Error::io("the transfer was ended before")) };
    let digest = verified.digest().map(ToString::to_string);
    verified.move_to(path, force)?;
    let _ = std::fs::remove_dir(folder.join(UNFINISHED));
    Ok((size - resumed, digest))
}

/// Downloads the file that a URL leads to.
///
/// # Errors
/// As [`pull`](super::pull).
pub fn of_url(
    anywhere: &Anywhere,
    url: &url::Url,
    options: &PullOptions,
    progress: &dyn Progress,
) -> Result<Pulled> {
    let began = Instant::now();
    let (opened, name) = anywhere.open_url(url)?;
    let Opened { object, first } = opened;
    let shown = object.shown().to_owned();
    let announced = options.sha256.clone().map(ContentDigest::Sha256);
    let path = match &options.output {
        Some(path) if path.is_dir() || path.as_os_str().to_string_lossy().ends_with('/') => path.join(&name),
        Some(path) => path.clone(),
        None => PathBuf::from(&name),
    };
    if path.symlink_metadata().is_ok() && !options.force {
        let error = Error::io("this file already exists").code("E007").in_file(path.display().to_string());
        return Err(error.hint("pass --force to replace it, or name another with -o"));
    }
    let bytes = if object.size() == u64::MAX { 0 } else { object.size() };
    let mut pulled = PulledFile { name, bytes, fetched: bytes, verified: None };
    if !options.plan {
        let meter = Meter::new(progress, bytes);
        // The version is part of the name: what came of another is not continued.
        let identity = Sha256::digest(format!("{shown}\n{}", object.version()));
        let blob: String = identity.iter().map(|byte| format!("{byte:02x}")).collect();
        let blob = BlobName::new(&format!("url-{blob}"))?;
        let download = Download { commit: "0".repeat(40), blob, size: bytes };
        if object.takes_ranges() {
            let follow = |transfer: &Transfer| meter.follow(transfer, &pulled.name);
            let force = options.force;
            let (fetched, verified) =
                into_file(&object, first, download, announced.as_ref(), &path, force, &follow)?;
            pulled.fetched = fetched;
            pulled.verified = verified;
        } else {
            let (bytes, verified) = in_one_piece(first, &path, announced.as_ref(), options.force, &meter)?;
            pulled = PulledFile { bytes, fetched: bytes, verified, ..pulled };
        }
    }
    let mut warnings = Vec::new();
    if announced.is_none() && !options.plan {
        warnings.push(format!("{shown}: not verified: no digest was given (--sha256 HEX)"));
    }
    Ok(Pulled {
        model: shown,
        commit: None,
        path: path.display().to_string(),
        files: vec![pulled],
        licence: None,
        planned: options.plan,
        seconds: began.elapsed().as_secs_f64(),
        warnings,
    })
}

/// Fetches a file from a server without ranges, which cannot be continued; returns its length and digest.
fn in_one_piece(
    mut first: Stretch,
    path: &Path,
    announced: Option<&ContentDigest>,
    force: bool,
    meter: &Meter<'_>,
) -> Result<(u64, Option<String>)> {
    let shown = path.display().to_string();
    let failed = |e: std::io::Error| Error::io(format!("cannot write: {e}")).in_file(shown.clone());
    let beside = path.with_file_name(format!(
        ".{}.apr-{}",
        path.file_name().unwrap_or_default().to_string_lossy(),
        std::process::id()
    ));
    let mut work = || -> Result<(u64, String)> {
        let mut file = std::fs::File::create_new(&beside).map_err(failed)?;
        let (mut hash, mut bytes) = (Sha256::new(), 0);
        let mut buffer = vec![0; 256 << 10];
        loop {
            let n = first.read(&mut buffer)?;
            if n == 0 {
                break;
            }
            file.write_all(&buffer[..n]).map_err(failed)?;
            hash.update(&buffer[..n]);
            bytes += n as u64;
            meter.show(bytes, &shown);
        }
        file.sync_all().map_err(failed)?;
        let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if announced.is_some_and(|announced| announced.digits() != digest) {
            let message = format!("the download has SHA-256 {digest}, but another was announced");
            return Err(Error::failed(message).code("E004").in_file(shown.clone()).hint("check the address"));
        }
        if force || path.symlink_metadata().is_err() {
            std::fs::rename(&beside, path).map_err(failed)?;
            return Ok((bytes, digest));
        }
        Err(Error::io("this file already exists").code("E007").in_file(shown.clone()))
    };
    let done = work();
    if done.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    done.map(|(bytes, digest)| (bytes, announced.map(|_| format!("SHA-256 {digest}"))))
}
