//! Whole layers that are left out of a model, as its architecture's table knows them: which tensors they are, what those of
//! later layers are called then, and what the metadata says of the number of layers.

use crate::architecture::config::to_json;
use crate::architecture::description::needed;
use crate::architecture::language::expression::{Expression, Scalar};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::language::value::from_value;
use crate::architecture::table::config_name::names_in;
use crate::architecture::table::dialect::refusal::Refusal;
use crate::architecture::table::rule::images;
use crate::architecture::table::{Rule, Source, Table};
use crate::engine::Engine;
use crate::wording::n_of;
use apr_sdk::{Error, Model, Result, Value, ValueType, escape};
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
/// are a layer, does not know one of the tensors, or has layers that depend on their number.
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
    let names = model.tensors.iter().map(|tensor| {
        after(table, &known.dialect, layers, &tensor.name).map_err(|error| error.tensor(&tensor.name))
    });
    let names = names.collect::<Result<_>>()?;
    Ok(PrunedLayers { names, keys: keys(table, model, name, (count, layers))?, layers: count })
}

fn n_of_layers(count: u64) -> String {
    n_of(usize::try_from(count).unwrap_or(usize::MAX), "layer")
}

/// The configuration's name for the number of layers.
fn count_of_layers(table: &Table) -> Result<&str> {
    let unsupported = |what: &str| {
        let message = format!("layers of architecture `{}` cannot be pruned: {what}", table.id);
        Err(Error::unsupported(message)
            .hint("select tensors with --drop and --rename, and edit the keys with --set"))
    };
    if table.places.iter().any(|(place, _)| place != LAYER && place.ends_with(LAYER)) {
        return unsupported("it has more than one stack of layers");
    }
    let asks =
        |rule: &Rule| rule.when.as_ref().is_some_and(|when| when.names().iter().any(|name| name == LAYER));
    let take_turns = table.dialects.iter().flat_map(|dialect| &dialect.refused).any(Refusal::is_cycle);
    let computed = table.dialects.iter().flat_map(|dialect| &dialect.keys).flat_map(|key| &key.sets);
    let is_computed = |name: &str| computed.clone().any(|(set, from)| set == name && from.is_some());
    if take_turns || table.rules.iter().any(asks) {
        return unsupported("the kind of a layer depends on its number");
    }
    match table.places.iter().find(|(place, _)| place == LAYER).and_then(|(_, count)| count.name()) {
        Some(name) if is_computed(name) => {
            unsupported("its files do not state the number of layers directly")
        }
        Some(name) if follows(table, name) => {
            unsupported("other values in its files depend on the number of layers")
        }
        Some(name) => Ok(name),
        None => unsupported("its table does not define the number of layers"),
    }
}

/// Returns whether anything but the number of layers itself depends on it: a key, directly or by a default, or numbers in
/// names.
fn follows(table: &Table, count_name: &str) -> bool {
    let asks = |expression: &Expression, name: &str| expression.names().iter().any(|own| own == name);
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

/// The name of a tensor without these layers; `None` for one that belongs to them.
fn after(table: &Table, dialect: &str, layers: &BTreeSet<u64>, name: &str) -> Result<Option<String>> {
    let own = table.own_name(dialect, name).unwrap_or_else(|| name.to_owned());
    let images = table.rules.iter().flat_map(|rule| images(rule, dialect).0);
    let drops = table.drops.iter().filter(|drop| drop.dialect == dialect).map(|drop| &drop.pattern);
    let found = images.chain(drops).find_map(|pattern| Some((pattern, pattern.numbers(&own)?)));
    let Some((pattern, numbers)) = found else {
        let message =
            format!("architecture `{}` has no tensor with this name, so its layer is unknown", table.id);
        return Err(Error::unsupported(message)
            .hint("exclude it with --drop, or specify another architecture with --arch"));
    };
    let Some(place) = pattern.places().iter().position(|place| place == LAYER) else {
        return Ok(Some(name.to_owned()));
    };
    let layer = numbers[place];
    if layers.contains(&layer) {
        return Ok(None);
    }
    let moved = layer - layers.range(..layer).count() as u64;
    Ok(Some(if moved == layer {
        name.to_owned()
    } else {
        renumbered((table, dialect), pattern, (name, &own), (layer, moved))?
    }))
}

/// The name with another number of its layer. Files may call tensors otherwise than the table does, so the number is looked
/// for in the file's own name.
fn renumbered(
    (table, dialect): (&Table, &str),
    pattern: &Pattern,
    (name, own): (&str, &str),
    (layer, moved): (u64, u64),
) -> Result<String> {
    let numbers = pattern.numbers(own).unwrap_or_default();
    let at = |place: &str| match pattern.places().iter().position(|own| own == place) {
        Some(_) if place == LAYER => moved,
        Some(at) => numbers.get(at).copied().unwrap_or(0),
        None => 0,
    };
    // An open pattern goes on behind its last place.
    let rest = if pattern.is_open() {
        own.get(pattern.name(|place| if place == LAYER { layer } else { at(place) }).len()..)
    } else {
        None
    };
    let wanted = format!("{}{}", pattern.name(at), rest.unwrap_or_default());
    let (layer, moved) = (layer.to_string(), moved.to_string());
    let is_digit =
        |at: Option<usize>| at.and_then(|at| name.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
    let whole = |at: &usize| !is_digit(at.checked_sub(1)) && !is_digit(Some(at + layer.len()));
    let candidates = name
        .match_indices(&layer)
        .map(|(at, _)| at)
        .filter(whole)
        .map(|at| format!("{}{moved}{}", &name[..at], &name[at + layer.len()..]));
    let mut fitting =
        candidates.filter(|other| table.own_name(dialect, other).as_deref().unwrap_or(other) == wanted);
    fitting.next().ok_or_else(|| Error::unsupported("its layer cannot be determined from its name"))
}

/// The keys that count or list layers, wherever the model states them, with what they say then.
fn keys(
    table: &Table,
    model: &Model,
    count_name: &str,
    (count, layers): (u64, &BTreeSet<u64>),
) -> Result<Vec<(String, String)>> {
    let mut counting = BTreeSet::from([count_name]);
    let entry = table.config.iter().find(|entry| entry.name == count_name);
    counting.extend(
        table.dialects.iter().flat_map(|dialect| entry.map(|entry| names_in(entry, dialect))).flatten(),
    );
    for key in table.dialects.iter().flat_map(|dialect| &dialect.keys) {
        let counts = match &key.value {
            _ if !key.sets.is_empty() => {
                key.sets.iter().any(|(name, from)| name == count_name && from.is_none())
            }
            Source::Expression(value) => value.name() == Some(count_name),
            Source::Constant(_) => false,
        };
        if counts {
            counting.insert(&key.key);
        }
    }
    let listing: BTreeSet<&str> =
        table.dialects.iter().flat_map(|dialect| &dialect.per_layer).map(String::as_str).collect();
    let left = (count - layers.len() as u64).to_string();
    let is_left = |layer: usize| !layers.contains(&(layer as u64));
    let mut keys = Vec::new();
    let values = model.foreign.iter().flat_map(|foreign| {
        foreign.files.iter().flat_map(|file| &file.typed).map(|(key, value)| (&foreign.format, key, value))
    });
    for (format, key, value) in values {
        // A nested configuration counts under the same names.
        let nested = table.dialects.iter().map(|dialect| dialect.roots.own(key));
        let own = nested.into_iter().find(|own| own != key).unwrap_or(key);
        if counting.contains(own) {
            keys.push((format!("{format}.{key}"), left.clone()));
        } else if listing.contains(own) && is_list_of(value, count) {
            let items = value.items().into_iter().enumerate().filter(|(layer, _)| is_left(*layer));
            let items = items.map(|(_, item)| from_value(&item)).collect::<Option<Vec<Scalar>>>();
            let items = items.ok_or_else(|| {
                Error::unsupported(format!("`{}` is a list whose items apr cannot rewrite", escape(key, 120)))
            })?;
            keys.push((format!("{format}.{key}"), to_json(&Scalar::List(items))?.to_string()));
        }
    }
    let config = model.architecture.as_ref().and_then(|architecture| architecture.config.inline());
    if let Some(serde_json::Value::Object(config)) = config.and_then(|json| serde_json::from_slice(json).ok())
    {
        for (name, value) in config {
            let key = format!("{}.{name}", model.format);
            match value {
                _ if name == count_name => keys.push((key, left.clone())),
                serde_json::Value::Array(items)
                    if items.len() as u64 == count && listing.contains(name.as_str()) =>
                {
                    let items = items
                        .into_iter()
                        .enumerate()
                        .filter(|(layer, _)| is_left(*layer))
                        .map(|(_, item)| item);
                    keys.push((key, serde_json::Value::Array(items.collect()).to_string()));
                }
                _ => {}
            }
        }
    }
    keys.sort();
    keys.dedup();
    Ok(keys)
}

fn is_list_of(value: &Value, count: u64) -> bool {
    value.kind == ValueType::ARRAY && value.bytes.inline().is_some() && value.items().len() as u64 == count
}
