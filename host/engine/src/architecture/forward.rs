//! Translates a model into a dialect in order to compute it, or to compare it with one that has it: nothing is
//! written, no type changes, and no keys are placed.

use crate::architecture::config::keys::value_of;
use crate::architecture::config::overruled::{Overruled, overruled, tell_of_overruled};
use crate::architecture::config::refusal::refuse;
use crate::architecture::config::statement::Stated;
use crate::architecture::config::{Config, ConfigScope, dimensions};
use crate::architecture::description::{find_table, stated, stated_keys};
use crate::architecture::language::expression::{Scope, same};
use crate::architecture::language::value::{from_value, narrowed};
use crate::architecture::model::{
    Headed, Journey, Stored, Vocabulary, planned, state_levels, tell_of_tied_head,
};
use crate::architecture::table::dialect::canonical;
use crate::architecture::table::{Source, Table};
use crate::architecture::translate::{Passage, refuse_beyond, refuse_incomplete, translate};
use crate::engine::Engine;
use crate::expression::{Expression, PlannedTensor};
use crate::open::OpenedModel;
use crate::registry::Format;
use apr_sdk::{DType, Error, ErrorKind, Model, Result, Tensor, escape};
use std::collections::HashSet;

/// A model in the dialect of another.
#[derive(Debug)]
pub struct Forward {
    /// The tensors under that dialect's names, computed from the model's own.
    pub tensors: Vec<PlannedTensor>,
    /// Tensors that the dialect has no place for, and why.
    pub dropped: Vec<(String, String)>,
    /// Configuration values that both state, but differently: the name, and both values.
    pub differing: Vec<(String, String, String)>,
}

/// A model in a dialect that a table knows, to be computed.
#[derive(Debug)]
pub struct InDialect {
    /// The architecture's id.
    pub architecture: String,
    /// Its configuration, as canonical JSON.
    pub config: Vec<u8>,
    /// The tensors under that dialect's names, computed from the model's own.
    pub tensors: Vec<PlannedTensor>,
}

/// Names of tensors that a dialect has no place for, and why.
type Dropped = Vec<(String, String)>;

/// A model's table and configuration, and its tensors under the table's own names.
struct Known<'e> {
    table: &'e Table,
    from: String,
    names: Vec<Tensor>,
    config: Config,
    /// Keys that the table has read.
    used: HashSet<String>,
    /// The model's names for itself.
    called: Vec<String>,
}

impl<'e> Known<'e> {
    fn new(
        engine: &'e Engine,
        opened: &OpenedModel,
        arch: Option<&str>,
        to: &str,
        target: &Format,
    ) -> Result<Known<'e>> {
        let model = &opened.model;
        let found = find_table(engine, model, arch)?;
        let (table, from) = found.ok_or_else(|| {
            let message =
                format!("no architecture table covers this model in the dialect `{}`", model.dialect);
            Error::unsupported(message).hint("specify the architecture with --arch ID (see `apr arch list`)")
        })?;
        if !table.knows(to) || !table.knows(&from) {
            let message =
                format!("the table of architecture `{}` cannot translate to the dialect `{to}`", table.id);
            return Err(Error::unsupported(message));
        }
        let stored = Stored { source: opened, selected: None, look: false };
        let journey = Journey { table, from: &from, to, target, engine, stored };
        let mut known = Known {
            table,
            names: model.tensors.iter().map(|tensor| table.own_tensor(&from, tensor)).collect(),
            from: from.clone(),
            config: Config::default(),
            used: HashSet::new(),
            called: journey.names(model)?,
        };
        let canonical = canonical();
        let dialect = table.dialect(&from).unwrap_or(&canonical);
        let (mut config, used) = journey.config(model, dialect, &known.dimensions())?;
        // Whoever computes takes what a tensor states from the tensor itself.
        if from != to {
            let vocabulary = Vocabulary::new(engine, opened, None);
            journey.recover(&known.names, &mut config, &known.dimensions(), &vocabulary)?;
        }
        known.config = config;
        known.used = used;
        Ok(known)
    }

    /// Looks up dimensions of the tensors by their canonical names.
    fn dimensions(&self) -> impl Fn(&str, usize) -> Option<u64> {
        dimensions(self.table, &self.from, &self.names)
    }

    /// Fails for a tensor that the table does not know: what it does to the results is not known either.
    fn refuse_unknown(&self, called: &[Tensor]) -> Result<()> {
        let pairs = self.names.iter().zip(called);
        let mut unknown = pairs.filter(|(own, _)| !self.table.names(&self.from, &own.name));
        let Some((_, first)) = unknown.next() else { return Ok(()) };
        let more = match unknown.count() {
            0 => String::new(),
            n => format!(", and {n} more"),
        };
        let message = format!("architecture `{}` has no tensor with this name{more}", self.table.id);
        Err(Error::unsupported(message).tensor(&first.name))
    }

    /// States why a configuration is refused where a model is translated: no other dialect can say it.
    fn refusal(&self, model: &Model) -> Option<String> {
        let dimensions = self.dimensions();
        let stated = Stated {
            dialect: self.table.dialect(&self.from)?,
            lookup: &|key| stated(model, key),
            keys: &stated_keys(model),
            used: &self.used,
            scope: &ConfigScope::new(self.table, &self.config, &dimensions),
            tensors: &self.names,
            names: &self.called,
        };
        refuse(self.table, &stated).err().map(|error| error.message().to_owned())
    }

    /// Fails for a model that lacks tensors of its architecture.
    fn refuse_incomplete(&self, called: &[Tensor]) -> Result<()> {
        self.in_passage(called, refuse_incomplete)
    }

    /// Fails for a model that has tensors of layers beyond those that it counts.
    fn refuse_beyond(&self, called: &[Tensor]) -> Result<()> {
        self.in_passage(called, refuse_beyond)
    }

    /// The answer of `ask` for the tensors in their own dialect.
    fn in_passage(&self, called: &[Tensor], ask: fn(&Passage<'_>) -> Result<()>) -> Result<()> {
        let dimensions = self.dimensions();
        ask(&Passage {
            table: self.table,
            scope: &ConfigScope::new(self.table, &self.config, &dimensions),
            tensors: &self.names,
            called,
            removed: &[],
            from: &self.from,
            to: &self.from,
            tokens: &|_| Ok(None),
            keep_order: true,
        })
    }

    /// The tensors in another dialect, and those that it has no place for.
    fn translate(
        &self,
        engine: &Engine,
        opened: &OpenedModel,
        to: &str,
    ) -> Result<(Vec<PlannedTensor>, Dropped)> {
        let called = &opened.model.tensors[..];
        let Known { table, from, names, config, .. } = self;
        let dimensions = self.dimensions();
        let scope = ConfigScope::new(table, config, &dimensions);
        let tensors = &names[..];
        let vocabulary = Vocabulary::new(engine, opened, None);
        let passage = Passage {
            table,
            scope: &scope,
            tensors,
            called,
            removed: &[],
            from,
            to,
            tokens: &|text| vocabulary.id(text),
            keep_order: true,
        };
        let mut translated = translate(&passage)?;
        state_levels(engine, opened, called, None, &mut translated.tensors)?;
        let mut out = Vec::with_capacity(translated.tensors.len());
        for made in translated.tensors {
            // What is changed is computed in F32 and stays that wide, so that it can be compared with values
            // computed the same way.
            let narrow = [DType::F16, DType::BF16].contains(&made.dtype);
            let dtype = if made.is_changed() && narrow { DType::F32 } else { made.dtype };
            out.push(planned(made, dtype, called, &engine.registry)?);
        }
        Ok((out, translated.dropped))
    }
}

/// States what is missing of a model by the table of its architecture: a copy of half a model is half a model. `None` if nothing is,
/// or if no table describes the model.
pub fn incomplete(engine: &Engine, opened: &OpenedModel, arch: Option<&str>) -> Option<String> {
    let target = engine.registry.format(&opened.format).ok()?;
    let (_, from) = find_table(engine, &opened.model, arch).ok()??;
    let known = Known::new(engine, opened, arch, &from, target).ok()?;
    let error = known.refuse_incomplete(&opened.model.tensors).err()?;
    let tensor = error.tensor_name().filter(|_| error.kind() == ErrorKind::Malformed)?;
    Some(format!("the model is incomplete: `{}`: {}", escape(tensor, 120), error.message()))
}

/// A model as the dialect `to` has it, so that it can be computed; nothing is read of its weights but a head that may be the embedding. `arch` is the
/// architecture that the user named.
///
/// # Errors
/// Unsupported if no table translates it, or the table does not know a tensor; Malformed for a model that lacks
/// what its architecture has.
pub fn in_dialect(engine: &Engine, opened: &OpenedModel, to: &str, arch: Option<&str>) -> Result<InDialect> {
    let target = engine.registry.format(&opened.format)?;
    let known = Known::new(engine, opened, arch, to, target)?;
    if let Some(dialect) = known.table.dialect(&known.from) {
        tell_of_tied_head(engine, opened, known.table, dialect, &known.config, &known.names)?;
        let headed = Headed {
            table: known.table,
            dialect,
            config: &known.config,
            lookup: &|key| stated(&opened.model, key),
            dimensions: &known.dimensions(),
            names: &known.names,
            called: &opened.model.tensors,
        };
        headed.refuse_missing(engine)?;
        let dimensions = known.dimensions();
        let scope = ConfigScope::new(known.table, &known.config, &dimensions);
        tell_of_overruled(engine, dialect, &scope, &|key| stated(&opened.model, key))?;
    }
    let called = &opened.model.tensors;
    let tensors = if known.from == to {
        known.refuse_unknown(called)?;
        known.refuse_beyond(called)?;
        let mut tensors = Vec::with_capacity(called.len());
        for (number, tensor) in called.iter().enumerate() {
            let expression = Expression::of(number, tensor).map_err(|e| e.tensor(&tensor.name))?;
            tensors.push(PlannedTensor::new(tensor.clone(), expression));
        }
        tensors
    } else {
        known.translate(engine, opened, to)?.0
    };
    let config = known.config.to_json()?;
    Ok(InDialect { architecture: known.table.id.clone(), config, tensors })
}

/// The tensors of `opened` in the dialect of `other`, and contradictions between the two configurations.
///
/// # Errors
/// As [`in_dialect`].
pub fn forward(engine: &Engine, opened: &OpenedModel, other: &Model) -> Result<Forward> {
    let to = other.dialect.as_str();
    let target = engine.registry.format(&other.format)?;
    let known = Known::new(engine, opened, None, to, target)?;
    let (tensors, dropped) = known.translate(engine, opened, to)?;
    let mut forward = Forward { tensors, dropped, differing: Vec::new() };
    let table = known.table;
    let dimensions = known.dimensions();
    let Some(theirs) = table.dialect(to) else { return Ok(forward) };
    if let Some(refusal) = known.refusal(&opened.model) {
        forward.differing.push(("configuration".to_owned(), refusal, "not stated".to_owned()));
    }
    // Not every key can be read back: both configurations are compared as that dialect's keys state them.
    let keys = ConfigScope::new(table, &known.config, &dimensions).write(theirs)?;
    let (told, _) = Config::read(table, theirs, &|key| stated(other, key), &dimensions)?;
    let (own, _) = Config::read(table, theirs, &|path| value_of(&keys, path), &dimensions)?;
    forward.differing.extend(differences(&own, &told));
    // What only one of them states differs from what the other is taken for without it. Keys that other programs pass over are
    // not wanted of either.
    let is_read = |path: &str| !theirs.keys.iter().any(|key| key.unread && key.key == path);
    let (own_read, _) =
        Config::read(table, theirs, &|path| value_of(&keys, path).filter(|_| is_read(path)), &dimensions)?;
    let (told_read, _) =
        Config::read(table, theirs, &|path| stated(other, path).filter(|_| is_read(path)), &dimensions)?;
    let own_scope = ConfigScope::new(table, &known.config, &dimensions);
    let told_scope = ConfigScope::new(table, &told, &dimensions);
    for Overruled { key, stated, taken } in overruled(theirs, &told_scope, &|key| stated(other, key))? {
        forward.differing.push((escape(key, 120).to_string(), taken.to_string(), stated.to_string()));
    }
    forward.differing.extend(unlike(&own_read, &told, &told_scope)?);
    let of_other = unlike(&told_read, &own, &own_scope)?;
    forward.differing.extend(of_other.into_iter().map(|(name, theirs, ours)| (name, ours, theirs)));
    // A key that the table always writes belongs to another architecture if it differs.
    for key in &theirs.keys {
        let Source::Constant(wanted) = &key.value else { continue };
        let have = stated(other, &key.key).as_ref().and_then(from_value);
        if let Some(have) = have.filter(|have| !same(have, wanted)) {
            let name = escape(&key.key, 120);
            forward.differing.push((name, wanted.to_string(), have.to_string()));
        }
    }
    Ok(forward)
}

/// Configuration values that two models of one dialect both state, but differently: the name, and both values. None if no
/// table knows the first model in that dialect.
///
/// # Errors
/// Any error from reading a configuration.
pub fn differing(engine: &Engine, one: &Model, other: &Model) -> Result<Vec<(String, String, String)>> {
    let Some((table, dialect)) = find_table(engine, one, None)? else { return Ok(Vec::new()) };
    let Some(dialect) = table.dialect(&dialect) else { return Ok(Vec::new()) };
    let dimensions = dimensions(table, &dialect.id, &one.tensors);
    let (of_one, _) = Config::read(table, dialect, &|key| stated(one, key), &dimensions)?;
    let (of_other, _) = Config::read(table, dialect, &|key| stated(other, key), &dimensions)?;
    Ok(differences(&of_one, &of_other))
}

/// Values of one configuration that another does not state and takes for something else: the name, and both values.
fn unlike(one: &Config, other: &Config, scope: &ConfigScope<'_>) -> Result<Vec<(String, String, String)>> {
    let mut unlike = Vec::new();
    for (name, value) in one.values().iter().filter(|(name, _)| other.get(name).is_none()) {
        let taken = scope.value(name)?;
        if taken.as_ref().is_none_or(|taken| !same(&narrowed(value), &narrowed(taken))) {
            let taken = taken.map_or("not stated".to_owned(), |taken| taken.to_string());
            unlike.push((name.clone(), value.to_string(), taken));
        }
    }
    Ok(unlike)
}

/// Values that two configurations both state, but differently: the name, and both values.
fn differences(one: &Config, other: &Config) -> Vec<(String, String, String)> {
    let mut differences = Vec::new();
    for (name, value) in one.values() {
        if let Some(theirs) = other.get(name)
            && !same(&narrowed(value), &narrowed(theirs))
        {
            differences.push((name.clone(), value.to_string(), theirs.to_string()));
        }
    }
    differences
}
