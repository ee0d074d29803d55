//! Detects the format: data first (magic, extension), then each format's own probe; the best score wins.

use crate::engine::Engine;
use crate::open::files::Files;
use crate::open::lfs_pointer;
use crate::registry::Format;
use apr_sdk::{Error, ErrorKind, LogLevel, Look, Result, Score, escape};
use std::cmp::Reverse;

/// The chosen format, and what the user should know about the choice.
#[derive(Clone)]
pub struct Choice<'a> {
    /// The format to open it with.
    pub format: &'a Format,
    /// Warnings for the user, such as a wrong extension.
    pub warnings: Vec<String>,
    /// True to open the whole folder around the file as the model.
    pub claimed: bool,
}

/// The bounded look at file 0 that probes get.
struct LookData {
    name: String,
    len: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
    is_folder: bool,
    entries: Vec<String>,
}

impl LookData {
    fn take(files: &Files) -> Result<LookData> {
        let file = files.get(0)?;
        let is_folder = file.is_folder();
        let mut head = vec![0; usize::try_from(file.len).unwrap_or(usize::MAX).min(Look::HEAD)];
        if !is_folder {
            file.read_at(0, &mut head)?;
        }
        // A file's neighbours are not listed: a huge folder must not slow down opening a single file.
        let entries = if is_folder { files.entries()? } else { Vec::new() };
        let tail = Vec::new();
        Ok(LookData { name: file.name.clone(), len: file.len, head, tail, is_folder, entries })
    }

    /// Reads the last bytes as well: of a remote file, they take a request that few formats need.
    fn read_tail(&mut self, files: &Files) -> Result<()> {
        if self.is_folder {
            return Ok(());
        }
        let file = files.get(0)?;
        self.tail = vec![0; self.head.len().min(Look::TAIL)];
        file.read_at(file.len - self.tail.len() as u64, &mut self.tail)
    }

    /// The part of the look that `format` may see.
    fn look<'a>(&'a self, format: &Format, files: &Files, claim: &'a mut Vec<u8>) -> Look<'a> {
        let claims = format.manifest.claims.iter().find(|name| self.is_folder && self.entries.contains(name));
        // A claimed file that cannot be read counts as empty; opening the folder says why.
        *claim = claims.and_then(|name| files.peek(name, Look::HEAD).ok()).unwrap_or_default();
        Look {
            name: &self.name,
            len: self.len,
            head: if self.is_folder { claim } else { &self.head },
            tail: &self.tail,
            is_folder: self.is_folder,
            entries: &self.entries,
        }
    }

    fn extension(&self) -> Option<String> {
        self.name.rsplit_once('.').map(|(_, extension)| extension.to_lowercase())
    }
}

/// Chooses the format of file 0, or takes the one given with `--from`.
///
/// # Errors
/// `E001` if no format recognises the file; Unsupported if two recognise it equally well; InvalidArgument for
/// an unknown `--from`.
pub fn choose<'a>(engine: &'a Engine, files: &Files, from: Option<&str>, bare: bool) -> Result<Choice<'a>> {
    let mut data = LookData::take(files)?;
    if let Some(id) = from {
        let format = engine.registry.format(id)?;
        let warnings =
            not_a_model(&data).map(|(what, _)| vec![format!("this looks like {what}")]).unwrap_or_default();
        // Any file of a folder stands for the folder.
        let claimed = !format.manifest.claims.is_empty() && format.manifest.folder && !data.is_folder;
        return Ok(Choice { format, warnings, claimed });
    }
    let mut scored = scores(engine, files, &data)?;
    if !scored.iter().any(|(score, _)| *score == Score::MAGIC_AND_VERSION) {
        data.read_tail(files)?;
        scored = scores(engine, files, &data)?;
    }
    let best = scored.iter().map(|(score, _)| *score).max().unwrap_or(Score::NO);
    if best < Score::STRUCTURE {
        return Err(unknown(engine, files, &data));
    }
    let winners: Vec<_> =
        scored.iter().filter(|(score, _)| *score == best).map(|(_, format)| *format).collect();
    match winners[..] {
        [format] => {
            let mut warnings = extension_warning(engine, format, &data);
            if bare {
                return Ok(Choice { format, warnings, claimed: false });
            }
            let claims = claims(engine, files, format, &data);
            let claiming = claims.iter().find(|claim| claim.is_sure && !data.is_folder).map(|claim| claim.by);
            if claiming.is_none() {
                warnings.extend(claims.iter().filter(|claim| !claim.is_sure).map(Claim::warning));
            }
            Ok(Choice { format: claiming.unwrap_or(format), warnings, claimed: claiming.is_some() })
        }
        _ => {
            let ids: Vec<_> = winners.iter().map(|f| f.id()).collect();
            let message = format!("the file matches several formats equally well: {}", ids.join(" and "));
            Err(Error::unsupported(message).hint(format!("specify one: --from {}", ids.join(" or --from "))))
        }
    }
}

/// What each format that is read says of the file.
fn scores<'a>(engine: &'a Engine, files: &Files, data: &LookData) -> Result<Vec<(Score, &'a Format)>> {
    let mut scored: Vec<(Score, &Format)> = Vec::new();
    for format in engine.registry.formats().iter().filter(|f| f.manifest.reads) {
        let magic = format.manifest.magic.iter().any(|magic| magic.matches(&data.head));
        let mut score = match format.reader() {
            Ok(reader) => reader.probe(&data.look(format, files, &mut Vec::new())),
            // A plugin that cannot be loaded must not keep others from their files; only files with its magic
            // report it.
            Err(error) if magic && !data.is_folder => return Err(error),
            Err(error) => {
                if engine.registry.is_news(&error) {
                    engine.progress.log(LogLevel::Warning, &error.to_string());
                }
                continue;
            }
        };
        if magic && !data.is_folder {
            score = score.max(Score::MAGIC);
        }
        scored.push((score, format));
    }
    Ok(scored)
}

/// Formats that know at least the name of file 0, the surest first.
///
/// # Errors
/// As [`choose`], but for a file that no format recognises.
pub fn suspects<'a>(engine: &'a Engine, files: &Files) -> Result<Vec<&'a Format>> {
    let mut data = LookData::take(files)?;
    data.read_tail(files)?;
    let mut scored = scores(engine, files, &data)?;
    scored.retain(|(score, _)| *score >= Score::EXTENSION);
    scored.sort_by_key(|(score, _)| Reverse(*score));
    Ok(scored.into_iter().map(|(_, format)| format).collect())
}

/// A format whose own file lies beside the weights: it may be that the folder is its model.
struct Claim<'a> {
    by: &'a Format,
    /// The name of its own file.
    file: &'a str,
    /// True if it takes the folder for its model.
    is_sure: bool,
}

impl Claim<'_> {
    fn warning(&self) -> String {
        format!(
            "`{}` is not read: it does not describe a {} model",
            escape(self.file, 120),
            self.by.manifest.name
        )
    }
}

/// Formats that may hold the payload of a file, or of the file that stands for a folder, and whose own file lies beside it.
fn claims<'a>(engine: &'a Engine, files: &Files, of_file: &Format, data: &LookData) -> Vec<Claim<'a>> {
    let mut entries = None;
    let mut claims = Vec::new();
    for format in engine.registry.formats().iter().filter(|f| f.manifest.reads) {
        let manifest = &format.manifest;
        let is_own = format.id() == of_file.id();
        let concerned = manifest.parts.iter().any(|part| part == of_file.id()) || is_own && !data.is_folder;
        if !concerned {
            continue;
        }
        // A file that cannot be read counts as empty; opening the folder says why.
        let head = manifest.claims.iter().find_map(|claim| match files.peek(claim, Look::HEAD) {
            Ok(head) => Some((claim, head)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(_) => Some((claim, Vec::new())),
        });
        let Ok(reader) = format.reader() else { continue };
        let Some((file, head)) = head else { continue };
        let entries = entries.get_or_insert_with(|| match data.is_folder {
            true => data.entries.clone(),
            false => files.entries().unwrap_or_default(),
        });
        let look = Look { name: "", len: 0, head: &head, tail: &[], is_folder: true, entries };
        let is_sure = reader.probe(&look) >= Score::STRUCTURE;
        claims.push(Claim { by: format, file, is_sure });
    }
    claims
}

fn extension_warning(engine: &Engine, format: &Format, data: &LookData) -> Vec<String> {
    let Some(extension) = data.extension().filter(|_| !data.is_folder) else { return Vec::new() };
    if format.manifest.extensions.contains(&extension) {
        return Vec::new();
    }
    match engine.registry.by_extension(&extension).first() {
        Some(other) => vec![format!(
            "this is {}, not {}: rename it; reading it as {}",
            format.manifest.name,
            other.manifest.name,
            format.id()
        )],
        None => Vec::new(),
    }
}

fn unknown(engine: &Engine, files: &Files, data: &LookData) -> Error {
    if let Some((what, hint)) = not_a_model(data) {
        return Error::malformed(format!("this is not a model but {what}")).code("E001").hint(hint);
    }
    let known: Vec<_> =
        engine.registry.formats().iter().filter(|f| f.manifest.reads).map(|f| f.id()).collect();
    if known.is_empty() {
        let error = Error::plugin("no format plugin is loaded, so nothing can be read");
        return error.hint(
            "run `apr plugins list` to see why, and `apr plugins path` to see where apr looks for them",
        );
    }
    let holding = folders_with_models(engine, files, data);
    if !holding.is_empty() {
        let folders: Vec<String> = holding.iter().take(8).map(|folder| format!("`{folder}`")).collect();
        let more = if holding.len() > folders.len() { ", ..." } else { "" };
        let message = format!(
            "no available format recognizes this folder, but it has subfolders with models: {}{more}",
            folders.join(", ")
        );
        return Error::malformed(message).code("E001").hint("specify one of them: each is a separate model");
    }
    let what = if data.is_folder { "folder" } else { "file" };
    let named = data
        .extension()
        .and_then(|e| engine.registry.by_extension(&e).first().map(|f| f.manifest.name.clone()));
    let known = known.join(", ");
    let (message, hint) = match named {
        Some(name) => (
            format!("the extension is that of {name}, but the contents are not"),
            format!(
                "get the file again if it may be truncated or corrupt, or pass --from FORMAT to read it as \
                 one of {known}"
            ),
        ),
        None => (
            format!("no available format recognizes this {what}"),
            format!("pass --from FORMAT to read it as one of the available formats: {known}"),
        ),
    };
    let hint = engine.registry.absent().map_or(hint.clone(), |absent| format!("{hint}; {absent}"));
    Error::malformed(message).code("E001").hint(hint)
}

/// The folders in a folder that have files of a format's own extension, sorted: the components of a pipeline.
fn folders_with_models(engine: &Engine, files: &Files, data: &LookData) -> Vec<String> {
    /// A pipeline has about ten components.
    const MOST: usize = 64;
    let mut holding = Vec::new();
    for folder in data.entries.iter().filter(|_| data.is_folder).take(MOST) {
        let entries = files.entries_of(folder).unwrap_or_default();
        let has_model = entries.iter().any(|entry| {
            let extension = entry.rsplit_once('.').map(|(_, extension)| extension.to_lowercase());
            extension.is_some_and(|extension| !engine.registry.by_extension(&extension).is_empty())
        });
        if has_model {
            holding.push(escape(folder, 80).to_string());
        }
    }
    holding.sort();
    holding
}

/// Recognises what people mistake for models: error pages, pointer files, truncated downloads.
fn not_a_model(data: &LookData) -> Option<(String, &'static str)> {
    let again = "get the file again";
    if data.is_folder {
        return data
            .entries
            .is_empty()
            .then(|| ("an empty folder".to_owned(), "specify a folder that contains a model"));
    }
    if data.len == 0 {
        return Some(("an empty file".to_owned(), again));
    }
    if data.head.starts_with(lfs_pointer::MARK) {
        return Some((lfs_pointer::description(data.len), lfs_pointer::HINT));
    }
    let start = data.head.trim_ascii_start();
    let heads = ["<!doctype html", "<html", "<?xml"].map(|mark| (start.get(..mark.len()), mark.as_bytes()));
    if heads.iter().any(|(head, mark)| head.is_some_and(|head| head.eq_ignore_ascii_case(mark))) {
        return Some(("a web page, probably an error page saved under the model's name".to_owned(), again));
    }
    if data.head.iter().all(|&b| b == 0) {
        return Some(("a file that starts with zeros: the download did not finish".to_owned(), again));
    }
    let text = std::str::from_utf8(&data.head);
    let valid = text.map_or_else(|e| e.valid_up_to() + 4 >= data.head.len(), |_| true);
    let printable = data.head.iter().all(|&b| b >= 0x20 || matches!(b, b'\n' | b'\r' | b'\t'));
    if valid && printable && !start.starts_with(b"{") {
        return Some(("plain text".to_owned(), "specify the model file itself"));
    }
    None
}
