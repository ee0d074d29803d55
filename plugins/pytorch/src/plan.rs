//! The contents of one output file: the nesting, the values in it, and what only a record of apr's own can
//! express.

use crate::names::is_plain;
use crate::quantized::Quantized;
use crate::tree::{Inline, Tree};
use apr_sdk::carried_metadata::Carried;
use apr_sdk::{LayoutSink, Model, Result, Value, ValueType};
use std::collections::{HashMap, HashSet};

/// The typed key of the nesting.
pub const TREE: &str = "apr.tree";

/// The nesting of a plain `dict` of tensors under their own names. Of an `OrderedDict` there is none.
pub const FLAT_DICT: &str = "dict";

/// The typed key of the tensors that share their bytes.
pub const TIED: &str = "apr.tied";

/// A file to be written anew.
pub struct Plan<'m> {
    /// The numbers of its tensors, by name.
    pub numbers: HashMap<&'m str, usize>,
    /// The nesting.
    pub tree: Tree,
    /// The values that the nesting refers to, and those of quantized tensors.
    pub values: HashMap<String, Value>,
    /// The rest.
    pub carried: Carried,
}

impl<'m> Plan<'m> {
    /// For these tensors of the model, with the typed values that stood in the file's record.
    ///
    /// # Errors
    /// Any error from the sink.
    pub fn new(
        model: &'m Model,
        tensors: &[usize],
        typed: Vec<(String, Value)>,
        mut carried: Carried,
        sink: &mut dyn LayoutSink,
    ) -> Result<Plan<'m>> {
        let kept = typed.iter().find(|(key, _)| key == TREE).and_then(|(_, value)| value.as_str());
        let ordered = kept != Some(FLAT_DICT);
        let tree = kept.and_then(|text| Tree::from_json(&serde_json::from_str(text).ok()?).ok());
        let values: HashMap<String, Value> = typed.iter().cloned().collect();
        let numbers: HashMap<&str, usize> =
            tensors.iter().map(|&n| (model.tensors[n].name.as_str(), n)).collect();
        let beside = Beside::of(model, &numbers, &values);
        let tree = tree.map(|tree| pruned(tree, &values));
        let names: HashSet<&str> =
            numbers.keys().copied().filter(|name| !beside.tensors.contains(*name)).collect();
        let fits = |tree: &Tree| {
            let listed = tree.names();
            listed.len() == names.len()
                && listed.iter().collect::<HashSet<_>>().len() == names.len()
                && listed.iter().all(|name| names.contains(name))
        };
        let had = tree.is_some();
        let tree = tree.filter(fits);
        if had && tree.is_none() {
            sink.note(
                "the checkpoint's own nesting is left out: it refers to different tensors than those written",
            );
        }
        let used: HashSet<String> = match &tree {
            Some(tree) => tree.keys().into_iter().map(str::to_owned).chain([TREE.to_owned()]).collect(),
            None => [TREE.to_owned()].into(),
        };
        let rest = |key: &String| !used.contains(key) && !beside.keys.contains(key);
        carried.typed = typed.into_iter().filter(|(key, _)| rest(key)).collect();
        let flat = || {
            let plain = |&n: &usize| {
                let name = &model.tensors[n].name;
                (!beside.tensors.contains(name))
                    .then(|| (Tree::Inline(Inline::Text(name.clone())), Tree::plain(name)))
            };
            Tree::Map(ordered, tensors.iter().filter_map(plain).collect(), None)
        };
        Ok(Plan { tree: tree.unwrap_or_else(flat), numbers, values, carried })
    }
}

/// The nesting without the values that are gone, or are of types that a pickle does not keep.
fn pruned(tree: Tree, values: &HashMap<String, Value>) -> Tree {
    let native = |key: &str| values.get(key).is_some_and(is_native);
    let gone = |tree: &Tree| matches!(tree, Tree::Value(key) | Tree::Values(key, _) if !native(key));
    let all = |items: Vec<Tree>| {
        items
            .into_iter()
            .map(|item| if gone(&item) { Tree::Inline(Inline::None) } else { pruned(item, values) })
            .collect()
    };
    match tree {
        Tree::List(items) => Tree::List(all(items)),
        Tree::Tuple(items) => Tree::Tuple(all(items)),
        Tree::Map(ordered, entries, attributes) => {
            let kept = entries.into_iter().filter(|(_, value)| !gone(value));
            Tree::Map(ordered, kept.map(|(key, value)| (key, pruned(value, values))).collect(), attributes)
        }
        other => other,
    }
}

/// Whether a pickle keeps a value with its type.
fn is_native(value: &Value) -> bool {
    match value.array_head() {
        Some((kind, count)) => count > 0 && is_plain(kind) && value.items().iter().all(is_text),
        None => is_plain(value.kind) && is_text(value),
    }
}

/// Whether a value is UTF-8, if it is text.
fn is_text(value: &Value) -> bool {
    value.kind != ValueType::STRING || value.as_str().is_some()
}

/// What of the model only says how others of its tensors are quantized.
struct Beside {
    /// Keys of values.
    keys: HashSet<String>,
    /// Names of tensors.
    tensors: HashSet<String>,
}

impl Beside {
    fn of(model: &Model, numbers: &HashMap<&str, usize>, values: &HashMap<String, Value>) -> Beside {
        let mut found = Beside { keys: HashSet::new(), tensors: HashSet::new() };
        for &n in numbers.values() {
            let tensor = &model.tensors[n];
            let quantized = Quantized::of(tensor, |key| values.get(key), |name| numbers.get(name).copied());
            let key = |suffix: &str| format!("{}.{suffix}", tensor.name);
            match quantized {
                Some(Quantized::PerTensor { .. }) => {
                    found.keys.extend(["q_scheme", "q_scale", "q_zero_point"].map(key));
                }
                Some(Quantized::PerChannel { .. }) => {
                    found.keys.extend(["q_scheme", "q_axis"].map(key));
                    found.tensors.extend(["q_scales", "q_zero_points"].map(key));
                }
                None => {}
            }
        }
        found
    }
}
