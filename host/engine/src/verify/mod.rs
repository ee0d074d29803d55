//! Verify: opens the output again with the format's own reader and compares it with the plan.

pub mod checklist;
pub mod content_digests;
mod encoded_payload;
mod encoded_tensors;
pub mod file_digests;
pub mod histogram;
pub mod input_checksums;
pub mod output_checksums;
pub mod stats;
pub mod tensor_values;
pub mod tree;
pub mod unchanged_inputs;
pub mod validate;
pub mod value_changes;

use crate::engine::Engine;
use crate::layout::{Layout, Segment};
use crate::open::files::Files;
use crate::open::stored_sums::decoded;
use crate::open::{Listed, OpenOptions, OpenedModel, open_entry};
use crate::planned::request::VerifyMode;
use crate::registry::Format;
use crate::tiles::tile::Run;
use crate::verify::output_checksums::Summer;
use crate::wording::n_of;
use apr_sdk::manifest::ForeignCarrier;
use apr_sdk::tokenizer::Tokenizer;
use apr_sdk::{Bytes, Coding, Error, ErrorKind, Foreign, Model, Payload, Result, Value, escape};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

/// The verdict in words, for the summary.
pub struct Verdict {
    /// The facts that were proved.
    pub proved: Vec<String>,
    /// Metadata that the output lacks although nothing refused it.
    pub dropped: Vec<String>,
}

/// Opens the staged output and compares it with the plan.
///
/// # Errors
/// Failed, with the file, tensor or key that differs from the plan; Unsupported for a format without a
/// reader.
pub fn verify(
    engine: &Engine,
    format: &Format,
    planned: &Model,
    source: &OpenedModel,
    summer: &Summer<'_>,
    entry: usize,
    mode: VerifyMode,
) -> Result<Verdict> {
    if mode == VerifyMode::Off {
        return Ok(Verdict { proved: vec!["nothing (--verify off)".to_owned()], dropped: Vec::new() });
    }
    if !format.manifest.reads {
        let error = Error::unsupported(format!(
            "the format `{}` has no reader to verify the output with",
            format.id()
        ));
        return Err(error.hint("pass --verify off to write it unverified"));
    }
    let entry = &summer.layout.files[entry].name;
    let options = OpenOptions { from: Some(format.id().to_owned()), bare: true, ..OpenOptions::default() };
    let written = staged(summer)?
        .entry(entry)
        .and_then(|there| open_entry(engine, &there, Path::new(entry), &options))
        .map_err(|e| failed("the output cannot be read back", e))?;
    let whole = format.manifest.carries.foreign == ForeignCarrier::All;
    let places = places(&written, summer);
    compare_tensors(planned, &written, summer.layout, &places)?;
    if whole {
        compare_order(planned, &written.model)?;
    }
    let dropped = compare_rest(engine, format, planned, source, &written)?;
    let n_checksums = compare_checksums(engine, &written, summer, &places)?;
    let n_tiles = reread(summer, mode)?;
    let decoded = encoded_payload::compare(engine, planned, &written, summer, &places, mode)?;
    let mut proved =
        vec![format!("{}: names, dtypes, shapes, offsets", n_of(planned.tensors.len(), "tensor"))];
    if n_checksums > 0 {
        proved.push(n_of(n_checksums, "stored checksum"));
    }
    let in_tiles = summer.tiles.runs.iter().filter(|run| run.in_order.is_none());
    let count: usize = in_tiles.map(Run::n_tiles).sum();
    if count > 0 || decoded.is_none() {
        proved.push(format!("{n_tiles} of {} re-read", n_of(count, "tile")));
    }
    proved.extend(decoded);
    Ok(Verdict { proved, dropped })
}

fn failed(what: &str, error: Error) -> Error {
    if error.kind() == ErrorKind::Cancelled {
        // Without the staged file's name, which means nothing to the user.
        return Error::cancelled(error.message());
    }
    // Problems with a disk or a limit are not the plugin's fault.
    let mut out = match error.kind() {
        kind @ (ErrorKind::Io | ErrorKind::LimitExceeded) => {
            let same = Error::new(kind, format!("{what}: {}", error.message()));
            let same = error.stable_code().into_iter().fold(same, |same, code| same.code(code));
            same.hint(match kind {
                ErrorKind::Io => "check the disk; the output was not published",
                _ => "the output was not published; pass --verify off to skip reading it back",
            })
        }
        _ => not_as_planned(format!("{what}: {}", error.message())),
    };
    if let Some(tensor) = error.tensor_name() {
        out = out.tensor(tensor);
    }
    match error.offset() {
        Some(offset) => out.at(offset),
        None => out,
    }
}

fn not_as_planned(what: String) -> Error {
    Error::failed(what)
        .hint("report it: this is a bug in the format's plugin or in apr; the output was not published")
}

/// The written files, as a place to open them in.
fn staged(summer: &Summer<'_>) -> Result<Listed> {
    let mut place = Listed::default();
    for (number, file) in summer.layout.files.iter().enumerate() {
        place.files.insert(file.name.clone(), summer.sink.read_back(number)?);
        place.shown.insert(file.name.clone(), summer.sink.show(number));
    }
    Ok(place)
}

/// For each file of the re-opened model, the index of the layout's file.
fn places(written: &OpenedModel, summer: &Summer<'_>) -> Vec<Option<usize>> {
    let numbers: HashMap<String, usize> =
        (0..summer.layout.files.len()).map(|number| (summer.sink.show(number), number)).collect();
    written.files.all().iter().map(|file| numbers.get(&file.shown).copied()).collect()
}

/// Compares the tensors of the re-opened model with the planned ones; `places` maps its files to those of the
/// layout.
///
/// # Errors
/// Failed, with the tensor.
pub fn compare_tensors(
    planned: &Model,
    written: &OpenedModel,
    layout: &Layout,
    places: &[Option<usize>],
) -> Result<()> {
    let tensors = &written.model.tensors;
    if tensors.len() != planned.tensors.len() {
        let message = format!("expected {} tensors, found {}", planned.tensors.len(), tensors.len());
        return Err(not_as_planned(message).code("ROSETTA-COUNT-001"));
    }
    // Most formats keep the planned order.
    let in_order = tensors.iter().zip(&planned.tensors).all(|(have, want)| have.name == want.name);
    let there: HashMap<&str, usize> = match in_order {
        true => HashMap::new(),
        false => tensors.iter().enumerate().map(|(n, t)| (t.name.as_str(), n)).collect(),
    };
    for (file, placed, tensor) in layout.payloads() {
        let want = &planned.tensors[tensor];
        let wrong = |what: String| not_as_planned(what).tensor(&want.name);
        let number = match in_order {
            true => Some(tensor),
            false => there.get(want.name.as_str()).copied(),
        };
        let Some(number) = number else {
            return Err(wrong("it is missing from the output".to_owned()).code("ROSETTA-COUNT-001"));
        };
        let have = &tensors[number];
        if (have.dtype, &have.shape) != (want.dtype, &want.shape) {
            let message =
                format!("expected {} {:?}, found {} {:?}", want.dtype, want.shape, have.dtype, have.shape);
            return Err(wrong(message).code("ROSETTA-DIM-001"));
        }
        if let Segment::Payload { encoded: Some(encoded), .. } = &placed.segment {
            // Its blocks are compared when it is read back.
            let is_empty = encoded.raw_len == 0 && have.payload_len()? == 0;
            match &have.payload {
                Payload::Blocks { .. } => continue,
                _ if is_empty => continue,
                _ => return Err(wrong("its payload is not stored in blocks in the output".to_owned())),
            }
        }
        let Payload::Extent { extent, view: None } = &have.payload else {
            return Err(wrong("its payload is not stored uncompressed in the output".to_owned()));
        };
        let place = places.get(extent.file as usize).copied().flatten();
        // An empty payload may be anywhere.
        if placed.len > 0 && (place, extent.offset, extent.len) != (Some(file), placed.offset, placed.len) {
            let message = format!(
                "it was written at {} ({} bytes), but the header has {} ({} bytes)",
                placed.offset, placed.len, extent.offset, extent.len
            );
            return Err(wrong(message));
        }
    }
    Ok(())
}

/// A format that carries everything also carries the order of tensors.
fn compare_order(planned: &Model, written: &Model) -> Result<()> {
    let pairs = planned.tensors.iter().zip(&written.tensors).enumerate();
    match pairs.into_iter().find(|(_, (want, have))| want.name != have.name) {
        Some((n, (want, _))) => {
            Err(not_as_planned(format!("it is not tensor {n} in the output")).tensor(&want.name))
        }
        None => Ok(()),
    }
}

/// Metadata: what is there must match the plan; what is missing is reported.
fn compare_rest(
    engine: &Engine,
    format: &Format,
    planned: &Model,
    source: &OpenedModel,
    written: &OpenedModel,
) -> Result<Vec<String>> {
    let carries = &format.manifest.carries;
    let same = |what: &str, want: &Bytes, have: Option<&Bytes>| match have {
        Some(have) if same_bytes(&source.files, want, &written.files, have)? => Ok(()),
        Some(_) => Err(not_as_planned(format!("{what} is not as planned"))),
        None => Err(not_as_planned(format!("{what} is missing from the output"))),
    };
    if carries.assets {
        let there: HashMap<&str, &Bytes> =
            written.model.assets.iter().map(|a| (a.name.as_str(), &a.bytes)).collect();
        for asset in &planned.assets {
            let have = there.get(asset.name.as_str()).copied();
            same(&format!("asset `{}`", escape(&asset.name, 80)), &asset.bytes, have)?;
        }
    }
    if let (true, Some(want)) = (carries.tokenizer, &planned.tokenizer) {
        same("the tokenizer", want, written.model.tokenizer.as_ref())
            .map_err(|e| e.code("ROSETTA-VOCAB-001"))?;
    }
    if let (true, Some(want)) = (carries.tokenizer_core, &planned.tokenizer) {
        compare_tokenizers(engine, source, want, written).map_err(|e| e.code("ROSETTA-VOCAB-001"))?;
    }
    if carries.foreign == ForeignCarrier::All {
        if planned.dialect != written.model.dialect {
            return Err(not_as_planned(format!(
                "the dialect is `{}`, expected `{}`",
                written.model.dialect, planned.dialect
            )));
        }
        if let Some(want) = &planned.architecture {
            let have = written.model.architecture.as_ref().filter(|a| a.id == want.id);
            same("the architecture", &want.config, have.map(|a| &a.config))
                .map_err(|e| e.code("ROSETTA-ARCH-001"))?;
        }
    }
    let mut dropped = Vec::new();
    for foreign in &planned.foreign {
        // A format expresses its own metadata in its own way. Records of files without tensors fit any model.
        let describes =
            foreign.describes(planned.tensors.len()) || foreign.files.iter().all(|file| file.n_tensors == 0);
        let of_another = foreign.format != format.id() && describes;
        if of_another && carries.foreign == ForeignCarrier::All {
            compare_whole(foreign, source, written)?;
            continue;
        }
        compare_foreign(engine, foreign, source, written, &mut dropped)?;
    }
    Ok(dropped)
}

/// Compares the core of the tokenizer.
fn compare_tokenizers(
    engine: &Engine,
    source: &OpenedModel,
    want: &Bytes,
    written: &OpenedModel,
) -> Result<()> {
    let have = written.tokenizer(engine)?;
    let have = have.ok_or_else(|| not_as_planned("the tokenizer is missing from the output".to_owned()))?;
    match tokenizer_of(source, want)?.difference(&tokenizer_of(written, &have)?) {
        None => Ok(()),
        Some(difference) => Err(not_as_planned(format!("the tokenizer is not as planned: {difference}"))),
    }
}

fn tokenizer_of(model: &OpenedModel, json: &Bytes) -> Result<Tokenizer> {
    let held = model.fetch(json)?;
    Tokenizer::from_json(held.inline().unwrap_or_default())
}

/// A format that carries everything must have all of it: files, keys, their order, verbatim forms.
fn compare_whole(want: &Foreign, source: &OpenedModel, written: &OpenedModel) -> Result<()> {
    let wrong = |what: String| Err(not_as_planned(format!("{what} of `{}` is not as planned", want.format)));
    let files = written.model.foreign_of(&want.format).map(|f| f.files.as_slice()).unwrap_or_default();
    if files.len() != want.files.len() {
        return wrong("the part structure".to_owned());
    }
    for (file, have) in want.files.iter().zip(files) {
        if (&file.name, file.n_tensors, file.typed.len()) != (&have.name, have.n_tensors, have.typed.len()) {
            return wrong(format!("the metadata of file `{}`", escape(&file.name, 120)));
        }
        for ((key, value), (kept_key, kept)) in file.typed.iter().zip(&have.typed) {
            let same = key == kept_key
                && value.kind == kept.kind
                && same_bytes(&source.files, &value.bytes, &written.files, &kept.bytes)?;
            if !same {
                return wrong(format!("metadata key `{}`", escape(key, 120)));
            }
        }
        let same = match (&file.verbatim, &have.verbatim) {
            (Some(form), Some(kept)) => same_bytes(&source.files, form, &written.files, kept)?,
            (form, kept) => form.is_none() && kept.is_none(),
        };
        if !same {
            return wrong("the verbatim form".to_owned());
        }
    }
    Ok(())
}

fn compare_foreign(
    engine: &Engine,
    want: &Foreign,
    source: &OpenedModel,
    written: &OpenedModel,
    dropped: &mut Vec<String>,
) -> Result<()> {
    // How a model is laid out in its files changes with the sizes of its tensors.
    let format = engine.registry.format(&want.format);
    let bookkeeping = format.map_or(&[][..], |format| &format.manifest.bookkeeping);
    let have = written.model.foreign_of(&want.format);
    let mut anywhere: HashMap<&str, &Value> = HashMap::new();
    for (key, value) in have.iter().flat_map(|f| &f.files).flat_map(|f| &f.typed) {
        anywhere.entry(key).or_insert(value);
    }
    let mut missing = HashSet::new();
    for (n, file) in want.files.iter().enumerate() {
        let of_file = have.and_then(|f| f.files.get(n)).map(|f| f.typed.as_slice()).unwrap_or_default();
        let of_file: HashMap<&str, &Value> = of_file.iter().map(|(k, v)| (k.as_str(), v)).collect();
        for (key, value) in &file.typed {
            // The value from the same file if the structure was kept, otherwise from any file.
            let kept = of_file.get(key.as_str()).or_else(|| anywhere.get(key.as_str()));
            let shown = escape(key, 120);
            match kept {
                None if missing.insert(key) => dropped.push(shown),
                None => {}
                Some(kept)
                    if kept.kind == value.kind
                        && same_bytes(&source.files, &value.bytes, &written.files, &kept.bytes)? => {}
                Some(_) if bookkeeping.contains(key) => {}
                // A value that differs between files and was merged into one, as for merged parts, is not a
                // change.
                Some(_)
                    if want.files.len() > 1 && have.is_some_and(|h| h.files.len() != want.files.len()) => {}
                Some(_) => return Err(not_as_planned(format!("metadata key `{shown}` is not as planned"))),
            }
        }
    }
    Ok(())
}

/// Compares two byte strings piece by piece, wherever they are.
fn same_bytes(a_files: &Files, a: &Bytes, b_files: &Files, b: &Bytes) -> Result<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    if let (Bytes::Inline(a), Bytes::Inline(b)) = (a, b) {
        return Ok(a == b);
    }
    let mut piece_a = vec![0; 64 * 1024];
    let mut piece_b = vec![0; 64 * 1024];
    let mut at = 0;
    while at < a.len() {
        let n = usize::try_from((a.len() - at).min(64 * 1024)).unwrap_or(0);
        read_piece(a_files, a, at, &mut piece_a[..n])?;
        read_piece(b_files, b, at, &mut piece_b[..n])?;
        if piece_a[..n] != piece_b[..n] {
            return Ok(false);
        }
        at += n as u64;
    }
    Ok(true)
}

fn read_piece(files: &Files, bytes: &Bytes, at: u64, out: &mut [u8]) -> Result<()> {
    match bytes {
        Bytes::Inline(held) => {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            out.copy_from_slice(held.get(at..at + out.len()).unwrap_or_default());
            Ok(())
        }
        Bytes::Extent(extent) => {
            files.read_at(extent.file, extent.offset + at, out).map_err(|e| files.show(e))
        }
    }
}

fn compare_checksums(
    engine: &Engine,
    written: &OpenedModel,
    summer: &Summer<'_>,
    places: &[Option<usize>],
) -> Result<usize> {
    for (number, checksum) in written.model.checksums.iter().enumerate() {
        let name = written.files.get(checksum.covers.file)?.name.clone();
        let file = places.get(checksum.covers.file as usize).copied().flatten();
        let file = file.ok_or_else(|| not_as_planned(format!("a checksum of `{name}`")))?;
        let end = checksum.covers.end().unwrap_or(u64::MAX);
        let computed = match checksum.coding {
            Coding::Raw => summer.range(file, checksum.covers.offset, end)?,
            _ => decoded(engine, written, number)?,
        };
        let stored = written.fetch(&checksum.stored)?;
        if checksum.sum.crc32(stored.inline().unwrap_or_default())? != Some(computed) {
            let message = format!("the stored checksum does not match the computed one, {computed:08x}");
            return Err(not_as_planned(message).in_file(name).code("ROSETTA-CRC-001"));
        }
    }
    Ok(written.model.checksums.len())
}

/// The first, the last, and one chosen by the content.
fn sample(of: Range<usize>, crc32: impl Fn(usize) -> u32) -> Vec<usize> {
    let Some(last) = of.end.checked_sub(1).filter(|last| *last >= of.start) else { return Vec::new() };
    let chosen = of.start + crc32(last) as usize % of.len();
    let mut numbers = vec![of.start, chosen, last];
    numbers.dedup();
    numbers
}

/// The error for bytes that differ from those written.
fn damaged(summer: &Summer<'_>, file: usize, offset: u64) -> Error {
    let error = Error::failed("the disk returned different bytes than were written").code("ROSETTA-CRC-001");
    let error = error.at(offset).in_file(summer.sink.show(file));
    error.hint("check the disk; the output was not published")
}

/// Reads tiles back and compares them with the checksums they had when they were computed.
fn reread(summer: &Summer<'_>, mode: VerifyMode) -> Result<usize> {
    let mut numbers: Vec<usize> = Vec::new();
    let runs = summer.tiles.runs.iter().filter(|run| run.len > 0 && run.in_order.is_none());
    if mode == VerifyMode::Full {
        numbers.extend(runs.flat_map(|run| run.first..run.first + run.n_tiles()));
    } else {
        let mut ends: Vec<Option<(usize, usize)>> = vec![None; summer.layout.files.len()];
        for run in runs {
            let last = run.first + run.n_tiles() - 1;
            ends[run.file].get_or_insert((run.first, last)).1 = last;
        }
        for (first, last) in ends.into_iter().flatten() {
            numbers.extend(sample(first..last + 1, |last| summer.sums.get(last).map_or(0, |(out, _)| out)));
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    let mut buffer = Vec::new();
    for &number in &numbers {
        let tile = summer.tiles.tile(number);
        let run = &summer.tiles.runs[tile.run];
        buffer.resize(usize::try_from(tile.len).unwrap_or(0), 0);
        summer.read_back(run.file, run.offset + tile.at, &mut buffer)?;
        if summer.sums.get(number).map(|(out, _)| out) != Some(crc32fast::hash(&buffer)) {
            return Err(damaged(summer, run.file, run.offset + tile.at));
        }
    }
    Ok(numbers.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(error: Error) -> Error {
        failed("the output cannot be read back", error.at(7))
    }

    #[test]
    fn only_what_the_plugin_did_is_called_a_bug_of_it() {
        let bug = unread(Error::malformed("no magic"));
        assert_eq!((bug.kind(), bug.offset()), (ErrorKind::Failed, Some(7)));
        assert!(bug.hint_text().unwrap().contains("this is a bug"), "{bug}");
        for error in [Error::io("the disk is gone").code("E007"), Error::limit("the budget is used up")] {
            let told = unread(error.clone());
            assert_eq!((told.kind(), told.stable_code()), (error.kind(), error.stable_code()));
            let hint = told.hint_text().unwrap();
            assert!(hint.contains("the output was not published") && !hint.contains("bug"), "{told}");
        }
        assert_eq!(unread(Error::cancelled("stopped")).kind(), ErrorKind::Cancelled);
    }
}
