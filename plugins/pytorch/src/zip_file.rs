//! The ZIP layout: `data.pkl`, and each storage as the record `data/KEY`. TorchScript archives look alike;
//! their code is not read.

use crate::checkpoint::{Checkpoint, Layout};
use crate::layout::{BYTEORDER, CONSTANTS_PKL, DATA, DATA_PKL};
use crate::pickle::machine::{Rules, run};
use crate::pickle::persistent::Persistent;
use crate::pickle::value::{Arena, Id};
use crate::storage::Located;
use apr_sdk::{Cursor, Endian, Error, FileId, Limits, MemorySource, Result, Source, escape};
use apr_zip::{Archive, Entry, Method};
use std::collections::HashMap;

/// Opens a ZIP.
///
/// # Errors
/// Malformed, Unsupported, LimitExceeded, with file and offset.
pub fn open(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Checkpoint> {
    let archive = Archive::open(source, file, limits)?;
    let records: HashMap<&str, &Entry> =
        archive.entries().iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let folder = folder(&archive)?;
    let record = |name: &str| records.get(format!("{folder}{name}").as_str()).copied();
    let script = record(CONSTANTS_PKL).is_some();
    let data = record(DATA_PKL).ok_or_else(|| Error::malformed("the archive has no `data.pkl`").at(0))?;
    let endian = match record(BYTEORDER) {
        None => Endian::Little,
        Some(entry) => byte_order(&archive.read(source, entry, limits)?)
            .map_err(|e| e.at(entry.data.offset).in_file(source.name(file)))?,
    };
    let mut arena = Arena::default();
    let rules = Rules { script, persistent: Persistent::Zip };
    let root = run_entry(source, &archive, data, limits, &mut arena, rules)?;
    let mut located = Vec::with_capacity(arena.storages.len());
    for storage in &arena.storages {
        let key = arena.str(storage.key);
        let entry = record(&format!("{DATA}{key}")).ok_or_else(|| {
            let message =
                format!("the pickle refers to the storage `{}`, which has no record", escape(key, 80));
            Error::malformed(message).at(storage.at).in_file(source.name(file))
        })?;
        // 128 bytes: a place, and the name that a deflated one keeps.
        limits.budget.charge(128 + entry.name.len() as u64)?;
        located.push(Located::of(entry));
    }
    let mut notes = Vec::new();
    if script {
        notes.push(
            "a TorchScript archive: its parameters and attributes are read, but not its code".to_owned(),
        );
    }
    let at = data.data.offset;
    let layout = Layout::Zip(archive, folder);
    Ok(Checkpoint { file, at, arena, root, located, endian, layout, notes })
}

/// Runs the pickle of one record.
pub fn run_entry(
    source: &dyn Source,
    archive: &Archive,
    entry: &Entry,
    limits: &Limits,
    arena: &mut Arena,
    rules: Rules<'_>,
) -> Result<Id> {
    if entry.method == Method::Stored {
        let end = entry.data.offset.saturating_add(entry.data.len);
        let mut cursor = Cursor::with_end(source, entry.data.file, entry.data.offset, end, limits)?;
        return run(&mut cursor, arena, rules);
    }
    let bytes = archive.read(source, entry, limits)?;
    // Offsets are those in the inflated record, and the file's name says so.
    let place = format!("{} (inflated {})", source.name(entry.data.file), escape(&entry.name, 80));
    let inflated = MemorySource::new(place, bytes);
    let mut cursor = Cursor::new(&inflated, 0, 0, limits)?;
    run(&mut cursor, arena, rules)
}

/// The folder in which the records lie: that of the one `data.pkl` that is least deep.
pub fn folder(archive: &Archive) -> Result<String> {
    let folders = archive.entries().iter().filter_map(|entry| entry.name.strip_suffix(DATA_PKL));
    let mut found: Vec<&str> = folders.filter(|folder| folder.is_empty() || folder.ends_with('/')).collect();
    found.sort_by_key(|folder| (folder.matches('/').count(), folder.len()));
    let depth = |folder: &str| folder.matches('/').count();
    match found[..] {
        [] => Err(Error::malformed("the archive has no `data.pkl`: it is not a PyTorch checkpoint").at(0)),
        [one] => Ok(one.to_owned()),
        [one, other, ..] if depth(one) < depth(other) => Ok(one.to_owned()),
        [one, other, ..] => Err(Error::malformed(format!(
            "the archive has two pickles, `{}{DATA_PKL}` and `{}{DATA_PKL}`",
            escape(one, 80),
            escape(other, 80)
        ))
        .at(0)),
    }
}

fn byte_order(text: &[u8]) -> Result<Endian> {
    match text {
        b"little" => Ok(Endian::Little),
        b"big" => Ok(Endian::Big),
        other => {
            let shown = escape(&String::from_utf8_lossy(other), 40);
            Err(Error::malformed(format!("the byte order is `{shown}`, expected `little` or `big`")))
        }
    }
}
