//! Walks a checkpoint's value: names for its tensors, keys for its other values, and the original nesting.

use crate::holds::{Holds, bare_storages, state_dict};
use crate::pickle::allow_list::Global;
use crate::pickle::left_out::Inside;
use crate::pickle::value::{Arena, Dict, DictKind, Id, Node, Quantizer};
use crate::tree::{DEEPEST, Inline, Leaf, Tree};
use apr_sdk::{Error, Limits, Result, Value, ValueType, escape};
use std::collections::{BTreeMap, HashSet};

/// How many values may be walked over for each one that the pickle made: a list of ten references to a list of ten
/// references to … is small, and what it unfolds to is not.
const VISITS_PER_NODE: u64 = 8;

/// Visits that any pickle may have.
const VISITS_BASE: u64 = 1 << 16;

/// What a place of the tree costs besides its name.
const PLACE_COST: u64 = 160;

/// What was found.
#[derive(Debug, Default)]
pub struct Walked {
    /// The tensors: name, and number in the arena.
    pub tensors: Vec<(String, u32)>,
    /// The other values.
    pub values: Vec<(String, Value)>,
    /// The nesting.
    pub tree: Option<Tree>,
    /// The key that was taken off the names.
    pub root: Option<String>,
    /// What was left out.
    pub notes: Vec<String>,
    /// Values of classes that nothing is known of.
    pub left_out: Vec<LeftOut>,
    /// The tensors whose objects had attributes, which the nesting keeps.
    with_state: Vec<String>,
}

/// A value that is not in the model.
#[derive(Debug)]
pub struct LeftOut {
    /// The path from the root, joined with `.`.
    pub path: String,
    /// Its class, or the function that made it.
    pub name: String,
    /// Where the pickle names that.
    pub at: u64,
    /// Whether a tensor lies in it.
    pub holds_tensor: bool,
}

/// Walks over `root`.
///
/// # Errors
/// Unsupported for a value that contains itself, and for two tensors of one name; LimitExceeded for one that is nested too deep, or unfolds to too much.
pub fn walk(arena: &mut Arena, root: Id, prefix: Option<&str>, limits: &Limits) -> Result<Walked> {
    let holds = Holds::find(arena, root)?;
    let usual = state_dict(arena, root, &holds);
    let stripped = usual.clone().filter(|_| prefix.is_none());
    bare_storages(arena, &holds, limits)?;
    let nodes = arena.nodes.len() as u64;
    let mut walk = Walk {
        arena,
        limits,
        stripped: stripped.clone(),
        path: String::new(),
        inside: 0,
        visits: nodes.saturating_mul(VISITS_PER_NODE).saturating_add(VISITS_BASE),
        keys: HashSet::new(),
        inline: false,
        hidden: Inside::default(),
        found: Walked { root: stripped, ..Walked::default() },
    };
    let tree = walk.node(root, 0)?;
    let mut found = walk.found;
    found.notes.extend(simplified(walk.arena));
    match prefix {
        Some(prefix) => below(&mut found, prefix, usual.as_deref())?,
        None => found.tree = Some(tree),
    }
    found.notes.extend(left_out(&found.left_out));
    found.notes.extend(quantized(&found));
    let mut names = HashSet::new();
    if let Some((name, _)) = found.tensors.iter().find(|(name, _)| !names.insert(name.as_str())) {
        let error = Error::unsupported("two tensors of the checkpoint have paths that give the same name");
        return Err(error.tensor(name.clone()).hint("save it again with a different key for one of them"));
    }
    Ok(found)
}

/// What is said of quantized tensors: no other format takes their integers for what they stand for.
fn quantized(found: &Walked) -> Option<String> {
    let tensors: HashSet<&str> = found.tensors.iter().map(|(name, _)| name.as_str()).collect();
    let of = |(key, _): &'_ (String, Value)| key.strip_suffix(".q_scheme").map(str::to_owned);
    let mut names = found.values.iter().filter_map(of).filter(|name| tensors.contains(name.as_str()));
    let first = names.next()?;
    let others = match names.count() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let first = escape(&first, 80);
    Some(format!(
        "quantized by torch, stored as integers with separate scales and zero points: `{first}`{others}"
    ))
}

/// What is said of values that became plainer.
fn simplified(arena: &Arena) -> Option<String> {
    let count = |((module, name), n): (&(&str, &str), &u64)| format!("{module}.{name} ({n})");
    let all: Vec<_> = arena.simplified.iter().map(count).collect();
    (!all.is_empty()).then(|| format!("read as plain values, without their classes: {}", all.join(", ")))
}

/// What is said of values that are left out.
fn left_out(all: &[LeftOut]) -> Option<String> {
    const SHOWN: usize = 8;
    let mut counts = BTreeMap::<&str, u64>::new();
    all.iter().for_each(|value| *counts.entry(&value.name).or_default() += 1);
    let shown: Vec<_> =
        counts.iter().take(SHOWN).map(|(name, n)| format!("{} ({n})", escape(name, 120))).collect();
    let more = counts.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more classes") } else { String::new() };
    (!all.is_empty())
        .then(|| format!("left out, because they cannot be read as plain values: {}{more}", shown.join(", ")))
}

/// Keeps what lies below a path, and strips it. The path may begin below the key that is taken off names otherwise: that is
/// what they are called without a prefix.
fn below(found: &mut Walked, prefix: &str, usual: Option<&str>) -> Result<()> {
    let mut start = format!("{}.", prefix.trim_end_matches('.'));
    if let Some(usual) = usual.filter(|_| !found.tensors.iter().any(|(name, _)| name.starts_with(&start))) {
        start = format!("{usual}.{start}");
    }
    let before: Vec<_> = found.tensors.iter().take(6).map(|(name, _)| escape(name, 80)).collect();
    let strip = |name: &String| name.strip_prefix(&start).filter(|rest| !rest.is_empty()).map(str::to_owned);
    found.tensors = found.tensors.iter().filter_map(|(name, n)| Some((strip(name)?, *n))).collect();
    found.values = found.values.iter().filter_map(|(key, v)| Some((strip(key)?, v.clone()))).collect();
    found.left_out.retain(|value| value.path.starts_with(&start));
    for name in found.with_state.iter().filter_map(strip) {
        let name = escape(&name, 80);
        found
            .notes
            .push(format!("attributes of the object of `{name}` are left out, together with the nesting"));
    }
    if !found.tensors.is_empty() {
        return Ok(());
    }
    let message =
        format!("no tensors below `{}`; the first are `{}`", escape(prefix, 80), before.join("`, `"));
    Err(Error::invalid_argument(message).hint("run `apr inspect --report list-keys FILE` to list the paths"))
}

struct Walk<'a> {
    arena: &'a Arena,
    limits: &'a Limits,
    stripped: Option<String>,
    path: String,
    /// How many bytes of the path a tensor's name leaves out here.
    inside: usize,
    visits: u64,
    keys: HashSet<String>,
    /// Whether values stand in the tree itself: those of attributes do.
    inline: bool,
    hidden: Inside,
    found: Walked,
}

impl Walk<'_> {
    fn node(&mut self, id: Id, depth: usize) -> Result<Tree> {
        self.visits = self.visits.checked_sub(1).ok_or_else(|| {
            Error::limit("the pickle's values refer to each other too often to be expanded")
        })?;
        if depth > DEEPEST {
            return Err(Error::limit(format!(
                "the pickle's values are nested more than {DEEPEST} levels deep"
            )));
        }
        if self.path.len() as u64 > self.limits.name_bytes {
            let message = format!(
                "a path of {} bytes, more than the limit of {}",
                self.path.len(),
                self.limits.name_bytes
            );
            return Err(Error::limit(message));
        }
        self.limits.budget.charge(PLACE_COST)?;
        let arena = self.arena;
        Ok(match arena.node(id) {
            Node::Tensor(number) => self.tensor(*number, depth)?,
            Node::LeftOut(value) => {
                let (name, at) = (arena.str(value.name).to_owned(), value.at);
                self.limits.budget.charge(64 + 2 * (self.path.len() + name.len()) as u64)?;
                let holds_tensor = self.hidden.holds_tensor(arena, id, self.limits)?;
                self.found.left_out.push(LeftOut { path: self.path.clone(), name, at, holds_tensor });
                Tree::Inline(Inline::None)
            }
            Node::Dict(dict) => self.map(dict, depth)?,
            Node::List(items) => match self.alike(items, false)? {
                Some(tree) => tree,
                None => Tree::List(self.items(items, depth)?),
            },
            Node::Tuple(items) => match self.alike(items, true)? {
                Some(tree) => tree,
                None => Tree::Tuple(self.items(items, depth)?),
            },
            Node::Set(items) => {
                let before = std::mem::replace(&mut self.inline, true);
                let set = Tree::Set(self.items(items, depth)?);
                self.inline = before;
                set
            }
            other => match typed(arena, other).filter(|_| !self.inline && !self.path.is_empty()) {
                Some(value) if self.keep(&value)? => Tree::Value(self.path.clone()),
                _ => Tree::Inline(self.inline_of(other)?),
            },
        })
    }

    /// Keeps a value under the path, unless another one is there.
    fn keep(&mut self, value: &Value) -> Result<bool> {
        self.limits.budget.charge(4 * self.path.len() as u64 + value.bytes.len())?;
        let new = self.keys.insert(self.path.clone());
        if new {
            self.found.values.push((self.path.clone(), value.clone()));
        }
        Ok(new)
    }

    fn tensor(&mut self, number: u32, depth: usize) -> Result<Tree> {
        let arena = self.arena;
        let tensor = arena.tensors.get(number as usize).ok_or_else(|| Error::malformed("no such tensor"))?;
        // The value that was saved itself has no path.
        let name = if depth == 0 { "data" } else { self.path.get(self.inside..).unwrap_or_default() };
        let name = name.to_owned();
        self.limits.budget.charge(4 * name.len() as u64)?;
        self.found.tensors.push((name.clone(), number));
        if let Some(quantizer) = &tensor.quantizer {
            self.quantizer(&name, quantizer)?;
        }
        let state = match tensor.state.filter(|&state| !self.says_nothing(state)) {
            None => None,
            Some(state) => {
                self.found.with_state.push(name.clone());
                Some(self.attributes(state, depth)?)
            }
        };
        let (parameter, requires_grad) = (tensor.parameter, tensor.requires_grad);
        Ok(Tree::Tensor(Leaf { name, parameter, requires_grad, state }))
    }

    /// The scale and zero point: values beside the tensor, or tensors of their own.
    fn quantizer(&mut self, name: &str, quantizer: &Quantizer) -> Result<()> {
        let mut keep = |key: &str, value: Value| {
            let key = format!("{name}.{key}");
            self.limits.budget.charge(4 * key.len() as u64 + 100)?;
            if self.keys.insert(key.clone()) {
                self.found.values.push((key, value));
            }
            Ok::<(), Error>(())
        };
        match quantizer {
            Quantizer::PerTensor { scheme, scale, zero_point } => {
                keep("q_scheme", Value::from_string(scheme))?;
                keep("q_scale", Value::from_f64(*scale))?;
                keep("q_zero_point", Value::from_i64(*zero_point))?;
            }
            Quantizer::PerChannel { scheme, scales, zero_points, axis } => {
                keep("q_scheme", Value::from_string(scheme))?;
                keep("q_axis", Value::from_i64(*axis))?;
                for (suffix, number) in [("q_scales", *scales), ("q_zero_points", *zero_points)] {
                    let extra = format!("{name}.{suffix}");
                    let own = self.arena.tensors.get(number as usize);
                    if own.is_some_and(|own| own.parameter || own.requires_grad || own.state.is_some()) {
                        let shown = escape(&extra, 80);
                        self.found.notes.push(format!("attributes of the object of `{shown}` are left out"));
                    }
                    self.found.tensors.push((extra, number));
                }
            }
        }
        Ok(())
    }

    fn items(&mut self, items: &[Id], depth: usize) -> Result<Vec<Tree>> {
        let mut trees = Vec::new();
        for (n, &item) in items.iter().enumerate() {
            trees.push(self.below(&n.to_string(), item, depth)?);
        }
        Ok(trees)
    }

    fn below(&mut self, segment: &str, id: Id, depth: usize) -> Result<Tree> {
        let (length, inside) = (self.path.len(), self.inside);
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(segment);
        if depth == 0 && self.stripped.as_deref() == Some(segment) {
            self.inside = self.path.len() + 1;
        }
        let tree = self.node(id, depth + 1);
        self.path.truncate(length);
        self.inside = inside;
        tree
    }

    fn map(&mut self, dict: &Dict, depth: usize) -> Result<Tree> {
        let mut entries = Vec::new();
        for (n, &(key, value)) in dict.entries.iter().enumerate() {
            let segment = match self.arena.node(key) {
                Node::Text(span) => self.arena.str(*span).to_owned(),
                Node::Int(number) => number.to_string(),
                Node::Bytes(span) => String::from_utf8_lossy(self.arena.bytes(*span)).into_owned(),
                _ => format!("#{n}"),
            };
            let before = std::mem::replace(&mut self.inline, true);
            let key = self.node(key, depth + 1)?;
            self.inline = before;
            entries.push((key, self.below(&segment, value, depth)?));
        }
        let attributes = dict.attributes.map(|attributes| self.attributes(attributes, depth)).transpose()?;
        Ok(Tree::Map(dict.kind == DictKind::Ordered, entries, attributes))
    }

    /// What was set on an object itself: its values stand in the tree.
    fn attributes(&mut self, id: Id, depth: usize) -> Result<Box<Tree>> {
        let before = std::mem::replace(&mut self.inline, true);
        let tree = self.node(id, depth + 1)?;
        self.inline = before;
        Ok(Box::new(tree))
    }

    /// Whether a tensor's state is empty, as most are.
    fn says_nothing(&self, state: Id) -> bool {
        match self.arena.node(state) {
            Node::Dict(dict) => dict.entries.is_empty(),
            Node::Tuple(both) => both.iter().all(|&each| self.says_nothing(each)),
            node => matches!(node, Node::None),
        }
    }

    /// A list of plain values of one type as one value.
    fn alike(&mut self, items: &[Id], tuple: bool) -> Result<Option<Tree>> {
        let arena = self.arena;
        if self.inline || self.path.is_empty() || items.is_empty() {
            return Ok(None);
        }
        let sort = |id: &Id| kind(arena.node(*id));
        let Some(kind) = sort(&items[0]) else { return Ok(None) };
        if items.iter().any(|id| sort(id) != Some(kind)) {
            return Ok(None);
        }
        self.visits = self.visits.saturating_sub(items.len() as u64);
        let mut bytes = Vec::new();
        for &id in items {
            let value = typed(arena, arena.node(id));
            let held = value.as_ref().and_then(|value| value.bytes.inline()).unwrap_or_default();
            self.limits.budget.charge(2 * held.len() as u64)?;
            bytes.extend_from_slice(held);
        }
        let value = Value::from_items(kind, items.len() as u64, &bytes);
        Ok(self.keep(&value)?.then(|| Tree::Values(self.path.clone(), tuple)))
    }

    fn inline_of(&mut self, node: &Node) -> Result<Inline> {
        let arena = self.arena;
        let held = |span: &crate::pickle::value::Span| {
            self.limits.budget.charge(3 * u64::from(span.len))?;
            Ok::<_, Error>(arena.bytes(*span).to_vec())
        };
        Ok(match node {
            Node::Bool(value) => Inline::Bool(*value),
            Node::Int(number) => Inline::Int(*number),
            Node::Big(span) => Inline::Big(held(span)?),
            Node::Float(number) => Inline::Float(*number),
            Node::Text(span) => Inline::Text(String::from_utf8_lossy(&held(span)?).into_owned()),
            Node::Bytes(span) => Inline::Bytes(held(span)?),
            Node::Complex(parts) => Inline::Complex(parts.0, parts.1),
            Node::Global(Global::DType(name, _) | Global::QScheme(name)) => Inline::Name((*name).to_owned()),
            Node::NumpyType(dtype) => Inline::Text(dtype.code()),
            Node::Class(span) => Inline::Text(String::from_utf8_lossy(&held(span)?).into_owned()),
            Node::Global(_) => {
                let path = escape(&self.path, 80);
                self.found.notes.push(format!("`{path}` is the name of a class and is left out"));
                Inline::None
            }
            _ => Inline::None,
        })
    }
}

/// The type of a plain value, found without copying it.
fn kind(node: &Node) -> Option<ValueType> {
    match node {
        Node::Bool(_) => Some(ValueType::BOOL),
        Node::Int(_) => Some(ValueType::I64),
        Node::Float(_) => Some(ValueType::F64),
        Node::Text(_) | Node::NumpyType(_) => Some(ValueType::STRING),
        _ => None,
    }
}

/// A plain value, typed.
fn typed(arena: &Arena, node: &Node) -> Option<Value> {
    match node {
        Node::Bool(value) => Some(Value::from_bool(*value)),
        Node::Int(number) => Some(Value::from_i64(*number)),
        Node::Float(number) => Some(Value::from_f64(*number)),
        Node::Text(span) => Some(Value::from_string(arena.bytes(*span))),
        Node::NumpyType(dtype) => Some(Value::from_string(dtype.code())),
        _ => None,
    }
}

/// Whether a value of this type is one that a pickle's plain values become.
pub fn is_plain(kind: ValueType) -> bool {
    matches!(kind, ValueType::BOOL | ValueType::I64 | ValueType::F64 | ValueType::STRING)
}
