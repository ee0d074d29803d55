//! Translates a whole model into the dialect that its target wants: tensors and configuration, with notes
//! about both.

mod codes;
mod inverse;
mod ledger;
mod levels;
mod missing_head;
mod no_table;
mod recovery;
mod tensors;
mod tied_head;
mod vocabulary;

pub use ledger::Ledger;
pub(super) use levels::state_levels;
pub(super) use missing_head::Headed;
pub(super) use tensors::planned;
pub(super) use tied_head::tell_of_tied_head;
pub(super) use vocabulary::Vocabulary;

use crate::architecture::adapter::refuse_adapter;
use crate::architecture::config::omissions::{Lost, Written, is_stated, lost};
use crate::architecture::config::overruled::tell_of_overruled;
use crate::architecture::config::refusal::refuse;
use crate::architecture::config::statement::Stated;
use crate::architecture::config::{Config, ConfigScope, Dimensions, dimensions};
use crate::architecture::decoder::refuse_differing;
use crate::architecture::description::{find_table, stated, stated_keys, unknown_dialect};
use crate::architecture::language::expression::{Scalar, same};
use crate::architecture::language::value::{from_value, says_null};
use crate::architecture::lone::explain_lone;
use crate::architecture::table::dialect::{canonical, warning};
use crate::architecture::table::{CANONICAL, Dialect, Source, Table};
use crate::architecture::translate::{Made, OTHER_TABLE, Passage, Removed, Translated, translate};
use crate::engine::Engine;
use crate::expression::PlannedTensor;
use crate::open::OpenedModel;
use crate::registry::Format;
use crate::wording::n_of;
use apr_sdk::manifest::{DialectRule, ForeignCarrier};
use apr_sdk::tokenizer::Tokenizer;
use apr_sdk::{
    Architecture, Bytes, DType, Error, ErrorKind, ForeignFile, ForeignPolicy, Model, Result, Tensor, Value,
    Writer, escape,
};
use codes::refuse_codes;
use no_table::no_table;
use std::collections::{HashMap, HashSet};

/// The result of a translation.
#[derive(Debug, Default)]
pub struct Translation {
    /// The translated tensors; `None` if the model was left unchanged.
    pub tensors: Option<Vec<PlannedTensor>>,
    /// What was done with each key and tensor, if there was a translation.
    pub ledger: Option<Ledger>,
    /// Lines for the summary.
    pub notes: Vec<String>,
    /// What the user should look at.
    pub warnings: Vec<String>,
}

/// The user's requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes<'a> {
    /// `--arch`.
    pub arch: Option<&'a str>,
    /// Whether an architecture is required even if the target does not need one.
    pub required: bool,
    /// `--precision`.
    pub precision: Option<DType>,
    /// `--foreign`.
    pub foreign: ForeignPolicy,
    /// The tensors that the user left out.
    pub removed: &'a [Removed],
}

impl Wishes<'_> {
    /// Whether the model may keep its names instead: its user asked for no architecture.
    fn may_keep_names(&self) -> bool {
        !self.required && self.arch.is_none()
    }
}

/// The opened model behind the one that is translated: its bytes and values.
#[derive(Clone, Copy)]
pub struct Stored<'a> {
    /// The model as it was opened.
    pub source: &'a OpenedModel,
    /// The numbers that the selected tensors have there, if some are left out.
    pub selected: Option<&'a [usize]>,
    /// Whether payload may be read.
    pub look: bool,
}

/// Translates `model` into the dialect that `target` wants, if that is another.
///
/// # Errors
/// Unsupported if the target requires another dialect and no table translates it, or the table does not know
/// a tensor; Malformed for a model that lacks what its architecture has.
pub fn translate_model(
    engine: &Engine,
    model: &mut Model,
    target: &Format,
    writer: &dyn Writer,
    wishes: Wishes<'_>,
    stored: Stored<'_>,
) -> Result<Translation> {
    let (want, required) = match &target.manifest.dialect {
        DialectRule::Always(want) | DialectRule::Requires(want) => (want.as_str(), true),
        DialectRule::Prefers(want) => (want.as_str(), wishes.required),
        _ => return Ok(Translation::default()),
    };
    if wishes.arch == Some("none") || model.dialect == want {
        return Ok(Translation::default());
    }
    let Some((table, from)) = find_table(engine, model, wishes.arch)? else {
        return no_table(engine, model, target, want, required);
    };
    if !table.knows(want) || !table.knows(&from) {
        let missing = if table.knows(want) { &from } else { want };
        return if required {
            Err(ways_out(unknown_dialect(table, missing)))
        } else {
            no_table(engine, model, target, want, false)
        };
    }
    let journey = Journey { table, from: &from, to: want, target, engine, stored };
    let arch = wishes.arch;
    let wishes = Wishes { required: wishes.required || required, ..wishes };
    match journey.translate(model, writer, wishes) {
        // A target that merely prefers other names does without if the table does not fit the whole model.
        Err(error)
            if !required
                && arch.is_none()
                && [ErrorKind::Malformed, ErrorKind::Unsupported].contains(&error.kind()) =>
        {
            let tensor =
                error.tensor_name().map(|name| format!(" ({})", escape(name, 120))).unwrap_or_default();
            let note = format!(
                "names are kept in the dialect `{from}`: the table of architecture `{}` does not fit: {}{tensor}",
                table.id,
                error.message()
            );
            Ok(Translation { notes: vec![note], ..Translation::default() })
        }
        done => done.map_err(|error| explain_lone(engine, model, arch, error)),
    }
}

fn ways_out(error: Error) -> Error {
    error.hint(OTHER_TABLE)
}

/// What stays the same throughout one translation.
pub(super) struct Journey<'a> {
    pub(super) table: &'a Table,
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    pub(super) target: &'a Format,
    pub(super) engine: &'a Engine,
    pub(super) stored: Stored<'a>,
}

impl Journey<'_> {
    fn translate(&self, model: &mut Model, writer: &dyn Writer, wishes: Wishes<'_>) -> Result<Translation> {
        refuse_adapter(model, &self.engine.registry)?;
        let canonical = canonical();
        let from = self.table.dialect(self.from).unwrap_or(&canonical);
        let names = model.tensors.iter().map(|tensor| self.table.own_tensor(self.from, tensor));
        let names: Vec<Tensor> = names.collect();
        let removed = wishes.removed.iter().map(|removed| Removed {
            tensor: self.table.own_tensor(self.from, &removed.tensor),
            rule: removed.rule.clone(),
        });
        let removed: Vec<Removed> = removed.collect();
        // Tensors that were left out still tell what the configuration leaves to tensors.
        let all = names.iter().chain(removed.iter().map(|removed| &removed.tensor));
        let dimensions = dimensions(self.table, self.from, all);
        let (mut config, used) = self.config(model, from, &dimensions)?;
        let of_class = self.names_of_class(model, from, &config);
        let vocabulary = Vocabulary::new(self.engine, self.stored.source, model.tokenizer.as_ref());
        self.recover(&names, &mut config, &dimensions, &vocabulary)?;
        let tied = Headed {
            table: self.table,
            dialect: from,
            config: &config,
            lookup: &|key| stated(model, key),
            dimensions: &dimensions,
            names: &names,
            called: &model.tensors,
        };
        if let Some((name, value)) = tied.tied_outside()? {
            config.set(&name, value);
        }
        let scope = ConfigScope::new(self.table, &config, &dimensions);
        let stated = Stated {
            dialect: from,
            lookup: &|key| stated(model, key),
            keys: &stated_keys(model),
            used: &used,
            scope: &scope,
            tensors: &names,
            names: &self.names(model)?,
        };
        refuse(self.table, &stated)?;
        tell_of_tied_head(self.engine, self.stored.source, self.table, from, &config, &names)?;
        let came_from_target = model.foreign_of(self.target.id()).is_some();
        let passage = Passage {
            table: self.table,
            scope: &scope,
            tensors: &names,
            called: &model.tensors,
            removed: &removed,
            from: self.from,
            to: self.to,
            tokens: &|text| vocabulary.id(text),
            keep_order: came_from_target,
        };
        let mut translated = translate(&passage)?;
        let headed = Headed {
            table: self.table,
            dialect: from,
            config: &config,
            lookup: stated.lookup,
            dimensions: &dimensions,
            names: &names,
            called: &model.tensors,
        };
        headed.refuse_missing(self.engine)?;
        tell_of_overruled(self.engine, from, &scope, stated.lookup)?;
        self.refuse_same_names(&translated.tensors, model)?;
        refuse_codes(&translated.tensors, &model.tensors)?;
        let order = self.lost_order(&passage, &translated, wishes);
        let computed = translated.computed();
        let shapes: Vec<(String, Vec<u64>)> =
            translated.tensors.iter().map(|made| (made.name.clone(), made.shape.clone())).collect();
        let dropped = notes_of_dropped(&translated);
        let left_out = std::mem::take(&mut translated.dropped);
        if self.stored.look {
            let Stored { source, selected, .. } = self.stored;
            state_levels(self.engine, source, &model.tensors, selected, &mut translated.tensors)?;
        }
        let mut translation = self.tensors(model, translated, writer, came_from_target, wishes)?;
        let mut notes = Vec::new();
        let tensors = translation.tensors.as_deref().unwrap_or_default();
        if let Some(loss) = self.loss(order, tensors, wishes, &mut notes)? {
            if wishes.may_keep_names() {
                let note = format!(
                    "names are kept in the dialect `{}`: converting back would not restore {loss} (pass \
                     --arch {} to translate them anyway)",
                    self.from, self.table.id
                );
                return Ok(Translation { notes: vec![note], ..Translation::default() });
            }
            notes.push(format!("converting back would not restore {loss}"));
        }
        self.say_what_is_left(model, from, &used, wishes.foreign, &mut notes);
        notes.extend(dropped);
        notes.append(&mut translation.notes);
        translation.notes = notes;
        let called = names.iter().zip(&model.tensors);
        let called = called.map(|(own, file)| (own.name.as_str(), file.name.as_str()));
        translation.ledger = Some(Ledger::new(self.table, self.from, used, &left_out, called));
        if let Some(dialect) = self.table.dialect(self.to).filter(|_| !came_from_target) {
            self.add_templates(model, dialect, &scope)?;
        }
        let config_json = config.to_json()?;
        model.architecture =
            Some(Architecture { id: self.table.id.clone(), config: Bytes::from(config_json) });
        self.to.clone_into(&mut model.dialect);
        if let Some(dialect) = self.table.dialect(self.to)
            && self.target.manifest.carries.has_metadata()
        {
            let keys = scope.write(dialect)?;
            if !came_from_target {
                let written = Written { dialect, keys: &keys, computed: &computed };
                let Lost { mut names, effects } = lost(&scope, &written)?;
                names.retain(|name| !of_class.contains(name));
                refuse_differing(&scope, &written, &shapes)?;
                translation.warnings.extend(effects);
                translation.warnings.extend(warning::effects(dialect, &scope)?);
                if !names.is_empty() && !self.carries_foreign(wishes.foreign) {
                    let what = n_of(names.len(), "value");
                    let names = names.join(", ");
                    let whose = &self.target.manifest.name;
                    translation.notes.push(format!(
                        "not carried over: {what} of the configuration that {whose} does not store: {names}"
                    ));
                }
            }
            let n_tensors = translation.tensors.as_ref().map_or(0, Vec::len) as u64;
            self.place_keys(model, dialect, keys, n_tensors, &mut translation.notes);
        }
        Ok(translation)
    }

    /// Adds the chat templates that the target's readers want of such a model to its tokenizer, if that has none of their names.
    fn add_templates(&self, model: &mut Model, dialect: &Dialect, scope: &ConfigScope<'_>) -> Result<()> {
        for template in &dialect.templates {
            let Some(json) = model.tokenizer.as_ref().filter(|_| self.target.manifest.carries.tokenizer_core)
            else {
                return Ok(());
            };
            if !template.applies(scope)? {
                continue;
            }
            let held = self.stored.source.fetch(json)?;
            let mut parts = Tokenizer::from_json(held.inline().unwrap_or_default())?.into_parts();
            if parts.chat_templates.iter().any(|(name, _)| *name == template.name) {
                continue;
            }
            parts.chat_templates.push((template.name.clone(), template.text.clone()));
            model.tokenizer = Some(Bytes::from(Tokenizer::new(parts)?.to_json()));
        }
        Ok(())
    }

    /// The names that only the library's class states: where the output cannot say what it does, nothing of the model is lost.
    fn names_of_class(&self, model: &Model, from: &Dialect, config: &Config) -> Vec<String> {
        if from.id == CANONICAL {
            return Vec::new();
        }
        let mut names: Vec<String> = config.values().iter().map(|(name, _)| name.clone()).collect();
        names.retain(|name| !is_stated(self.table, from, &|key| stated(model, key), name));
        names
    }

    /// What a conversion back would not restore, in words: `order`, or else values. What only the run can find is noted.
    fn loss(
        &self,
        order: Option<String>,
        tensors: &[PlannedTensor],
        wishes: Wishes<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Option<String>> {
        let changed = tensors.iter().filter(|planned| planned.expression.is_affine());
        let changed: Vec<&PlannedTensor> = changed.collect();
        let loss = match order {
            Some(loss) => Some(loss),
            None => self.lost_values(&changed, wishes)?,
        };
        if !self.stored.look && wishes.may_keep_names() && !changed.is_empty() {
            let tensors = n_of(changed.len(), "tensor");
            notes.push(format!(
                "names are kept if converting back would not restore every value of {tensors}"
            ));
        }
        Ok(loss)
    }

    pub(super) fn config(
        &self,
        model: &Model,
        from: &Dialect,
        dimensions: Dimensions<'_>,
    ) -> Result<(Config, HashSet<String>)> {
        if let Some(architecture) = model.architecture.as_ref().filter(|a| a.id == self.table.id)
            && let Some(json) = architecture.config.inline()
            && from.id == CANONICAL
        {
            return Ok((Config::from_json(self.table, json)?, HashSet::new()));
        }
        let (mut config, used) = Config::read(self.table, from, &|key| stated(model, key), dimensions)?;
        if !from.named.is_empty() {
            let names = self.names(model)?;
            let named = from.named.iter().filter(|naming| naming.fits(&names));
            named.for_each(|naming| config.set(&naming.sets, Scalar::Bool(true)));
        }
        Ok((config, used))
    }

    /// The model's names for itself, in lower case with hyphens: from its card, and from the headings of its
    /// README.
    pub(super) fn names(&self, model: &Model) -> Result<Vec<String>> {
        const LONGEST: u64 = 1 << 20;
        let mut names = Vec::new();
        if let Some(card) = &model.model_card {
            let card = self.stored.source.fetch(card)?;
            let card =
                card.inline().and_then(|bytes| serde_json::from_slice::<serde_json::Value>(bytes).ok());
            let card = card.unwrap_or_default();
            names.extend(
                ["name", "basename"].into_iter().filter_map(|key| card.get(key)?.as_str()).map(hyphenated),
            );
            let ids = card.get("ids").and_then(serde_json::Value::as_array);
            let ids = ids.into_iter().flatten().chain(card.get("folder"));
            names.extend(ids.filter_map(serde_json::Value::as_str).map(hyphenated));
        }
        let readme = model.assets.iter().find(|asset| asset.name == "README.md");
        if let Some(readme) = readme.filter(|readme| readme.bytes.len() <= LONGEST) {
            let text = self.stored.source.fetch(&readme.bytes)?;
            let text = String::from_utf8_lossy(text.inline().unwrap_or_default()).into_owned();
            names.extend(text.lines().filter_map(|line| line.strip_prefix("# ")).map(hyphenated));
        }
        Ok(names)
    }

    /// Reports keys of the source's configuration that have no counterpart, and removes those that are now
    /// stated differently.
    fn say_what_is_left(
        &self,
        model: &mut Model,
        from: &Dialect,
        used: &HashSet<String>,
        policy: ForeignPolicy,
        notes: &mut Vec<String>,
    ) {
        if self.carries_foreign(policy) || model.format == self.target.id() {
            return;
        }
        let Some(at) = model.foreign.iter().position(|f| f.format == model.format) else { return };
        let prefix = from.prefix.as_deref();
        let mut left = Vec::new();
        for (key, value) in model.foreign[at].files.first().map_or(&[][..], |file| &file.typed) {
            let is_own = from.same_names || prefix.is_some_and(|prefix| key.starts_with(prefix));
            if is_own && !says_null(value) && !used.contains(key) && !from.ignores(key) {
                left.push(escape(key, 80).to_string());
            }
        }
        if !left.is_empty() {
            let what = n_of(left.len(), "key");
            let more = left.len().saturating_sub(MOST_NAMED);
            left.truncate(MOST_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            notes.push(format!("not carried over: {what} unknown to the table: {}{more}", left.join(", ")));
        }
        model.foreign.remove(at);
    }

    /// Fails if the table gives two tensors the same name.
    fn refuse_same_names(&self, tensors: &[Made], model: &Model) -> Result<()> {
        let mut named: HashMap<&str, &Made> = HashMap::with_capacity(tensors.len());
        let twice = tensors.iter().find_map(|made| Some((named.insert(&made.name, made)?, made)));
        let Some((first, second)) = twice else { return Ok(()) };
        let message = format!(
            "the table of architecture `{}` gives {} and {} the same name",
            self.table.id,
            source_of(first, model),
            source_of(second, model)
        );
        let hint = format!("fix the table: run `apr arch check {}` to list its errors", self.table.id);
        Err(Error::malformed(message).tensor(&second.name).hint(hint))
    }

    /// Whether the target holds the source's own keys unchanged.
    fn carries_foreign(&self, policy: ForeignPolicy) -> bool {
        let carries = self.target.manifest.carries.foreign;
        carries == ForeignCarrier::All || policy == ForeignPolicy::Keep && carries != ForeignCarrier::None
    }

    /// Places the target's keys: over those it already has, or in a new record.
    fn place_keys(
        &self,
        model: &mut Model,
        dialect: &Dialect,
        keys: Vec<(String, Value)>,
        n_tensors: u64,
        notes: &mut Vec<String>,
    ) {
        let foreign = model.foreign_mut(self.target.id());
        if foreign.files.is_empty() {
            foreign.files.push(ForeignFile { name: String::new(), n_tensors, typed: keys, verbatim: None });
            return;
        }
        for (key, value) in keys {
            // What it leaves unstated, or states under another name, stays that way; so do its own names.
            let is_name = dialect.keys.iter().any(|own| match own.value {
                Source::Constant(_) => own.key == key,
                // Computed for other readers, and not read here.
                Source::Expression(_) => {
                    dialect.roots.path(&own.key) == key && own.sets.is_empty() && dialect.same_names
                }
            });
            // A file may state it in another place than where it would be written.
            let own = dialect.roots.own(&key);
            let found = dialect.roots.find(own, &|path| foreign.get(path).cloned());
            let Some((Some(key), have)) = found.filter(|(_, have)| !is_name && !says_null(have)) else {
                continue;
            };
            let scalars = from_value(&have).zip(from_value(&value));
            let same = have == value || scalars.is_some_and(|(have, value)| same(&have, &value));
            if !same && let Some(file) = foreign.files.first_mut() {
                notes.push(format!(
                    "the key `{}` is derived from the model's configuration",
                    escape(&key, 120)
                ));
                file.set(&key, value);
            }
        }
    }
}

/// Keys that a note names.
const MOST_NAMED: usize = 32;

/// A model's name for itself, as tables compare it.
fn hyphenated(name: &str) -> String {
    name.trim().to_lowercase().replace([' ', '_'], "-")
}

/// The name of the first tensor that a translated one is made of, in words.
fn source_of(made: &Made, model: &Model) -> String {
    let number = made.boxes.iter().find_map(|part| part.tensor);
    let source = number.and_then(|number| model.tensors.get(number));
    source.map_or("a computed tensor".to_owned(), |tensor| format!("`{}`", escape(&tensor.name, 120)))
}

/// Notes about tensors that are left out, a line for each reason, and about rows of zeros.
fn notes_of_dropped(translated: &Translated) -> Vec<String> {
    let mut notes = Vec::new();
    let mut reasons: Vec<&str> = translated.dropped.iter().map(|(_, reason)| reason.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        let names: Vec<String> = translated
            .dropped
            .iter()
            .filter(|(_, r)| r == reason)
            .map(|(name, _)| escape(name, 120).to_string())
            .collect();
        let shown = match names.len() {
            0..=4 => names.join(", "),
            n => format!("{}, ... and {} more", names[..3].join(", "), n - 3),
        };
        notes.push(format!("left out: {} ({reason}): {shown}", n_of(names.len(), "tensor")));
    }
    for name in &translated.padded {
        notes.push(format!("rows missing from the source are filled with zeros: {}", escape(name, 120)));
    }
    notes
}
