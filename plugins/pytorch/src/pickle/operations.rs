//! The opcodes that build containers and call names.

use super::allow_list::Global;
use super::decoder::Step;
use super::machine::{Machine, NOTHING, refused};
use super::plain_data;
use super::value::{DictKind, Id, Node};
use apr_sdk::{Error, Result};

impl Machine<'_, '_, '_> {
    /// Carries out an opcode of a container or a call.
    pub(super) fn operate(&mut self, step: &Step) -> Result<()> {
        match step.opcode.code {
            b']' => self.push_node(Node::List(Vec::new())),
            b'}' => self.push_dict(DictKind::Plain),
            0x8f => self.push_node(Node::Set(Vec::new())),
            b')' => self.push_node(Node::Tuple(Box::default())),
            0x85 => self.tuple_of(step, 1),
            0x86 => self.tuple_of(step, 2),
            0x87 => self.tuple_of(step, 3),
            b't' | b'l' | 0x91 => {
                let items = self.pop_mark(step)?;
                self.charge(4 * items.len() as u64)?;
                self.push_node(match step.opcode.code {
                    b't' => Node::Tuple(items.into()),
                    b'l' => Node::List(items),
                    _ => Node::Set(items),
                })
            }
            b'd' => {
                let items = self.pop_mark(step)?;
                self.push_dict(DictKind::Plain)?;
                self.set_items(step, &items)
            }
            b'a' => {
                let item = self.pop(step)?;
                self.append(step, &[item])
            }
            b'e' | 0x90 => {
                let items = self.pop_mark(step)?;
                self.append(step, &items)
            }
            b's' => {
                let (value, key) = (self.pop(step)?, self.pop(step)?);
                self.set_items(step, &[key, value])
            }
            b'u' => {
                let items = self.pop_mark(step)?;
                self.set_items(step, &items)
            }
            b'Q' => {
                let id = self.pop(step)?;
                let node = self.persistent(step, id)?;
                self.push_node(node)
            }
            b'R' => {
                let (arguments, callee) = (self.pop(step)?, self.pop(step)?);
                let made = self.reduce(step, callee, arguments)?;
                self.push(made)
            }
            0x81 => self.new_object(step),
            0x92 => {
                let (named, arguments, class) = (self.pop(step)?, self.pop(step)?, self.pop(step)?);
                match self.made_by_unknown(class, &[arguments, named])? {
                    Some(made) => self.push(made),
                    None => Err(self.call_refused(step, "no writer of tensors uses it")),
                }
            }
            b'b' => self.build(step),
            b'i' => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                Err(refused(step, &text(&self.decoder.bytes), &text(&self.decoder.second)))
            }
            b'o' => {
                let items = self.pop_mark(step)?;
                let class = items.first().map_or("nothing", |&class| self.arena.what(class));
                Err(self.call_refused(step, &format!("it creates an object of {class}")))
            }
            b'P' => Err(self.call_refused(step, "it refers to something outside the pickle in text")),
            0x82..=0x84 => {
                let why = format!(
                    "it refers to entry {} of an extension registry, which is not available",
                    step.number
                );
                Err(self.call_refused(step, &why))
            }
            0x97 | 0x98 => Err(self.call_refused(step, "it requires a buffer from outside the pickle")),
            _ => Err(self.call_refused(step, "no writer of tensors uses it")),
        }
    }

    /// What is said of an opcode that is known and refused.
    #[cold]
    pub(super) fn call_refused(&self, step: &Step, why: &str) -> Error {
        Error::unsupported(format!("the pickle uses {}: {why}: {NOTHING}", step.opcode.name))
            .hint("run `apr scan FILE` to list everything it would import and call")
    }

    /// What is said of a call with arguments that it cannot have.
    #[cold]
    pub(super) fn wrong(&self, step: &Step, what: impl AsRef<str>) -> Error {
        Error::malformed(format!("{}: {}: {NOTHING}", step.opcode.name, what.as_ref()))
    }

    fn tuple_of(&mut self, step: &Step, count: usize) -> Result<()> {
        let mut items = vec![0; count];
        for slot in items.iter_mut().rev() {
            *slot = self.pop(step)?;
        }
        self.charge(4 * count as u64)?;
        self.push_node(Node::Tuple(items.into()))
    }

    fn append(&mut self, step: &Step, items: &[Id]) -> Result<()> {
        let to = self.top(step)?;
        if self.add_to_unknown(to, items)? {
            return Ok(());
        }
        match self.arena.nodes.get_mut(to as usize) {
            Some(Node::List(list)) if step.opcode.code != 0x90 => list.extend_from_slice(items),
            Some(Node::Set(set)) if step.opcode.code == 0x90 => set.extend_from_slice(items),
            _ => return Err(self.wrong(step, format!("it adds to {}", self.arena.what(to)))),
        }
        Ok(())
    }

    fn set_items(&mut self, step: &Step, items: &[Id]) -> Result<()> {
        let to = self.top(step)?;
        if !items.len().is_multiple_of(2) {
            return Err(self.wrong(step, "a key without a value"));
        }
        if self.add_to_unknown(to, items)? {
            return Ok(());
        }
        match self.arena.nodes.get_mut(to as usize) {
            Some(Node::Dict(dict)) => {
                dict.entries.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])))
            }
            _ => return Err(self.wrong(step, format!("it sets items of {}", self.arena.what(to)))),
        }
        Ok(())
    }

    /// NEWOBJ: TorchScript's classes make a record, those of plain values what stands for them.
    fn new_object(&mut self, step: &Step) -> Result<()> {
        let (arguments, class) = (self.pop(step)?, self.pop(step)?);
        if let Some(made) = self.made_by_unknown(class, &[arguments])? {
            return self.push(made);
        }
        if let &Node::Global(global @ Global::Data(_)) = self.arena.node(class) {
            simplified(global).into_iter().for_each(|name| self.simplified(name));
        }
        match (self.arena.node(class), self.arena.items_of(arguments)) {
            (Node::Class(_), Some([])) => self.push_dict(DictKind::Record),
            (Node::Global(Global::OrderedDict), Some([])) => self.push_dict(DictKind::Ordered),
            (&Node::Global(Global::Data(class)), Some(items)) => {
                let items = items.to_vec();
                let made = self.plain_data(step, class, &items)?;
                self.push(made)
            }
            _ => {
                let what = (self.arena.what(class), self.arena.what(arguments));
                Err(self.call_refused(step, &format!("it creates an object of {} with {}", what.0, what.1)))
            }
        }
    }

    /// BUILD: the attributes of a map, of a record, or of a tensor.
    fn build(&mut self, step: &Step) -> Result<()> {
        let (state, to) = (self.pop(step)?, self.top(step)?);
        if self.add_to_unknown(to, &[state])? {
            return Ok(());
        }
        match self.arena.node(to) {
            Node::NumpyType(_) => return self.set_numpy_type(step, to, state),
            Node::Dict(dict) if dict.kind == DictKind::Array => return self.set_numpy_array(step, to, state),
            _ => {}
        }
        let Node::Dict(state_dict) = self.arena.node(state) else {
            let what = (self.arena.what(to), self.arena.what(state));
            return Err(self.wrong(step, format!("the state of {} is {}, expected a dict", what.0, what.1)));
        };
        let entries = state_dict.entries.clone();
        self.charge(8 * entries.len() as u64)?;
        match self.arena.nodes.get_mut(to as usize) {
            Some(Node::Dict(dict)) if matches!(dict.kind, DictKind::Record | DictKind::Object) => {
                dict.entries.extend(entries);
            }
            Some(Node::Dict(dict)) if dict.kind == DictKind::Ordered => dict.attributes = Some(state),
            Some(Node::Tensor(number)) => {
                let tensor = Node::Tensor(*number);
                self.set_state(step, &tensor, state)?;
            }
            _ => {
                return Err(self.call_refused(step, &format!("it sets the state of {}", self.arena.what(to))));
            }
        }
        Ok(())
    }

    /// REDUCE: calls a name of the list, if the arguments are what it takes.
    pub(super) fn reduce(&mut self, step: &Step, callee: Id, arguments: Id) -> Result<Id> {
        if let Some(made) = self.made_by_unknown(callee, &[arguments])? {
            return Ok(made);
        }
        let Node::Tuple(items) = self.arena.node(arguments) else {
            return Err(self.wrong(step, format!("the arguments are {}", self.arena.what(arguments))));
        };
        let items = items.to_vec();
        let Node::Global(global) = *self.arena.node(callee) else {
            return Err(self.call_refused(step, &format!("it calls {}", self.arena.what(callee))));
        };
        if let Some(name) = simplified(global) {
            self.simplified(name);
        }
        let node = match (global, items.as_slice()) {
            (Global::Data(class), items) => return self.plain_data(step, class, items),
            (Global::Rebuild(rebuild), _) => self.rebuild(step, rebuild, &items)?,
            (Global::TensorClass { parameter: true }, [tensor, grad]) => {
                self.parameter(step, *tensor, *grad)?
            }
            (Global::OrderedDict, []) => return self.dict(DictKind::Ordered),
            (Global::Counter | Global::Plain("dict"), []) => return self.dict(DictKind::Plain),
            (Global::DefaultDict, [] | [_]) => {
                let is_class = |node: &Node| matches!(node, Node::None | Node::Global(_) | Node::LeftOut(_));
                if items.iter().any(|&f| !is_class(self.arena.node(f))) {
                    return Err(self.wrong(step, "a default that is not a plain class"));
                }
                return self.dict(DictKind::Plain);
            }
            (Global::OrderedDict | Global::Counter | Global::Plain("dict"), [pairs]) => {
                let kind = if global == Global::OrderedDict { DictKind::Ordered } else { DictKind::Plain };
                return self.dict_of(step, kind, *pairs);
            }
            (Global::Plain("list"), []) => Node::List(Vec::new()),
            (Global::Plain("bytes") | Global::Bytearray, []) => Node::Bytes(self.store(&[])?),
            (Global::Bytearray, [bytes]) if matches!(self.arena.node(*bytes), Node::Bytes(_)) => {
                return Ok(*bytes);
            }
            (Global::Encode | Global::Bytearray, [text, encoding]) => self.encode(step, *text, *encoding)?,
            (Global::Set(_), []) => Node::Set(Vec::new()),
            (Global::Set(_), [list]) => match self.arena.items_of(*list) {
                Some(items) => {
                    self.charge(4 * items.len() as u64)?;
                    Node::Set(items.to_vec())
                }
                None => return Err(self.wrong(step, "a set from something other than a list")),
            },
            (Global::Complex, [real, imaginary]) => {
                match (self.arena.node(*real), self.arena.node(*imaginary)) {
                    (Node::Float(real), Node::Float(imaginary)) => {
                        Node::Complex(Box::new((*real, *imaginary)))
                    }
                    _ => return Err(self.wrong(step, "a complex number from something other than numbers")),
                }
            }
            (Global::Size, [sizes]) => match self.arena.items_of(*sizes) {
                Some(items) if items.iter().all(|&n| self.arena.int_of(n).is_some()) => {
                    self.charge(4 * items.len() as u64)?;
                    Node::Tuple(items.into())
                }
                _ => return Err(self.wrong(step, "a size from something other than a list of numbers")),
            },
            (Global::Device, [kind, rest @ ..]) if rest.len() <= 1 && self.arena.is_text(*kind) => {
                return Ok(*kind);
            }
            (Global::Layout, [name]) if self.arena.is_text(*name) => return Ok(*name),
            (Global::ScriptList, [list]) if matches!(self.arena.node(*list), Node::List(_)) => {
                return Ok(*list);
            }
            (Global::TypeTag, [value, tag]) if self.arena.is_text(*tag) => return Ok(*value),
            _ => {
                let what: Vec<_> = items.iter().take(8).map(|&item| self.arena.what(item)).collect();
                let message = format!("{global:?} does not take ({})", what.join(", "));
                return Err(self.wrong(step, message));
            }
        };
        self.charge(4 * items.len() as u64)?;
        self.make(node)
    }

    /// A map of pairs, as Python 2 wrote an `OrderedDict`.
    fn dict_of(&mut self, step: &Step, kind: DictKind, pairs: Id) -> Result<Id> {
        let mut entries = Vec::new();
        if let Node::Dict(dict) = self.arena.node(pairs) {
            entries.clone_from(&dict.entries);
        } else {
            let items = self.arena.items_of(pairs);
            let items =
                items.ok_or_else(|| self.wrong(step, "a dict from something other than a list of pairs"))?;
            for &pair in items {
                match self.arena.items_of(pair) {
                    Some(&[key, value]) => entries.push((key, value)),
                    _ => return Err(self.wrong(step, "a dict from something other than a list of pairs")),
                }
            }
        }
        self.charge(8 * entries.len() as u64)?;
        let id = self.dict(kind)?;
        if let Some(Node::Dict(dict)) = self.arena.nodes.get_mut(id as usize) {
            dict.entries = entries;
        }
        Ok(id)
    }

    /// `_codecs.encode(text, "latin1")`: how protocol 2 writes bytes.
    fn encode(&mut self, step: &Step, text: Id, encoding: Id) -> Result<Node> {
        let (Some(text), Some("latin1" | "latin-1")) =
            (self.arena.text_of(text), self.arena.text_of(encoding))
        else {
            return Err(self.wrong(step, "`_codecs.encode` of something other than Latin-1 text"));
        };
        let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
        let bytes = bytes.ok_or_else(|| self.wrong(step, "text that is not Latin-1"))?;
        Ok(Node::Bytes(self.store(&bytes)?))
    }
}

/// The name of a callable whose values are read as plainer ones.
fn simplified(global: Global) -> Option<(&'static str, &'static str)> {
    match global {
        Global::Counter => Some(("collections", "Counter")),
        Global::DefaultDict => Some(("collections", "defaultdict")),
        Global::Set("frozenset") => Some(("builtins", "frozenset")),
        Global::Bytearray => Some(("builtins", "bytearray")),
        Global::Size => Some(("torch", "Size")),
        Global::Device => Some(("torch", "device")),
        Global::Layout => Some(("torch", "layout")),
        Global::Data(class) => plain_data::told(class),
        _ => None,
    }
}
