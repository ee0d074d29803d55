//! Persistent ids: how a pickle refers to the storages outside of it.

use super::allow_list::Global;
use super::decoder::Step;
use super::machine::Machine;
use super::value::{Id, Node, Storage};
use crate::layout::not_carried;
use apr_sdk::{Error, Result};
use std::collections::HashMap;

/// What persistent ids are in a file.
#[derive(Clone, Copy)]
pub enum Persistent<'p> {
    /// There are none.
    None,
    /// `("storage", type, key, location, numel)`.
    Zip,
    /// The same, and a view's `None` or `(key, offset, size)`; also the class of a module that was saved as a whole.
    Legacy,
    /// Numbers of tensors that were read before.
    Tar(&'p HashMap<i64, u32>),
}

impl Machine<'_, '_, '_> {
    /// What a persistent id names.
    pub(super) fn persistent(&mut self, step: &Step, id: Id) -> Result<Node> {
        match self.rules.persistent {
            Persistent::None => Err(self.call_refused(step, "nothing lies outside this pickle")),
            Persistent::Tar(tensors) => {
                let number = self.arena.int_of(id).or_else(|| self.arena.text_of(id)?.parse().ok());
                match number.and_then(|number| tensors.get(&number)) {
                    Some(&tensor) => Ok(Node::Tensor(tensor)),
                    None => Err(self.wrong(step, "a persistent id that does not belong to a tensor")),
                }
            }
            Persistent::Zip => self.storage(step, id, 5),
            Persistent::Legacy => match self.module_class(id) {
                Some(class) => Ok(class),
                None => self.storage(step, id, 6),
            },
        }
    }

    /// The class that a stream names along with its source text: `("module", class, file, source)`. What is made of it is
    /// unknown, as in other layouts.
    fn module_class(&self, id: Id) -> Option<Node> {
        let Node::Tuple(items) = self.arena.node(id) else { return None };
        let &[kind, class, ..] = &items[..] else { return None };
        self.arena.is(kind, "module").then(|| self.arena.node(class).clone())
    }

    fn storage(&mut self, step: &Step, id: Id, arity: usize) -> Result<Node> {
        let items = match self.arena.node(id) {
            Node::Tuple(items) => items.to_vec(),
            _ => return Err(self.wrong(step, format!("a persistent id that is {}", self.arena.what(id)))),
        };
        if items.len() != arity {
            let message = format!("a persistent id of {} values, expected {arity}", items.len());
            return Err(self.wrong(step, message));
        }
        if !self.arena.is(items[0], "storage") {
            return Err(self.wrong(step, "a persistent id that does not refer to a storage"));
        }
        let class = match *self.arena.node(items[1]) {
            Node::Global(Global::Storage(class)) => class,
            Node::Global(Global::DType(name, None)) => return Err(not_carried(name)),
            _ => {
                let what = self.arena.what(items[1]);
                return Err(self.wrong(step, format!("a storage whose class is {what}")));
            }
        };
        let (Node::Text(key), true) = (self.arena.node(items[2]).clone(), self.arena.is_text(items[3]))
        else {
            return Err(self.wrong(step, "a storage whose key or location is not text"));
        };
        let numel = self.arena.int_of(items[4]).and_then(|n| u64::try_from(n).ok());
        let numel = numel.ok_or_else(|| self.wrong(step, "a storage whose size is not a valid count"))?;
        let mut storage = Storage { key, dtype: class.dtype, numel, start: 0, at: step.at };
        if let Some(&view) = items.get(5) {
            self.view(step, view, &mut storage)?;
        }
        // 64 bytes: a storage's record with the room a vector keeps free.
        self.charge(64)?;
        let number = u32::try_from(self.arena.storages.len());
        let number = number.map_err(|_| Error::limit("a pickle with more than 2^32 storages"))?;
        self.arena.storages.push(storage);
        Ok(Node::Storage(number))
    }

    /// The part of a storage that a legacy stream's view shows: `(key, offset, size)`.
    fn view(&mut self, step: &Step, view: Id, storage: &mut Storage) -> Result<()> {
        let items = match self.arena.node(view) {
            Node::None => return Ok(()),
            _ => self.arena.items_of(view).unwrap_or_default(),
        };
        let count = |id: Id| self.arena.int_of(id).and_then(|n| u64::try_from(n).ok());
        let &[key, offset, size] = items else {
            return Err(self.wrong(step, format!("a view of {} values, expected 3", items.len())));
        };
        let (true, Some(offset), Some(size)) = (self.arena.is_text(key), count(offset), count(size)) else {
            return Err(
                self.wrong(step, "a view whose key is not text, or whose offset is not a valid count")
            );
        };
        if offset.checked_add(size).is_none_or(|end| end > storage.numel) {
            let message =
                format!("a view of {size} elements from {offset} in a storage of {}", storage.numel);
            return Err(self.wrong(step, message));
        }
        storage.start = offset;
        Ok(())
    }
}
