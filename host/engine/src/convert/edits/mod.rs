//! `--set KEY=VALUE` and `--unset KEY`: changes to typed metadata.
//!
//! A key is looked up among the keys that the output will have in its own format, then among the source's.
//! The source's keys are changed before anything is derived from them (names, configuration, the tokenizer),
//! the target's afterwards. A key found in both is refused; `FORMAT.KEY` says which is meant. A value has the
//! type of the one it replaces; a key found nowhere needs `KEY:TYPE`, unless a manifest states it, which also says
//! in which file it lies. A key that only another format has would say nothing, and is refused.

mod key_place;
mod preview;
mod source_meaning;
mod values;

use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::place::Places;
use crate::registry::{Format, Registry};
use apr_sdk::{
    Architecture, Asset, Bytes, CheckedModel, Error, ErrorKind, Foreign, ForeignFile, LayoutRequest, Model,
    Result, escape,
};
use key_place::KeyPlace;
use preview::{Preview, preview};
pub use source_meaning::Understood;
use std::path::Path;
use values::{BEYOND, beyond_64_bits, known_type, type_of, typed};

/// One change, of one key.
#[derive(Debug)]
struct Edit {
    /// The key as given, without a type.
    key: String,
    /// The change to make.
    change: Change,
    /// Formats of the source whose key was changed already, before anything was derived from it.
    done: Vec<String>,
}

impl Edit {
    fn new(key: &str, change: Change) -> Edit {
        Edit { key: key.to_owned(), change, done: Vec::new() }
    }
}

#[derive(Debug)]
enum Change {
    Set { text: String, stated: Option<String> },
    Unset,
}

/// The changes that the user asked for, and the state of each.
#[derive(Debug, Default)]
pub struct Edits {
    edits: Vec<Edit>,
    notes: Vec<String>,
}

impl Edits {
    /// The edits of `--unset` and `--set`, in that order; reads `@FILE`.
    ///
    /// # Errors
    /// InvalidArgument for a `--set` without a key, and for a file that is no text; any error from reading a file.
    pub fn new(places: &dyn Places, set: &[(String, String)], unset: &[String]) -> Result<Edits> {
        let mut edits: Vec<Edit> = unset.iter().map(|key| Edit::new(key, Change::Unset)).collect();
        for (key, text) in set {
            let (key, stated) = match key.rsplit_once(':') {
                Some((name, kind)) if known_type(kind) => (name, Some(kind.to_owned())),
                _ => (key.as_str(), None),
            };
            if key.is_empty() {
                return Err(Error::invalid_argument("--set requires a key before the `=`"));
            }
            let text = match text.strip_prefix('@') {
                Some(path) => {
                    let bytes = places.read(Path::new(path))?;
                    String::from_utf8(bytes).map_err(|error| not_text(path, &error.utf8_error()))?
                }
                None => text.clone(),
            };
            edits.push(Edit::new(key, Change::Set { text, stated }));
        }
        Ok(Edits { edits, notes: Vec::new() })
    }

    /// Adds a change that `flag` makes necessary.
    ///
    /// # Errors
    /// InvalidArgument if the user changes the same key.
    pub fn add(&mut self, flag: &str, key: &str, text: &str) -> Result<()> {
        let below = key.split_once('.').map_or(key, |(_, below)| below);
        if let Some(edit) = self.edits.iter().find(|edit| edit.key == key || edit.key == below) {
            let message = format!("{flag} sets `{}` itself", escape(&edit.key, 120));
            return Err(Error::invalid_argument(message).hint("remove it from --set and --unset"));
        }
        let change = Change::Set { text: text.to_owned(), stated: None };
        self.edits.push(Edit::new(key, change));
        Ok(())
    }

    /// Changes the keys of the source that are meant, and rereads what the source means by them; nothing if
    /// there are none.
    ///
    /// # Errors
    /// InvalidArgument for a value that the key's type cannot hold; any error from looking at the changed
    /// source.
    pub fn in_source(
        &mut self,
        engine: &Engine,
        source: &OpenedModel,
        model: &mut Model,
        target: &Format,
    ) -> Result<Understood> {
        let before = model.clone();
        let mut changed: Vec<String> = Vec::new();
        for edit in &mut self.edits {
            let place = KeyPlace::of(&edit.key, model, target, &engine.registry);
            if place.format.as_deref() == Some(target.id()) {
                continue;
            }
            for foreign in model.foreign.iter_mut().filter(|foreign| foreign.format != target.id()) {
                if place.format.as_ref().is_some_and(|only| *only != foreign.format) {
                    continue;
                }
                let format = engine.registry.format(&foreign.format).ok();
                let text =
                    format.and_then(|format| apply_to_text(&mut model.assets, format, &place, &edit.change));
                let has_key = place.value(foreign).is_some();
                if has_key || text.is_some() {
                    edit.done.push(foreign.format.clone());
                }
                self.notes.push(match (has_key, text) {
                    (true, _) => apply_to(foreign, &place, &edit.change)?,
                    (false, Some(note)) => note,
                    (false, None) => continue,
                });
            }
            let of_config = place.format.as_ref().is_none_or(|only| *only == model.format);
            if let Some(architecture) = model.architecture.as_mut().filter(|_| of_config)
                && let Some(note) = apply_to_config(architecture, place.key, &edit.change, &model.format)?
            {
                self.notes.push(note);
                edit.done.push(model.format.clone());
            }
            if edit.done.is_empty()
                && let Some((format, place, change)) = new_in_source(engine, edit, place, model, target)?
            {
                self.notes.push(apply_to(model.foreign_mut(&format), &place, &change)?);
                edit.done.push(format);
            }
            changed.extend(edit.done.iter().cloned());
        }
        Understood::new(engine, source, &before, model, &changed)
    }

    /// Removes keys of the target that came with the model: its writer need not understand what goes.
    fn unset_carried(&mut self, registry: &Registry, model: &mut Model, target: &Format) -> Result<()> {
        for edit in self.edits.iter_mut().filter(|edit| edit.done.is_empty()) {
            let place = KeyPlace::of(&edit.key, model, target, registry);
            let is_there = model.foreign_of(target.id()).is_some_and(|own| place.value(own).is_some());
            if is_there && matches!(edit.change, Change::Unset) {
                self.notes.push(apply_to(model.foreign_mut(target.id()), &place, &edit.change)?);
                edit.done.push(target.id().to_owned());
            }
        }
        Ok(())
    }

    /// Changes the companions of the target's model that hold a key's text.
    fn in_texts(&mut self, registry: &Registry, model: &mut Model, target: &Format) {
        for edit in &mut self.edits {
            let place = KeyPlace::of(&edit.key, model, target, registry);
            let is_own = place.format.as_ref().is_none_or(|only| *only == target.id());
            // A key beside it that is changed as well has its own line.
            if is_own && let Some(note) = apply_to_text(&mut model.assets, target, &place, &edit.change) {
                let has_key = model.foreign_of(target.id()).is_some_and(|own| place.value(own).is_some());
                if !has_key && edit.done.is_empty() {
                    self.notes.push(note);
                    edit.done.push(target.id().to_owned());
                }
            }
        }
    }

    /// Changes the keys of the target, whose layout `request` asks for: those in `model`, and those that the
    /// target's writer generates.
    ///
    /// # Errors
    /// InvalidArgument for a key that does not exist and has no type, for one in both source and target, and
    /// for a value that its type cannot hold; Unsupported for a key that the target's writer always generates
    /// itself.
    pub fn in_target(
        &mut self,
        engine: &Engine,
        source: &OpenedModel,
        model: &mut CheckedModel,
        target: &Format,
        request: &LayoutRequest,
    ) -> Result<Vec<String>> {
        if self.edits.is_empty() {
            return Ok(Vec::new());
        }
        if !target.manifest.carries.has_metadata() {
            return Ok(std::mem::take(&mut self.notes));
        }
        model.with_rest(|rest| {
            self.in_texts(&engine.registry, rest, target);
            self.unset_carried(&engine.registry, rest, target)
        })?;
        // A model already in the target's format has all keys that are written.
        let made_anew = source.format != target.id() && target.manifest.reads;
        let told = match made_anew {
            true => look(engine, source, model, target, request)?,
            false => None,
        };
        let has = match &told {
            Some(told) => told.foreign.clone(),
            None => model.foreign_of(target.id()).cloned().unwrap_or_else(|| Foreign::new(target.id())),
        };
        let mut after = has.clone();
        if after.files.is_empty() {
            let n_tensors = model.tensors.len() as u64;
            after.files.push(ForeignFile { n_tensors, ..ForeignFile::default() });
        }
        let mut changed = false;
        for edit in &self.edits {
            let place = KeyPlace::of(&edit.key, model, target, &engine.registry);
            let key = place.key;
            if edit.done.is_empty() && place.format.as_ref().is_some_and(|only| only != target.id()) {
                return Err(unknown(edit, &[], &source.model.foreign));
            }
            match (edit.done.first(), place.value(&has)) {
                (Some(other), Some(_)) if key == edit.key && other != target.id() => {
                    let key = escape(key, 120);
                    let id = target.id();
                    let message =
                        format!("`{key}` is a key of {other} in the source and of {id} in the output");
                    let hint = format!("specify which one: {other}.{key} or {id}.{key}");
                    return Err(Error::invalid_argument(message).hint(hint));
                }
                (Some(_), _) => continue,
                (None, Some(_)) => self.notes.push(apply_to(&mut after, &place, &edit.change)?),
                (None, None) => {
                    let (place, change) = new_key(engine, edit, place, target).map_err(|error| {
                        error.unwrap_or_else(|| unknown(edit, &[&has], &source.model.foreign))
                    })?;
                    self.notes.push(apply_to(&mut after, &place, &change)?);
                }
            }
            check_types(&after, key, target)?;
            changed = true;
        }
        if changed {
            model.with_rest(|rest| *rest.foreign_mut(target.id()) = after);
            if let Some(told) = told {
                model.with_rest(|rest| rest.assets.extend(told.assets));
                self.settle(engine, source, model, target, request)?;
            }
        }
        Ok(std::mem::take(&mut self.notes))
    }

    /// Adopts what the target's format derives from the changed model, and checks that the changes will be
    /// written.
    fn settle(
        &self,
        engine: &Engine,
        source: &OpenedModel,
        model: &mut CheckedModel,
        target: &Format,
        request: &LayoutRequest,
    ) -> Result<()> {
        let Some(now) = look(engine, source, model, target, request)? else { return Ok(()) };
        for edit in self.edits.iter().filter(|edit| edit.done.is_empty()) {
            let place = KeyPlace::of(&edit.key, model, target, &engine.registry);
            let wanted = model.foreign_of(target.id()).and_then(|foreign| place.value(foreign));
            if place.value(&now.foreign) != wanted {
                let message = format!("{} sets `{}` itself", target.manifest.name, escape(place.key, 120));
                return Err(Error::unsupported(message).hint("remove it from --set and --unset"));
            }
        }
        if model.tokenizer.is_some() {
            let tokenizer = now.tokenizer?;
            model.with_rest(|rest| rest.tokenizer = tokenizer);
        }
        Ok(())
    }

    /// New keys for a target that has none: they go to the source's metadata, if it is clear whose. Does
    /// nothing for other targets.
    ///
    /// # Errors
    /// InvalidArgument for a key that is ambiguous, or does not exist and has no type, and for a value that
    /// its type cannot hold.
    pub fn rest_in_source(
        &mut self,
        engine: &Engine,
        source: &OpenedModel,
        model: &mut Model,
        target: &Format,
    ) -> Result<()> {
        if target.manifest.carries.has_metadata() {
            return Ok(());
        }
        for edit in self.edits.iter().filter(|edit| edit.done.is_empty()) {
            let place = KeyPlace::of(&edit.key, model, target, &engine.registry);
            let formats: Vec<String> = model.foreign.iter().map(|foreign| foreign.format.clone()).collect();
            let format = match (place.format.clone(), &formats[..]) {
                (Some(only), _) => only,
                (None, [one]) => one.clone(),
                (None, []) => {
                    let message =
                        format!("`{}` has no metadata keys, and neither has the model", target.id());
                    return Err(Error::invalid_argument(message)
                        .hint("set the keys when converting to a format that supports them"));
                }
                _ if !edit.has_type() => return Err(unknown(edit, &[], &source.model.foreign)),
                (None, several) => {
                    let formats = several.iter().filter_map(|id| engine.registry.format(id).ok());
                    let nearest = formats.max_by_key(|format| place.near(&format.manifest).is_some());
                    let stated = edit.stated().unwrap_or_default();
                    let refused =
                        nearest.and_then(|format| place.of_another(stated, format, &engine.registry));
                    if let Some(error) = refused {
                        return Err(error);
                    }
                    let key = escape(&edit.key, 120);
                    let several = several.join(" and ");
                    let message =
                        format!("the key `{key}` is ambiguous: the model has metadata of {several}");
                    return Err(
                        Error::invalid_argument(message).hint("specify one: --set FORMAT.KEY:TYPE=VALUE")
                    );
                }
            };
            let (place, change) = new_key(engine, edit, place, engine.registry.format(&format)?)
                .map_err(|error| error.unwrap_or_else(|| unknown(edit, &[], &source.model.foreign)))?;
            self.notes.push(apply_to(model.foreign_mut(&format), &place, &change)?);
        }
        Ok(())
    }
}

impl Edit {
    fn has_type(&self) -> bool {
        self.stated().is_some()
    }

    /// The name of the type that the user gives.
    fn stated(&self) -> Option<&str> {
        match &self.change {
            Change::Set { stated, .. } => stated.as_deref(),
            Change::Unset => None,
        }
    }
}

/// The format of the source that a new key belongs to, its place there, and the change with its type: the key names the
/// format, or only the source's formats know it.
fn new_in_source<'k>(
    engine: &Engine,
    edit: &Edit,
    place: KeyPlace<'k>,
    model: &Model,
    target: &Format,
) -> Result<Option<(String, KeyPlace<'k>, Change)>> {
    if matches!(edit.change, Change::Unset)
        || place.format.is_none() && place.known(&target.manifest).is_some()
    {
        return Ok(None);
    }
    let others = model.foreign.iter().filter(|foreign| foreign.format != target.id());
    for foreign in others.filter(|foreign| place.format.as_ref().is_none_or(|only| *only == foreign.format)) {
        let Ok(format) = engine.registry.format(&foreign.format) else { continue };
        if place.format.is_none() && place.known(&format.manifest).is_none() {
            continue;
        }
        let (place, change) = new_key(engine, edit, place, format)
            .map_err(|error| error.unwrap_or_else(|| unknown(edit, &[foreign], &[])))?;
        return Ok(Some((foreign.format.clone(), place, change)));
    }
    // A new key without a format belongs to the target.
    Ok(None)
}

/// The place of a new key in the metadata of `format`, and the change with its type.
///
/// # Errors
/// Unsupported for a key of other formats alone; no error for one whose type nothing states.
fn new_key<'k>(
    engine: &Engine,
    edit: &Edit,
    place: KeyPlace<'k>,
    format: &Format,
) -> std::result::Result<(KeyPlace<'k>, Change), Option<Error>> {
    let Change::Set { text, stated } = &edit.change else { return Err(None) };
    if let Some((place, kind)) = place.known(&format.manifest) {
        let stated = Some(stated.clone().unwrap_or(kind));
        return Ok((place, Change::Set { text: text.clone(), stated }));
    }
    let Some(kind) = stated else { return Err(None) };
    if let Some(error) = place.of_another(kind, format, &engine.registry) {
        return Err(Some(error));
    }
    Ok((place, Change::Set { text: text.clone(), stated: stated.clone() }))
}

/// Changes the companion file that holds a key's text; returns a line for the summary if there is one.
fn apply_to_text(
    assets: &mut Vec<Asset>,
    format: &Format,
    place: &KeyPlace<'_>,
    change: &Change,
) -> Option<String> {
    let asset = place.text(&format.manifest, assets)?;
    let (shown, file) = (escape(place.key, 120), asset.name.clone());
    match change {
        Change::Set { text, .. } => {
            asset.bytes = Bytes::from(text.clone().into_bytes());
            Some(format!("set `{shown}` ({}, `{file}`)", format.id()))
        }
        Change::Unset => {
            let note = format!("removed `{shown}` ({}, `{file}`)", format.id());
            assets.retain(|asset| asset.name != file);
            Some(note)
        }
    }
}

/// The target's statements about the model; `None` if only the finished file can show them.
fn look(
    engine: &Engine,
    source: &OpenedModel,
    model: &CheckedModel,
    target: &Format,
    request: &LayoutRequest,
) -> Result<Option<Preview>> {
    let mut request = request.clone();
    // Shards repeat keys, and have keys that describe the split.
    request.max_shard_size = None;
    request.max_shard_tensors = None;
    let name = if request.folder { &request.stem } else { &request.file_name };
    match preview(&engine.registry, source, model, target, &request, name) {
        Ok(told) => Ok(Some(told)),
        Err(error) if error.kind() == ErrorKind::Malformed => Ok(None),
        Err(error) => Err(error),
    }
}

/// Changes a key wherever it occurs, or adds it to its file, else to the first; returns a line for the summary.
fn apply_to(foreign: &mut Foreign, place: &KeyPlace<'_>, change: &Change) -> Result<String> {
    let key = place.key;
    let shown = escape(key, 120);
    let format = foreign.format.clone();
    let Change::Set { text, stated } = change else {
        for file in foreign.files.iter_mut().filter(|file| place.is_of(file)) {
            file.typed.retain(|(k, _)| k != key);
        }
        return Ok(format!("removed `{shown}` ({format})"));
    };
    let mut types: Vec<String> = Vec::new();
    for file in foreign.files.iter_mut().filter(|file| place.is_of(file)) {
        let Some(old) = file.get(key) else { continue };
        let kind = stated.clone().unwrap_or_else(|| type_of(old));
        file.set(key, typed(key, &kind, text)?);
        types.push(kind);
    }
    if types.is_empty() {
        let kind = stated.as_deref().unwrap_or("str");
        let value = typed(key, kind, text)?;
        types.push(kind.to_owned());
        let at = match &place.file {
            Some(name) => foreign.files.iter().position(|file| file.name == *name),
            None => (!foreign.files.is_empty()).then_some(0),
        };
        let name = place.file.clone().unwrap_or_default();
        match at.and_then(|at| foreign.files.get_mut(at)) {
            Some(file) => file.set(key, value),
            None => foreign.files.push(ForeignFile {
                name,
                typed: vec![(key.to_owned(), value)],
                ..ForeignFile::default()
            }),
        }
    }
    types.dedup();
    Ok(format!("set `{shown}` ({format}, {})", types.join(" and ")))
}

/// Changes a name in a canonical configuration, whose types are those of JSON; `None` if the name does not
/// occur.
fn apply_to_config(
    architecture: &mut Architecture,
    key: &str,
    change: &Change,
    format: &str,
) -> Result<Option<String>> {
    let json = architecture.config.inline().and_then(|json| serde_json::from_slice(json).ok());
    let Some(serde_json::Value::Object(mut config)) = json else { return Ok(None) };
    let Some(old) = config.get(key) else { return Ok(None) };
    let shown = escape(key, 120);
    let note = match change {
        Change::Unset => {
            config.remove(key);
            format!("removed `{shown}` ({format})")
        }
        Change::Set { text, .. } => {
            let value = match old {
                serde_json::Value::String(_) => serde_json::Value::from(text.as_str()),
                _ => serde_json::from_str(text).unwrap_or(serde_json::Value::Null),
            };
            let kind = word_of(old);
            if let Some(number) = beyond_64_bits(text).filter(|_| !value.is_string()) {
                let message =
                    format!("`{shown}` cannot be set to `{}`: `{number}` {BEYOND}", escape(text, 80));
                return Err(Error::invalid_argument(message));
            }
            // An integer is a number too.
            if word_of(&value) != kind {
                let message =
                    format!("`{shown}` cannot be set to `{}`: it is not of type {kind}", escape(text, 80));
                return Err(Error::invalid_argument(message));
            }
            config.insert(key.to_owned(), value);
            format!("set `{shown}` ({format}, {kind})")
        }
    };
    architecture.config = Bytes::from(serde_json::Value::Object(config).to_string().into_bytes());
    Ok(Some(note))
}

fn not_text(path: &str, error: &std::str::Utf8Error) -> Error {
    let message = format!("invalid UTF-8 at byte {}, but metadata must be text", error.valid_up_to());
    Error::invalid_argument(message).in_file(path).hint("save it as UTF-8")
}

fn word_of(json: &serde_json::Value) -> &'static str {
    match json {
        serde_json::Value::Bool(_) => "bool",
        serde_json::Value::Number(_) => "number",
        serde_json::Value::String(_) => "str",
        serde_json::Value::Array(_) => "array",
        serde_json::Value::Object(_) => "object",
        serde_json::Value::Null => "null",
    }
}

fn check_types(foreign: &Foreign, key: &str, target: &Format) -> Result<()> {
    let carries = &target.manifest.carries;
    let value = foreign.get(key);
    let refused = value.filter(|value| value.kind.name().is_none_or(|kind| !carries.metadata_type(kind)));
    let Some(value) = refused else { return Ok(()) };
    let key = escape(key, 120);
    let kind = type_of(value);
    let holds = carries.metadata.as_deref().unwrap_or_default().join(", ");
    let message =
        format!("`{key}` would be of type {kind}, but metadata of `{}` must be {holds}", target.id());
    Err(Error::invalid_argument(message)
        .hint("specify one of these types with the key, as in --set KEY:i64=5"))
}

/// The error for an unknown key, listing keys with the same ending.
fn unknown(edit: &Edit, target: &[&Foreign], source: &[Foreign]) -> Error {
    let shown = escape(&edit.key, 120);
    let tail = edit.key.rsplit('.').next().unwrap_or(&edit.key);
    let files = target.iter().copied().chain(source).flat_map(|foreign| &foreign.files);
    let mut close: Vec<&str> = files.flat_map(|f| &f.typed).map(|(k, _)| k.as_str()).collect();
    close.retain(|k| k.contains(tail));
    close.sort_unstable();
    close.dedup();
    close.truncate(5);
    let near = match close.is_empty() {
        true => "run `apr inspect` to list the keys".to_owned(),
        false => format!("use one of {}", escape(&close.join(", "), 400)),
    };
    let error =
        Error::invalid_argument(format!("neither the source nor the output has a metadata key `{shown}`"));
    match edit.change {
        Change::Unset => error.hint(near),
        Change::Set { .. } => {
            error.hint(format!("{near}; to add a key, specify its type: --set '{shown}:TYPE=VALUE'"))
        }
    }
}
