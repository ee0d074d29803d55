//! Translates a model into another model's dialect in order to compare them: nothing is written, no type
//! changes, and no keys are placed.

use crate::architecture::config::{Config, ConfigScope, canonical, from_value, narrowed};
use crate::architecture::model::{Journey, dimension, find_table, planned, stated};
use crate::architecture::table::Source;
use crate::architecture::table::expression::same;
use crate::architecture::translate::{Request, translate};
use crate::engine::Engine;
use crate::expression::PlannedTensor;
use crate::open::OpenedModel;
use apr_sdk::{DType, Error, Model, Result, escape};

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

/// The tensors of `opened` in the dialect of `other`, and contradictions between the two configurations.
///
/// # Errors
/// Unsupported if no table translates it, or the table does not know a tensor; Malformed for a model that
/// lacks what its architecture has.
pub fn forward(engine: &Engine, opened: &OpenedModel, other: &Model) -> Result<Forward> {
    let (model, to) = (&opened.model, other.dialect.as_str());
    let tables = engine.tables();
    let found = find_table(tables, model, None)?;
    let (table, from) = found.ok_or_else(|| {
        Error::unsupported(format!("no table knows its architecture in the dialect `{}`", model.dialect))
    })?;
    if !table.knows(to) || !table.knows(&from) {
        let message = format!("the table of architecture `{}` does not lead to the dialect `{to}`", table.id);
        return Err(Error::unsupported(message));
    }
    let target = engine.registry.format(&other.format)?;
    let fetch = |bytes: &apr_sdk::Bytes| opened.fetch(bytes);
    let registry = &engine.registry;
    let journey = Journey { table, from: &from, to, target, registry, fetch: &fetch };
    let mut names = model.tensors.clone();
    for tensor in &mut names {
        if let Some(own) = table.own_name(&from, &tensor.name) {
            tensor.name = own;
        }
    }
    let first = |name: &str, axis: usize| dimension(table, &from, &names, name, axis);
    let canonical = canonical();
    let dialect = table.dialect(&from).unwrap_or(&canonical);
    let (mut config, _) = journey.config(model, dialect, &first)?;
    journey.recover(&names, &mut config, &first)?;
    let scope = ConfigScope::new(table, &config, &first);
    let (tensors, called) = (&names[..], &model.tensors[..]);
    let request =
        Request { table, scope: &scope, tensors, called, removed: &[], from: &from, to, keep_order: true };
    let translated = translate(&request)?;
    let mut forward = Forward { tensors: Vec::new(), dropped: translated.dropped, differing: Vec::new() };
    for made in translated.tensors {
        // Sums are computed in F32 and stay that wide, so that they can be compared with values computed the
        // same way.
        let narrow = [DType::F16, DType::BF16].contains(&made.dtype);
        let dtype = if made.add != 0.0 && narrow { DType::F32 } else { made.dtype };
        forward.tensors.push(planned(made, dtype, called, registry)?);
    }
    let Some(theirs) = table.dialect(to) else { return Ok(forward) };
    // Not every key can be read back: both configurations are compared as that dialect's keys state them.
    let keys = config.write(table, theirs, &first)?;
    let would = |name: &str| keys.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let (told, _) = Config::read(table, theirs, &|key| stated(other, key), &first)?;
    let (own, _) = Config::read(table, theirs, &would, &first)?;
    for (name, value) in told.values() {
        if let Some(own) = own.get(name)
            && !same(&narrowed(own), &narrowed(value))
        {
            forward.differing.push((name.clone(), own.to_string(), value.to_string()));
        }
    }
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
