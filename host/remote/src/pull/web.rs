//! A file behind HTTPS.

use super::meter::Meter;
use super::target::UNFINISHED;
use super::{PullOptions, Pulled, PulledFile};
use crate::cache::{BlobName, ContentDigest, Download, Partial, hex};
use crate::file::object::{Object, Opened, Stretch};
use crate::file::spool::Spool;
use crate::file::transfer::Transfer;
use crate::places::Anywhere;
use apr_engine::place::Backing;
use apr_engine::progress::Progress;
use apr_sdk::{Error, Result};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Fetches a file to a path; returns the bytes that came, and the digest that was compared.
///
/// # Errors
/// The failure that ended the transfer; Failed with the code E004 for other content than was announced; Io.
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
    Ok((size - resumed, digest))
}

/// Removes the folder of unfinished downloads beside a file, if nothing else is in it.
pub fn remove_unfinished(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _ = std::fs::remove_dir(folder.join(UNFINISHED));
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
    if object.is_page() && !name.ends_with("html") && !name.ends_with("htm") {
        let error = Error::malformed("this is a web page, not a model").in_file(shown);
        return Err(error.hint("check the address: on the hub, a file is behind `/resolve/`, not `/blob/`"));
    }
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
        // The version is part of the name: what came of another, or of one that nothing tells from others, is not continued.
        let unique =
            if object.has_tag() { String::new() } else { format!("{:?}", std::time::SystemTime::now()) };
        let identity = Sha256::digest(format!("{shown}\n{}\n{unique}", object.version()));
        let blob = BlobName::new(&format!("url-{}", hex(&identity)))?;
        let download = Download { commit: "0".repeat(40), blob, size: bytes };
        if object.takes_ranges() {
            let follow = |transfer: &Transfer| meter.follow(transfer, &pulled.name);
            let force = options.force;
            let (fetched, verified) =
                into_file(&object, first, download, announced.as_ref(), &path, force, &follow)?;
            pulled.fetched = fetched;
            pulled.verified = verified;
        } else {
            let (bytes, verified) =
                in_one_piece(first, &path, download, announced.as_ref(), options.force, &meter)?;
            pulled = PulledFile { bytes, fetched: bytes, verified, ..pulled };
        }
    }
    remove_unfinished(&path);
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
    download: Download,
    announced: Option<&ContentDigest>,
    force: bool,
    meter: &Meter<'_>,
) -> Result<(u64, Option<String>)> {
    let shown = path.display().to_string();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let spool = Spool::new(folder, &mut |out| {
        let n = first.read(out)?;
        meter.show(first.at(), &shown);
        Ok(n)
    })?;
    let download = Download { size: spool.len(), ..download };
    let partial = Partial::open(&folder.join(UNFINISHED), None, download)?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < spool.len() {
        let len = usize::try_from(spool.len() - at).map_or(buffer.len(), |left| left.min(buffer.len()));
        spool.read_at(at, &mut buffer[..len])?;
        partial.write_at(at, &buffer[..len])?;
        at += len as u64;
    }
    let verified = partial.verify(announced, &|_| Ok(())).map_err(|error| error.with_file(shown))?;
    let digest = verified.digest().map(ToString::to_string);
    verified.move_to(path, force)?;
    Ok((spool.len(), digest))
}
