//! Whole layers that are left out of a model, as its architecture's table knows them: which tensors they are, what those of
//! later layers are called then, and what the metadata says of the number of layers.

use crate::architecture::config::to_json;
use crate::architecture::description::needed;
use crate::architecture::language::expression::{Expression, Scalar};
use crate::architecture::language::value::from_value;
use crate::architecture::table::config_name::names_in;
use crate::architecture::table::dialect::refusal::Refusal;
use crate::architecture::table::rule::images;
use crate::architecture::table::{Source, Table};
use crate::engine::Engine;
use crate::wording::n_of;
use apr_sdk::{Error, Model, Result, Value, ValueType, escape};
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;

/// The place of a layer's number in names.
const LAYER: &str = "layer";

/// A model's tensor names and keys once layers are left out.
#[derive(Debug)]
pub struct PrunedLayers {
    /// The new name of each tensor; `None` for one of a layer that is left out.
    pub names: Vec<Option<String>>,
    /// Keys that count or list layers, as `FORMAT.KEY`, and what they say then: a number, or a list as JSON.
    pub keys: Vec<(String, String)>,
    /// Number of layers the model has.
    pub layers: u64,
}

/// Computes a model's tensor names and keys without `layers`, counted from 0. `arch` is the user's word on the architecture.
///
/// # Errors
/// InvalidArgument for a layer that the model does not have, or if none is left; Unsupported if no table says which tensors
/// are a layer, does not know one of the tensors, does not cover what the model states, or has layers that depend on their
/// number.
pub fn prune_layers(
    engine: &Engine,
    model: &Model,
    arch: Option<&str>,
    layers: &BTreeSet<u64>,
) -> Result<PrunedLayers> {
    let Some(known) = needed(engine, model, arch)? else {
        let message = "no architecture table covers this model, so the tensors of each layer are unknown";
        return Err(
            Error::unsupported(message).hint("specify the architecture with --arch ID (see `apr arch list`)")
        );
    };
    let table = known.table;
    let name = count_of_layers(table)?;
    let count = match known.config.get(name) {
        Some(Scalar::Int(count)) => u64::try_from(*count).unwrap_or(0),
        _ => {
            let message = format!("the model does not state `{name}`, the number of layers");
            return Err(Error::unsupported(message).hint("set it with --set"));
        }
    };
    if let Some(layer) = layers.iter().find(|layer| **layer >= count) {
        let message = format!("--prune-layers: layer {layer} does not exist");
        let hint =
            format!("give numbers below {count}: the model has {}, counted from 0", n_of_layers(count));
        return Err(Error::invalid_argument(message).hint(hint));
    }
    if layers.len() as u64 == count {
        let message =
            format!("--prune-layers: no layers would be left: the model has only {}", n_of_layers(count));
        return Err(Error::invalid_argument(message).hint("keep at least one layer"));
    }
    // What the table does not cover may go by the numbers of layers. Where tensors state a part of the configuration, the rest
    // alone does not tell.
    if !tells_by_tensors(table, &known.dialect) {
        known.refuse_uncovered(model)?;
    }
    let pruning = Pruning { table, dialect: &known.dialect, count_name: name, count, layers };
    let names = model
        .tensors
        .iter()
        .map(|tensor| pruning.name_after(&tensor.name).map_err(|error| error.tensor(&tensor.name)));
    Ok(PrunedLayers { names: names.collect::<Result<_>>()?, keys: pruning.keys(model)?, layers: count })
}

fn n_of_layers(count: u64) -> String {
    n_of(usize::try_from(count).unwrap_or(usize::MAX), "layer")
}

/// The configuration's name for the number of layers.
fn count_of_layers(table: &Table) -> Result<&str> {
    let stacks = table.places.iter().any(|(place, _)| place != LAYER && place.ends_with(LAYER));
    let what = match table.count(LAYER).and_then(Expression::name) {
        _ if stacks => "it has more than one stack of layers",
        _ if depends_on_number(table) => "the kind of a layer depends on its number",
        Some(name) if is_computed(table, name) => "its files do not state the number of layers directly",
        Some(name) if follows(table, name) => "other values in its files depend on the number of layers",
        Some(name) => return Ok(name),
        None => "its table does not define the number of layers",
    };
    let message = format!("layers of architecture `{}` cannot be pruned: {what}", table.id);
    Err(Error::unsupported(message)
        .hint("select tensors with --drop and --rename, and edit the keys with --set"))
}

/// Returns whether tensors of a dialect state a part of the configuration.
fn tells_by_tensors(table: &Table, dialect: &str) -> bool {
    let sides = table.rules.iter().flat_map(|rule| &rule.sides).filter(|(own, _)| own == dialect);
    sides.filter_map(|(_, side)| side.generated.as_ref()).any(|generated| !generated.sets().is_empty())
}

/// Returns whether layers take turns, or have tensors by their numbers.
fn depends_on_number(table: &Table) -> bool {
    let mut refusals = table.dialects.iter().flat_map(|dialect| &dialect.refused);
    let mut conditions = table.rules.iter().filter_map(|rule| rule.when.as_ref());
    refusals.any(Refusal::is_cycle) || conditions.any(|when| asks(when, LAYER))
}

/// Returns whether a dialect computes a name of the configuration from a key that says something else.
fn is_computed(table: &Table, name: &str) -> bool {
    let mut keys = table.dialects.iter().flat_map(|dialect| &dialect.keys);
    keys.any(|key| key.sets.iter().any(|(set, from)| set == name && from.is_some()))
}

fn asks(expression: &Expression, name: &str) -> bool {
    expression.names().iter().any(|own| own == name)
}

/// Returns whether anything but the number of layers itself depends on it: a key, directly or by a default, or numbers in
/// names.
fn follows(table: &Table, count_name: &str) -> bool {
    let by_default =
        table.config.iter().filter(|entry| entry.default.as_ref().is_some_and(|e| asks(e, count_name)));
    let mut made: Vec<&str> = by_default.map(|entry| entry.name.as_str()).collect();
    made.push(count_name);
    let in_keys = table.dialects.iter().flat_map(|dialect| &dialect.keys).any(|key| match &key.value {
        Source::Expression(value) => {
            value.name() != Some(count_name) && made.iter().any(|name| asks(value, name))
        }
        Source::Constant(_) => false,
    });
    let sides = table.rules.iter().flat_map(|rule| &rule.sides);
    in_keys || sides.into_iter().any(|(_, side)| !side.offsets.is_empty())
}

/// Layers that are left out of a model.
struct Pruning<'a> {
    table: &'a Table,
    /// The dialect of the model.
    dialect: &'a str,
    /// The configuration's name for the number of layers.
    count_name: &'a str,
    /// Number of layers the model has.
    count: u64,
    /// The layers that are left out, counted from 0.
    layers: &'a BTreeSet<u64>,
}

impl Pruning<'_> {
    /// The name of a tensor without these layers; `None` for one that belongs to them.
    fn name_after(&self, name: &str) -> Result<Option<String>> {
        let own = self.table.own_name(self.dialect, name).unwrap_or_else(|| name.to_owned());
        let images = self.table.rules.iter().flat_map(|rule| images(rule, self.dialect).0);
        let drops = self.table.drops.iter().filter(|drop| drop.dialect == self.dialect);
        let mut patterns = images.chain(drops.map(|drop| &drop.pattern));
        let found = patterns.find_map(|pattern| Some((pattern, pattern.numbers(&own)?)));
        let Some((pattern, mut numbers)) = found else {
            let message = format!(
                "architecture `{}` has no tensor with this name, so its layer is unknown",
                self.table.id
            );
            return Err(Error::unsupported(message)
                .hint("exclude it with --drop, or specify another architecture with --arch"));
        };
        let Some(place) = pattern.places().iter().position(|place| place == LAYER) else {
            return Ok(Some(name.to_owned()));
        };
        let layer = numbers[place];
        if self.layers.contains(&layer) {
            return Ok(None);
        }
        let moved = layer - self.layers.range(..layer).count() as u64;
        if moved == layer {
            return Ok(Some(name.to_owned()));
        }
        // An open pattern goes on behind its last place.
        let rest = own.get(pattern.numbered(&numbers).len()..).filter(|_| pattern.is_open());
        numbers[place] = moved;
        let wanted = format!("{}{}", pattern.numbered(&numbers), rest.unwrap_or_default());
        self.renumbered(name, layer, moved, &wanted).map(Some)
    }

    /// The name with another number of its layer: the one that the table calls `wanted`. Files may call tensors otherwise than the
    /// table does, so the number is looked for in the file's own name.
    fn renumbered(&self, name: &str, layer: u64, moved: u64, wanted: &str) -> Result<String> {
        for (at, digits) in name.match_indices(&layer.to_string()) {
            let before = &name[..at];
            let behind = &name[at + digits.len()..];
            if before.ends_with(|c: char| c.is_ascii_digit())
                || behind.starts_with(|c: char| c.is_ascii_digit())
            {
                continue;
            }
            let other = format!("{before}{moved}{behind}");
            if self.table.own_name(self.dialect, &other).as_deref().unwrap_or(&other) == wanted {
                return Ok(other);
            }
        }
        Err(Error::unsupported("its layer cannot be determined from its name"))
    }

    /// The keys that count or list layers, wherever the model states them, with what they say then.
    fn keys(&self, model: &Model) -> Result<Vec<(String, String)>> {
        let counting = self.counting();
        let listing = self.table.dialects.iter().flat_map(|dialect| &dialect.per_layer);
        let listing: BTreeSet<&str> = listing.map(String::as_str).collect();
        let left = (self.count - self.layers.len() as u64).to_string();
        let mut keys = Vec::new();
        for foreign in &model.foreign {
            for (key, value) in foreign.files.iter().flat_map(|file| &file.typed) {
                // A nested configuration counts under the same names.
                let mut nested = self.table.dialects.iter().map(|dialect| dialect.roots.own(key));
                let own = nested.find(|own| own != key).unwrap_or(key);
                let path = format!("{}.{key}", foreign.format);
                if counting.contains(own) {
                    keys.push((path, left.clone()));
                } else if listing.contains(own) && is_list_of(value, self.count) {
                    let items = self.without(value.items());
                    let items = items.iter().map(from_value).collect::<Option<Vec<Scalar>>>();
                    let items = items.ok_or_else(|| {
                        Error::unsupported(format!(
                            "`{}` is a list whose items apr cannot rewrite",
                            escape(key, 120)
                        ))
                    })?;
                    keys.push((path, to_json(&Scalar::List(items))?.to_string()));
                }
            }
        }
        let json = model.architecture.as_ref().and_then(|architecture| architecture.config.inline());
        let config: Option<Map<String, Json>> = json.and_then(|json| serde_json::from_slice(json).ok());
        for (name, value) in config.unwrap_or_default() {
            let path = format!("{}.{name}", model.format);
            match value {
                _ if name == self.count_name => keys.push((path, left.clone())),
                Json::Array(items) if items.len() as u64 == self.count && listing.contains(name.as_str()) => {
                    keys.push((path, Json::Array(self.without(items)).to_string()));
                }
                _ => {}
            }
        }
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    /// What dialects call the number of layers.
    fn counting(&self) -> BTreeSet<&str> {
        let mut counting = BTreeSet::from([self.count_name]);
        if let Some(entry) = self.table.entry(self.count_name) {
            counting.extend(self.table.dialects.iter().flat_map(|dialect| names_in(entry, dialect)));
        }
        for key in self.table.dialects.iter().flat_map(|dialect| &dialect.keys) {
            let counts = match &key.value {
                _ if !key.sets.is_empty() => {
                    key.sets.iter().any(|(name, from)| name == self.count_name && from.is_none())
                }
                Source::Expression(value) => value.name() == Some(self.count_name),
                Source::Constant(_) => false,
            };
            if counts {
                counting.insert(&key.key);
            }
        }
        counting
    }

    /// The items of a list of layers that are left.
    fn without<T>(&self, items: Vec<T>) -> Vec<T> {
        let items = items.into_iter().zip(0u64..).filter(|(_, layer)| !self.layers.contains(layer));
        items.map(|(item, _)| item).collect()
    }
}

fn is_list_of(value: &Value, count: u64) -> bool {
    value.kind == ValueType::ARRAY && value.bytes.inline().is_some() && value.items().len() as u64 == count
}
