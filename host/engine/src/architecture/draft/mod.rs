//! Drafts a table from a model: what it shares with the nearest table, and what is new.

mod base;
mod configuration;
pub mod guesses;

use crate::architecture::check::try_on;
use crate::architecture::config::nearest::{Near, knows};
use crate::architecture::config::{Config, ConfigScope, dimensions};
use crate::architecture::language::expression::Scalar;
use crate::architecture::language::pattern::Pattern;
use crate::architecture::language::value::from_value;
use crate::architecture::table::base::{Bases, with_base};
use crate::architecture::table::dialect::canonical;
use crate::architecture::table::tables::Tables;
use crate::architecture::table::{Dialect, Table};
use apr_sdk::{Error, Model, Result, Tensor, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use toml::Value as Item;

/// The dialect of drafts, whose keys are the configuration's names.
const HOME: &str = "hf";

/// Names of sizes in order of preference, where several have the same value.
const SIZES: &[&str] = &[
    "hidden_size",
    "intermediate_size",
    "vocab_size",
    "num_attention_heads * head_dim",
    "num_key_value_heads * head_dim",
    "head_dim",
];

/// The beginning of every draft.
const HEAD: &str = "\
# A draft. Lines that begin with `# ?` mark guesses: check each against the model's own code, and compare logits with
# `apr arch check TABLE MODEL --logits FILE`. Then remove the next line; until then, every verb warns of this table.
draft = true
";

/// The text of a table for `model`, marked as a draft. Comments that begin with `# ?` mark what it cannot know.
///
/// # Errors
/// InvalidArgument for a model without tensors, or one that a table covers completely.
pub fn draft(
    tables: &Tables,
    base_text: &dyn Fn(&str) -> Result<String>,
    model: &Model,
    lookup: &dyn Fn(&str) -> Option<Value>,
) -> Result<String> {
    if model.tensors.is_empty() {
        return Err(Error::invalid_argument("cannot draft a table for a model without tensors"));
    }
    let names: Vec<&str> = model.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let kinds: BTreeSet<String> = names.iter().map(|name| patterned(name, &|_| true).0).collect();
    if kinds.len() > MOST_KINDS {
        let message = format!("the tensors have {} kinds of names, too many for a table", kinds.len());
        return Err(Error::unsupported(message).hint("pass --arch none to convert it as a bag of tensors"));
    }
    // With less in common, there is nothing to build on.
    let near = tables.nearest(&names, &model.dialect, &lookup).filter(|near| near.known * 3 >= names.len());
    let dialect = match (&near, model.dialect.as_str()) {
        (Some(near), "none") => near.dialect.clone(),
        (None, "none") => HOME.to_owned(),
        (_, known) => known.to_owned(),
    };
    let keys = tables.marking_keys(&dialect);
    let draft = Draft { model, names, near: near.as_ref(), dialect, keys, lookup };
    let text = draft.text(base_text)?;
    let table = Table::parse(&text, base_text)?;
    let own = table.nearest_dialect(&draft.names).to_owned();
    Ok(match try_on(&table, model, &own) {
        Ok(_) => text,
        Err(error) => {
            let at = error.tensor_name().map(|name| format!(" ({name})")).unwrap_or_default();
            format!("# ? This table does not fit yet: {}{at}\n{text}", error.message())
        }
    })
}

struct Draft<'a> {
    model: &'a Model,
    names: Vec<&'a str>,
    near: Option<&'a Near<'a>>,
    dialect: String,
    /// The dialect's keys that identify architectures.
    keys: Vec<String>,
    lookup: &'a dyn Fn(&str) -> Option<Value>,
}

/// Kinds of names in a draft. The largest architectures have some hundreds.
const MOST_KINDS: usize = 4096;

/// Tensors whose names follow one pattern.
struct Kin<'a> {
    pattern: String,
    /// Name and count of each place.
    places: Vec<(String, u64)>,
    tensors: Vec<&'a Tensor>,
}

impl Draft<'_> {
    fn text(&self, base_text: &dyn Fn(&str) -> Result<String>) -> Result<String> {
        let id = self.id();
        let mut out = format!("{HEAD}id = {}\nname = {}\n", quoted(&id), quoted(&id));
        match self.near {
            Some(near) => self.base(&mut out, near)?,
            None => out.push_str("rope = \"none\"\n"),
        }
        out.push_str("# ? links to the code that this table follows\nsources = []\n");
        let kins = self.unknown();
        let mut entries = String::new();
        let sizes = self.configuration(&mut entries)?;
        self.places(&mut out, &kins, &sizes);
        self.dialects(&mut out, &id);
        out.push_str(&entries);
        self.changed(&mut out, base_text, &sizes)?;
        let counts = counts(&kins);
        for kin in &kins {
            let everywhere = kin.places.iter().map(|(place, _)| counts[place.as_str()]).product();
            self.tensor(&mut out, kin, everywhere, &sizes);
        }
        Ok(out)
    }

    /// The architecture's id, as the model states it.
    fn id(&self) -> String {
        let stated = self.keys.iter().find_map(|key| match from_value(&(self.lookup)(key)?)? {
            Scalar::Text(text) => Some(text),
            _ => None,
        });
        let id = stated.unwrap_or_else(|| "drafted".to_owned());
        let fitting =
            id.chars().map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' });
        fitting.take(64).collect()
    }

    /// The tensors that the nearest table does not know, grouped by name pattern.
    fn unknown(&self) -> Vec<Kin<'_>> {
        let mut unknown: Vec<&Tensor> = self.model.tensors.iter().collect();
        if let Some(near) = self.near {
            unknown.retain(|tensor| !knows(near.table, &self.dialect, &tensor.name));
        }
        // A number that is the same in all names of a pattern is part of the name.
        let mut numbers: HashMap<String, Vec<BTreeSet<u64>>> = HashMap::new();
        for tensor in &unknown {
            let (pattern, found) = patterned(&tensor.name, &|_| true);
            let sets = numbers.entry(pattern).or_insert_with(|| vec![BTreeSet::new(); found.len()]);
            for (set, (_, number)) in sets.iter_mut().zip(&found) {
                set.insert(*number);
            }
        }
        let mut kins: BTreeMap<String, Kin<'_>> = BTreeMap::new();
        for tensor in unknown {
            let sets = &numbers[&patterned(&tensor.name, &|_| true).0];
            let (pattern, found) =
                patterned(&tensor.name, &|at| at == 0 || sets.get(at).is_some_and(|set| set.len() > 1));
            let kin = kins.entry(pattern.clone()).or_insert_with(|| {
                let places = found.iter().map(|(place, _)| (place.clone(), 0)).collect();
                Kin { pattern, places, tensors: Vec::new() }
            });
            for ((_, most), (_, number)) in kin.places.iter_mut().zip(&found) {
                *most = (*most).max(number + 1);
            }
            kin.tensors.push(tensor);
        }
        kins.into_values().collect()
    }

    fn places(&self, out: &mut String, kins: &[Kin<'_>], sizes: &[(String, i64)]) {
        let mut counts = counts(kins);
        for (place, _) in self.near.iter().flat_map(|near| &near.table.places) {
            counts.remove(place.as_str());
        }
        if !counts.is_empty() {
            out.push_str("\n[places]\n");
        }
        for (place, count) in counts {
            let words: &[&str] = match place {
                "layer" => &["num_hidden_layers", "n_layer", "n_layers", "num_layers"],
                "expert" => &["num_local_experts", "num_experts", "n_routed_experts"],
                _ => &[],
            };
            let size = sizes
                .iter()
                .find(|(name, n)| words.contains(&name.as_str()) && u64::try_from(*n) == Ok(count));
            let _ = match size {
                Some((name, _)) => writeln!(out, "{place} = {}", quoted(name)),
                None => writeln!(out, "{place} = {count}"),
            };
        }
    }

    fn dialects(&self, out: &mut String, id: &str) {
        let own = &self.dialect;
        let _ = writeln!(out, "\n[dialect.{own}]");
        if self.near.is_none() && own == HOME {
            out.push_str("same_names = true\n");
        }
        let mut marks = Vec::new();
        let mut entries = String::new();
        for key in &self.keys {
            let Some(said) = (self.lookup)(key).as_ref().and_then(from_value) else { continue };
            let mark = match &said {
                Scalar::List(items) => items.first(),
                Scalar::Text(_) => Some(&said),
                _ => continue,
            };
            marks.extend(mark.map(|mark| format!("{{ {} = {mark} }}", quoted(key))));
            let _ = writeln!(entries, "\n[[dialect.{own}.key]]\nkey = {}\nconst = {said}", quoted(key));
        }
        let _ = writeln!(out, "detect = [{}]", marks.join(", "));
        out.push_str(&entries);
        for other in self.near.iter().flat_map(|near| &near.table.dialects).filter(|d| d.id != *own) {
            let Some((key, _)) = other.detect.first().and_then(|all| all.first()) else { continue };
            let dialect = &other.id;
            let key = quoted(key);
            let id = quoted(id);
            let _ = writeln!(
                out,
                "\n# ? the architecture's name in this dialect\n[dialect.{dialect}]\narch = {id}\ndetect = \
                 [{{ {key} = {id} }}]"
            );
        }
    }

    /// Tensors that the nearest table has with another shape, or in every layer.
    fn changed(
        &self,
        out: &mut String,
        base_text: &dyn Fn(&str) -> Result<String>,
        sizes: &[(String, i64)],
    ) -> Result<()> {
        let Some(near) = self.near.filter(|_| self.dialect == HOME) else { return Ok(()) };
        let own = canonical();
        let from: &Dialect = near.table.dialect(&self.dialect).unwrap_or(&own);
        let dimensions = dimensions(near.table, &self.dialect, &self.model.tensors);
        let (config, _) = Config::read(near.table, from, self.lookup, &dimensions)?;
        let scope = ConfigScope::new(near.table, &config, &dimensions);
        let text = with_base(&base_text(&near.table.id)?, &Bases::new(base_text), 0)?;
        let items = text.get("tensor").and_then(Item::as_array).cloned().unwrap_or_default();
        for rule in near.table.rules.iter().filter(|rule| rule.side(&self.dialect).is_none()) {
            let [member] = &rule.members[..] else { continue };
            let mut tensors = self.model.tensors.iter();
            let found = tensors.find_map(|tensor| Some((tensor, member.places_in(&tensor.name)?)));
            let Some((tensor, numbers)) = found else { continue };
            let scope = scope.at(&numbers);
            let shape = rule.shapes.first().map(|shape| shape.iter().map(|size| size.size(&scope)).collect());
            let fits =
                shape.is_none_or(|shape: Result<Vec<u64>>| shape.is_ok_and(|shape| shape == tensor.shape));
            let in_some = rule.is_required() && self.is_in_some(near.table, member, &scope);
            if fits && !in_some {
                continue;
            }
            let item =
                items.iter().find(|item| item.get("name").and_then(Item::as_str) == Some(member.text()));
            let Some(Item::Table(mut item)) = item.cloned() else { continue };
            if !fits {
                let shape = tensor.shape.iter().map(|size| Item::String(size_word(*size, sizes)));
                item.insert("shape".to_owned(), Item::Array(shape.collect()));
            }
            if in_some {
                item.insert("optional".to_owned(), Item::Boolean(true));
            }
            let whole = toml::Table::from_iter([("tensor".to_owned(), Item::Array(vec![Item::Table(item)]))]);
            let _ = writeln!(
                out,
                "\n# As in the closest architecture, but with a different shape or not in every \
                 layer.\n{whole}"
            );
        }
        Ok(())
    }

    /// Returns whether the model has fewer tensors of a pattern than its places have numbers.
    fn is_in_some(&self, table: &Table, pattern: &Pattern, scope: &ConfigScope<'_>) -> bool {
        let all: Vec<Vec<u64>> = self.names.iter().filter_map(|name| pattern.numbers(name)).collect();
        let mut wanted = 1u64;
        for (at, place) in pattern.places().iter().enumerate() {
            let stated = table.count(place).and_then(|count| count.size(scope).ok());
            let most = all.iter().filter_map(|numbers| numbers.get(at)).max();
            wanted *= stated.unwrap_or_else(|| most.map_or(1, |n| n + 1));
        }
        (all.len() as u64) < wanted
    }

    fn tensor(&self, out: &mut String, kin: &Kin<'_>, everywhere: u64, sizes: &[(String, i64)]) {
        let _ = writeln!(out, "\n[[tensor]]\n# ? its role\n# role = \"\"\nname = {}", quoted(&kin.pattern));
        let shape = &kin.tensors[0].shape;
        if kin.tensors.iter().all(|tensor| tensor.shape == *shape) {
            let words: Vec<String> = shape.iter().map(|size| quoted(&size_word(*size, sizes))).collect();
            let _ = writeln!(out, "shape = [{}]", words.join(", "));
        }
        if (kin.tensors.len() as u64) < everywhere {
            out.push_str("# Not present in every layer.\noptional = true\n");
        }
        for other in self.near.iter().flat_map(|near| &near.table.dialects).filter(|d| d.id != self.dialect) {
            let _ = writeln!(
                out,
                "# ? its name in this dialect, and the operations on it\n# {} = \"\"",
                other.id
            );
        }
    }
}

/// The largest count of each place.
fn counts<'k>(kins: &'k [Kin<'_>]) -> BTreeMap<&'k str, u64> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (place, count) in kins.iter().flat_map(|kin| &kin.places) {
        let most = counts.entry(place).or_default();
        *most = (*most).max(*count);
    }
    counts
}

/// A name with its numbers as places: `layer` for the first, `expert` after `experts`, otherwise `n`, `m`,
/// ... `is_place` tells which numbers, counted from 0, become places.
fn patterned(name: &str, is_place: &dyn Fn(usize) -> bool) -> (String, Vec<(String, u64)>) {
    let mut numbers: Vec<(String, u64)> = Vec::new();
    let mut words = Vec::new();
    let mut before = "";
    let mut at = 0;
    for word in name.split('.') {
        let number = word.parse::<u64>().ok().filter(|n| n.to_string() == word && word.len() < 9);
        let wanted = if before.contains("expert") { "expert" } else { "layer" };
        let mut places = [wanted, "n", "m", "k"].into_iter();
        let place = places.find(|place| !numbers.iter().any(|(taken, _)| taken == place));
        before = word;
        let (Some(number), Some(place)) = (number, place) else {
            words.push(word.to_owned());
            continue;
        };
        if is_place(at) {
            numbers.push((place.to_owned(), number));
            words.push(format!("{{{place}}}"));
        } else {
            words.push(word.to_owned());
        }
        at += 1;
    }
    let text = words.join(".");
    match Pattern::parse(&text) {
        Ok(_) => (text, numbers),
        Err(_) => (name.to_owned(), Vec::new()),
    }
}

/// The configuration's name for a size, or the number itself if there is none. Small numbers rarely stand for
/// something that equals them.
fn size_word(size: u64, sizes: &[(String, i64)]) -> String {
    let named = sizes.iter().find(|(_, n)| size >= 8 && u64::try_from(*n) == Ok(size));
    named.map_or_else(|| size.to_string(), |(word, _)| word.clone())
}

/// A key as a name of the configuration.
fn canonical_name(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}

fn quoted(text: &str) -> String {
    Item::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_places() {
        let (text, numbers) = patterned("model.layers.3.mlp.experts.7.w.0.bias", &|_| true);
        assert_eq!(text, "model.layers.{layer}.mlp.experts.{expert}.w.{n}.bias");
        assert_eq!(numbers.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [3, 7, 0]);
        assert_eq!(patterned("block.3.layer.1.w", &|at| at == 0).0, "block.{layer}.layer.1.w");
        assert_eq!(patterned("a{b}.01", &|_| true).0, "a{b}.01");
        assert_eq!(patterned("norm.weight", &|_| true), ("norm.weight".to_owned(), Vec::new()));
    }

    #[test]
    fn sizes_get_words() {
        let sizes = [("hidden_size".to_owned(), 64), ("heads".to_owned(), 4), ("other".to_owned(), 64)];
        assert_eq!([64, 4, 65].map(|n| size_word(n, &sizes)), ["hidden_size", "4", "65"]);
    }
}
