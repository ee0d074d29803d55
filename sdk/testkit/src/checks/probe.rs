//! A format knows its own files, leaves other files alone, and never stumbles over a short one.

use super::written;
use crate::fixture::probe_bytes;
use crate::generate::Random;
use crate::read::read;
use crate::subject::guarded;
use crate::{Subject, Verdict};
use apr_sdk::{Error, Look, MemorySource, Reader, Result, Score};

/// Contents found under a wrong extension in the wild, and contents that are nobody's.
const STRANGERS: &[(&str, &[u8])] = &[
    ("an empty file", b""),
    ("a text", b"The quick brown fox jumps over the lazy dog.\nIt does so again and again.\n"),
    ("an HTML page", b"<!DOCTYPE html>\n<html><head><title>404</title></head><body>Not found</body></html>\n"),
    (
        "a Git LFS pointer",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n",
    ),
    ("zeros", &[0; 4096]),
    ("ones", &[0xff; 4096]),
    ("an empty JSON object", b"{}"),
    ("some other JSON text", b"{\"name\": \"left-pad\", \"version\": \"1.3.0\"}"),
];

/// An archive of nothing: nobody's, but for a format of which it is a model of nothing. Then it opens.
const EMPTY_ZIP: &[u8] = b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

pub(super) fn probe(subject: &Subject<'_>) -> Result<Verdict> {
    let Some(reader) = subject.reader else { return Verdict::skipped("the format has no reader") };
    let extension = subject.manifest.extensions.first().map_or("bin", String::as_str);
    let own_name = format!("file.{extension}");
    for (what, bytes) in STRANGERS {
        stranger(reader, what, &own_name, bytes)?;
    }
    let nothing = MemorySource::new(&own_name, EMPTY_ZIP.to_vec());
    if !guarded(|| Ok(read(reader, subject.id(), &nothing, &subject.options(false)).is_ok()))?? {
        stranger(reader, "an empty ZIP", &own_name, EMPTY_ZIP)?;
    }
    for seed in 1..=16 {
        stranger(reader, "random bytes", &own_name, &Random::new(seed).bytes(4096))?;
    }
    let models = subject.models()?;
    let mut looks = 0;
    for fixture in &models {
        let score = guarded(|| Ok(fixture.probe(reader)))??;
        if score < Score::STRUCTURE {
            let message =
                format!("{}: its own file scores {}, at least 50 is required", fixture.name, score.0);
            return Err(Error::failed(message));
        }
        let (name, bytes) = &fixture.files[0];
        let magic = &subject.manifest.magic;
        if score >= Score::MAGIC && !magic.is_empty() && !magic.iter().any(|m| m.matches(bytes)) {
            let id = subject.id();
            return Err(Error::failed(format!(
                "{name}: the probe recognizes a magic, but `{id}.magic` does not match it"
            )));
        }
        looks += prefixes(reader, name, bytes)?;
    }
    let written = written::written(subject, reader)?;
    Verdict::passed(format!(
        "{} own files, {written} written, {} foreign files, {looks} truncated looks",
        models.len(),
        STRANGERS.len() + 17
    ))
}

fn stranger(reader: &dyn Reader, what: &str, name: &str, bytes: &[u8]) -> Result<()> {
    let score = guarded(|| Ok(probe_bytes(reader, name, bytes)))??;
    if score < Score::STRUCTURE {
        return Ok(());
    }
    Err(Error::failed(format!("{what} named `{name}` scores {}, must be below 50", score.0)))
}

/// Probes every prefix of the first 4 KiB, with the length it then has and with the length it had.
fn prefixes(reader: &dyn Reader, name: &str, bytes: &[u8]) -> Result<u64> {
    let mut looks = 0;
    for cut in 0..bytes.len().min(4096) {
        for len in [cut as u64, bytes.len() as u64, u64::MAX] {
            let tail = &bytes[cut.saturating_sub(Look::TAIL)..cut];
            let look = Look { name, len, head: &bytes[..cut], tail, is_folder: false, entries: &[] };
            guarded(|| Ok(reader.probe(&look)))
                .and_then(|score| score)
                .map_err(|e| Error::failed(format!("{name} truncated to {cut} bytes: {e}")))?;
            looks += 1;
        }
    }
    let folder = Look { name, len: 0, head: &[], tail: &[], is_folder: true, entries: &[name.to_owned()] };
    guarded(|| Ok(reader.probe(&folder)))??;
    Ok(looks)
}
