//! The reader: recognises files and opens them.

use crate::file::{File, FileOptions};
use crate::layout::{Header, MAGIC, VERSION, flags};
use crate::manifest::Manifest;
use crate::{EXTENSION, check, folder, header_64, shards, version_1};
use apr_sdk::{
    Cursor, Error, ErrorKind, FileId, Limits, Look, ModelSink, OpenModel, Options, Report, Result, Score,
    Source, escape, strict_json,
};

/// Reads APR2 files and manifests, and files of older layouts.
#[derive(Debug)]
pub struct Reader;

impl apr_sdk::Reader for Reader {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.is_folder {
            return if look.entries.iter().any(|name| folder::is_weights(name)) {
                Score::STRUCTURE
            } else {
                Score::NO
            };
        }
        if look.head_is(&MAGIC) {
            let version = look.head.get(4..6).and_then(|b| b.try_into().ok()).map(u16::from_le_bytes);
            return if version == Some(VERSION.0) { Score::MAGIC_AND_VERSION } else { Score::MAGIC };
        }
        // Also claims older and unknown versions, so that this reader reports what they are.
        if look.head_is(b"APR") && is_version(look.head) {
            return Score::MAGIC;
        }
        if Manifest::looks_like(look.head) { Score::STRUCTURE } else { Score::NO }
    }

    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
        let file = if source.is_folder() { folder::choose(source)? } else { 0 };
        open(source, file, limits, options.is_part()).map_err(|e| e.in_file(source.name(file)))
    }

    fn report(&self, id: &str, source: &dyn Source, limits: &Limits, _options: &Options) -> Result<Report> {
        if id != check::REPORT {
            return Err(Error::unsupported(format!("this format has no report `{}`", escape(id, 80))));
        }
        let file = if source.is_folder() { folder::choose(source)? } else { 0 };
        let checked = current_files(source, file, limits).and_then(|all| check::report(source, &all, limits));
        checked.map_err(|e| e.in_file(source.name(file)))
    }
}

/// Whether a file starts like some version of the format: `APR` followed by a letter, digit or zero.
fn is_version(head: &[u8]) -> bool {
    head.get(3).is_some_and(|&b| b == 0 || b.is_ascii_digit() || b.is_ascii_uppercase())
}

/// A file of the format, by its first bytes.
enum Found {
    /// The manifest of a sharded model: the file itself, or the one that the shard belongs to.
    Manifest(Box<Manifest>),
    /// The layout with a 64-byte header.
    Header64,
    /// The layout whose payload does not describe itself.
    Version1,
    /// One file, and a note about opening it alone.
    File(Header, Option<String>),
}

fn find(source: &dyn Source, file: FileId, limits: &Limits, part: bool) -> Result<Found> {
    let mut head = [0; Header::LEN];
    let head = start(source, file, &mut head)?;
    // Opening a manifest tells what is wrong with a byte order mark.
    let is_manifest =
        head.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{') || strict_json::is_marked(head);
    if is_manifest {
        if part {
            return Err(Error::malformed("it is a manifest of several files, expected a shard").at(0));
        }
        return Ok(Found::Manifest(Box::new(Manifest::open(source, file, limits)?)));
    }
    if head.starts_with(&header_64::MAGIC) && !part {
        return Ok(Found::Header64);
    }
    if head.starts_with(&version_1::MAGIC) && !part {
        return Ok(Found::Version1);
    }
    let header = header(head)?;
    let mut note = None;
    if header.flags & flags::SHARDED != 0 && !part {
        match whole(source, file, limits)? {
            Ok(manifest) => return Ok(Found::Manifest(Box::new(manifest))),
            Err(alone) => note = Some(alone),
        }
    }
    Ok(Found::File(header, note))
}

fn open(source: &dyn Source, file: FileId, limits: &Limits, part: bool) -> Result<Box<dyn OpenModel>> {
    Ok(match find(source, file, limits, part)? {
        Found::Manifest(manifest) => manifest,
        Found::Header64 => Box::new(header_64::File::open(source, file, limits)?),
        Found::Version1 => Box::new(version_1::File::open(source, file, limits)?),
        Found::File(header, note) => {
            Box::new(File::open(source, header, limits, FileOptions { file, part, note })?)
        }
    })
}

/// The files of a model that have the current layout: itself, its shards, or none.
fn current_files(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Vec<FileId>> {
    Ok(match find(source, file, limits, false)? {
        Found::Manifest(manifest) => manifest.files(),
        Found::Header64 | Found::Version1 => Vec::new(),
        Found::File(..) => vec![file],
    })
}

/// Opens a shard to see what its metadata says about the whole model.
///
/// # Errors
/// As opening it alone.
pub(crate) fn open_shard(source: &dyn Source, file: FileId, limits: &Limits) -> Result<File> {
    let opened = header_of(source, file)
        .and_then(|header| File::open(source, header, limits, FileOptions { file, part: true, note: None }));
    opened.map_err(|e| e.in_file(source.name(file)))
}

/// The header of a file in the current layout.
///
/// # Errors
/// As opening it.
pub(crate) fn header_of(source: &dyn Source, file: FileId) -> Result<Header> {
    let mut head = [0; Header::LEN];
    start(source, file, &mut head).and_then(header)
}

/// The first bytes of a file: as many as a header has, or fewer if the file is shorter.
fn start<'a>(source: &dyn Source, file: FileId, head: &'a mut [u8; Header::LEN]) -> Result<&'a [u8]> {
    let len = usize::try_from(source.len(file)?).unwrap_or(Header::LEN).min(Header::LEN);
    source.read_at(file, 0, &mut head[..len])?;
    Ok(&head[..len])
}

/// Decodes the header, if its version is known.
fn header(head: &[u8]) -> Result<Header> {
    check_magic(head)?;
    let Ok(head) = head.try_into() else {
        let len = head.len() as u64;
        let message = format!("the file has {len} bytes, but its header requires at least {}", Header::LEN);
        return Err(Error::malformed(message).at(len).hint("get the file again: it is truncated"));
    };
    let header = Header::from_bytes(head);
    if header.version_major == VERSION.0 {
        return Ok(header);
    }
    let (major, minor) = (header.version_major, header.version_minor);
    Err(Error::unsupported(format!("version {major}.{minor} is not supported, only {}.x", VERSION.0))
        .code("E003")
        .at(4)
        .hint("install a newer apr that can read it"))
}

/// The sharded model that this shard belongs to, or why it is opened alone.
fn whole(
    source: &dyn Source,
    file: FileId,
    limits: &Limits,
) -> Result<std::result::Result<Manifest, String>> {
    let name = source.name(file);
    let Some(wanted) = shards::manifest_name(&name) else {
        let text = format!(
            "this is one of several shards, and its name does not tell which manifest it belongs to: only \
             its own tensors are shown (expected NAME-00001-of-00002.{EXTENSION})"
        );
        return Ok(Err(text));
    };
    let found = match source.sibling(&wanted) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let wanted = escape(&wanted, 200);
            let text = "is missing: only its own tensors are shown";
            return Ok(Err(format!("this is one of several shards; `{wanted}` {text}")));
        }
        Err(error) => return Err(error),
    };
    let manifest = Manifest::open(source, found, limits).map_err(|e| e.in_file(wanted.clone()))?;
    if manifest.lists(&name) {
        return Ok(Ok(manifest));
    }
    Ok(Err(format!("`{}` does not list this shard: only its own tensors are shown", escape(&wanted, 200))))
}

fn check_magic(head: &[u8]) -> Result<()> {
    if head.starts_with(&MAGIC) {
        return Ok(());
    }
    match head.get(..4) {
        Some(b"APRN" | b"APR\0") => {
            let message = "this is a file of an older version, but a shard must be an `APR2` file";
            let error = Error::unsupported(message).code("E003").at(0);
            Err(error.hint("upgrade it with `apr upgrade`, and open it by itself"))
        }
        Some([b'A', b'P', b'R', last]) => {
            let message = format!(
                "version `APR{}` is not supported, only `APR2`",
                escape(&char::from(*last).to_string(), 8)
            );
            Err(Error::unsupported(message).code("E003").at(0))
        }
        _ => Err(Error::malformed("the file does not start with `APR2`, so it is not in this format")
            .code("E001")
            .at(0)),
    }
}

/// Pushes notes.
pub(crate) fn notes(sink: &mut dyn ModelSink, notes: &[String]) -> Result<()> {
    notes.iter().try_for_each(|note| sink.fact(apr_sdk::Fact::Note(note)))
}

/// Reads everything up to the end of `cursor` as text, in pieces that each earn the budget for the next: a
/// section may be as long as necessary, and a length that is merely claimed costs nothing.
///
/// # Errors
/// Malformed if it is not UTF-8; any error from reading.
pub(crate) fn whole_text(cursor: &mut Cursor<'_>, what: &str) -> Result<String> {
    const PIECE: u64 = 1 << 20;
    let start = cursor.position();
    let mut bytes = Vec::new();
    while cursor.left() > 0 {
        let piece = cursor.bytes(cursor.left().min(PIECE))?;
        bytes.extend_from_slice(&piece);
    }
    strict_json::text(&bytes).map(str::to_owned).map_err(|error| {
        let at = start + error.offset().unwrap_or_default();
        let placed = cursor.error_at(at, format!("the {what}: {}", error.message()));
        error.hint_text().into_iter().fold(placed, |placed, hint| placed.hint(hint))
    })
}
