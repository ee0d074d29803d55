//! Examines each value of a checkpoint once, before walking it: which ones hold tensors, and whether any
//! contains itself.

use crate::layout::ROOTS;
use crate::pickle::value::{Arena, DictKind, Id, Node, Tensor};
use crate::tree::DEEPEST;
use apr_sdk::{DType, Error, Limits, Result};

/// Which values hold tensors: each value is looked at once, however often it is referred to.
pub struct Holds {
    states: Vec<State>,
    storages: Vec<Id>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unseen,
    Open,
    With,
    Without,
}

impl Holds {
    /// Looks at every value below `root`.
    ///
    /// # Errors
    /// Unsupported for a value that contains itself; LimitExceeded for one that is nested too deep.
    pub fn find(arena: &Arena, root: Id) -> Result<Holds> {
        let mut holds = Holds { states: vec![State::Unseen; arena.nodes.len()], storages: Vec::new() };
        holds.look(arena, root, 0)?;
        Ok(holds)
    }

    /// Whether a tensor lies in it.
    fn tensor(&self, id: Id) -> bool {
        self.states.get(id as usize) == Some(&State::With)
    }

    fn look(&mut self, arena: &Arena, id: Id, depth: usize) -> Result<bool> {
        match self.states.get(id as usize) {
            Some(State::Unseen) => {}
            Some(State::Open) => {
                let error = Error::unsupported("a value of the pickle contains itself");
                return Err(error.hint("save only the tensors, such as a state_dict()"));
            }
            state => return Ok(state == Some(&State::With)),
        }
        if depth > DEEPEST {
            return Err(Error::limit(format!(
                "the pickle's values are nested more than {DEEPEST} levels deep"
            )));
        }
        self.states[id as usize] = State::Open;
        let mut with = false;
        match arena.node(id) {
            Node::Tensor(number) => {
                with = true;
                if let Some(state) = arena.tensors.get(*number as usize).and_then(|tensor| tensor.state) {
                    self.look(arena, state, depth + 1)?;
                }
            }
            Node::Storage(_) => {
                with = true;
                self.storages.push(id);
            }
            Node::List(items) | Node::Set(items) => {
                for &item in items {
                    with |= self.look(arena, item, depth + 1)?;
                }
            }
            Node::Tuple(items) => {
                for &item in items {
                    with |= self.look(arena, item, depth + 1)?;
                }
            }
            Node::Dict(dict) => {
                for &(key, value) in &dict.entries {
                    self.look(arena, key, depth + 1)?;
                    with |= self.look(arena, value, depth + 1)?;
                }
                if let Some(attributes) = dict.attributes {
                    with |= self.look(arena, attributes, depth + 1)?;
                }
            }
            _ => {}
        }
        self.states[id as usize] = if with { State::With } else { State::Without };
        Ok(with)
    }
}

/// The one key under which a checkpoint keeps its tensors, if there is one that is usual, and none lie elsewhere.
pub fn state_dict(arena: &Arena, root: Id, holds: &Holds) -> Option<String> {
    let Node::Dict(dict) = arena.node(root) else { return None };
    if dict.kind == DictKind::Record {
        return None;
    }
    let mut with: Vec<_> = dict.entries.iter().filter(|(_, value)| holds.tensor(*value)).collect();
    let (key, value) = *with.pop()?;
    let key = arena.text_of(key)?;
    let is_map = matches!(arena.node(value), Node::Dict(_));
    (with.is_empty() && is_map && ROOTS.contains(&key)).then(|| key.to_owned())
}

/// Storages that were saved without a tensor around them become one: all their elements in a row.
///
/// # Errors
/// LimitExceeded.
pub fn bare_storages(arena: &mut Arena, holds: &Holds, limits: &Limits) -> Result<()> {
    for &id in &holds.storages {
        let Node::Storage(number) = *arena.node(id) else { continue };
        let Some(storage) = arena.storages.get(number as usize).copied() else { continue };
        limits.budget.charge(256)?;
        let tensor = u32::try_from(arena.tensors.len()).map_err(|_| Error::limit("too many tensors"))?;
        arena.tensors.push(Tensor {
            storage: number,
            dtype: storage.dtype.unwrap_or(DType::U8),
            offset: 0,
            size: Box::new([storage.numel]),
            stride: Box::new([1]),
            requires_grad: false,
            parameter: false,
            quantizer: None,
            state: None,
            at: storage.at,
        });
        arena.nodes[id as usize] = Node::Tensor(tensor);
    }
    Ok(())
}
