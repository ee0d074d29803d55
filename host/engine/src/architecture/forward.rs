//! Translates a model into a dialect in order to compute it, or to compare it with one that has it: nothing is
//! written, no type changes, and no keys are placed.

use crate::architecture::config::dimension;
use crate::architecture::config::{Config, ConfigScope};
use crate::architecture::description::{find_table, stated};
use crate::architecture::language::expression::same;
use crate::architecture::language::value::{from_value, narrowed};
use crate::architecture::model::{Journey, Stored, planned, tell_of_tied_head};
use crate::architecture::table::dialect::canonical;
use crate::architecture::table::{Source, Table};
use crate::architecture::translate::{Passage, translate};
use crate::engine::Engine;
use crate::expression::{Expression, PlannedTensor};
use crate::open::OpenedModel;
use crate::registry::Format;
use apr_sdk::{DType, Error, Model, Result, Tensor, escape};

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
}

impl<'e> Known<'e> {
    fn new(
        engine: &'e Engine,
        opened: &OpenedModel,
        arch: Option<&str>,
        (to, target): (&str, &Format),
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
        // Whoever computes takes what a tensor states from the tensor itself.
        if from != to {
            journey.recover(&names, &mut config, &first)?;
        }
        Ok(Known { table, from, names, config })
    }

    fn dimension(&self, name: &str, axis: usize) -> Option<u64> {
        dimension(self.table, &self.from, &self.names, name, axis)
    }

    /// Fails for a tensor that the table does not know: what it does to the results is not known either.
    fn refuse_unknown(&self, called: &[Tensor]) -> Result<()> {
        let unknown = |(own, _): &(&Tensor, &Tensor)| !self.table.names(&self.from, &own.name);
        let mut unknown = self.names.iter().zip(called).filter(unknown).map(|(_, tensor)| tensor);
        let Some(first) = unknown.next() else { return Ok(()) };
        let more = match unknown.count() {
            0 => String::new(),
            n => format!(", and {n} more"),
        };
        let message = format!("architecture `{}` has no tensor with this name{more}", self.table.id);
        Err(Error::unsupported(message).tensor(&first.name))
    }

    /// The tensors in another dialect, and those that it has no place for.
    fn translate(
        &self,
        engine: &Engine,
        called: &[Tensor],
        to: &str,
    ) -> Result<(Vec<PlannedTensor>, Dropped)> {
        let Known { table, from, names, config } = self;
        let first = |name: &str, axis: usize| self.dimension(name, axis);
        let scope = ConfigScope::new(table, config, &first);
        let tensors = &names[..];
        let passage =
            Passage { table, scope: &scope, tensors, called, removed: &[], from, to, keep_order: true };
        let translated = translate(&passage)?;
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

/// A model as the dialect `to` has it, so that it can be computed; nothing is read of its weights but a head that may be the embedding. `arch` is the
/// architecture that the user named.
///
/// # Errors
/// Unsupported if no table translates it, or the table does not know a tensor; Malformed for a model that lacks
/// what its architecture has.
pub fn in_dialect(engine: &Engine, opened: &OpenedModel, to: &str, arch: Option<&str>) -> Result<InDialect> {
    let target = engine.registry.format(&opened.format)?;
    let known = Known::new(engine, opened, arch, (to, target))?;
    if let Some(dialect) = known.table.dialect(&known.from) {
        tell_of_tied_head(engine, opened, known.table, dialect, &known.config, &known.names)?;
    }
    let called = &opened.model.tensors;
    let tensors = if known.from == to {
        known.refuse_unknown(called)?;
        let as_it_is = |(number, tensor): (usize, &Tensor)| {
            let expression = Expression::of(number, tensor).map_err(|e| e.tensor(&tensor.name))?;
            Ok(PlannedTensor::new(tensor.clone(), expression))
        };
        called.iter().enumerate().map(as_it_is).collect::<Result<_>>()?
    } else {
        known.translate(engine, called, to)?.0
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
    let known = Known::new(engine, opened, None, (to, target))?;
    let (tensors, dropped) = known.translate(engine, &opened.model.tensors, to)?;
    let mut forward = Forward { tensors, dropped, differing: Vec::new() };
    let (table, config) = (known.table, &known.config);
    let first = |name: &str, axis: usize| known.dimension(name, axis);
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

/// Configuration values that two models of one dialect both state, but differently: the name, and both values. None if no
/// table knows the first model in that dialect.
///
/// # Errors
/// Any error from reading a configuration.
pub fn differing(engine: &Engine, one: &Model, other: &Model) -> Result<Vec<(String, String, String)>> {
    let Some((table, dialect)) = find_table(engine, one, None)? else { return Ok(Vec::new()) };
    let Some(dialect) = table.dialect(&dialect) else { return Ok(Vec::new()) };
    let first = |name: &str, axis: usize| dimension(table, &dialect.id, &one.tensors, name, axis);
    let (of_one, _) = Config::read(table, dialect, &|key| stated(one, key), &first)?;
    let (of_other, _) = Config::read(table, dialect, &|key| stated(other, key), &first)?;
    let mut differing = Vec::new();
    for (name, value) in of_one.values() {
        if let Some(theirs) = of_other.get(name)
            && !same(&narrowed(value), &narrowed(theirs))
        {
            differing.push((name.clone(), value.to_string(), theirs.to_string()));
        }
    }
    Ok(differing)
}
