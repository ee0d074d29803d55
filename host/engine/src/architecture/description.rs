//! A model as its architecture's table describes it, in any dialect: which table that is, and the
//! configuration under canonical names.

use crate::architecture::config::refusal::refuse;
use crate::architecture::config::statement::Stated;
use crate::architecture::config::{Config, ConfigScope, Dimensions};
use crate::architecture::language::expression::Scalar;
use crate::architecture::language::value::from_value;
use crate::architecture::table::dialect::canonical;
use crate::architecture::table::dialect::condition::OF_TENSORS;
use crate::architecture::table::rule::images;
use crate::architecture::table::tables::Tables;
use crate::architecture::table::{CANONICAL, Table};
use crate::engine::Engine;
use apr_sdk::{Error, Foreign, ForeignFile, Model, Result, Tensor, Value, escape};

/// The table of the model's architecture, and the model's dialect: every use of a table for a model begins here. The user
/// is told of one that is still a draft.
pub(super) fn find_table<'t>(
    engine: &'t Engine,
    model: &Model,
    arch: Option<&str>,
) -> Result<Option<(&'t Table, String)>> {
    let found = choose_table(engine.tables(), model, arch)?;
    if let Some((table, _)) = found.as_ref().filter(|(table, _)| table.draft) {
        engine.tell_of_draft(&table.id);
    }
    Ok(found)
}

fn choose_table<'t>(
    tables: &'t Tables,
    model: &Model,
    arch: Option<&str>,
) -> Result<Option<(&'t Table, String)>> {
    if let Some(id) = arch {
        let table = tables.find(id)?;
        let from = match model.dialect.as_str() {
            // The dialect can only be told from the names.
            "none" => table.nearest_dialect(&names_of(model)).to_owned(),
            known => known.to_owned(),
        };
        return Ok(Some((table, from)));
    }
    if let Some(architecture) = &model.architecture {
        let found = tables.find(&architecture.id).ok();
        return Ok(found.map(|table| (table, model.dialect.clone())));
    }
    // Where names were kept, whoever wants a table names it.
    if model.dialect == "none" {
        return Ok(None);
    }
    let found = tables.detect(&model.dialect, &|key| match key.strip_prefix(OF_TENSORS) {
        None => model.foreign_of(&model.format)?.get(key).cloned(),
        Some(name) => model.tensors.iter().any(|tensor| tensor.name == name).then(|| Value::from_bool(true)),
    })?;
    Ok(found.map(|table| (table, model.dialect.clone())))
}

/// The error for a model in a dialect that its table does not describe.
pub(super) fn unknown_dialect(table: &Table, dialect: &str) -> Error {
    let id = &table.id;
    let dialect = escape(dialect, 80);
    Error::unsupported(format!("the table of architecture `{id}` does not cover the dialect `{dialect}`"))
}

/// The record in which a model states its configuration: that of its own format, or, of a model that came into another format
/// with the names that it had, the one that came with it.
fn record(model: &Model) -> Option<&Foreign> {
    model.foreign_of(&model.format).or_else(|| kept_record(model))
}

/// The record that came with a model into another format with the names that it had. Of several, that of a folder's own files,
/// which lie beside those of its tensors.
fn kept_record(model: &Model) -> Option<&Foreign> {
    if model.architecture.is_some() || ["none", CANONICAL].contains(&model.dialect.as_str()) {
        return None;
    }
    let others = || model.foreign.iter().filter(|foreign| foreign.files.iter().any(has_keys));
    let is_beside = |foreign: &&Foreign| {
        foreign.files.iter().filter(|file| has_keys(file)).all(|file| file.n_tensors == 0)
    };
    only(others()).or_else(|| only(others().filter(is_beside)))
}

/// The only one.
fn only<'m>(mut all: impl Iterator<Item = &'m Foreign>) -> Option<&'m Foreign> {
    all.next().filter(|_| all.next().is_none())
}

/// The table that a model would have by what came with it into another format, where it kept its names and states no architecture:
/// `None` if it is no such model, and an inner `None` without such a table.
pub(super) fn kept<'t>(engine: &'t Engine, model: &Model) -> Option<Option<&'t Table>> {
    let record = kept_record(model).filter(|record| record.format != model.format)?;
    let lookup = |key: &str| record.get(key).cloned();
    Some(engine.tables().detect(&model.dialect, &lookup).ok().flatten())
}

fn has_keys(file: &ForeignFile) -> bool {
    !file.typed.is_empty()
}

/// The value of a key in the model's own configuration.
pub(super) fn stated(model: &Model, key: &str) -> Option<Value> {
    record(model)?.get(key).cloned()
}

/// The keys that the model's own configuration states.
pub(super) fn stated_keys(model: &Model) -> Vec<&str> {
    let files = record(model).into_iter().flat_map(|foreign| &foreign.files);
    files.flat_map(|file| &file.typed).map(|(key, _)| key.as_str()).collect()
}

/// The configuration that a model states in a dialect of its table, which covers all that the model states; `tensors` are the
/// model's, under the table's own names.
///
/// # Errors
/// Unsupported and Malformed, as [`refuse`]; any error from reading.
pub(super) fn covered_config(
    table: &Table,
    dialect: &str,
    model: &Model,
    tensors: &[Tensor],
    dimensions: Dimensions<'_>,
) -> Result<Config> {
    let canonical = canonical();
    let dialect = table.dialect(dialect).unwrap_or(&canonical);
    let (config, used) = Config::read(table, dialect, &|key| stated(model, key), dimensions)?;
    let stated = Stated {
        dialect,
        lookup: &|key| stated(model, key),
        keys: &stated_keys(model),
        used: &used,
        scope: &ConfigScope::new(table, &config, dimensions),
        tensors,
        names: &[],
    };
    refuse(table, &stated)?;
    Ok(config)
}

pub(super) fn names_of(model: &Model) -> Vec<&str> {
    model.tensors.iter().map(|tensor| tensor.name.as_str()).collect()
}

/// The id of a model's architecture: from its table, otherwise as stated by the model.
pub fn called(engine: &Engine, model: &Model) -> Option<String> {
    if let Some(architecture) = &model.architecture {
        return Some(architecture.id.clone());
    }
    // A bag of tensors states nothing.
    model.foreign_of(&model.format).filter(|_| model.dialect != "none")?;
    if let Ok(Some((table, _))) = find_table(engine, model, None) {
        return Some(table.id.clone());
    }
    let texts = engine.tables().marking_keys(&model.dialect);
    texts.iter().find_map(|key| match from_value(&stated(model, key)?)? {
        Scalar::Text(text) => Some(text),
        _ => None,
    })
}

/// The table's knowledge of a model.
pub(super) struct Known<'t> {
    /// The table of its architecture.
    pub(super) table: &'t Table,
    /// The dialect of the model.
    pub(super) dialect: String,
    /// The configuration that the model states.
    pub(super) config: Config,
}

/// Looks up the known facts about a model; `arch` is the architecture that the user named. Nothing for
/// `none`, or without a table.
///
/// # Errors
/// Any error from parsing the tables, and a configuration that contradicts itself.
pub(super) fn known<'t>(engine: &'t Engine, model: &Model, arch: Option<&str>) -> Result<Option<Known<'t>>> {
    if arch == Some("none") || arch.is_none() && model.dialect == "none" && model.architecture.is_none() {
        return Ok(None);
    }
    // Ambiguous and missing tables only matter for translation.
    let found = find_table(engine, model, arch).ok().flatten();
    let Some((table, dialect)) = found.filter(|(table, dialect)| table.knows(dialect)) else {
        return Ok(None);
    };
    let own = model.architecture.as_ref().filter(|architecture| architecture.id == table.id);
    let mut known = Known { table, dialect, config: Config::default() };
    known.config = match own.and_then(|architecture| architecture.config.inline()) {
        Some(json) => Config::from_json(table, json)?,
        None => {
            let canonical = canonical();
            let from = table.dialect(&known.dialect).unwrap_or(&canonical);
            Config::read(table, from, &|key| stated(model, key), &known.dimensions(model))?.0
        }
    };
    Ok(Some(known))
}

/// The same for those who cannot do without: two tables that fit equally well are an error that names both. `None` if no
/// table fits.
///
/// # Errors
/// As [`known`] and [`find_table`].
pub(super) fn needed<'t>(engine: &'t Engine, model: &Model, arch: Option<&str>) -> Result<Option<Known<'t>>> {
    match known(engine, model, arch)? {
        None if arch != Some("none") => match find_table(engine, model, arch)? {
            Some((table, dialect)) if !table.knows(&dialect) => Err(unknown_dialect(table, &dialect)),
            _ => Ok(None),
        },
        known => Ok(known),
    }
}

impl Known<'_> {
    /// Refuses a model that states what its table does not cover, as a translation would. A model that states its
    /// configuration under canonical names has come through one.
    ///
    /// # Errors
    /// As [`covered_config`].
    pub(super) fn refuse_uncovered(&self, model: &Model) -> Result<()> {
        let table = self.table;
        if model.architecture.as_ref().is_some_and(|architecture| architecture.id == table.id) {
            return Ok(());
        }
        let tensors = model.tensors.iter().map(|tensor| table.own_tensor(&self.dialect, tensor));
        let tensors: Vec<Tensor> = tensors.collect();
        covered_config(table, &self.dialect, model, &tensors, &self.dimensions(model))?;
        Ok(())
    }

    /// Looks up dimensions of the model's tensors by their canonical names.
    pub(super) fn dimensions(&self, model: &Model) -> impl Fn(&str, usize) -> Option<u64> {
        |name: &str, axis: usize| {
            let pattern = images(self.table.rule_of(name)?, &self.dialect).0.first()?;
            let tensor = model.tensors.iter().find(|tensor| {
                let own = self.table.own_name(&self.dialect, &tensor.name);
                pattern.numbers(own.as_deref().unwrap_or(&tensor.name)).is_some()
            })?;
            tensor.shape.get(axis).copied()
        }
    }
}
