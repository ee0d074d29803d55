//! Opens the parts of a model and merges them: no tensor twice, none missing, none that the index does not map.

pub mod lone;

use super::files::Files;
use super::options::option_values;
use super::schemes::announcements;
use super::source::Root;
use super::{GivenOption, Origin, open_one};
use crate::engine::Engine;
use crate::registry::Format;
use apr_sdk::{Coding, Error, Limits, Model, OptionKind, Options, Part, Result};
use std::collections::HashSet;

/// A model with the tensors of all its parts.
pub(super) struct Merged {
    pub(super) model: Model,
    pub(super) origins: Vec<Origin>,
}

/// The context shared by a model and its parts while they are opened.
pub(super) struct Opening<'a> {
    pub(super) engine: &'a Engine,
    pub(super) files: &'a Files,
    pub(super) given: &'a [GivenOption],
    pub(super) limits: Limits,
}

impl Opening<'_> {
    /// Opens a model with its parts, and merges them.
    pub(super) fn model(&self, format: &Format, root: Root, values: &Options, depth: u32) -> Result<Merged> {
        let (mut model, whole) = open_one(self.engine, self.files, format, root, values, &self.limits)?;
        let mut origins = vec![Origin {
            open: whole,
            root,
            first: 0,
            count: model.tensors.len(),
            first_checksum: 0,
            n_checksums: model.checksums.len(),
        }];
        let parts = std::mem::take(&mut model.parts);
        // A folder's weights may be an index of shards; parts are nested no deeper.
        if !parts.is_empty() && (values.is_part() || depth > 1) {
            return Err(Error::plugin(format!("`{}` returned nested parts", format.id())));
        }
        let mut names: HashSet<String> = HashSet::new();
        if !parts.is_empty() {
            names.extend(model.tensors.iter().map(|t| t.name.clone()));
        }
        let mapped = parts.iter().any(|part| part.expected.is_some());
        for part in parts {
            let Merged { model: mut piece, origins: of_piece } = self.part(&part, format, values, depth)?;
            check_expected(&part, &piece, mapped, self.files)?;
            for tensor in &piece.tensors {
                if !names.insert(tensor.name.clone()) {
                    let file = self.files.get(part.file).map(|f| f.name.clone()).unwrap_or_default();
                    return Err(Error::malformed("two parts have this tensor")
                        .tensor(&tensor.name)
                        .in_file(file));
                }
            }
            let first = model.tensors.len();
            let first_checksum = model.checksums.len();
            origins.extend(of_piece.into_iter().map(|origin| Origin {
                first: first + origin.first,
                first_checksum: first_checksum + origin.first_checksum,
                ..origin
            }));
            merge(&mut model, &mut piece)?;
        }
        Ok(Merged { model, origins })
    }

    fn part(&self, part: &Part, whole: &Format, whole_values: &Options, depth: u32) -> Result<Merged> {
        let format = self.engine.registry.format(&part.format).map_err(|e| {
            Error::unsupported(format!(
                "a part of this model requires the format `{}`: {}",
                part.format,
                e.message()
            ))
        })?;
        let (offset, len) = part.range.map_or((0, None), |(offset, len)| (offset, Some(len)));
        let root = Root { file: part.file, offset, len };
        let of_own_format = format.id() == whole.id();
        // Parts in the same format are read with the options for the whole.
        let mut values = if of_own_format {
            whole_values.clone()
        } else if whole.manifest.parts.contains(&part.format) {
            option_values(format, self.given, |s| s.read)?
        } else {
            // Of the user's options, only restrictions apply to a part of another format.
            option_values(format, self.given, |s| s.kind == OptionKind::Refuse)?;
            option_values(format, &[], |s| s.read)?
        };
        for (name, value) in part.options.iter() {
            values.set(name, value);
        }
        if of_own_format {
            values.set(Options::PART, "true");
        }
        self.model(format, root, &values, depth + 1)
    }
}

fn check_expected(part: &Part, piece: &Model, mapped: bool, files: &Files) -> Result<()> {
    if !mapped {
        return Ok(());
    }
    let file = files.get(part.file).map(|f| f.name.clone()).unwrap_or_default();
    let expected: HashSet<&str> = part.expected.iter().flatten().map(String::as_str).collect();
    let present: HashSet<&str> = piece.tensors.iter().map(|t| t.name.as_str()).collect();
    if let Some(name) = expected.difference(&present).min() {
        return Err(Error::malformed("the index maps this tensor to this file, which does not contain it")
            .tensor(*name)
            .in_file(file));
    }
    match present.difference(&expected).min() {
        Some(name) => Err(Error::malformed(
            "this file contains this tensor, but the index does not map it to this file",
        )
        .tensor(*name)
        .in_file(file)),
        None => Ok(()),
    }
}

fn merge(whole: &mut Model, piece: &mut Model) -> Result<()> {
    let first = whole.tensors.len() as u64;
    for checksum in &mut piece.checksums {
        if let Coding::Streamed(tensor) = &mut checksum.coding {
            *tensor += first;
        }
    }
    whole.tensors.append(&mut piece.tensors);
    whole.checksums.append(&mut piece.checksums);
    for mut foreign in piece.foreign.drain(..) {
        whole.foreign_mut(&foreign.format).files.append(&mut foreign.files);
    }
    for asset in piece.assets.drain(..) {
        if whole.assets.iter().any(|a| a.name == asset.name) {
            return Err(Error::malformed(format!(
                "two parts have the asset `{}`",
                apr_sdk::escape(&asset.name, 120)
            )));
        }
        whole.assets.push(asset);
    }
    // A part in another format knows its dialect; the whole only assumes one.
    if whole.dialect == "none" || (piece.dialect != "none" && piece.format != whole.format) {
        whole.dialect.clone_from(&piece.dialect);
    }
    whole.architecture = whole.architecture.take().or(piece.architecture.take());
    whole.tokenizer = whole.tokenizer.take().or(piece.tokenizer.take());
    whole.model_card = whole.model_card.take().or(piece.model_card.take());
    whole.recipe = whole.recipe.take().or(piece.recipe.take());
    whole.provenance = whole.provenance.take().or(piece.provenance.take());
    // A folder is no older for the weights in it.
    if piece.format == whole.format {
        whole.older = whole.older.take().or(piece.older.take());
    }
    whole.derived = match (whole.derived.take(), piece.derived.take()) {
        (Some(one), Some(other)) => Some(announcements::both(&one, &other)?),
        (one, other) => one.or(other),
    };
    for note in piece.notes.drain(..) {
        if !whole.notes.contains(&note) {
            whole.notes.push(note);
        }
    }
    Ok(())
}
