//! The models that a run starts with: specimens written in each format, or the user's files for a format
//! without a writer.

use crate::host::Host;
use crate::rosetta::expect::{obstacle, obstacle_at_source, short};
use crate::rosetta::scratch::Scratch;
use crate::rosetta::specimens::{Extra, Specimen};
use apr_engine::expression::evaluate::read;
use apr_engine::open::{GivenOption, OpenOptions, OpenedModel, open};
use apr_engine::registry::Format;
use apr_sdk::{Error, ErrorKind, ForeignPolicy, Result};
use apr_testkit::{Fixture, Subject};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A model in a file, at the start of a route.
pub struct Source {
    /// Index of the format in the registry.
    pub format: usize,
    /// The specimen's name, or `file/NAME` for a file of the user's.
    pub name: String,
    /// The file to open.
    pub path: PathBuf,
    /// The treatment of foreign metadata.
    pub policy: ForeignPolicy,
    /// True if a writer may refuse it with an explicit error.
    pub may_refuse: bool,
    /// Options for writing, each of a format.
    pub options: Arc<[GivenOption]>,
}

impl Source {
    /// The options for writing a format.
    pub fn options_of<'s>(&'s self, to: &'s Format) -> impl Iterator<Item = &'s GivenOption> {
        self.options.iter().filter(|(format, ..)| format.as_deref() == Some(to.id()))
    }
}

/// The result of writing a specimen in a format.
pub enum Made {
    /// The model was written.
    Source(Source),
    /// The format cannot hold it, as predicted or according to the writer.
    NotApplicable(String),
    /// It should have been written but was not.
    Red(String),
}

/// Writes a specimen in a format, opens the file, and compares it with the specimen.
///
/// # Errors
/// Any error from the machine. Faults of the format's plugin are part of the result.
pub fn make(host: &Host, format: usize, specimen: &Specimen, scratch: &Scratch) -> Result<Made> {
    let there = &host.registry.formats()[format];
    let manifest = &there.manifest;
    let fixture = specimen.fixture(manifest);
    let known = if !manifest.writes {
        Some("no writer".to_owned())
    } else if !manifest.reads {
        Some("no reader".to_owned())
    } else {
        obstacle_at_source(manifest, specimen).or(obstacle(manifest, &fixture.build()?.0))
    };
    if let Some(why) = known {
        return Ok(Made::NotApplicable(why));
    }
    let reader = there.reader()?;
    let writer = there.writer()?;
    let request = Subject::new(Some(&*reader), Some(&*writer), manifest, &[]).request();
    let files = match fixture.write(&*writer, &manifest.carries, &request) {
        Ok(files) => files,
        Err(error) if specimen.may_refuse && error.kind() == ErrorKind::Unsupported => {
            return Ok(Made::NotApplicable(format!("refused: {}", short(manifest, &error))));
        }
        Err(error) => return Ok(Made::Red(format!("its writer failed: {error}"))),
    };
    let folder = scratch.folder(&format!("sources/{}/{}", manifest.id, folder_name(&specimen.name)))?;
    let path = put(&folder, files)?;
    let source = Source {
        format,
        name: specimen.name.clone(),
        path,
        policy: specimen.policy,
        may_refuse: specimen.may_refuse,
        options: Arc::default(),
    };
    let opened = match open(host, &source.path, &OpenOptions::default()) {
        Ok(opened) if opened.format == manifest.id => opened,
        Ok(opened) => return Ok(Made::Red(format!("its file was detected as `{}`", opened.format))),
        Err(error) => return Ok(Made::Red(format!("its file cannot be opened: {error}"))),
    };
    if let Err(error) = same_tensors(host, &opened, specimen, manifest.carries.one_tensor) {
        return Ok(Made::Red(format!("after writing and reading it back: {error}")));
    }
    match missing_extra(&opened, &manifest.id, specimen)? {
        Some(what) if specimen.may_refuse => Ok(Made::NotApplicable(format!("its writer omits {what}"))),
        Some(what) => Ok(Made::Red(format!("after writing and reading it back, {what} is missing"))),
        None => Ok(Made::Source(source)),
    }
}

/// The folder for a model: its name as one word.
pub fn folder_name(model: &str) -> String {
    model.replace(['/', ' '], "-")
}

/// Writes files to a folder; the first is the one to open.
fn put(folder: &Path, files: Vec<(String, Vec<u8>)>) -> Result<PathBuf> {
    let mut entry = None;
    for (name, bytes) in files {
        let path = folder.join(name);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let written = written.and_then(|()| std::fs::write(&path, bytes));
        written.map_err(|e| Error::io(e.to_string()).in_file(path.display().to_string()))?;
        entry.get_or_insert(path);
    }
    entry.ok_or_else(|| Error::plugin("the writer created no file"))
}

/// The whole payload of a tensor.
fn bytes_of(host: &Host, opened: &OpenedModel, tensor: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read::stream(host, opened, tensor, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}

fn same_tensors(host: &Host, opened: &OpenedModel, specimen: &Specimen, nameless: bool) -> Result<()> {
    let there = &opened.model.tensors;
    if there.len() != specimen.tensors.len() {
        return Err(Error::failed(format!("{} tensors are {}", specimen.tensors.len(), there.len())));
    }
    for (name, dtype, shape, payload) in &specimen.tensors {
        let at = there.iter().position(|t| nameless || t.name == *name);
        let at = at.ok_or_else(|| Error::failed("it is missing").tensor(name))?;
        if (there[at].dtype, &there[at].shape) != (*dtype, shape) {
            let difference = format!("{dtype} {shape:?} is {} {:?}", there[at].dtype, there[at].shape);
            return Err(Error::failed(difference).tensor(name));
        }
        if bytes_of(host, opened, at)? != *payload {
            return Err(Error::failed("its payload differs").tensor(name));
        }
    }
    Ok(())
}

/// The specimen's extra that the opened file lacks.
fn missing_extra(opened: &OpenedModel, format: &str, specimen: &Specimen) -> Result<Option<String>> {
    match &specimen.extra {
        Extra::Nothing => {}
        Extra::Metadata(entries) => {
            let files = opened.model.foreign_of(format).map(|f| f.files.as_slice()).unwrap_or_default();
            for (key, value) in entries {
                let stored = files.iter().flat_map(|f| &f.typed).find(|(k, _)| k == key);
                let same = match stored {
                    Some((_, there)) => {
                        there.kind == value.kind && opened.fetch(&there.bytes)? == value.bytes
                    }
                    None => false,
                };
                if !same {
                    return Ok(Some(format!("metadata of type {}", value.kind.name().unwrap_or("?"))));
                }
            }
        }
        Extra::Tokenizer if opened.model.tokenizer.is_none() => return Ok(Some("the tokenizer".to_owned())),
        Extra::Assets if opened.model.assets.is_empty() => return Ok(Some("the companion files".to_owned())),
        Extra::Tokenizer | Extra::Assets => {}
    }
    Ok(None)
}

/// The user's files in a format without a writer, copied so that nothing is ever written beside them.
///
/// # Errors
/// Io; NotFound if no file in `folder` has the format.
pub fn given(format: usize, there: &Format, folder: &Path, scratch: &Scratch) -> Result<Vec<Source>> {
    let reader = there.reader()?;
    let mut sources = Vec::new();
    for fixture in Fixture::load(folder, &there.manifest, &*reader)? {
        let name = format!("file/{}", fixture.name);
        let into = scratch.folder(&format!("sources/{}/{}", there.id(), folder_name(&name)))?;
        let path = put(&into, fixture.files)?;
        let policy = ForeignPolicy::Default;
        sources.push(Source { format, name, path, policy, may_refuse: true, options: Arc::default() });
    }
    Ok(sources)
}
