//! Converts one model along a route of formats, with the conversion that users run, and judges it after every
//! hop.

use crate::convert::{ConvertOptions, Converted, convert};
use crate::host::Host;
use crate::rosetta::expect::{Fate, obstacle, short};
use crate::rosetta::sources::Source;
use apr_engine::layout::carries::name_after;
use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_engine::registry::Format;
use apr_engine::rosetta::compare::compare;
use apr_sdk::{Bytes, ErrorKind, Model, Result, ValueType};
use std::path::Path;

/// The result of a hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every tensor arrived intact, and the rest exactly as expected.
    Arrived(Lost),
    /// Refused, as predicted or according to the writer.
    NotApplicable(String),
    /// Not what the manifests promise.
    Red(String),
}

/// The parts that the model had at the source and has lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Metadata that only the source's format can express.
    pub metadata: bool,
    /// True if the tokenizer was lost.
    pub tokenizer: bool,
    /// True if companion files were lost.
    pub companions: bool,
}

/// Converts a source along a route of formats, given by index in the registry; the files go into `folder`.
/// The outcomes end with the first hop that did not arrive.
///
/// # Errors
/// Whatever stops the whole run: Cancelled, and a source that is gone.
pub fn walk(host: &Host, source: &Source, route: &[usize], folder: &Path) -> Result<Vec<Outcome>> {
    let formats = host.registry.formats();
    let mut began = open(host, &source.path, &OpenOptions::default())?;
    let home = &formats[source.format].manifest;
    let mut fate = Fate::WHOLE;
    let mut here = source.path.clone();
    let mut outcomes = Vec::new();
    for (number, &to) in route.iter().enumerate() {
        let to = &formats[to];
        fate = fate.after(home, &to.manifest, source.policy);
        let extension = to.manifest.extensions.first().map_or("bin", String::as_str);
        let next = folder.join(format!("{}.{extension}", number + 1));
        let outcome = hop(host, source, &mut began, to, fate, &here, &next)?;
        let arrived = matches!(outcome, Outcome::Arrived(_));
        outcomes.push(outcome);
        if !arrived {
            break;
        }
        here = next;
    }
    Ok(outcomes)
}

/// The reason why some format of a route cannot hold the source's model, if so.
///
/// # Errors
/// A source that is gone.
pub fn known_obstacle(host: &Host, source: &Source, route: &[usize]) -> Result<Option<String>> {
    let mut model = open(host, &source.path, &OpenOptions::default())?.model;
    let formats = host.registry.formats();
    Ok(route.iter().find_map(|&to| {
        let why = obstacle(&formats[to].manifest, &model);
        // Whatever the file's name is, it is no obstacle afterwards.
        name_after(&mut model, &formats[to], "1");
        why
    }))
}

/// The options for one hop.
pub fn options(input: &Path, output: &Path, to: &Format, source: &Source) -> ConvertOptions {
    ConvertOptions {
        input: input.to_owned(),
        output: Some(output.to_owned()),
        to: Some(to.id().to_owned()),
        // A bag of tensors: keep all names.
        arch: Some("none".to_owned()),
        foreign: source.policy,
        options: source.options_of(to).cloned().collect(),
        ..ConvertOptions::default()
    }
}

fn hop(
    host: &Host,
    source: &Source,
    began: &mut OpenedModel,
    to: &Format,
    fate: Fate,
    input: &Path,
    output: &Path,
) -> Result<Outcome> {
    let known = obstacle(&to.manifest, &began.model);
    let done = match (convert(host, &options(input, output, to, source)), known) {
        (Err(error), _) if error.kind() == ErrorKind::Cancelled => return Err(error),
        (Err(error), Some(why)) if error.kind() == ErrorKind::Unsupported => {
            return Ok(match output.exists() {
                true => Outcome::Red(format!("{} refused it, but left an output behind", to.id())),
                false => Outcome::NotApplicable(why),
            });
        }
        (Err(error), None) if source.may_refuse && error.kind() == ErrorKind::Unsupported => {
            return Ok(Outcome::NotApplicable(format!("refused: {}", short(&to.manifest, &error))));
        }
        (Err(error), _) => return Ok(Outcome::Red(format!("to {}: {error}", to.id()))),
        (Ok(_), Some(why)) => {
            return Ok(Outcome::Red(format!("{} accepted what its manifest excludes: {why}", to.id())));
        }
        (Ok(done), None) => done,
    };
    match judge(host, source, began, to, fate, output, &done) {
        Ok(outcome) => Ok(outcome),
        Err(error) if error.kind() == ErrorKind::Cancelled => Err(error),
        Err(error) => Ok(Outcome::Red(format!("after {}: {error}", to.id()))),
    }
}

fn judge(
    host: &Host,
    source: &Source,
    began: &mut OpenedModel,
    to: &Format,
    fate: Fate,
    output: &Path,
    done: &Converted,
) -> Result<Outcome> {
    let result = open(host, output, &OpenOptions::default())?;
    if result.format != to.id() {
        return Ok(Outcome::Red(format!("the output of {} was detected as `{}`", to.id(), result.format)));
    }
    // The previous name is lost, as the summary says.
    let file = output.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name_after(&mut began.model, to, &file);
    if let Some(finding) = compare(host, began, &result, None)?.findings.first() {
        let tensor = finding.tensor.as_ref().map(|t| format!("tensor `{}`: ", apr_sdk::escape(t, 80)));
        let what = format!("{}{}", tensor.unwrap_or_default(), finding.message);
        return Ok(Outcome::Red(format!("after {}: {}: {what}", to.id(), finding.code)));
    }
    let home = host.registry.formats()[source.format].id();
    let had = possessions(began, home)?;
    let has = possessions(&result, home)?;
    let mut lost = Lost::default();
    let aloud = source.may_refuse && !done.notes.is_empty();
    let sides = [
        (
            "metadata",
            had.metadata == has.metadata,
            had.metadata.is_empty(),
            fate.metadata,
            &mut lost.metadata,
        ),
        (
            "tokenizer",
            had.tokenizer == has.tokenizer,
            had.tokenizer.is_none(),
            fate.tokenizer,
            &mut lost.tokenizer,
        ),
        (
            "companion files",
            had.assets == has.assets,
            had.assets.is_empty(),
            fate.companions,
            &mut lost.companions,
        ),
    ];
    for (what, same, nothing, should_arrive, lost) in sides {
        match (nothing, same, should_arrive) {
            (true, ..) | (_, true, true) => {}
            (_, false, false) => *lost = true,
            // A loss that the summary reports is not silent, if no manifest could have declared it.
            (_, false, true) if aloud => *lost = true,
            (_, false, true) => {
                return Ok(Outcome::Red(format!("{} should preserve the {what}, but it differs", to.id())));
            }
            (_, true, false) => {
                let manifest = format!(
                    "the manifest of {} declares that the {what} is lost, but it is present",
                    to.id()
                );
                return Ok(Outcome::Red(manifest));
            }
        }
    }
    Ok(Outcome::Arrived(lost))
}

/// The contents of a model besides tensors.
struct Possessions {
    metadata: Vec<(String, ValueType, Bytes)>,
    tokenizer: Option<Bytes>,
    assets: Vec<(String, Bytes)>,
}

fn possessions(opened: &OpenedModel, home: &str) -> Result<Possessions> {
    let Model { tokenizer, assets, .. } = &opened.model;
    let files = opened.model.foreign_of(home).map(|f| f.files.as_slice()).unwrap_or_default();
    let metadata = files.iter().flat_map(|f| &f.typed);
    let mut assets: Vec<_> =
        assets.iter().map(|a| Ok((a.name.clone(), opened.fetch(&a.bytes)?))).collect::<Result<_>>()?;
    assets.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Possessions {
        metadata: metadata
            .map(|(key, value)| Ok((key.clone(), value.kind, opened.fetch(&value.bytes)?)))
            .collect::<Result<_>>()?,
        tokenizer: tokenizer.as_ref().map(|bytes| opened.fetch(bytes)).transpose()?,
        assets,
    })
}
