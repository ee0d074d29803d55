//! Check that a model read is written, and read again the same; byte for byte where that is promised.

use super::carries::called_alike;
use crate::same::{Content, has_assets, same_metadata, same_tensors, with_content};
use crate::subject::about;
use crate::{Fixture, Opened, Subject, Verdict, carried};
use apr_sdk::{Error, LayoutRequest, MemorySource, Reader, Result, Writer};

pub(super) fn round_trip(subject: &Subject<'_>) -> Result<Verdict> {
    let Some((reader, writer)) = subject.reader.zip(subject.writer) else {
        return Verdict::skipped("the format is not both readable and writable");
    };
    let mut done = 0;
    let mut skipped = 0;
    let mut identical = Vec::new();
    let mut different = Vec::new();
    for fixture in &subject.models()? {
        let source = fixture.source();
        let opened = about(fixture, || "opening".into(), subject.open(reader, &source))?;
        if carried(subject.manifest, &opened.model).is_err() {
            skipped += 1;
            continue;
        }
        let result = one(subject, reader, writer, fixture, &source, &opened);
        match about(fixture, || "written and read again".into(), result)? {
            Ok(()) => identical.push(fixture.name.clone()),
            Err(difference) => different.push((fixture.name.clone(), difference)),
        }
        done += 1;
    }
    if subject.byte_identical {
        promised(subject, &identical, &different)?;
    }
    let identical = identical.len();
    Verdict::passed(format!(
        "{done} models, {identical} byte-identical, {skipped} that the writer cannot hold"
    ))
}

/// Refuses fixtures that differ and are not excepted, and those that are excepted and do not differ.
fn promised(subject: &Subject<'_>, identical: &[String], different: &[(String, String)]) -> Result<()> {
    let mut broken = Vec::new();
    for (name, difference) in different {
        if !subject.except.contains(&name.as_str()) {
            broken.push(format!("{name}: {difference}"));
        }
    }
    if !broken.is_empty() {
        return Err(Error::failed(format!("not byte-identical: {}", broken.join("; "))));
    }
    match identical.iter().find(|name| subject.except.contains(&name.as_str())) {
        Some(name) => Err(Error::failed(format!(
            "{name} is byte-identical although it is listed as an exception: remove it from the list"
        ))),
        None => Ok(()),
    }
}

/// Writes a fixture, reads it again and compares; gives whether the bytes are the same, or where they differ.
fn one(
    subject: &Subject<'_>,
    reader: &dyn Reader,
    writer: &dyn Writer,
    fixture: &Fixture,
    source: &MemorySource,
    opened: &Opened,
) -> Result<std::result::Result<(), String>> {
    let request = request(subject, fixture, opened);
    let files = subject.write(writer, opened, source, &request)?;
    let result = Fixture { name: fixture.name.clone(), files };
    let result_source = result.source();
    let again = subject.open(reader, &result_source)?;
    let renamed = called_alike(subject, &opened.model, &again.model);
    with_content(opened, source, |wanted| {
        let wanted = Content { model: &renamed, ..*wanted };
        with_content(&again, &result_source, |found| same(subject, &wanted, found))
    })?;
    Ok(same_files(fixture, &result))
}

fn same(subject: &Subject<'_>, wanted: &Content<'_>, found: &Content<'_>) -> Result<()> {
    same_tensors(wanted, found)?;
    same_metadata(wanted, found, subject.id())?;
    if subject.manifest.carries.assets { has_assets(wanted, found) } else { Ok(()) }
}

/// A model of several files is written into a folder, so that its own structure is used.
fn request(subject: &Subject<'_>, fixture: &Fixture, opened: &Opened) -> LayoutRequest {
    let several = opened.model.foreign_of(subject.id()).is_some_and(|foreign| foreign.files.len() > 1);
    let name = fixture.files.first().map_or("kit", |(name, _)| name.as_str());
    let mut request = match several {
        true => LayoutRequest::folder(stem(name)),
        false => LayoutRequest::file(name),
    };
    request.options = subject.options(true);
    request.inputs = fixture.files.iter().map(|(_, bytes)| bytes.len() as u64).collect();
    request
}

/// `model` of `model-00001-of-00002.ext` and of `model.ext.index.json`.
fn stem(name: &str) -> &str {
    let name = name.split_once("-0").map_or(name, |(stem, _)| stem);
    name.split_once('.').map_or(name, |(stem, _)| stem)
}

/// Compares by name; a single file may have another name.
fn same_files(wanted: &Fixture, found: &Fixture) -> std::result::Result<(), String> {
    if let ([(_, wanted)], [(_, found)]) = (&wanted.files[..], &found.files[..]) {
        return same_bytes("the file", wanted, found);
    }
    if let Some((entry, _)) =
        wanted.files.first().filter(|(entry, _)| found.files.iter().all(|(name, _)| name != entry))
    {
        return Err(format!("`{entry}` was not written"));
    }
    for (name, bytes) in &found.files {
        let there = wanted.files.iter().find(|(wanted, _)| wanted == name);
        let (_, there) =
            there.ok_or_else(|| format!("`{name}` was written, but the fixture has no such file"))?;
        same_bytes(name, there, bytes)?;
    }
    Ok(())
}

fn same_bytes(name: &str, wanted: &[u8], found: &[u8]) -> std::result::Result<(), String> {
    if wanted == found {
        return Ok(());
    }
    let at = wanted.iter().zip(found).take_while(|(a, b)| a == b).count();
    Err(format!(
        "{name} has {} bytes, expected {}; the first difference is at {at}",
        found.len(),
        wanted.len()
    ))
}
