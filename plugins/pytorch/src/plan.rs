//! What one output file is made of: the nesting, the values in it, and what only a record of apr's own can say.

use crate::carried::Carried;
use crate::layout::storage_of;
use crate::names::is_plain;
use crate::tree::{Inline, Tree};
use apr_sdk::{LayoutSink, Model, Result, Value, ValueType};
use std::collections::{HashMap, HashSet};

/// The typed key of the nesting.
pub const TREE: &str = "apr.tree";

/// The nesting of a plain `dict` of tensors under their own names. Of an `OrderedDict` there is none.
pub const FLAT_DICT: &str = "dict";

/// The typed key of the tensors that share their bytes.
pub const TIED: &str = "apr.tied";

/// A file to be written anew.
pub struct Plan {
    /// The nesting.
    pub tree: Tree,
    /// The values that the nesting refers to, and those of quantized tensors.
    pub values: HashMap<String, Value>,
    /// The rest.
    pub carried: Carried,
}

impl Plan {
    /// For these tensors of the model, with the typed values that stood in the file's record.
    ///
    /// # Errors
    /// Whatever the sink raised.
    pub fn new(
        model: &Model,
        tensors: &[usize],
        typed: Vec<(String, Value)>,
        mut carried: Carried,
        sink: &mut dyn LayoutSink,
    ) -> Result<Plan> {
        let quantized = Quantized::of(model, tensors, &typed);
        let kept = typed.iter().find(|(key, _)| key == TREE).and_then(|(_, value)| value.as_str());
        let ordered = kept != Some(FLAT_DICT);
        let tree = kept.and_then(|text| Tree::from_json(&serde_json::from_str(text).ok()?).ok());
        let values: HashMap<String, Value> = typed.iter().cloned().collect();
        let tree = tree.map(|tree| pruned(tree, &values));
        let names: HashSet<&str> = tensors
            .iter()
            .map(|&n| model.tensors[n].name.as_str())
            .filter(|n| !quantized.extra.contains(*n))
            .collect();
        let fits = |tree: &Tree| {
            let listed = tree.names();
            listed.len() == names.len()
                && listed.iter().collect::<HashSet<_>>().len() == names.len()
                && listed.iter().all(|name| names.contains(name))
        };
        let had = tree.is_some();
        let tree = tree.filter(fits);
        if had && tree.is_none() {
            sink.note("the checkpoint's own nesting is left out: it names other tensors than are written");
        }
        let used: HashSet<String> = match &tree {
            Some(tree) => tree.keys().into_iter().map(str::to_owned).chain([TREE.to_owned()]).collect(),
            None => [TREE.to_owned()].into(),
        };
        let rest = |key: &String| !used.contains(key) && !quantized.keys.contains(key);
        carried.typed = typed.into_iter().filter(|(key, _)| rest(key)).collect();
        let flat = || {
            let plain = |&n: &usize| {
                let name = &model.tensors[n].name;
                (!quantized.extra.contains(name))
                    .then(|| (Tree::Inline(Inline::Text(name.clone())), Tree::plain(name)))
            };
            Tree::Map(ordered, tensors.iter().filter_map(plain).collect(), None)
        };
        Ok(Plan { tree: tree.unwrap_or_else(flat), values, carried })
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

/// The quantized tensors: whose scale and zero point are what the reader made of them.
struct Quantized {
    /// Keys of values that say how.
    keys: HashSet<String>,
    /// Names of the tensors that are scales and zero points of others.
    extra: HashSet<String>,
}

impl Quantized {
    fn of(model: &Model, tensors: &[usize], typed: &[(String, Value)]) -> Quantized {
        let mut found = Quantized { keys: HashSet::new(), extra: HashSet::new() };
        let names: HashSet<&str> = tensors.iter().map(|&n| model.tensors[n].name.as_str()).collect();
        let values: HashMap<&str, &Value> = typed.iter().map(|(key, value)| (key.as_str(), value)).collect();
        for &n in tensors {
            let tensor = &model.tensors[n];
            let key = |suffix: &str| format!("{}.{suffix}", tensor.name);
            if !values.contains_key(key("q_scheme").as_str()) || storage_of(tensor.dtype, true).is_none() {
                continue;
            }
            let extra = ["q_scales", "q_zero_points"].map(key);
            if extra.iter().all(|name| names.contains(name.as_str())) {
                found.extra.extend(extra);
            }
            found.keys.extend(["q_scheme", "q_scale", "q_zero_point", "q_axis"].map(key));
        }
        found
    }
}
