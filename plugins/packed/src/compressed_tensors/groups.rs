//! What a configuration of compressed-tensors says about weights: `config_groups`, and which module belongs to which.

use crate::model::Config;
use crate::pattern::{Matches, Module, Pattern};
use apr_sdk::{Error, Result};
use serde_json::Value as Json;
use std::collections::{HashMap, HashSet};

/// How the weights of some modules are packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Bits of a code.
    pub bits: u64,
    /// What shares a scale: `tensor`, `channel`, `group`, `block`.
    pub strategy: Option<String>,
    /// Columns that share a scale.
    pub size: Option<u64>,
    /// Rows and columns of a block.
    pub block: Option<(u64, u64)>,
    /// Whether there are no zero points, if stated.
    pub symmetric: Option<bool>,
    /// Whether codes are integers, `int`, or floats, `float`.
    pub kind: Option<String>,
    /// How codes are stored.
    pub format: Option<String>,
    /// Whether columns are in the order of their activations, so that an index tells their groups.
    pub is_ordered: bool,
}

/// The groups of a configuration.
#[derive(Default)]
pub struct Groups {
    all: Vec<Group>,
    /// For each module that a group names, the first that does.
    names: HashMap<String, usize>,
    /// Modules that are not packed, by their names.
    ignored_names: HashSet<String>,
    /// Patterns of such modules.
    ignored: Vec<Pattern>,
    /// How often patterns may still be matched.
    matches: Matches,
}

/// A group: modules, and how their weights are packed.
struct Group {
    /// Classes of modules, such as `Linear`.
    classes: Vec<String>,
    /// Patterns of modules' names.
    patterns: Vec<Pattern>,
    weights: Weights,
}

impl Groups {
    fn add<'t>(&mut self, targets: impl Iterator<Item = &'t str>, weights: Weights) {
        let (mut classes, mut patterns) = (Vec::new(), Vec::new());
        for target in targets {
            match target.strip_prefix("re:") {
                Some(pattern) => patterns.push(Pattern::new(pattern)),
                // Classes are written as such.
                None if target.starts_with(char::is_uppercase) => classes.push(target.to_owned()),
                None => {
                    self.names.entry(target.to_owned()).or_insert(self.all.len());
                }
            }
        }
        self.all.push(Group { classes, patterns, weights });
    }

    /// What the configuration says by which a module is not packed, if it does.
    pub fn ignores(&self, module: &str) -> Option<&str> {
        if let Some(name) = self.ignored_names.get(module) {
            return Some(name);
        }
        let name = Module::new(module);
        let fits = |pattern: &&Pattern| pattern.matches(name, &self.matches) == Some(true);
        self.ignored.iter().find(fits).map(|pattern| pattern.text.as_str())
    }
}

/// The groups.
///
/// # Errors
/// Malformed for bits or blocks that cannot be.
pub fn groups(config: &Config<'_>) -> Result<Groups> {
    let mut found = Groups::default();
    for text in
        config.json.get("ignore").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str)
    {
        match text.strip_prefix("re:") {
            Some(pattern) => found.ignored.push(Pattern::new(pattern)),
            None => drop(found.ignored_names.insert(text.to_owned())),
        }
    }
    let Some(all) = config.json.get("config_groups").and_then(Json::as_object) else { return Ok(found) };
    let whole = config.text("format").filter(|_| all.len() == 1);
    for (name, of) in all {
        let Some(weights) = of.get("weights").filter(|weights| weights.is_object()) else { continue };
        let number = |key: &str| weights.get(key).and_then(Json::as_u64);
        let key = format!("config_groups.{name}.weights.num_bits");
        let bits = number("num_bits").filter(|bits| (1..=8).contains(bits));
        let bits = bits.ok_or_else(|| config.wrong(&key, "is not from 1 to 8"))?;
        let key = format!("config_groups.{name}.weights.group_size");
        let size = weights.get("group_size").and_then(Json::as_i64);
        let size = size.map_or(Ok(None), |size| config.columns(&key, size))?;
        let key = format!("config_groups.{name}.weights.block_structure");
        let block = weights.get("block_structure").filter(|block| !block.is_null());
        let block = block.map(|block| {
            block_of(block).ok_or_else(|| config.wrong(&key, "is not a pair of positive integers"))
        });
        let block = block.transpose()?;
        let targets = of.get("targets").and_then(Json::as_array).into_iter().flatten();
        let weights = Weights {
            bits,
            strategy: weights.get("strategy").and_then(Json::as_str).map(str::to_owned),
            size,
            block,
            symmetric: weights.get("symmetric").and_then(Json::as_bool),
            kind: weights.get("type").and_then(Json::as_str).map(str::to_owned),
            // Of one group, the whole speaks too.
            format: of.get("format").and_then(Json::as_str).or(whole).map(str::to_owned),
            is_ordered: weights.get("actorder").is_some_and(|order| match order {
                Json::Bool(is_so) => *is_so,
                // `weight` and `static` are orders only while quantizing.
                other => ["group", "dynamic"].contains(&other.as_str().unwrap_or_default()),
            }),
        };
        found.add(targets.filter_map(Json::as_str), weights);
    }
    Ok(found)
}

/// Rows and columns that share a scale: a list, or text such as `128x128`, as older versions of the library write it
/// (`QuantizationArgs.validate_block_structure`).
fn block_of(stated: &Json) -> Option<(u64, u64)> {
    let sides: Option<Vec<u64>> = match stated {
        Json::String(text) => text.split('x').map(|side| side.trim().parse().ok()).collect(),
        other => other.as_array()?.iter().map(Json::as_u64).collect(),
    };
    match sides?[..] {
        [rows, columns] if rows > 0 && columns > 0 => Some((rows, columns)),
        _ => None,
    }
}

/// The class that a module is of, as far as its name tells.
fn class_of(module: &str) -> &'static str {
    let last = module.rsplit('.').next().unwrap_or(module);
    if last.contains("embed") || last == "wte" { "Embedding" } else { "Linear" }
}

/// How a module is packed: by its name before a pattern, and by a pattern before its class. Where that leaves several groups, by
/// what `fits` its tensors.
///
/// # Errors
/// Unsupported where the answer hangs on a pattern that cannot be read, or on a class that its name does not tell.
pub fn of<'g>(
    groups: &'g Groups,
    module: &str,
    fits: &dyn Fn(&Weights) -> bool,
) -> Result<Option<&'g Weights>> {
    if let Some(group) = groups.names.get(module).and_then(|at| groups.all.get(*at)) {
        return Ok(Some(&group.weights));
    }
    let (mut by_pattern, mut unread) = (None, None);
    let patterns = groups.all.iter().flat_map(|group| group.patterns.iter().map(move |of| (group, of)));
    let name = Module::new(module);
    for (group, pattern) in patterns {
        match pattern.matches(name, &groups.matches) {
            Some(true) => by_pattern = by_pattern.or(Some(group)),
            Some(false) => {}
            None => unread = unread.or(Some((group, &pattern.text))),
        }
    }
    let classes: Vec<&Group> = match by_pattern {
        Some(_) => Vec::new(),
        None => groups.all.iter().filter(|group| !group.classes.is_empty()).collect(),
    };
    let own = classes.iter().find(|group| group.classes.iter().any(|class| class == class_of(module)));
    let sure: Vec<&Group> = match (by_pattern, own) {
        (Some(group), _) | (None, Some(&group)) => vec![group],
        _ => classes,
    };
    let all = unread.iter().map(|(group, _)| *group).chain(sure);
    let mut all: Vec<&Weights> = all.map(|group| &group.weights).collect();
    let Some(weights) = all.first().copied() else { return Ok(None) };
    if all.iter().any(|other| *other != weights) {
        all.retain(|weights| fits(weights));
    }
    if let Some(weights) = all.first().copied().filter(|weights| all.iter().all(|other| other == weights)) {
        return Ok(Some(weights));
    }
    Err(Error::unsupported(match unread {
        Some((_, pattern)) => format!(
            "the pattern `{pattern}`, which decides its group in the configuration, is not supported or \
             takes too long"
        ),
        None => "it may belong to several groups of the configuration, which select by class".to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(all: &[(&[&str], u64)]) -> Groups {
        let mut groups = Groups::default();
        for (targets, bits) in all {
            let (bits, size, block) = (*bits, None, None);
            let (strategy, symmetric, is_ordered) = (None, None, false);
            let (kind, format) = (None, None);
            let weights = Weights { bits, strategy, size, block, symmetric, kind, format, is_ordered };
            groups.add(targets.iter().copied(), weights);
        }
        groups
    }

    #[test]
    fn names_come_before_patterns_and_patterns_before_classes() {
        let groups =
            groups(&[(&["Linear"], 4), (&["Embedding"], 8), (&["re:.*down"], 3), (&["a.down_proj"], 2)]);
        let bits = |module| of(&groups, module, &|_| true).ok().flatten().map(|weights| weights.bits);
        assert_eq!(bits("a.down_proj"), Some(2));
        assert_eq!(bits("b.down_proj"), Some(3));
        assert_eq!(bits("b.up_proj"), Some(4));
        assert_eq!(bits("model.embed_tokens"), Some(8));
    }

    #[test]
    fn a_pattern_that_cannot_be_read_matters_only_where_something_hangs_on_it() {
        let unread = "re:.*(?P=proj)";
        let alike = groups(&[(&["Linear"], 4), (&[unread], 4)]);
        assert_eq!(of(&alike, "a.up_proj", &|_| true).ok().flatten().map(|weights| weights.bits), Some(4));
        let alone = groups(&[(&[unread], 8)]);
        assert_eq!(of(&alone, "a.up_proj", &|_| true).ok().flatten().map(|weights| weights.bits), Some(8));
        let apart = groups(&[(&["a.up_proj", "Linear"], 4), (&[unread], 8)]);
        assert_eq!(of(&apart, "a.up_proj", &|_| true).ok().flatten().map(|weights| weights.bits), Some(4));
        assert!(of(&apart, "b.up_proj", &|_| true).is_err());
    }

    #[test]
    fn classes_that_names_do_not_tell_are_refused_where_they_differ() {
        let two = groups(&[(&["LlamaAttention"], 4), (&["LlamaMLP"], 8)]);
        assert!(of(&two, "a.up_proj", &|_| true).is_err());
        assert!(of(&two, "a.up_proj", &|_| false).is_err());
        let of_eight = of(&two, "a.up_proj", &|weights| weights.bits == 8);
        assert_eq!(of_eight.ok().flatten().map(|weights| weights.bits), Some(8));
        assert_eq!(
            of(&groups(&[(&["LlamaAttention"], 4)]), "a.up_proj", &|_| true)
                .ok()
                .flatten()
                .map(|weights| weights.bits),
            Some(4)
        );
    }
}
