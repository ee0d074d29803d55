//! Containers and plain values.

use super::PickleWriter;
use crate::pickle::allow_list::{self, Global};
use crate::tree::{Inline, Tree};
use apr_sdk::{Result, Value};

/// Items of one APPENDS or SETITEMS.
const BATCH: usize = 1000;

impl PickleWriter<'_> {
    pub(super) fn tree(&mut self, tree: &Tree) -> Result<()> {
        match tree {
            Tree::Tensor(leaf) => self.leaf(leaf),
            Tree::Inline(inline) => self.inline(inline),
            Tree::Value(key) => {
                let value = self.source.values.get(key).and_then(plain);
                self.inline(&value.unwrap_or(Inline::None))
            }
            Tree::Values(key, tuple) => {
                let items = self.source.values.get(key).map(Value::items).unwrap_or_default();
                let items: Vec<_> =
                    items.iter().map(|item| Tree::Inline(plain(item).unwrap_or(Inline::None))).collect();
                self.tree(&if *tuple { Tree::Tuple(items) } else { Tree::List(items) })
            }
            Tree::List(items) => self.list(items),
            Tree::Tuple(items) => {
                self.tuple(items.len(), |writer| items.iter().try_for_each(|item| writer.tree(item)))
            }
            Tree::Set(items) => {
                self.global("__builtin__\nset");
                self.tuple(1, |writer| writer.list(items))?;
                self.reduce();
                Ok(())
            }
            Tree::Map(ordered, entries, attributes) => self.map(*ordered, entries, attributes.as_deref()),
        }
    }

    fn list(&mut self, items: &[Tree]) -> Result<()> {
        self.push(b"]");
        self.put();
        if let [one] = items {
            self.tree(one)?;
            self.push(b"a");
            return Ok(());
        }
        for batch in items.chunks(BATCH) {
            self.push(b"(");
            batch.iter().try_for_each(|item| self.tree(item))?;
            self.push(b"e");
        }
        Ok(())
    }

    fn map(&mut self, ordered: bool, entries: &[(Tree, Tree)], attributes: Option<&Tree>) -> Result<()> {
        if ordered {
            self.ordered_dict();
        } else {
            self.push(b"}");
            self.put();
        }
        for batch in entries.chunks(BATCH) {
            // A map that is iterated has its last entry alone; one that is walked over only if it has no other.
            let alone = batch.len() == 1 && (ordered || entries.len() == 1);
            self.push(if alone { b"" } else { b"(" });
            for (key, value) in batch {
                self.tree(key)?;
                self.tree(value)?;
            }
            self.push(if alone { b"s" } else { b"u" });
        }
        if let Some(attributes) = attributes {
            self.tree(attributes)?;
            self.push(b"b");
        }
        Ok(())
    }

    fn inline(&mut self, inline: &Inline) -> Result<()> {
        match inline {
            Inline::None => self.push(b"N"),
            Inline::Bool(value) => self.truth(*value),
            Inline::Int(number) => self.int(*number),
            Inline::Big(bytes) => self.long(bytes),
            Inline::Float(number) => self.float(*number),
            Inline::Text(text) => self.text(text),
            Inline::Bytes(bytes) if bytes.is_empty() => {
                self.global("__builtin__\nbytes");
                self.push(b")");
                self.reduce();
            }
            Inline::Bytes(bytes) => {
                self.global("_codecs\nencode");
                let text: String = bytes.iter().copied().map(char::from).collect();
                self.tuple(2, |writer| {
                    writer.text(&text);
                    writer.constant("latin1");
                    Ok(())
                })?;
                self.reduce();
            }
            Inline::Complex(real, imaginary) => {
                self.global("__builtin__\ncomplex");
                self.tuple(2, |writer| {
                    writer.float(*real);
                    writer.float(*imaginary);
                    Ok(())
                })?;
                self.reduce();
            }
            Inline::Name(name) => match allow_list::find("torch", name) {
                Some(Global::DType(..) | Global::QScheme(_)) => self.global(&format!("torch\n{name}")),
                _ => self.push(b"N"),
            },
        }
        Ok(())
    }
}

/// A plain value; `None` for other types.
fn plain(value: &Value) -> Option<Inline> {
    if let Some(flag) = value.as_bool() {
        return Some(Inline::Bool(flag));
    }
    if let Some(number) = value.as_i64() {
        return Some(Inline::Int(number));
    }
    if let Some(number) = value.as_f64() {
        return Some(Inline::Float(number));
    }
    value.as_str().map(|text| Inline::Text(text.to_owned()))
}
